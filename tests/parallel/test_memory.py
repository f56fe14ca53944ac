"""What one device holds: published totals, torch's own count, and what layouts divide."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.parallel.layout import Layout
from wattlaw.parallel.memory import (
    CONTEXT_BYTES,
    FRAGMENTATION_FRACTION,
    DeviceMemory,
    device_memory,
    first_in_flight,
)
from wattlaw.run import read_spec
from wattlaw.workload import Recipe, from_sizes, preset, step_cost

GIB = 2**30
EXAMPLES = Path(__file__).parents[2] / "examples"


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


def test_stage_1_shards_what_the_optimizer_keeps():
    """Figure 1 of arXiv 1910.02054, 7.5e9 parameters on 64 devices: 31.4 GB with 4 + 12 / 64 bytes each."""
    undivided = cost()
    memory = device_memory(undivided, Layout.of("zero1", num_devices=64))
    assert states_bytes(memory) == pytest.approx((4 + 12 / 64) * undivided.parameters, rel=1e-12)
    assert states_bytes(memory) / undivided.parameters * 7.5 == pytest.approx(31.4, abs=0.05)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "zero1"])
def test_a_frozen_base_has_neither_gradients_nor_states(strategy):
    """Llama-2-7B with adapters of rank 16 on attention: 2 bytes for each weight, 16 for each of the adapters."""
    lora = cost("llama-2-7b", adapter_rank=16)
    adapters = 32 * 4 * 2 * 4096 * 16
    assert lora.trained_parameters == adapters
    memory = device_memory(lora, Layout.of(strategy, num_devices=8))
    weights, gradients, states = {"ddp": (1, 1, 1), "zero1": (1, 1, 8), "fsdp": (8, 8, 8)}[strategy]
    assert memory.weights_bytes == pytest.approx(2 * (6_738_415_616 + adapters) / weights, rel=1e-12)
    assert memory.gradients_bytes == pytest.approx(2 * adapters / gradients, rel=1e-12)
    assert memory.optimizer_bytes == pytest.approx(12 * adapters / states, rel=1e-12)


def test_context_parallelism_divides_activations_and_logits():
    """Each device keeps a quarter of the tokens, and all weights unless they are sharded over the same ranks."""
    undivided = cost("llama-2-7b")
    memory = device_memory(undivided, Layout.of("cp", num_devices=4))
    assert memory.activations_bytes == pytest.approx(undivided.activations_bytes / 4, rel=1e-12)
    assert memory.logits_bytes == pytest.approx(undivided.logits_bytes / 4, rel=1e-12)
    assert memory.weights_bytes == undivided.weights_bytes
    sharded = device_memory(undivided, Layout.of("fsdp x cp", num_devices=4, context_parallel=2))
    assert sharded.weights_bytes == pytest.approx(undivided.weights_bytes / 4, rel=1e-12)


@pytest.mark.parametrize(("strategy", "shards"), [("ddp x ep", (1, 1, 1)), ("fsdp x ep", (8, 8, 8))])
def test_expert_parallelism_deals_out_the_experts(strategy, shards):
    """Mixtral on eight ranks: of 45 of its 47 billion parameters each holds an eighth, whether it shards or not."""
    undivided = cost("mixtral-8x7b")
    experts = 32 * 8 * 3 * 4096 * 14336
    assert undivided.expert_parameters == experts
    memory = device_memory(undivided, Layout.of(strategy, num_devices=8))
    dense = undivided.parameters - experts
    expected = [
        bytes_each * (dense / shard + experts / 8) for bytes_each, shard in zip((2, 2, 12), shards, strict=True)
    ]
    found = (memory.weights_bytes, memory.gradients_bytes, memory.optimizer_bytes)
    assert found == pytest.approx(tuple(expected), rel=1e-12)
    whole = device_memory(undivided, Layout.of("ddp", num_devices=8))
    assert whole.weights_bytes == 2 * undivided.parameters  # every expert is held, whichever a token meets


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
    parts = [getattr(memory, field.name) for field in fields(DeviceMemory) if field.name != "buffers_bytes"]
    assert min(parts) > 0
    assert memory.total_bytes == pytest.approx(sum(parts), rel=1e-12)
    more = device_memory(undivided, Layout.of(strategy, num_devices=2 * num_devices))
    assert more.total_bytes <= memory.total_bytes * (1 + 1e-12)


def test_ddp_copies_its_gradients_into_buckets():
    """As many bytes as the gradients, beside 16-bit casts of the weights and the gradients of the logits."""
    undivided = cost("llama-2-7b", precision="bf16")
    memory = device_memory(undivided, Layout.of("ddp", num_devices=4))
    expected = memory.gradients_bytes + 2 * undivided.parameters + memory.logits_bytes
    assert memory.buffers_bytes == pytest.approx(expected, rel=1e-12)
    alone = device_memory(undivided, Layout())
    assert memory.buffers_bytes - alone.buffers_bytes == pytest.approx(memory.gradients_bytes, rel=1e-12)


def test_fsdp_holds_two_blocks_and_both_ends_whole():
    """Of Llama-2-7B in 16 bits: the weights of 2 of 32 blocks, embedding and head, and the same of gradients."""
    undivided = cost("llama-2-7b", precision="bf16")
    ends = 2 * 32000 * 4096
    block = (undivided.parameters - ends) / 32
    for strategy, kinds in (("fsdp", 2), ("fsdp-grad-op", 1)):
        memory = device_memory(undivided, Layout.of(strategy, num_devices=8))
        whole = kinds * 2 * (ends + 2 * block)
        assert memory.buffers_bytes - memory.logits_bytes == pytest.approx(whole, rel=1e-12)


def test_a_stage_receives_a_state_and_a_gradient():
    """Of B S d in 16 bits each: 2 x 2 x 128 x 4096 x 2 bytes on the first stage, which has no head."""
    undivided = cost("llama-2-7b", precision="bf16", checkpointing="none")
    memory = device_memory(undivided, Layout.of("pp", num_devices=4), micro_batches=8)
    casts = memory.weights_bytes
    assert memory.buffers_bytes - casts == pytest.approx(2 * 2 * 128 * 4096 * 2, rel=1e-9)


def test_reserved_memory_is_all_parts_and_what_a_framework_adds():
    """Five hundredths between the blocks of the allocator, and a gibibyte of context."""
    memory = device_memory(cost(), Layout.of("fsdp", num_devices=2))
    parts = sum(getattr(memory, field.name) for field in fields(DeviceMemory))
    assert memory.reserved_bytes == pytest.approx((1 + FRAGMENTATION_FRACTION) * parts + CONTEXT_BYTES, rel=1e-12)


def test_adapters_have_gradients_and_states_and_the_rest_has_none():
    """Llama-2-7B in bf16 with rank 16: 2 bytes for every weight, 14 more for those of the adapters."""
    undivided = cost("llama-2-7b", precision="bf16", adapter_rank=16)
    trained = 32 * 4 * 2 * 16 * 4096
    memory = device_memory(undivided, Layout())
    assert undivided.trained_parameters == trained
    assert states_bytes(memory) == pytest.approx(2 * undivided.parameters + 14 * trained, rel=1e-12)
    sharded = device_memory(undivided, Layout.of("fsdp", num_devices=8))
    assert states_bytes(sharded) == pytest.approx(states_bytes(memory) / 8, rel=1e-12)


@pytest.mark.parametrize(
    ("tensor", "sequence", "bytes_per_token"),
    [
        (1, 0, lambda h, a, s: h * (34 + 5 * a * s / h)),
        (8, 0, lambda h, a, s: h * (10 + 24 / 8 + 5 * a * s / (h * 8))),
        (8, 1, lambda h, a, s: h / 8 * (34 + 5 * a * s / h)),
    ],
)
def test_activations_are_those_of_korthikanti(tensor, sequence, bytes_per_token):
    """Per block, 16 bits, eager, dropout: equations 1, 2 and 4 of arXiv 2205.05198, on GPT-3's sizes."""
    h, a, s, layers = 12288, 96, 2048, 96
    model = from_sizes(
        "gpt2", num_layers=layers, hidden_size=h, num_heads=a, ffn_size=4 * h, vocab_size=51200, max_positions=s
    )
    blocks = tuple(replace(stack, activation_kernels=1) for stack in model.stacks)
    recipe = Recipe(batch_size=1, seq_len=s, steps=1, attention_kernel="eager", precision="fp16")
    undivided = step_cost(replace(model, stacks=blocks), recipe, attention="full", head="counted")
    memory = device_memory(undivided, Layout(tensor_parallel=tensor, sequence_parallel=sequence))
    assert memory.activations_bytes == pytest.approx(layers * s * bytes_per_token(h, a, s), rel=0.01)


