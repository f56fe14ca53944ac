"""What devices say to each other: worked volumes of rings, counts per plan, limits."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.parallel.collectives import (
    BUCKET_BYTES,
    Communication,
    adapter_messages,
    all_reduces_per_layer,
    communication,
    forward_all_reduces_per_layer,
    gathers_per_layer,
    port_bytes,
    ring_bytes,
)
from wattlaw.parallel.layout import Layout
from wattlaw.workload import Recipe, preset

#: Trainable numbers of bert-base-uncased: vocabulary, 512 positions, 2 segments; per layer 12 d^2 + 13 d; pooler.
BERT_BASE = (30522 + 512 + 2) * 768 + 2 * 768 + 12 * (12 * 768**2 + 13 * 768) + 768**2 + 768
BERT = preset("bert-base-uncased", head="classification")


LAYOUTS = [
    Layout.of("single"),
    Layout.of("ddp", num_devices=3),
    Layout.of("fsdp", num_devices=4),
    Layout.of("fsdp-grad-op", num_devices=6),
    Layout.of("tp", num_devices=2),
    Layout.of("fsdp x tp", num_devices=8, tensor_parallel=2),
    Layout.of("pp", num_devices=4),
    Layout(data_parallel=2, tensor_parallel=2, pipeline_parallel=4, pipeline_interleaving=3, num_nodes=2),
    Layout(tensor_parallel=8, sequence_parallel=1, vocabulary_parallel=1, num_nodes=4),
    Layout(data_parallel=32, zero_stage=3, num_nodes=4),
]


def said(layout, *, model=BERT, recipe=None, weights_bytes=8e8):
    """Count the collectives of a model whose 16-bit weights have so many bytes."""
    recipe = recipe or Recipe(batch_size=32, seq_len=128, precision="fp16", steps=1)
    return communication(model, recipe, layout, weights_bytes=weights_bytes, gradients_bytes=weights_bytes)


def test_keys_and_values_go_around_a_context():
    """Llama-2-7B, 4,096 tokens on four devices: 2 x 32 x 4,096 x 4,096 numbers of 2 bytes, three rounds of 3/4."""
    recipe = Recipe(batch_size=1, seq_len=4096, steps=1)
    model = preset("llama-2-7b")
    found = said(Layout.of("cp", num_devices=4), model=model, recipe=recipe)
    keys_and_values_bytes = 2 * 2 * 32 * 4096 * 4096
    assert found.context_bytes == 3 * keys_and_values_bytes * 3 / 4
    assert found.context_port_bytes == 0
    apart = said(Layout.of("cp", num_devices=4, num_nodes=2), model=model, recipe=recipe)
    assert apart.context_port_bytes == apart.context_bytes
    again = said(Layout.of("cp", num_devices=4), model=model, recipe=replace(recipe, checkpointing="full"))
    assert again.context_bytes == 4 / 3 * found.context_bytes
    divided = said(Layout(context_parallel=2, tensor_parallel=2), model=model, recipe=recipe)
    assert divided.context_bytes == 3 * keys_and_values_bytes / 2 / 2
    alone = said(Layout(tensor_parallel=2), model=model, recipe=recipe)
    assert divided.tensor_bytes == alone.tensor_bytes / 2


def test_tokens_travel_to_their_experts_and_back():
    """Mixtral, 2,048 tokens a rank, two experts each: 2 x 2,048 x 4,096 x 2 bytes, of which 7/8 leave, four times."""
    recipe = Recipe(batch_size=1, seq_len=2048, steps=1)
    model = preset("mixtral-8x7b")
    found = said(Layout.of("ep", num_devices=8), model=model, recipe=recipe)
    copies_bytes = 32 * 2 * 2048 * 4096 * 2
    assert found.expert_bytes == 4 * copies_bytes * 7 / 8
    assert found.expert_port_bytes == 0
    assert found.expert_collectives == 4 * 32
    apart = said(Layout.of("ep", num_devices=8, num_nodes=2), model=model, recipe=recipe)
    assert apart.expert_bytes == 4 * copies_bytes * 3 / 8
    assert apart.expert_port_bytes == 4 * copies_bytes * 4 / 8
    again = said(Layout.of("ep", num_devices=8), model=model, recipe=replace(recipe, checkpointing="full"))
    assert again.expert_bytes == 1.5 * found.expert_bytes
    halves = said(Layout(data_parallel=4, expert_parallel=4, context_parallel=2), model=model, recipe=recipe)
    assert halves.expert_bytes == 4 * copies_bytes / 2 * 3 / 4
    assert said(Layout.of("ddp", num_devices=8), model=model, recipe=recipe).expert_bytes == 0


def test_experts_are_reduced_among_those_that_hold_the_same():
    """Eight ranks, four of them with experts of their own: 7/8 of the dense gradients, 1/2 of the experts'."""
    model, layout = preset("mixtral-8x7b"), Layout(data_parallel=8, expert_parallel=4)
    recipe = Recipe(batch_size=1, seq_len=128, steps=1)
    found = communication(
        model, recipe, layout, weights_bytes=9e9, gradients_bytes=9.0e9 * 1, expert_weights_bytes=8e9,
        expert_gradients_bytes=8e9,
    )  # fmt: skip
    assert found.gradient_bytes == pytest.approx(2 * (1e9 * 7 / 8 + 8e9 / 2), rel=1e-12)


