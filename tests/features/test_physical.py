"""The step law's columns: worked numbers, another route to the same sums, scalings and limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.features.physical import physical_columns, within
from wattlaw.hardware import accelerator, node_type
from wattlaw.law.step_terms import COLUMNS
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset, presets, step_cost

B, S, L, D, FF, LABELS = 32, 128, 12, 768, 3072, 2


@pytest.fixture
def spec():
    """BERT-base fine-tuned on SST-2 with one RTX 2080 Ti: 67,349 sentences, three times."""
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification", num_labels=LABELS),
        recipe=Recipe(batch_size=B, seq_len=S, precision="fp16", samples=67349, epochs=3, attention_kernel="eager"),
        layout=Layout(),
        accelerator=accelerator("rtx-2080-ti"),
    )


def row(spec):
    """The columns of one run as numbers."""
    table = physical_columns([spec])
    return {name: values[0] for name, values in table.columns.items()}


def on(spec, strategy, num_devices, **options):
    """The same workload on other devices."""
    return replace(spec, layout=Layout.of(strategy, num_devices=num_devices, **options))


def test_bert_base_by_hand(spec):
    """Forward and backward, 6 B S L (4 d^2 + 2 d ff) + 12 L S d B S, outside of the blocks pooler and labels."""
    found = row(spec)
    assert found["block_flop"] == 6 * B * S * L * (4 * D**2 + 2 * D * FF) + 12 * L * S * D * B * S
    assert found["head_flop"] == 6 * B * (D**2 + D * LABELS)
    assert found["weights"] == 109_483_778
    assert found["weight_tensors"] == 3 + 2 + 16 * L + 4
    assert found["optimizer_traffic_bytes"] == 28 * 109_483_778
    assert found["micro_steps"] == found["optimizer_steps"] == 3 * 2105
    assert (found["num_epochs"], found["evaluation_micro_steps"]) == (3, 0)
    assert (found["num_layers"], found["num_devices"], found["num_nodes"]) == (L, 1, 1)


def test_steps_alone_are_a_window_without_an_epoch(spec):
    """A measured window begins no epoch; samples and tokens are whole trainings, of one epoch where none are named."""
    steps = replace(spec.recipe, steps=10, samples=None, epochs=None)
    assert row(replace(spec, recipe=steps))["num_epochs"] == 0
    assert row(replace(spec, recipe=replace(steps, epochs=2)))["num_epochs"] == 2
    for whole in ({"samples": 1000}, {"tokens": 1e6}):
        assert row(replace(spec, recipe=replace(steps, steps=None, **whole)))["num_epochs"] == 1


def test_a_fused_kernel_computes_scores_again_and_skips_what_the_mask_leaves_out(spec):
    """Encoder: 2 B S^2 d L more. Decoder: S (S + 1) / 2 pairs, of which eager attention computes all S^2."""
    fused = replace(spec, recipe=replace(spec.recipe, attention_kernel="fused"))
    assert row(fused)["block_flop"] - row(spec)["block_flop"] == 2 * B * S**2 * D * L
    eager = replace(spec, architecture=preset("gpt2"))
    pairs, products = S * (S + 1) / 2, 24 * B * S * D**2 * L * 3
    assert row(eager)["block_flop"] == products + 12 * B * S**2 * D * L
    fused = replace(eager, recipe=replace(eager.recipe, attention_kernel="fused"))
    assert row(fused)["block_flop"] == products + 14 * B * pairs * D * L


@pytest.mark.parametrize("name", presets())
def test_blocks_and_the_rest_are_the_step(spec, name):
    """Both places together are what ``step_cost`` sums by another route, for every preset."""
    each = replace(spec, architecture=preset(name))
    cost = step_cost(each.architecture, each.recipe, attention="full", head="counted")
    found = row(each)
    for column, total in (("flop", cost.flop), ("traffic_bytes", cost.traffic_bytes), ("kernels", cost.kernels)):
        assert found[f"block_{column}"] + found[f"head_{column}"] == pytest.approx(total, rel=1e-12)
    assert found["block_kernels"] == pytest.approx(cost.layer_kernels * cost.num_layers, rel=1e-12)
    assert found["weights"] == pytest.approx(cost.parameters, rel=1e-12)
    assert found["optimizer_traffic_bytes"] == pytest.approx(cost.optimizer_traffic_bytes, rel=1e-12)


def test_checkpointing_computes_the_blocks_once_more(spec):
    """The forward pass of the blocks, a third of their operations, is added; the head's is not."""
    again = row(replace(spec, recipe=replace(spec.recipe, checkpointing="full")))
    plain = row(spec)
    assert again["block_flop"] == pytest.approx(4 / 3 * plain["block_flop"], rel=1e-12)
    assert again["head_flop"] == plain["head_flop"]
    assert again["block_kernels"] > plain["block_kernels"]


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp", "fsdp-grad-op", "tp"])
def test_one_device_says_nothing(spec, strategy):
    """On one device no strategy sends a byte, and all are the same run."""
    found = row(on(spec, strategy, 1))
    kinds = ("shard_", "gradient_", "tensor_", "stage_", "context_", "expert_")
    said = [name for name in found if name.startswith(kinds) and name.endswith(("_bytes", "_collectives", "_hops"))]
    assert len(said) == 17
    assert all(found[name] == 0 for name in said)
    assert found == row(spec)