#: Models whose peak torch counts, with the largest share by which ours may be below and above.
COUNTED = {
    "bert": {"head": "classification"},
    "gpt2": {},
    "llama": {},
    "llama, recomputed": {"checkpointing": "full"},
    "llama, bf16": {"precision": "bf16"},
}


@pytest.fixture(scope="module")
def counted():
    """Peaks of two optimizer steps of two micro-steps each, by torch's own tracker, on tensors without numbers."""
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    from wattlaw.measure.sweep.models import build_model

    def peak(architecture, recipe):
        low = torch.bfloat16 if recipe.precision == "bf16" else None
        shape = (int(recipe.batch_size), int(recipe.seq_len))
        with warnings.catch_warnings(), FakeTensorMode():
            warnings.simplefilter("ignore")
            model = build_model(architecture, recipe, torch.device("cpu"))
            optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
            tracker = MemTracker()
            tracker.track_external(model, optimizer)
            ids = torch.zeros(shape, dtype=torch.long)
            labels = ids[:, 0] if architecture.head == "classification" else ids
            with tracker:
                for step in range(4):
                    with torch.autocast("cpu", dtype=low, enabled=low is not None):
                        loss = model(input_ids=ids, labels=labels).loss
                    loss.backward()
                    del loss
                    tracker.reset_mod_stats()
                    if step % 2:
                        optimizer.step()
                        optimizer.zero_grad()
            found = tracker.get_tracker_snapshot("peak")
        return sum(kinds["Total"] for kinds in found.values())

    return peak


