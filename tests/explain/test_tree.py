"""The tree: its parts sum to the whole, for any run, and stand where people look for them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError
from wattlaw.explain import PHASES, explain, merged
from wattlaw.explain.correction import Correction
from wattlaw.hardware import accelerator, node_type
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.workload import presets, step_cost

EXACT = 1e-9
ADDITIVE = ("energy_j", "time_s", "energy_share", "time_share", "flop", "traffic_bytes")
MAPPINGS = ("terms_j", "terms_s", "phases_j", "phases_s", "bound_s")


def near(found, expected):
    """Tell whether two amounts are the same, but for the rounding of sums."""
    return math.isclose(found, expected, rel_tol=EXACT, abs_tol=1e-12)


def different(root):
    """Yield the nodes below a root, of alike blocks the first alone."""
    yield root
    blocks = [child for child in root.children if child.kind == "block"]
    for child in root.children:
        if child.kind != "block" or child is blocks[0]:
            yield from different(child)


def check_sums(root, prediction):
    """Assert that children sum to their parents in everything, and the root to the prediction."""
    assert near(root.energy_j, prediction.energy_j.mid)
    assert near(root.time_s, prediction.duration_s.mid)
    for name in ("low", "mid", "high"):
        assert near(getattr(root.interval, name), getattr(prediction.energy_j, name))
    for node in different(root):
        for parts, whole in (
            (node.terms_j, node.energy_j),
            (node.phases_j, node.energy_j),
            (node.terms_s, node.time_s),
            (node.phases_s, node.time_s),
            (node.bound_s, node.time_s),
        ):
            assert near(sum(parts.values()), whole)
        assert min([*node.terms_j.values(), *node.terms_s.values(), node.flop, node.traffic_bytes, 0.0]) >= 0
        assert node.bound_s.get(node.bottleneck, 0.0) == max([*node.bound_s.values(), 0.0])
        if node.children:
            for name in ADDITIVE:
                assert near(math.fsum(getattr(child, name) for child in node.children), getattr(node, name))
            for name in MAPPINGS:
                for key, value in getattr(node, name).items():
                    assert near(math.fsum(getattr(child, name).get(key, 0.0) for child in node.children), value)


def check_terms(root, prediction):
    """Assert that the root consists of the prediction's terms."""
    for own, predicted in ((root.terms_j, prediction.terms_j), (root.terms_s, prediction.terms_s)):
        assert set(own) == {name for name, value in predicted.items() if value}
        for name, value in own.items():
            assert value == pytest.approx(predicted[name], rel=EXACT)


@pytest.mark.parametrize("name", presets())
def test_parts_of_every_known_model_sum_to_the_whole(run_of, name):
    """Whatever the family, the tree by module and the tree by phase hold the prediction, term by term."""
    spec = run_of(name)
    (prediction,) = predict([spec], bundled())
    for by in ("module", "phase"):
        root = explain(spec, bundled(), by=by)
        check_sums(root, prediction)
        check_terms(root, prediction)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_parts_of_any_run_sum_to_the_whole(data, run_specs):
    """Strategies, pipelines, experts, accumulation, checkpointing, nodes: nothing is lost or counted twice."""
    spec = data.draw(run_specs)
    try:
        (prediction,) = predict([spec], bundled())
    except ConfigError as error:
        assert "does not fit" in str(error)  # noqa: PT017 - both ends are right
        return
    by = data.draw(st.sampled_from(["module", "phase"]))
    root = explain(spec, bundled(), by=by)
    check_sums(root, prediction)
    check_terms(root, prediction)
    assert all(not node.name.startswith("messages") for node in root.walk())


