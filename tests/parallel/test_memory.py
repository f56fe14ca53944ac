"""What one device holds: published totals, and what layouts divide."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.parallel.layout import Layout
from wattlaw.parallel.memory import DeviceMemory, device_memory, first_in_flight
from wattlaw.workload import Recipe, preset, step_cost

GIB = 2**30


def cost(name="gpt2", **changes):
    """Cost a short micro-step."""
    recipe = Recipe(**{"batch_size": 2, "seq_len": 128, "steps": 1, **changes})
    return step_cost(preset(name), recipe, attention="full", head="counted")


def states_bytes(memory):
    """Weights, gradients and what the optimizer keeps."""
    return memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_mixed_precision_adamw_takes_sixteen_bytes_per_parameter(precision):
    """2 + 2 + 12: Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1; 7.5e9 parameters take 120 GB."""
    undivided = cost(precision=precision)
    memory = device_memory(undivided, Layout())
    assert states_bytes(memory) == 16 * undivided.parameters
    assert memory.weights_bytes == memory.gradients_bytes == 2 * undivided.parameters


def test_fp32_adamw_takes_sixteen_bytes_per_parameter_too():
    """4 + 4 + 8, without a master copy."""
    undivided = cost(precision="fp32")
    memory = device_memory(undivided, Layout())
    assert states_bytes(memory) == 16 * undivided.parameters
    assert memory.optimizer_bytes == 8 * undivided.parameters


@pytest.mark.parametrize(
    ("strategy", "bytes_per_parameter"), [("ddp", 16), ("fsdp-grad-op", 2 + 14 / 64), ("fsdp", 16 / 64)]
)
def test_sharding_over_64_ranks_is_that_of_zero(strategy, bytes_per_parameter):
    """Figure 1 of arXiv 1910.02054, 7.5e9 parameters on 64 devices: 120 GB, 16.6 GB (stage 2), 1.9 GB (stage 3)."""
    undivided = cost()
    memory = device_memory(undivided, Layout.of(strategy, num_devices=64))
    assert states_bytes(memory) == pytest.approx(bytes_per_parameter * undivided.parameters, rel=1e-12)
    published = {"ddp": 120, "fsdp-grad-op": 16.6, "fsdp": 1.9}[strategy]
    assert states_bytes(memory) / undivided.parameters * 7.5 == pytest.approx(published, abs=0.05)


def test_llama_2_7b_does_not_fit_one_80_gb_device_and_fits_eight_sharded():
    """6.74e9 parameters: 100.4 GiB of states on one device, an eighth of that under full sharding."""
    undivided = cost("llama-2-7b")
    alone, sharded = (device_memory(undivided, layout) for layout in (Layout(), Layout.of("fsdp", num_devices=8)))
    assert states_bytes(alone) / GIB == pytest.approx(16 * 6_738_415_616 / GIB, rel=1e-12)
    assert alone.total_bytes > 80 * GIB
    assert states_bytes(sharded) == states_bytes(alone) / 8
    assert sharded.activations_bytes == alone.activations_bytes


def test_tensor_parallelism_divides_weights_and_inner_activations():
    """Embedding, norms and what passes from block to block stay whole; the rest is halved on two devices."""
    undivided = cost()
    memory = device_memory(undivided, Layout.of("tp", num_devices=2))
    kept = undivided.parameters - undivided.divided_parameters
    assert memory.weights_bytes == pytest.approx(2 * (kept + undivided.divided_parameters / 2), rel=1e-12)
    inner = undivided.divided_activations_bytes
    assert memory.activations_bytes == undivided.activations_bytes - inner / 2
    assert memory.logits_bytes == undivided.logits_bytes


def test_a_pipeline_deals_out_the_weights():
    """Llama-2-7B on four stages: a quarter of the blocks, and the embedding or the head, 32,000 x 4,096 each."""
    undivided = cost("llama-2-7b")
    memory = device_memory(undivided, Layout.of("pp", num_devices=4), micro_batches=8)
    end = 32000 * 4096
    assert undivided.parameters == 6_738_415_616
    held = (undivided.parameters - 2 * end) / 4 + end
    assert states_bytes(memory) == pytest.approx(16 * held, rel=1e-12)


@pytest.mark.parametrize(("stages", "runs", "in_flight"), [(1, 1, 1), (4, 1, 4), (4, 2, 4 + 3 / 2), (8, 3, 8 + 7 / 3)])
def test_micro_batches_in_flight(stages, runs, in_flight):
    """As many as stages; interleaved 1 + (p - 1) / (p v) times that: Korthikanti et al. 2022, section 4.2.3."""
    layout = Layout(pipeline_parallel=stages, pipeline_interleaving=runs)
    assert first_in_flight(layout, 1000) == pytest.approx(in_flight, rel=1e-12)
    assert first_in_flight(layout, 1) == 1


def test_a_pipeline_keeps_the_activations_of_every_micro_batch_in_flight():
    """Of p micro-batches and a p-th of the blocks each: as much as without one, and less where there are fewer."""
    undivided = cost("llama-2-7b", batch_size=8, seq_len=2048)
    alone = device_memory(undivided, Layout(), micro_batches=8)
    piped = device_memory(undivided, Layout.of("pp", num_devices=4), micro_batches=8)
    assert piped.activations_bytes == pytest.approx(alone.activations_bytes, rel=1e-12)
    assert piped.logits_bytes == 0  # the first stage, which is the fullest, has no head
    few = device_memory(undivided, Layout.of("pp", num_devices=4), micro_batches=2)
    assert few.activations_bytes == pytest.approx(alone.activations_bytes / 2, rel=1e-12)


def test_where_the_head_needs_most_the_last_stage_is_told():
    """Where activations are computed again, GPT-2's 50,257 logits outweigh what is in flight on the first stage."""
    undivided = cost("gpt2", batch_size=32, checkpointing="full")
    memory = device_memory(undivided, Layout.of("pp", num_devices=4), micro_batches=4)
    assert memory.logits_bytes == undivided.logits_bytes
    assert memory.activations_bytes == undivided.activations_bytes / 4