@pytest.mark.parametrize("degree", [2, 4, 12])
def test_tensor_parallelism_divides_the_blocks(spec, degree):
    """Operations of the blocks and their weights by the degree; launches, head and embedding stay."""
    alone, divided = row(spec), row(on(spec, "tp", degree))
    assert divided["block_flop"] == pytest.approx(alone["block_flop"] / degree, rel=1e-12)
    assert divided["head_flop"] == alone["head_flop"]
    assert divided["block_kernels"] == alone["block_kernels"]
    # Norms, residuals and their dropout are repeated on every rank, so the traffic falls by less.
    assert alone["block_traffic_bytes"] / degree < divided["block_traffic_bytes"] < alone["block_traffic_bytes"]
    inside = L * (4 * D**2 + 4 * D + 2 * D * FF + FF + D)
    assert divided["weights"] == pytest.approx(109_483_778 - inside * (1 - 1 / degree), rel=1e-12)
    assert divided["micro_steps"] == alone["micro_steps"]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "fsdp-grad-op"])
def test_data_parallelism_divides_the_sequences(spec, strategy):
    """A micro-step is as much work as before; there are a quarter as many, and shards divide the update."""
    alone, divided = row(spec), row(on(spec, strategy, 4))
    for name in ("block_flop", "head_flop", "block_traffic_bytes", "block_kernels", "weights"):
        assert divided[name] == alone[name]
    assert divided["micro_steps"] == 3 * 527  # ceil(67349 / (4 x 32))
    shards = 1 if strategy == "ddp" else 4
    assert divided["optimizer_traffic_bytes"] == alone["optimizer_traffic_bytes"] / shards


def test_ddp_sends_gradients_of_four_bytes_and_fused_frameworks_of_two(spec):
    """Autocast keeps fp32 weights, whose gradients DDP all-reduces; Megatron's have the precision of the products."""
    eager = row(on(spec, "ddp", 4))
    assert eager["gradient_bytes"] == 2 * 4 * 109_483_778 * 3 / 4
    fused = replace(spec, recipe=replace(spec.recipe, software="fused"))
    assert row(on(fused, "ddp", 4))["gradient_bytes"] == 2 * 2 * 109_483_778 * 3 / 4
    exact = replace(spec, recipe=replace(spec.recipe, precision="fp32"))
    assert row(on(exact, "ddp", 4))["gradient_bytes"] == eager["gradient_bytes"]