@pytest.mark.parametrize("name", COUNTED)
def test_what_torch_allocates_at_most_is_what_is_counted(counted, name):
    """All parts and buffers together: up to 15 % below torch's peak, up to 35 % above where logits outweigh all else.

    Without dropout, under which torch's attention on the processor is not the fused one.
    """
    family = name.partition(",")[0]
    changes = dict(COUNTED[name])
    head = changes.pop("head", None)
    positions = {} if family == "llama" else {"max_positions": 128}
    model = from_sizes(
        family, head=head, num_layers=4, hidden_size=256, num_heads=4, ffn_size=1024, vocab_size=2000, **positions
    )
    blocks = tuple(replace(stack, attention_dropout=0, hidden_dropout=0) for stack in model.stacks)
    model = replace(model, stacks=blocks, embedding_dropout=0)
    recipe = Recipe(**{"batch_size": 8, "seq_len": 128, "steps": 1, "precision": "fp32", **changes})
    memory = device_memory(step_cost(model, recipe, attention="full", head="counted"), Layout())
    ratio = (memory.total_bytes + memory.buffers_bytes) / counted(model, recipe)
    assert 0.85 < ratio < 1.35, f"{ratio:.3f}"


@pytest.mark.parametrize("name", ["bert-base-sst2", "llama2-7b-fsdp", "llama2-7b-lora"])
def test_the_examples_fit_with_what_a_framework_reserves(name):
    """A run that is shipped to be copied starts on its own device, with a tenth of the memory left free."""
    spec = read_spec(EXAMPLES / f"{name}.toml")
    undivided = step_cost(spec.architecture, spec.recipe, attention="full", head="counted")
    memory = device_memory(undivided, spec.layout, micro_batches=spec.recipe.grad_accumulation)
    assert memory.reserved_bytes < 0.9 * spec.accelerator.memory_bytes