def test_sequence_parallelism_divides_all_activations():
    """What tensor parallelism leaves whole too: Korthikanti et al. 2022, table 2."""
    undivided = cost("llama-2-7b")
    memory = device_memory(undivided, Layout(tensor_parallel=8, sequence_parallel=1))
    assert memory.activations_bytes == pytest.approx(undivided.activations_bytes / 8, rel=1e-12)
    assert memory.weights_bytes == device_memory(undivided, Layout(tensor_parallel=8)).weights_bytes


def test_a_divided_vocabulary_divides_both_ends():
    """Embedding, head and logits by the degree."""
    undivided = cost("llama-2-7b")
    whole, divided = (device_memory(undivided, Layout(tensor_parallel=8, vocabulary_parallel=flag)) for flag in (0, 1))
    assert divided.logits_bytes == undivided.logits_bytes / 8
    ends = 2 * 32000 * 4096
    assert whole.weights_bytes - divided.weights_bytes == pytest.approx(2 * ends * 7 / 8, rel=1e-12)


@given(stages=st.sampled_from([1, 2, 4, 8]), micro_batches=st.integers(1, 64), tensor=st.sampled_from([1, 2, 4]))
def test_more_stages_never_need_more_memory_each(stages, micro_batches, tensor):
    """Under one forward, one backward the fullest stage needs less, or as much, as the pipeline gets longer."""
    undivided = cost("llama-2-7b", batch_size=4)
    before, after = (
        device_memory(
            undivided, Layout(pipeline_parallel=count, tensor_parallel=tensor), micro_batches=micro_batches
        ).total_bytes
        for count in (stages, 2 * stages)
    )
    assert after <= before * (1 + 1e-12)


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp", "fsdp-grad-op", "tp", "pp"])
def test_one_device_holds_the_whole_model(strategy):
    """No strategy divides anything on one device."""
    undivided = cost()
    memory = device_memory(undivided, Layout.of(strategy, num_devices=1))
    assert memory.total_bytes == pytest.approx(undivided.memory_bytes, rel=1e-12)


@given(num_devices=st.integers(1, 512), strategy=st.sampled_from(["ddp", "fsdp", "fsdp-grad-op", "tp"]))
def test_more_devices_never_need_more_memory_each(num_devices, strategy):
    """Parts are positive and sum to the total, which does not grow with the devices."""
    undivided = cost()
    memory = device_memory(undivided, Layout.of(strategy, num_devices=num_devices))
    parts = [getattr(memory, field.name) for field in fields(DeviceMemory)]
    assert min(parts) > 0
    assert memory.total_bytes == pytest.approx(sum(parts), rel=1e-12)
    more = device_memory(undivided, Layout.of(strategy, num_devices=2 * num_devices))
    assert more.total_bytes <= memory.total_bytes * (1 + 1e-12)