def test_updated_weights_come_back_in_their_own_size():
    """Stage 1: fp32 gradients are scattered, 16-bit weights gathered; stage 0 reduces the gradients both ways."""
    recipe = Recipe(batch_size=1, seq_len=128, steps=1)
    sizes = {"weights_bytes": 2e9, "gradients_bytes": 4e9, "updated_fraction": 0.5}
    replicated, sharded = (
        communication(BERT, recipe, Layout(data_parallel=4, zero_stage=stage), **sizes) for stage in (0, 1)
    )
    assert replicated.gradient_bytes == 2 * 4e9 * 3 / 4
    assert sharded.gradient_bytes == (4e9 + 2e9) * 3 / 4
    assert sharded.gradient_collectives == replicated.gradient_collectives


def test_fused_software_reduces_four_times_and_a_frozen_base_gathers_less():
    """Four reductions are eight messages, of trained weights two more; adapters send their own."""
    (stack,) = preset("llama-2-7b").stacks
    assert (all_reduces_per_layer(stack), all_reduces_per_layer(stack, "fused")) == (7, 4)
    layout = Layout(tensor_parallel=4, sequence_parallel=1)
    recipe = Recipe(batch_size=1, seq_len=128, steps=1, software="fused")
    trained, frozen = (
        said(layout, model=preset("llama-2-7b"), recipe=replace(recipe, adapter_rank=rank)) for rank in (0, 8)
    )
    assert frozen.tensor_bytes / trained.tensor_bytes == pytest.approx((8 + 2 + 2 / 4) / (8 + 2), rel=1e-12)
    plain = replace(layout, sequence_parallel=0)
    without = [
        said(plain, model=preset("llama-2-7b"), recipe=replace(recipe, adapter_rank=rank)).tensor_bytes
        for rank in (0, 8)
    ]
    assert without[0] == without[1] == trained.tensor_bytes * 8 / 10


@pytest.mark.parametrize(("targets", "messages"), [("query-value", 2), ("attention", 2.5), ("all-linear", 5)])
def test_adapters_send_by_where_they_stand(targets, messages):
    """On four devices: two whole states per adapter that reads one, two quarters per adapter that writes one."""
    recipe = Recipe(batch_size=1, seq_len=128, steps=1, adapter_rank=8, adapter_targets=targets)
    assert adapter_messages(recipe, Layout(tensor_parallel=4)) == messages


def test_ring_volume_by_hand():
    """A gather of 100 bytes among 4 ranks sends 3 of its 4 quarters per rank."""
    assert ring_bytes(100, 4) == 75
    assert ring_bytes(np.array([100.0, 100.0]), np.array([1, 2])).tolist() == [0, 50]


@given(message=st.floats(0, 1e15), num_ranks=st.integers(1, 4096))
def test_a_ring_never_sends_the_whole_message(message, num_ranks):
    """The volume of a rank grows with the ranks towards the message itself, from nothing for one rank."""
    sent = ring_bytes(message, num_ranks)
    assert 0 <= sent <= message
    assert sent <= ring_bytes(message, num_ranks + 1) * (1 + 1e-12)
    assert ring_bytes(message, 1) == 0