def test_zero_1_scatters_gradients_gathers_weights_and_divides_the_update(spec):
    """4 bytes of gradients go out, 2 of updated weights come back; a rank updates its quarter."""
    found, ddp = row(on(spec, "zero1", 4)), row(on(spec, "ddp", 4))
    assert found["gradient_bytes"] == (4 + 2) * 109_483_778 * 3 / 4
    assert found["optimizer_traffic_bytes"] == ddp["optimizer_traffic_bytes"] / 4
    assert found["shard_bytes"] == 0


def test_a_frozen_base_sends_and_updates_adapters_only(spec):
    """Rank 8 on queries, keys, values and output: 4 x 2 x 768 x 8 numbers a block, and the new head of two labels."""
    lora = replace(spec, recipe=replace(spec.recipe, adapter_rank=8))
    trained = L * 4 * 2 * D * 8 + (D * LABELS + LABELS)
    for strategy, sent in (("ddp", 2 * 4), ("fsdp", 2)):
        found = row(on(lora, strategy, 4))
        shards = 4 if strategy == "fsdp" else 1
        assert found["optimizer_traffic_bytes"] == 28 * trained / shards
        weights = 109_483_778 + L * 4 * 2 * D * 8
        gathered = 2 * 2 * weights * 3 / 4 if strategy == "fsdp" else 0
        assert found["gradient_bytes"] + found["shard_bytes"] == pytest.approx(gathered + sent * trained * 3 / 4)
    assert row(lora)["block_flop"] < 0.75 * row(spec)["block_flop"]


def test_frozen_and_trained_runs_share_a_batch(spec):
    """Runs that differ in their rank only are columns of one batch, and each is what it is alone."""
    ranks = [replace(spec, recipe=replace(spec.recipe, adapter_rank=rank)) for rank in (0, 8, 64)]
    layouts = [on(one, strategy, 4) for one in ranks for strategy in ("ddp", "fsdp")]
    together = physical_columns(layouts)
    for place, one in enumerate(layouts):
        alone = physical_columns([one])
        for name in COLUMNS:
            assert together[name][place] == pytest.approx(alone[name][0], rel=1e-12), name


def test_fp8_is_told_by_the_share_of_attention(spec):
    """Scores and values, 12 B S^2 d L of the blocks' operations in eager attention."""
    found = row(spec)
    assert found["attention_share"] == pytest.approx(12 * L * S * D * B * S / found["block_flop"], rel=1e-12)


@pytest.mark.parametrize("ranks", [2, 4])
def test_context_parallelism_divides_the_tokens(gpt, ranks):
    """A device computes a c-th of each sequence, reads all weights and reduces all gradients."""
    alone, divided = row(gpt), row(on(gpt, "cp", ranks))
    for name in ("block_flop", "head_flop"):
        assert divided[name] == pytest.approx(alone[name] / ranks, rel=1e-12)
    assert alone["block_traffic_bytes"] / ranks < divided["block_traffic_bytes"] < alone["block_traffic_bytes"]
    for name in ("weights", "micro_steps", "block_kernels"):
        assert divided[name] == alone[name]
    assert divided["gradient_bytes"] == row(on(gpt, "ddp", ranks))["gradient_bytes"]


