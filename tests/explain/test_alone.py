"""What the law says of parts by themselves, against the law's own formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.explain import explain
from wattlaw.explain.alone import MESSAGES, alone
from wattlaw.explain.work import works
from wattlaw.features.physical import physical_columns
from wattlaw.law.beyond import toward_common
from wattlaw.law.bundled import bundled
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, terms
from wattlaw.parallel.layout import Layout


def law_of(spec, **changes):
    """The terms of one run, with columns changed; the shipped parameters of its machine."""
    table = physical_columns([spec])
    columns = {name: table.numbers(name) for name in COLUMNS}
    machine = spec.accelerator.name
    own = dict(bundled().machines[machine].parameters)
    own["matrix_fraction"] = toward_common(own["matrix_fraction"], bundled(), machine, columns)
    columns |= {name: 0 * columns[name] + value for name, value in changes.items()}
    return terms({parameter.name: own[parameter.name] for parameter in PARAMETERS}, columns)


def test_every_kind_of_message_of_the_law_is_known():
    """The columns that count messages name their kinds."""
    assert MESSAGES == ("shard", "gradient", "tensor", "stage", "expert", "context")


def test_blocks_and_head_compute_what_the_law_adds_up(single_run):
    """The blocks' share is that of the law without a head, and attention's products have their own rate."""
    found = explain(single_run, bundled())
    without_head = law_of(single_run, head_flop=0.0).terms_s["compute"][0]
    whole = law_of(single_run).terms_s["compute"][0]
    blocks = found.child("blocks").terms_s["compute"]
    assert blocks / found.terms_s["compute"] == pytest.approx(without_head / whole, rel=1e-9)
    block = found.child("blocks", "block 0")
    per_flop = {
        name: one.terms_s["compute"] / one.flop
        for name, one in ((each.name, each) for each in block.child("attention").children)
        if name in ("qkv", "values")
    }
    assert per_flop["values"] > 1.2 * per_flop["qkv"]


def test_work_sums_to_the_columns_of_the_law(run_of):
    """Flop, traffic, kernels and tensors of the operations are those that the law reads, on any layout."""
    layout = Layout.of("ddp x tp x pp", num_devices=16, tensor_parallel=2, pipeline_parallel=2)
    for name in ("t5-base", "mixtral-8x7b", "bert-base-uncased"):
        spec = run_of(name, layout, checkpointing="full")
        table, found = physical_columns([spec]), works(spec)
        for place, in_block in (("block", True), ("head", False)):
            own = [one for one in found if bool(one.num_blocks) is in_block]
            assert sum(sum(one.flop.values()) for one in own) == pytest.approx(table[f"{place}_flop"][0], rel=1e-12)
            moved_bytes = sum(sum(one.traffic_bytes.values()) for one in own)
            assert moved_bytes == pytest.approx(table[f"{place}_traffic_bytes"][0], rel=1e-12)
        assert sum(one.kernels for one in found if one.num_blocks) == pytest.approx(table["block_kernels"][0])
        assert sum(one.tensors for one in found) == pytest.approx(table["weight_tensors"][0])
        assert sum(one.reductions for one in found if one.num_blocks) == pytest.approx(table["tensor_collectives"][0])


@pytest.mark.parametrize(
    ("software", "counts"),
    [("eager", (72, 224, 192)), ("fused", (48, 128, 144)), ("graphs", (48, 128, 144))],
)
def test_operations_ask_for_the_collectives_that_the_law_counts(run_of, software, counts):
    """BERT-base, Llama-2-7B and T5-base on four devices: 12 x 6, 32 x 7 and 12 x (6 + 10); fused 4, 4 and 4 + 8."""
    layout = Layout.of("tp", num_devices=4)
    for name, count in zip(("bert-base-uncased", "llama-2-7b", "t5-base"), counts, strict=True):
        spec = run_of(name, layout, software=software)
        asked = sum(one.reductions for one in works(spec))
        assert asked == physical_columns([spec])["tensor_collectives"][0] == count, name


def test_parts_alone_take_what_they_take_in_formulas(single_run):
    """The host's loop and launches, the walk through tensors, and the traffic of updates, from the parameters."""
    found = alone(bundled(), physical_columns([single_run]))
    own = bundled().machines["rtx-2080-ti"].parameters
    table = physical_columns([single_run])
    steps, updates = table["micro_steps"][0], table["optimizer_steps"][0]
    assert found.loop_s == pytest.approx(steps * own["launch_step_s"])
    assert found.kernels_s == pytest.approx(steps * own["launch_kernel_s"] * table["block_kernels"][0])
    assert found.update_tensors_s == pytest.approx(updates * own["update_tensor_s"] * table["weight_tensors"][0])
    assert found.update_step_s == pytest.approx(updates * own["update_step_s"])
    assert found.update_traffic_s == pytest.approx(
        updates * table["optimizer_traffic_bytes"][0] / (0.8 * table["bandwidth_bytes_per_s"][0])
    )
    assert set(found.messages_s.values()) == {0.0}
    assert found.evaluated_share == 0


def test_the_joules_of_an_evaluation_are_told_from_those_of_steps(single_run):
    """The law bills both as memory; without an evaluation the rest is left."""
    evaluated = replace(single_run, recipe=replace(single_run.recipe, evaluation_fraction=1.0))
    memory_j = [law_of(spec).terms_j["memory"][0] for spec in (single_run, evaluated)]
    found = alone(bundled(), physical_columns([evaluated]))
    assert found.evaluated_share == pytest.approx(1 - memory_j[0] / memory_j[1], rel=1e-9)
    tree = explain(evaluated, bundled())
    share = tree.child("evaluation").terms_j["memory"] / tree.terms_j["memory"]
    assert share == pytest.approx(found.evaluated_share, rel=1e-9)