def test_shard_bytes_of_bert_base_on_four_ranks():
    """Two gathers and a scatter of 219 MB (109.5 million weights of 2 bytes), three quarters of each per rank."""
    assert BERT_BASE == 109_482_240
    found = said(Layout.of("fsdp", num_devices=4), weights_bytes=2 * BERT_BASE)
    assert found.shard_bytes == 3 * 2 * BERT_BASE * 3 / 4 == 492_670_080
    assert found.unshard_bytes == 3 * 2 * BERT_BASE  # all of each, whatever the number of ranks
    assert found.shard_collectives == 3 * (12 + 1)  # twelve blocks and the rest of the model, each its own unit
    assert (found.gradient_bytes, found.gradient_collectives) == (0, 0)
    assert (found.tensor_bytes, found.tensor_collectives) == (0, 0)


def test_kept_weights_are_gathered_once():
    """``fsdp-grad-op`` gathers for the forward pass only: two thirds of full sharding."""
    full, kept = (said(Layout.of(name, num_devices=4)) for name in ("fsdp", "fsdp-grad-op"))
    assert kept.shard_bytes == pytest.approx(full.shard_bytes * 2 / 3, rel=1e-15)
    assert kept.shard_collectives == full.shard_collectives * 2 / 3
    assert kept.unshard_bytes == pytest.approx(full.unshard_bytes * 2 / 3, rel=1e-15)


def test_replicas_all_reduce_their_gradients():
    """An all-reduce is a scatter and a gather, in buckets of 25 MiB; nothing else is sent."""
    found = said(Layout.of("ddp", num_devices=4), weights_bytes=4 * BUCKET_BYTES)
    assert found.gradient_bytes == 2 * 4 * BUCKET_BYTES * 3 / 4
    assert found.gradient_collectives == 5
    assert (found.shard_bytes, found.shard_collectives, found.tensor_bytes, found.tensor_collectives) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "count"), [("bert-base-uncased", 6), ("llama-2-7b", 7), ("gpt2", 4), ("roberta-large", 6), ("qwen3-8b", 7)]
)
def test_all_reduces_per_layer(name, count):
    """Two forward, and backward one per product that reads the undivided state: q, k, v (or one), up (and gate)."""
    assert all_reduces_per_layer(preset(name).stacks[0]) == count


def test_cross_attention_reduces_for_each_of_its_products():
    """A decoder of T5: 6 of its own, one more forward, and backward for query, key and value."""
    encoder, decoder = preset("t5-base").stacks
    assert all_reduces_per_layer(encoder) == 6
    assert all_reduces_per_layer(decoder) == 10


@pytest.mark.parametrize(("precision", "element_bytes"), [("fp32", 4), ("tf32", 4), ("fp16", 2), ("bf16", 2)])
def test_tensor_bytes_of_bert_base_by_hand(precision, element_bytes):
    """Six all-reduces of B S d numbers in each of 12 blocks, 2 (t - 1) / t of each sent."""
    recipe = Recipe(batch_size=32, seq_len=128, padded_len=40.0, precision=precision, steps=1)
    found = said(Layout.of("tp", num_devices=4), recipe=recipe)
    assert found.tensor_bytes == 12 * 6 * (2 * 3 / 4) * element_bytes * 32 * 40 * 768
    assert found.tensor_collectives == 12 * 6
    assert (found.shard_bytes, found.gradient_bytes, found.gradient_collectives) == (0, 0, 0)


def test_an_encoder_decoder_reduces_each_side_at_its_length():
    """T5-small on two devices: 6 all-reduces of 100 tokens; 8 of 10 tokens and, for keys and values, 2 of 100."""
    recipe = Recipe(batch_size=1, seq_len=100, target_len=10, precision="fp16", steps=1)
    found = said(Layout.of("tp", num_devices=2), model=preset("t5-small"), recipe=recipe)
    assert found.tensor_bytes == 6 * 2 * 512 * (6 * 100 + 8 * 10 + 2 * 100)
    assert found.tensor_collectives == 6 * (6 + 10)