def test_expert_parallelism_deals_out_experts_and_keeps_the_rows(gpt):
    """Eight experts on four ranks: two each to hold, read, update and send; as many operations."""
    mixture = replace(gpt, architecture=preset("mixtral-8x7b"))
    alone, dealt = row(on(mixture, "ddp", 4)), row(on(mixture, "ddp x ep", 4))
    experts = 32 * 8 * 3 * 4096 * 14336
    assert alone["weights"] - dealt["weights"] == pytest.approx(3 / 4 * experts, rel=1e-12)
    for name in ("block_flop", "head_flop", "block_kernels", "micro_steps"):
        assert dealt[name] == alone[name]
    # Each of three passes reads the weights once, with two bytes a number.
    unread = alone["block_traffic_bytes"] - dealt["block_traffic_bytes"]
    assert unread == pytest.approx(3 * 2 * 3 / 4 * experts, rel=1e-12)
    dense = alone["weights"] - experts
    assert dealt["gradient_bytes"] == pytest.approx(2 * 4 * dense * 3 / 4, rel=1e-12)
    assert dealt["optimizer_traffic_bytes"] == pytest.approx(28 * (dense + experts / 4), rel=1e-12)
    shards = row(on(mixture, "fsdp x ep", 4))
    assert shards["optimizer_traffic_bytes"] == pytest.approx(28 * alone["weights"] / 4, rel=1e-12)


@pytest.mark.parametrize("targets", ["attention", "all-linear"])
def test_frozen_experts_that_are_dealt_out_are_left_unread_twice_and_make_no_gradients(gpt, targets):
    """Two passes read a frozen expert and nothing writes its gradient: a third less than trained."""
    recipe = replace(gpt.recipe, adapter_rank=8, adapter_targets=targets)
    spec = replace(gpt, architecture=preset("mixtral-8x7b"), recipe=recipe)
    alone = row(replace(spec, layout=Layout()))
    dealt = row(on(spec, "ep", 4))
    frozen = 3 / 4 * 32 * 8 * 3 * 4096 * 14336
    adapters = alone["weights"] - dealt["weights"] - frozen
    assert adapters >= 0
    unread = alone["block_traffic_bytes"] - dealt["block_traffic_bytes"]
    assert unread == pytest.approx(2 * (2 * frozen + 3 * adapters), rel=1e-12)


@pytest.mark.parametrize(("software", "share"), [("eager", 1), ("fused", 1 / 3), ("graphs", 0)])
def test_software_says_what_the_host_does(spec, software, share):
    """All of the launches, a third, none."""
    found = row(replace(spec, recipe=replace(spec.recipe, software=software)))
    assert (found["host_share"], found["fused"]) == (share, software != "eager")


def test_fused_software_sends_beside_its_kernels_what_it_divides_them_for(gpt):
    """With sequence parallelism, and between interleaved stages; of a frozen base six of eight and adapters' three."""
    layout = Layout(tensor_parallel=2, pipeline_parallel=2, pipeline_interleaving=3, sequence_parallel=1)
    fused = replace(gpt, layout=layout, recipe=replace(gpt.recipe, software="fused"))
    for recipe, beside in (
        (fused.recipe, (1, 1)),
        (replace(fused.recipe, adapter_rank=8), (pytest.approx(6 / 11), 1)),
        (gpt.recipe, (0, 0)),
    ):
        found = row(replace(fused, recipe=recipe))
        assert (found["tensor_beside"], found["stage_beside"]) == beside
    plain = row(replace(fused, layout=Layout(tensor_parallel=2, pipeline_parallel=2)))
    assert (plain["tensor_beside"], plain["stage_beside"]) == (0, 0)


def test_energies_of_accelerators_hold_no_declared_host(gpt):
    """The host of a named node type belongs to energies of nodes and facilities."""
    table = physical_columns([gpt])
    assert within("node", table)["node_host_w"][0] == gpt.node.host_power_w
    assert within("accelerators", table)["node_host_w"][0] == 0


def test_bert_base_shards_on_four_ranks(spec):
    """Two gathers and a scatter of 2 bytes per weight, three quarters each."""
    assert row(on(spec, "fsdp", 4))["shard_bytes"] == 3 * 2 * 109_483_778 * 3 / 4