@pytest.mark.parametrize(
    "changes",
    [
        {"adapter_rank": 8},
        {"adapter_rank": 8, "adapter_targets": "all-linear", "checkpointing": "full"},
        {"software": "graphs"},
        {"software": "fused", "optimizer": "none"},
        {"packed_sequences": 4, "evaluation_fraction": 3.0},
    ],
)
@pytest.mark.parametrize("power_limit_w", [None, 150.0])
def test_adapters_software_and_caps_are_shared_out_as_well(bert_run, changes, power_limit_w):
    """What changes the law's terms changes the parts, and they still sum."""
    spec = replace(bert_run, recipe=replace(bert_run.recipe, padded_len=None, **changes), power_limit_w=power_limit_w)
    (prediction,) = predict([spec], bundled())
    root = explain(spec, bundled())
    check_sums(root, prediction)
    check_terms(root, prediction)


def test_the_tree_has_the_modules_of_the_model(bert_run):
    """Embeddings, twelve alike blocks with attention, MLP and norms, a head, and what belongs to no module."""
    root = explain(bert_run, bundled())
    assert [child.name for child in root.children] == ["embeddings", "blocks", "head", "host", "set-up"]
    blocks = root.child("blocks").children
    assert [block.name for block in blocks] == [f"block {number}" for number in range(12)]
    assert {block.energy_j for block in blocks} == {blocks[0].energy_j}
    assert {module.name for module in blocks[0].children} == {"norm", "attention", "mlp"}
    operations = {one.name for one in root.child("blocks", "block 0", "attention").children}
    assert operations == {"qkv", "scores", "values", "output", "residual"}
    with pytest.raises(KeyError, match="block 12"):
        root.child("blocks", "block 12")


def test_an_encoder_decoder_has_two_stacks_and_experts_are_called_so(run_of):
    """T5's decoder has cross-attention, Mixtral's blocks experts with a router."""
    root = explain(run_of("t5-base"), bundled())
    assert root.child("encoder", "block 0").kind == "block"
    names = {one.name for one in root.child("decoder", "block 0", "attention").children}
    assert {"cross_attention.scores", "scores"} <= names
    experts = explain(run_of("mixtral-8x7b"), bundled()).child("blocks", "block 0", "experts")
    assert {"mlp.router", "mlp.up"} <= {one.name for one in experts.children}


def test_flop_and_traffic_are_those_of_the_model(single_run):
    """On one device the tree executes what the cost of a step says, as often as there are steps."""
    root = explain(single_run, bundled())
    cost = step_cost(single_run.architecture, single_run.recipe, attention="causal", head="counted")
    steps = 3 * math.ceil(67349 / 32)
    assert root.flop == pytest.approx(steps * (cost.flop + cost.optimizer_flop), rel=1e-12)
    passes = [node for node in explain(single_run, bundled(), by="phase").children if node.name != "optimizer"]
    assert sum(node.traffic_bytes for node in passes) == pytest.approx(steps * cost.traffic_bytes, rel=1e-12)


def test_tensor_parallel_devices_repeat_what_is_not_divided(single_run):
    """All devices together execute more than the model has, by what each repeats."""
    alone = explain(single_run, bundled()).flop
    divided = explain(replace(single_run, layout=Layout.of("tp", num_devices=4)), bundled()).flop
    assert alone < divided < 1.01 * alone


def test_by_phase_the_same_parts_are_added_up_the_other_way(bert_run):
    """A phase takes in one tree what the phases of all operations take in the other."""
    by_module, by_phase = explain(bert_run, bundled()), explain(bert_run, bundled(), by="phase")
    assert [child.name for child in by_phase.children] == [name for name in PHASES if name in by_module.phases_j]
    for child in by_phase.children:
        assert child.energy_j == pytest.approx(by_module.phases_j[child.name], rel=EXACT)
        assert child.time_s == pytest.approx(by_module.phases_s[child.name], rel=EXACT)


def test_one_device_says_nothing_and_a_frozen_model_has_no_gradients_of_weights(single_run):
    """No communication alone; adapters leave a small part of the backward pass for weights."""
    phases = explain(single_run, bundled()).phases_j
    assert "communication" not in phases
    adapted = replace(single_run, recipe=replace(single_run.recipe, adapter_rank=8))
    assert explain(adapted, bundled()).phases_j["backward_weight"] < 0.1 * phases["backward_weight"]
    assert explain(adapted, bundled()).phases_s["optimizer"] < phases["optimizer"]


