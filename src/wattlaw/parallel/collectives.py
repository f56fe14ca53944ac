"""What devices say to each other in a step: how many collectives, and how many bytes each device sends.

Volumes are those of ring algorithms (Patarasuk and Yuan 2009, J. Parallel Distrib. Comput. 69): among n ranks a
gather or a scatter of M bytes sends M (n - 1) / n per rank, and an all-reduce, which is one of each, twice that.
Where k of the ranks stand in each of several nodes, the library lays k rings, each through another port, so that one
port to the network carries the k-th part of a rank's bytes (what NCCL does with one port per device).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wattlaw.parallel.layout import divided, plainly

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Architecture, Stack
    from wattlaw.workload.operation import Operation
    from wattlaw.workload.recipe import Recipe, Software


def ring_bytes(message_bytes: Quantity, num_ranks: Quantity) -> Quantity:
    """Bytes that each rank sends to gather or to scatter a message: M (n - 1) / n, nothing for one rank."""
    return message_bytes * (num_ranks - 1) / num_ranks


#: What reads the encoder's output, and has a gradient of its size reduced.
_READING_SOURCE = "cross_attention.key_value"
#: Outside of the blocks, what a divided vocabulary asks an all-reduce for: the looked-up embeddings forward, and the
#: gradient of the last hidden state backward.
_WITH_VOCABULARY = ("embeddings.lookup", "head.projection")


def all_reduces_by_operation(stack: Stack, software: Software = "eager") -> Mapping[str, tuple[Quantity, Quantity]]:
    """All-reduces of one block and micro-step under tensor parallelism: forward and backward, by who asks for them.

    One after the attention and one after the MLP in the forward pass, and in the backward pass one for each product
    that reads the undivided hidden state: queries, keys and values apart are three, fused they are one, a gate is one
    more. Megatron's four (Narayanan et al. 2021, arXiv 2104.04473, section 3.2) are the fused case; with PyTorch's
    ``parallelize_module`` BERT makes six and Llama seven; fused software (Megatron-Core) four of any. A block with
    cross-attention makes one more forward and one more backward for its query, and two of the encoder's output, for its
    keys and values.
    """
    eager, cross = software == "eager", stack.cross_attention
    return {
        "attention.qkv": (0, 3 - 2 * stack.fused_qkv if eager else 1),
        "attention.output": (1, 0),
        "cross_attention.query": (0, cross),
        _READING_SOURCE: (0, 2 * cross),
        "cross_attention.output": (cross, 0),
        "mlp.up": (0, 1 + stack.gated if eager else 1),
        "mlp.down": (1, 0),
    }


def all_reduces_of(operation: Operation, architecture: Architecture, recipe: Recipe, layout: Layout) -> Quantity:
    """All-reduces that one execution of an operation asks for, with those that full recomputation repeats."""
    if not operation.in_block:
        return layout.vocabulary_parallel * (operation.name in _WITH_VOCABULARY)
    by_operation = all_reduces_by_operation(architecture.stacks[operation.stack], recipe.software)
    forward, backward = by_operation.get(operation.name, (0, 0))
    return forward * (1 + (recipe.checkpointing == "full")) + backward


def all_reduces_per_layer(stack: Stack, software: Software = "eager") -> Quantity:
    """All-reduces of one block and micro-step, of all its operations together."""
    return sum(forward + backward for forward, backward in all_reduces_by_operation(stack, software).values())


def forward_all_reduces_per_layer(stack: Stack) -> Quantity:
    """Of these, those of the forward pass, which full recomputation of activations repeats."""
    return sum(forward for forward, _ in all_reduces_by_operation(stack).values())


def gathers_per_layer(stack: Stack) -> Quantity:
    """Gathers of one block and micro-step that sequence parallelism adds to the two halves of its all-reduces.

    A product that reads the gathered hidden state keeps its own part of it only, and gathers it again for the gradient
    of its weights (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2): the projections of queries, keys and
    values, the MLP, and the query of a cross-attention. Frozen weights need none.
    """
    return 2 + stack.cross_attention


def adapter_messages(recipe: Recipe, layout: Layout) -> Quantity:
    """Messages of one block and micro-step that low-rank adapters add under sequence parallelism, in hidden states.

    An adapter beside a product that reads the gathered state gathers it for itself and scatters its gradient; one
    beside a product whose result is scattered exchanges its own, already divided, for its part of the tokens
    (Megatron's ``ParallelLinearAdapter``).
    """
    reading, writing = {"query-value": (1, 0), "attention": (1, 1), "all-linear": (2, 2)}[recipe.adapter_targets]
    return 2 * reading + 2 * writing / layout.tensor_parallel


def _state_reductions(stack: Stack, software: Software) -> Quantity:
    """All-reduces of one block that have the size of its own hidden state."""
    return all_reduces_per_layer(stack, software) - _source_reductions(stack)


def _source_reductions(stack: Stack) -> Quantity:
    """All-reduces of one block that have the size of the encoder's output."""
    return sum(all_reduces_by_operation(stack)[_READING_SOURCE])


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """What one device sends, and in how many collectives it takes part.

    Attributes:
        shard_bytes: of weights gathered and gradients scattered per micro-step, where they are sharded.
        unshard_bytes: copied into and out of the flat shards around these collectives, per micro-step.
        shard_collectives: of these, per micro-step.
        gradient_bytes: of gradients all-reduced per optimizer step where they are not sharded; where only the
            optimizer's states are, of gradients scattered and updated weights gathered.
        gradient_collectives: of these, per optimizer step.
        tensor_bytes: of activations all-reduced per micro-step under tensor parallelism, in one stage.
        tensor_collectives: of these, per micro-step, in the blocks.
        tensor_hops: steps from rank to rank around the rings of these collectives, per micro-step.
        stage_bytes: of activations and their gradients sent to other stages of a pipeline, per micro-step.
        stage_messages: of these, per micro-step.
        context_bytes: of keys, values and their gradients passed around the ring of context parallelism, per
            micro-step.
        expert_bytes: of tokens sent to the experts and back under expert parallelism, per micro-step, that stay within
            the node.
        expert_collectives: exchanges of all with all that this takes.
        shard_port_bytes: of ``shard_bytes``, what one port to the network carries; 0 within one node.
        gradient_port_bytes: the same of ``gradient_bytes``.
        tensor_port_bytes: the same of ``tensor_bytes``.
        stage_port_bytes: the same of ``stage_bytes``.
        context_port_bytes: the same of ``context_bytes``.
        expert_port_bytes: of tokens sent to experts and back, what leaves the node.
    """

    shard_bytes: Quantity
    unshard_bytes: Quantity
    shard_collectives: Quantity
    gradient_bytes: Quantity
    gradient_collectives: Quantity
    tensor_bytes: Quantity
    tensor_collectives: Quantity
    tensor_hops: Quantity
    stage_bytes: Quantity
    stage_messages: Quantity
    context_bytes: Quantity
    expert_bytes: Quantity
    expert_collectives: Quantity
    shard_port_bytes: Quantity
    gradient_port_bytes: Quantity
    tensor_port_bytes: Quantity
    stage_port_bytes: Quantity
    context_port_bytes: Quantity
    expert_port_bytes: Quantity


#: DDP all-reduces gradients in buckets of 25 MiB (PyTorch's default ``bucket_cap_mb``).
BUCKET_BYTES = 25 * 2**20


def communication(
    architecture: Architecture,
    recipe: Recipe,
    layout: Layout,
    *,
    weights_bytes: Quantity,
    gradients_bytes: Quantity,
    expert_weights_bytes: Quantity = 0.0,
    expert_gradients_bytes: Quantity = 0.0,
    updated_fraction: float = 1.0,
) -> Communication:
    """Count the collectives of a layout.

    Args:
        architecture: the model.
        recipe: its training; activations have the size of its precision.
        layout: over which devices it is divided.
        weights_bytes: weights that a device computes with, before sharding.
        gradients_bytes: gradients of what is trained of them, as large as they are sent.
        expert_weights_bytes: of the weights, those of experts, which only every e-th rank holds in common.
        expert_gradients_bytes: of the gradients, those of experts.
        updated_fraction: size of an updated weight over that of its gradient.

    Returns:
        the communication of one device.
    """
    weights_ring_bytes = _ring_bytes(weights_bytes, expert_weights_bytes, layout)
    gradients_ring_bytes = weights_ring_bytes
    if gradients_bytes is not weights_bytes:
        gradients_ring_bytes = _ring_bytes(gradients_bytes, expert_gradients_bytes, layout)
    shard_bytes = _shard_bytes(weights_ring_bytes, gradients_ring_bytes, layout)
    gradient_bytes = _gradient_bytes(gradients_ring_bytes, layout, updated_fraction=updated_fraction)
    sharded, several = _sharded(layout), 1 * (layout.replicas > 1)
    units = divided(architecture.num_layers, layout.pipeline_parallel) + 1  # one unit per block and one for the rest
    own = of_one_context(recipe, layout)
    tensor_bytes = _tensor_bytes(architecture, own, layout)
    tensor_collectives = _tensor_collectives(architecture, own, layout)
    stage_bytes = _stage_bytes(architecture, own, layout)
    return Communication(
        shard_bytes=shard_bytes,
        unshard_bytes=sharded * several * (_gathers(layout) * weights_bytes + gradients_bytes),
        shard_collectives=sharded * several * (_gathers(layout) + 1) * units,
        gradient_bytes=gradient_bytes,
        gradient_collectives=(1 - sharded) * several * (1 + gradients_bytes / BUCKET_BYTES),
        tensor_bytes=tensor_bytes,
        tensor_collectives=tensor_collectives,
        tensor_hops=tensor_collectives * 2 * (layout.tensor_parallel - 1),
        stage_bytes=stage_bytes,
        stage_messages=2 * layout.pipeline_interleaving * (layout.pipeline_parallel > 1),
        **_around_context(architecture, recipe, layout),
        **_to_experts(architecture, own, layout),
        **_through_ports(
            layout,
            shard_bytes=shard_bytes,
            gradient_bytes=gradient_bytes,
            tensor_bytes=tensor_bytes,
            stage_bytes=stage_bytes,
        ),
    )


def _sharded(layout: Layout) -> Quantity:
    """1 where gradients are sharded, so that they are scattered after every micro-step."""
    return 1 * (layout.zero_stage >= 2)


def _gathers(layout: Layout) -> Quantity:
    """How often weights are gathered in a micro-step, where they are."""
    return 1 + (layout.zero_stage == 3)


def _shard_bytes(weights_ring_bytes: Quantity, gradients_ring_bytes: Quantity, layout: Layout) -> Quantity:
    """What shards take per micro-step.

    Weights sharded in full are gathered for the forward and again for the backward pass, with ``fsdp-grad-op`` once,
    and gradients are scattered after every micro-step (Rajbhandari et al. 2020, arXiv 1910.02054, section 7; FSDP
    without ``no_sync``).
    """
    return _sharded(layout) * (_gathers(layout) * weights_ring_bytes + gradients_ring_bytes)


def _gradient_bytes(gradients_ring_bytes: Quantity, layout: Layout, *, updated_fraction: float) -> Quantity:
    """What weights that are not sharded take per optimizer step.

    One all-reduce of the gradients (DDP with ``no_sync`` while gradients accumulate), or with sharded optimizer states
    a scatter of the gradients and a gather of the updated weights.
    """
    back_bytes = gradients_ring_bytes
    if not plainly(layout.zero_stage, 0) and updated_fraction != 1:
        back_bytes = back_bytes * (1 + (layout.zero_stage == 1) * (updated_fraction - 1))
    return (1 - _sharded(layout)) * (gradients_ring_bytes + back_bytes)


def of_one_context(recipe: Recipe, layout: Layout) -> Recipe:
    """The recipe of one of the devices that divide a sequence: it computes as much as a c-th of the sequences takes.

    Where causal masks leave early tokens less to do, the parts are dealt out so that each device gets both (Brandon et
    al. 2023, arXiv 2311.09431).
    """
    if plainly(layout.context_parallel, 1):
        return recipe
    return replace(recipe, batch_size=recipe.batch_size / layout.context_parallel)


def _through_ports(
    layout: Layout, *, shard_bytes: Quantity, gradient_bytes: Quantity, tensor_bytes: Quantity, stage_bytes: Quantity
) -> dict[str, Quantity]:
    """What of the bytes of a device one port to the network carries; nothing where there is one node."""
    if plainly(layout.num_nodes, 1):
        return dict.fromkeys(("shard_port_bytes", "gradient_port_bytes", "tensor_port_bytes", "stage_port_bytes"), 0.0)
    ranks, in_node = layout.replicas, layout.replicas_per_node
    return {
        "shard_port_bytes": port_bytes(shard_bytes, ranks, in_node),
        "gradient_port_bytes": port_bytes(gradient_bytes, ranks, in_node),
        "tensor_port_bytes": port_bytes(tensor_bytes, layout.tensor_parallel, layout.tensor_ranks_per_node),
        # No ring: every device sends to one other through its own port.
        "stage_port_bytes": stage_bytes * (layout.pipeline_parallel > layout.stages_per_node),
    }


def port_bytes(sent_bytes: Quantity, num_ranks: Quantity, ranks_per_node: Quantity) -> Quantity:
    """Bytes of a rank's that one port to the network carries, with as many rings as ranks in a node.

    >>> port_bytes(8.0, num_ranks=16, ranks_per_node=4), port_bytes(8.0, num_ranks=4, ranks_per_node=4)
    (2.0, 0.0)
    """
    return (num_ranks > ranks_per_node) * sent_bytes / ranks_per_node


def _tensor_bytes(architecture: Architecture, recipe: Recipe, layout: Layout) -> Quantity:
    """Bytes that one device sends per micro-step under tensor parallelism, in the blocks of its stage and outside."""
    if plainly(layout.tensor_parallel, 1):
        return 0.0
    again = recipe.checkpointing == "full"
    trained = 1 if plainly(recipe.adapter_rank, 0) else 1 * (recipe.adapter_rank == 0)
    adapters = 0 if plainly(trained, 1) else layout.sequence_parallel * (1 - trained) * adapter_messages(recipe, layout)
    tokens: Quantity = 0
    if not plainly(layout.vocabulary_parallel, 0):
        ends = len(_WITH_VOCABULARY)
        tokens = 2 * ends * layout.vocabulary_parallel * _length(architecture, recipe, architecture.stacks[-1])
    for stack in architecture.stacks:
        reductions = _state_reductions(stack, recipe.software) + again * forward_all_reduces_per_layer(stack)
        gathers = layout.sequence_parallel * trained * gathers_per_layer(stack)
        own = (2 * reductions + gathers + adapters) * _length(architecture, recipe, stack)
        source = 2 * _source_reductions(stack) * recipe.computed_len
        tokens = tokens + (own + source) * divided(stack.num_layers, layout.pipeline_parallel)
    return ring_bytes(_token_bytes(architecture, recipe) * recipe.batch_size * tokens, layout.tensor_parallel)


def _tensor_collectives(architecture: Architecture, recipe: Recipe, layout: Layout) -> Quantity:
    """All-reduces of one stage's blocks per micro-step; none without tensor parallelism."""
    again = recipe.checkpointing == "full"
    all_reduces = sum(
        (all_reduces_per_layer(stack, recipe.software) + again * forward_all_reduces_per_layer(stack))
        * stack.num_layers
        for stack in architecture.stacks
    )
    return divided(all_reduces, layout.pipeline_parallel) * (layout.tensor_parallel > 1)


def _stage_bytes(architecture: Architecture, recipe: Recipe, layout: Layout) -> Quantity:
    """Bytes that one device sends to other stages per micro-step: the state forward, its gradient backward.

    Each run of blocks has a border to the next. Every tensor-parallel rank sends its part of the state, which the next
    stage gathers over the link within its node (Narayanan et al. 2021, arXiv 2104.04473, sections 2.2 and 4.1;
    DeepSpeed's pipeline partitions what it sends, too).
    """
    if plainly(layout.pipeline_parallel, 1):
        return 0.0
    length = _length(architecture, recipe, architecture.stacks[-1])
    state_bytes = _token_bytes(architecture, recipe) * recipe.batch_size * length
    return 2 * layout.pipeline_interleaving * (layout.pipeline_parallel > 1) * state_bytes / layout.tensor_parallel


def _around_context(architecture: Architecture, recipe: Recipe, layout: Layout) -> dict[str, Quantity]:
    """Keys and values that each device passes on, c - 1 times its own part, of blocks of one stage.

    They go around once in the forward pass and, in the backward pass, once more with their gradients (Liu et al. 2023,
    arXiv 2310.01889, section 3), besides what recomputation repeats. A ring crosses the border of a node in one place.
    """
    ranks = layout.context_parallel
    if plainly(ranks, 1):
        return {"context_bytes": 0.0, "context_port_bytes": 0.0}
    rounds = 3 + (recipe.checkpointing == "full")
    numbers: Quantity = 0
    for stack in architecture.stacks:
        keys = 2 * stack.num_kv_heads * stack.head_size * _length(architecture, recipe, stack)
        numbers = numbers + keys * divided(stack.num_layers, layout.pipeline_parallel)
    element_bytes = _token_bytes(architecture, recipe) / architecture.hidden_size
    of_all_bytes = rounds * element_bytes * recipe.batch_size * numbers / layout.tensor_parallel
    sent_bytes = ring_bytes(of_all_bytes, ranks)
    return {
        "context_bytes": sent_bytes,
        "context_port_bytes": sent_bytes * (ranks > layout.context_ranks_per_node),
    }


def _to_experts(architecture: Architecture, recipe: Recipe, layout: Layout) -> dict[str, Quantity]:
    """Exchanges of all ranks with all: each token goes to its k experts and comes back, forward and backward.

    With experts dealt out evenly to e ranks, a rank sends to each other rank an e-th of its tokens' copies (Lepikhin et
    al. 2020, arXiv 2006.16668, section 3.2). Those for another node leave through its own port. Tensor-parallel ranks
    send a t-th each.
    """
    ranks = layout.expert_parallel
    if plainly(ranks, 1):
        return dict.fromkeys(("expert_bytes", "expert_port_bytes", "expert_collectives"), 0.0)
    exchanges = 4 + 2 * (recipe.checkpointing == "full")
    copies: Quantity = 0
    blocks: Quantity = 0
    for stack in architecture.stacks:
        routed = divided(stack.num_layers, layout.pipeline_parallel) * (stack.num_experts > 1)
        copies = copies + routed * stack.experts_per_token * _length(architecture, recipe, stack)
        blocks = blocks + routed
    tokens = recipe.batch_size * copies / layout.tensor_parallel
    each_bytes = exchanges * _token_bytes(architecture, recipe) * tokens / ranks
    near = layout.expert_ranks_per_node
    return {
        "expert_bytes": each_bytes * (near - 1),
        "expert_port_bytes": each_bytes * (ranks - near),
        "expert_collectives": exchanges * blocks * (ranks > 1),
    }


def _ring_bytes(all_bytes: Quantity, expert_bytes: Quantity, layout: Layout) -> Quantity:
    """Bytes that a rank sends to gather or scatter what it holds in common with others, with fewer for experts."""
    if plainly(layout.expert_parallel, 1):
        return ring_bytes(all_bytes, layout.replicas)
    others = layout.replicas / layout.expert_parallel
    return ring_bytes(all_bytes - expert_bytes, layout.replicas) + ring_bytes(expert_bytes, others)


def _token_bytes(architecture: Architecture, recipe: Recipe) -> Quantity:
    """Size of the hidden state of one token."""
    return (4 if recipe.precision in ("fp32", "tf32") else 2) * architecture.hidden_size


def _length(architecture: Architecture, recipe: Recipe, stack: Stack) -> Quantity:
    """Tokens per sequence in one stack."""
    decodes = stack.role == "decoder" and architecture.is_encoder_decoder
    return recipe.decoder_len if decodes else recipe.computed_len