@pytest.mark.parametrize(("optimizer", "bytes_per_weight"), [("sgd", 12), ("momentum", 20), ("adamw", 28)])
def test_an_update_moves_weights_gradients_and_states(spec, optimizer, bytes_per_weight):
    """fp32 weights and states read and written, gradients read."""
    each = replace(spec, recipe=replace(spec.recipe, optimizer=optimizer))
    assert row(each)["optimizer_traffic_bytes"] == bytes_per_weight * 109_483_778


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_run_has_every_column_and_no_negative_number(data, run_specs):
    """Nothing crashes; work is above zero, all else not below."""
    table = physical_columns([data.draw(run_specs)])
    assert set(COLUMNS) | {"machine"} <= set(table.columns)
    for name in COLUMNS:
        assert table.numbers(name)[0] >= 0, name
    for name in ("block_flop", "block_traffic_bytes", "block_kernels", "weights", "micro_steps", "optimizer_steps"):
        assert table.numbers(name)[0] > 0, name
    assert table.numbers("pipeline_parallel")[0] >= 1


@settings(max_examples=40, deadline=None)
@given(data=st.data(), factor=st.integers(2, 5))
def test_work_grows_with_layers_batch_and_steps(data, factor, run_specs):
    """Blocks in proportion to the layers, everything of a micro-step with the batch, counts with the steps."""
    spec = data.draw(run_specs)
    # Adapters save the first block work, whatever the number of blocks.
    recipe = replace(spec.recipe, steps=100, samples=None, tokens=None, epochs=None, adapter_rank=0)
    spec = replace(spec, recipe=recipe)
    once = row(spec)
    batch = row(replace(spec, recipe=replace(recipe, batch_size=factor * recipe.batch_size)))
    assert batch["block_flop"] == pytest.approx(factor * once["block_flop"], rel=1e-9)
    assert once["block_traffic_bytes"] < batch["block_traffic_bytes"]
    assert batch["block_kernels"] == once["block_kernels"]
    model = spec.architecture
    stacks = tuple(replace(stack, num_layers=factor * stack.num_layers) for stack in model.stacks)
    layers = row(replace(spec, architecture=replace(model, stacks=stacks)))
    for name in ("block_flop", "block_traffic_bytes", "block_kernels", "tensor_collectives"):
        assert layers[name] == pytest.approx(factor * once[name], rel=1e-9), name
    steps = row(replace(spec, recipe=replace(recipe, steps=factor * 100)))
    changed = {name for name in once if steps[name] != once[name]}
    counts = {"micro_steps", "optimizer_steps"}
    assert counts <= changed <= {*counts, "bubble_micro_steps", "evaluation_micro_steps"}
    assert steps["micro_steps"] == factor * once["micro_steps"]


@pytest.fixture
def gpt():
    """GPT-2 with twelve blocks, four micro-batches to an optimizer step, on eight A100 of one node."""
    return RunSpec(
        architecture=preset("gpt2"),
        recipe=Recipe(batch_size=2, seq_len=1024, precision="fp16", grad_accumulation=4, steps=10),
        layout=Layout(),
        accelerator=accelerator("a100-sxm4-80gb"),
        node=node_type("dgx-a100"),
    )


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_pipeline_deals_out_the_blocks(gpt, stages):
    """Work, launches and weights of the blocks by the stages; the last stage has the whole head."""
    alone, divided = row(gpt), row(on(gpt, "pp", stages))
    for name in ("block_flop", "block_traffic_bytes", "block_kernels"):
        assert divided[name] == pytest.approx(alone[name] / stages, rel=1e-12), name
    for name in ("head_flop", "head_traffic_bytes", "head_kernels", "micro_steps", "optimizer_steps"):
        assert divided[name] == alone[name], name
    blocks = 12 * (12 * 768**2 + 13 * 768)
    assert divided["weights"] == pytest.approx(alone["weights"] - blocks * (1 - 1 / stages), rel=1e-12)
    assert divided["pipeline_parallel"] == stages