def test_a_product_says_what_its_axes_say():
    """Under ``fsdp x tp`` shards go among the data-parallel ranks, activations among the tensor-parallel ones."""
    both = said(Layout.of("fsdp x tp", num_devices=8, tensor_parallel=4))
    assert both.shard_bytes == said(Layout.of("fsdp", num_devices=2)).shard_bytes
    assert both.tensor_bytes == said(Layout.of("tp", num_devices=4)).tensor_bytes
    replicas = said(Layout.of("ddp x tp", num_devices=8, tensor_parallel=4))
    assert replicas.gradient_bytes == said(Layout.of("ddp", num_devices=2)).gradient_bytes
    assert replicas.shard_bytes == 0


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp", "fsdp-grad-op", "tp"])
def test_one_device_says_nothing(strategy):
    """No bytes and no collectives under any strategy."""
    found = said(Layout.of(strategy, num_devices=1))
    assert {field.name: getattr(found, field.name) for field in fields(Communication)} == {
        field.name: 0 for field in fields(Communication)
    }


def test_full_recomputation_reduces_the_forward_pass_again():
    """Two all-reduces of a block's six are of its forward pass: eight with full recomputation, six with selective."""
    recipe = Recipe(batch_size=32, seq_len=128, precision="fp16", steps=1)
    layout = Layout.of("tp", num_devices=4)
    none, selective, full = (
        said(layout, recipe=replace(recipe, checkpointing=how)) for how in ("none", "selective", "full")
    )
    assert forward_all_reduces_per_layer(BERT.stacks[0]) == 2
    assert selective == none
    assert full.tensor_collectives == 12 * 8
    assert full.tensor_bytes == pytest.approx(none.tensor_bytes * 8 / 6, rel=1e-12)


def test_sequence_parallelism_gathers_twice_more_per_block():
    """Korthikanti et al. 2022, 4.2.2: on top of four all-reduces (8 halves), 2 gathers of B S d in GPT's block."""
    gpt = preset("gpt2")
    recipe = Recipe(batch_size=2, seq_len=1024, precision="fp16", steps=1)
    tensor, sequence = (
        said(Layout(tensor_parallel=4, sequence_parallel=flag), model=gpt, recipe=recipe) for flag in (0, 1)
    )
    assert gathers_per_layer(gpt.stacks[0]) == 2
    state_bytes = 2 * 2 * 1024 * 768
    assert tensor.tensor_bytes == 12 * 8 * state_bytes * 3 / 4
    assert sequence.tensor_bytes == 12 * (8 + 2) * state_bytes * 3 / 4
    assert sequence.tensor_collectives == tensor.tensor_collectives  # what the host issues is counted by all-reduce


def test_a_divided_vocabulary_reduces_at_both_ends():
    """The looked-up embeddings forward, the gradient of the last state backward: two all-reduces more of B S d."""
    whole, divided = (said(Layout(tensor_parallel=4, vocabulary_parallel=flag)) for flag in (0, 1))
    assert divided.tensor_bytes - whole.tensor_bytes == 2 * (2 * 3 / 4) * 2 * 32 * 128 * 768


@pytest.mark.parametrize(("degree", "hops"), [(1, 0), (2, 2), (4, 6), (8, 14)])
def test_an_all_reduce_goes_around_its_ring_twice(degree, hops):
    """2 (t - 1) steps from rank to rank, for each of the 72 all-reduces of BERT-base."""
    assert said(Layout(tensor_parallel=degree)).tensor_hops == 72 * hops


@pytest.mark.parametrize(("stages", "runs", "tensor"), [(1, 1, 2), (2, 1, 1), (4, 1, 1), (4, 3, 1), (4, 1, 2)])
def test_stages_pass_the_state_and_its_gradient(stages, runs, tensor):
    """2 v messages of B S d numbers (2 bytes each) per micro-step, divided by t: Narayanan et al. 2021, 4.1."""
    layout = Layout(pipeline_parallel=stages, pipeline_interleaving=runs, tensor_parallel=tensor)
    found = said(layout)
    piped = stages > 1
    assert found.stage_bytes == piped * 2 * runs * 2 * 32 * 128 * 768 / tensor
    assert found.stage_messages == piped * 2 * runs