def test_messages_belong_to_what_causes_them(run_of):
    """Tensor parallelism's to the products that ask for a reduction, a pipeline's to the space between stages."""
    spec = run_of("gpt2-xl", Layout.of("tp x pp", num_devices=8, tensor_parallel=2, pipeline_parallel=4), batch_size=4)
    spec = replace(spec, node=node_type("dgx-h100"))
    root = explain(spec, bundled())
    assert {"between stages", "pipeline"} <= {child.name for child in root.children}
    block = root.child("blocks", "block 0")
    for module, asking in (("attention", {"qkv", "output"}), ("mlp", {"up", "down"})):
        sending = {one.name for one in block.child(module).children if "communication" in one.phases_s}
        assert sending == asking


def test_large_products_are_bound_by_compute_and_small_models_by_launches(run_of, single_run):
    """The roofline of a 70-billion model, and BERT with one short sequence."""
    large = explain(run_of("llama-2-70b", batch_size=1, seq_len=4096, checkpointing="full"), bundled())
    assert large.child("blocks", "block 0", "mlp", "up").bottleneck == "compute"
    assert large.child("blocks", "block 0", "norm").bottleneck == "memory"
    small = replace(single_run, recipe=replace(single_run.recipe, batch_size=1, seq_len=16))
    assert explain(small, bundled()).child("blocks").bottleneck == "launch"


def test_blocks_told_together_are_the_same_tree(bert_run):
    """One part for twelve alike blocks, with everything twelve times."""
    root = explain(bert_run, bundled())
    together = merged(root)
    stack = together.child("12 blocks")
    assert stack.energy_j == pytest.approx(root.child("blocks").energy_j, rel=EXACT)
    attention = root.child("blocks", "block 3", "attention")
    assert stack.child("attention").time_s == pytest.approx(12 * attention.time_s, rel=EXACT)
    (prediction,) = predict([bert_run], bundled())
    check_sums(together, prediction)


def test_a_correction_moves_energy_between_parts_and_leaves_the_whole(bert_run):
    """More for attention is less for the rest; its spread widens the interval of that module only."""
    (prediction,) = predict([bert_run], bundled())
    plain = explain(bert_run, bundled())
    correction = Correction(operations={"attention.qkv": 2.0}, modules={"mlp": 0.9}, spread={"attention": 0.1})
    root = explain(bert_run, bundled(), correction=correction)
    check_sums(root, prediction)
    before, after = (one.child("blocks", "block 0") for one in (plain, root))
    assert after.child("attention").time_s > before.child("attention").time_s
    assert after.child("mlp").time_s < before.child("mlp").time_s
    ratio = [one.child("attention").interval.high / one.child("attention").energy_j for one in (before, after)]
    assert ratio[1] > ratio[0]
    assert after.child("mlp").interval.high / after.child("mlp").energy_j == pytest.approx(
        before.child("mlp").interval.high / before.child("mlp").energy_j
    )


def test_an_unknown_machine_is_explained_by_what_machines_have_in_common(bert_run):
    """Cold predictions have trees too."""
    spec = replace(bert_run, accelerator=accelerator("l4"))
    (prediction,) = predict([spec], bundled())
    check_sums(explain(spec, bundled()), prediction)


def test_only_the_step_law_can_be_explained_and_only_in_two_ways(bert_run):
    """Another law has no parts of a step; the error says which has."""
    with pytest.raises(ConfigError, match=r"given the power law; allowed step; try a calibration of the step law"):
        explain(bert_run, Calibration(law="power", parameters={}))
    with pytest.raises(ConfigError, match=r"unknown way to divide a run; given layer; allowed module, phase"):
        explain(bert_run, bundled(), by="layer")