@pytest.mark.parametrize(("stages", "runs", "bubble"), [(1, 1, 0), (2, 1, 1), (4, 1, 3), (4, 3, 1), (2, 6, 1 / 6)])
def test_the_bubble_is_that_of_one_forward_one_backward(gpt, stages, runs, bubble):
    """(p - 1) / v micro-steps per update, so (p - 1) / (v m) of m micro-batches: Narayanan et al. 2021, 2.2.2."""
    layout = Layout(pipeline_parallel=stages, pipeline_interleaving=runs)
    found = row(replace(gpt, layout=layout))
    assert found["bubble_micro_steps"] == pytest.approx(10 * bubble, rel=1e-12)
    assert found["bubble_micro_steps"] / found["micro_steps"] == pytest.approx(bubble / 4, rel=1e-12)


def test_sequence_parallelism_divides_what_tensor_parallelism_repeats(gpt):
    """Norms, residuals and dropout by the degree too: all traffic of the blocks; their weights stay whole."""
    alone, tensor = row(gpt), row(on(gpt, "tp", 4))
    sequence = row(replace(gpt, layout=Layout(tensor_parallel=4, sequence_parallel=1)))
    assert sequence["block_traffic_bytes"] == pytest.approx(alone["block_traffic_bytes"] / 4, rel=1e-12)
    assert sequence["block_traffic_bytes"] < tensor["block_traffic_bytes"]
    unchanged = ("block_flop", "block_kernels", "weights", "head_flop", "head_traffic_bytes", "optimizer_traffic_bytes")
    assert [sequence[name] for name in unchanged] == [tensor[name] for name in unchanged]


def test_a_divided_vocabulary_divides_the_head_and_its_weights(gpt):
    """50,257 rows of 768 numbers (and 1,024 positions) are held in parts, and so is the last projection."""
    tensor = row(on(gpt, "tp", 4))
    divided = row(replace(gpt, layout=Layout(tensor_parallel=4, vocabulary_parallel=1)))
    assert divided["head_flop"] == tensor["head_flop"] / 4
    assert tensor["weights"] - divided["weights"] == pytest.approx(3 / 4 * ((50257 + 1024) * 768 + 2 * 768), rel=1e-12)
    assert divided["block_flop"] == tensor["block_flop"]


def test_an_activation_written_out_moves_more_than_a_fused_one(gpt):
    """gelu_new: 8 steps of 2 passes forward, 11 of 3 backward, instead of one of each; all of B S 4d fp16 numbers."""
    model = gpt.architecture
    (stack,) = model.stacks
    assert stack.activation_kernels == 8
    fused = replace(gpt, architecture=replace(model, stacks=(replace(stack, activation_kernels=1),)))
    more = 2 * (8 - 1) + 3 * (11 - 1)
    numbers = 2 * 1024 * 4 * 768
    moved = row(gpt)["block_traffic_bytes"] - row(fused)["block_traffic_bytes"]
    assert moved == 12 * more * 2 * numbers
    assert row(gpt)["block_kernels"] - row(fused)["block_kernels"] == 12 * (7 + 10)


def test_passes_alone_update_nothing(gpt):
    """With the optimizer left out, no optimizer steps are made; the micro-steps are."""
    found = row(replace(gpt, recipe=replace(gpt.recipe, optimizer="none")))
    assert (found["optimizer_steps"], found["micro_steps"]) == (0, 40)


def test_no_runs_are_a_table_of_no_rows():
    """The empty list is not an error here: there is nothing to say."""
    assert len(physical_columns([])) == 0


def test_the_machine_is_named_by_the_accelerator(spec):
    """Rows of one GPU model share a name, whatever alias they were written with."""
    other = replace(spec, accelerator=accelerator("NVIDIA A100-SXM4-40GB"))
    assert physical_columns([spec, other]).text("machine").tolist() == ["rtx-2080-ti", "a100-sxm4-40gb"]
    assert np.all(physical_columns([spec, other]).numbers("power_limit_w") == [250, 400])