def test_a_stage_has_its_own_blocks_to_talk_about():
    """Four stages of three blocks: a quarter of the all-reduces; shard units of three blocks and one for the rest."""
    tensor, piped = (said(Layout(tensor_parallel=2, pipeline_parallel=stages)) for stages in (1, 4))
    assert (piped.tensor_bytes, piped.tensor_collectives) == (tensor.tensor_bytes / 4, tensor.tensor_collectives / 4)
    assert said(Layout(data_parallel=2, pipeline_parallel=4, zero_stage=3)).shard_collectives == 3 * (3 + 1)


def test_port_bytes_by_hand():
    """16 ranks in nodes of 8 lay 8 rings: each port carries an eighth; within a node nothing leaves."""
    assert port_bytes(80.0, num_ranks=16, ranks_per_node=8) == 10
    assert port_bytes(80.0, num_ranks=8, ranks_per_node=8) == 0
    assert port_bytes(80.0, num_ranks=4, ranks_per_node=1) == 80
    assert port_bytes(np.array([8.0, 8.0]), np.array([4, 4]), np.array([4, 2])).tolist() == [0, 4]


@pytest.mark.parametrize(
    ("layout", "shares"),
    [
        # Tensor first, then data, then pipeline: 8 tensor-parallel devices fill a node of eight.
        (Layout(tensor_parallel=8, data_parallel=4, num_nodes=4), {"tensor": 0, "gradient": 1, "stage": 0}),
        (Layout(tensor_parallel=2, data_parallel=16, num_nodes=4), {"tensor": 0, "gradient": 1 / 4, "stage": 0}),
        (Layout(tensor_parallel=16, num_nodes=2), {"tensor": 1 / 8, "gradient": 0, "stage": 0}),
        (Layout(data_parallel=8, pipeline_parallel=2, num_nodes=2), {"tensor": 0, "gradient": 0, "stage": 1}),
        (Layout(data_parallel=16, zero_stage=3, num_nodes=2), {"shard": 1 / 8, "gradient": 0}),
        (Layout(data_parallel=4, pipeline_parallel=2, tensor_parallel=2), {"tensor": 0, "gradient": 0, "stage": 0}),
    ],
)
def test_what_leaves_a_node_goes_through_its_ports(layout, shares):
    """Of the bytes of each axis, what one port of eight carries."""
    found = said(layout)
    for axis, share in shares.items():
        sent, through = getattr(found, f"{axis}_bytes"), getattr(found, f"{axis}_port_bytes")
        assert through == pytest.approx(share * sent, rel=1e-12), axis
        assert sent > 0 or share == 0


@given(scale=st.integers(2, 50))
def test_volumes_scale_with_what_is_sent(scale):
    """Shards with the weights and not the batch, activations with the batch and not the weights."""
    layout = Layout.of("fsdp x tp", num_devices=4, tensor_parallel=2)
    recipe = Recipe(batch_size=2, seq_len=16, steps=1)
    once = said(layout, recipe=recipe, weights_bytes=1e6)
    heavier = said(layout, recipe=recipe, weights_bytes=scale * 1e6)
    longer = said(layout, recipe=replace(recipe, batch_size=2 * scale), weights_bytes=1e6)
    assert (heavier.shard_bytes, heavier.tensor_bytes) == (scale * once.shard_bytes, once.tensor_bytes)
    assert (longer.shard_bytes, longer.tensor_bytes) == (once.shard_bytes, scale * once.tensor_bytes)


def test_columns_of_layouts_are_layouts_one_by_one():
    """Stages and degrees as columns give each run's own communication."""
    column = Layout(
        **{field.name: np.array([float(getattr(layout, field.name)) for layout in LAYOUTS]) for field in fields(Layout)}
    )
    together = said(column)
    for field in fields(Communication):
        alone = [getattr(said(layout), field.name) for layout in LAYOUTS]
        assert np.broadcast_to(getattr(together, field.name), len(LAYOUTS)).tolist() == alone
