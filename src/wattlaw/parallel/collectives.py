"""What devices say to each other in a step: how many collectives, and how many bytes each device sends.

Volumes are those of ring algorithms (Patarasuk and Yuan 2009, J. Parallel Distrib. Comput. 69): among n ranks a
gather or a scatter of M bytes sends M (n - 1) / n per rank, and an all-reduce, which is one of each, twice that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Architecture, Stack
    from wattlaw.workload.recipe import Recipe


def ring_bytes(message_bytes: Quantity, num_ranks: Quantity) -> Quantity:
    """Bytes that each rank sends to gather or to scatter a message: M (n - 1) / n, nothing for one rank."""
    return message_bytes * (num_ranks - 1) / num_ranks


def all_reduces_per_layer(stack: Stack) -> Quantity:
    """All-reduces of one block and micro-step under tensor parallelism.

    One after the attention and one after the MLP in the forward pass, and in the backward pass one for each product
    that reads the undivided hidden state: queries, keys and values apart are three, fused they are one, a gate is one
    more. Megatron's four (Narayanan et al. 2021, arXiv 2104.04473, section 3.2) are the fused case; with PyTorch's
    ``parallelize_module`` BERT makes six and Llama seven. A block with cross-attention makes one more forward and one
    more backward for its query, and two of the encoder's output, for its keys and values.
    """
    return _state_reductions(stack) + _source_reductions(stack)


def _state_reductions(stack: Stack) -> Quantity:
    """All-reduces of one block that have the size of its own hidden state."""
    backward = (3 - 2 * stack.fused_qkv) + (1 + stack.gated)
    return 2 + backward + 2 * stack.cross_attention


def _source_reductions(stack: Stack) -> Quantity:
    """All-reduces of one block that have the size of the encoder's output."""
    return 2 * stack.cross_attention


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """What one device sends, and in how many collectives it takes part.

    Attributes:
        shard_bytes: of weights gathered and gradients scattered per micro-step, where they are sharded.
        shard_collectives: of these, per micro-step.
        gradient_bytes: of gradients all-reduced (or scattered) per optimizer step, where weights are not sharded.
        gradient_collectives: of these, per optimizer step.
        tensor_bytes: of activations all-reduced per micro-step under tensor parallelism.
        tensor_collectives: of these, per micro-step.
    """

    shard_bytes: Quantity
    shard_collectives: Quantity
    gradient_bytes: Quantity
    gradient_collectives: Quantity
    tensor_bytes: Quantity
    tensor_collectives: Quantity


#: DDP all-reduces gradients in buckets of 25 MiB (PyTorch's default ``bucket_cap_mb``).
BUCKET_BYTES = 25 * 2**20


def communication(
    architecture: Architecture, recipe: Recipe, layout: Layout, *, weights_bytes: Quantity, gradients_bytes: Quantity
) -> Communication:
    """Count the collectives of a layout.

    Weights sharded in full are gathered for the forward and again for the backward pass, with
    ``fsdp-grad-op`` once, and gradients are scattered after every micro-step (Rajbhandari et al. 2020, arXiv
    1910.02054, section 7; FSDP without ``no_sync``). Replicated weights need one all-reduce of the gradients per
    optimizer step (DDP with ``no_sync`` while gradients accumulate).

    Args:
        architecture: the model.
        recipe: its training; activations have the size of its precision.
        layout: over which devices it is divided.
        weights_bytes: weights that a device computes with, after tensor parallelism and before sharding.
        gradients_bytes: their gradients.

    Returns:
        the communication of one device.
    """
    ranks, tensor = layout.data_parallel, layout.tensor_parallel
    sharded = 1 * (layout.zero_stage >= 2)
    gathers = 1 + (layout.zero_stage == 3)
    several = 1 * (ranks > 1)
    units = architecture.num_layers + 1  # one unit per block and one for the rest
    element_bytes = 4 if recipe.precision in ("fp32", "tf32") else 2
    tensor_bytes: Quantity = 0.0
    tensor_collectives: Quantity = 0.0
    for stack in architecture.stacks:
        decodes = stack.role == "decoder" and architecture.is_encoder_decoder
        length = recipe.decoder_len if decodes else recipe.computed_len
        tokens = _state_reductions(stack) * length + _source_reductions(stack) * recipe.computed_len
        reduced_bytes = element_bytes * recipe.batch_size * architecture.hidden_size * tokens * stack.num_layers
        tensor_collectives = tensor_collectives + all_reduces_per_layer(stack) * stack.num_layers * (tensor > 1)
        tensor_bytes = tensor_bytes + 2 * ring_bytes(reduced_bytes, tensor)
    return Communication(
        shard_bytes=sharded * (gathers * ring_bytes(weights_bytes, ranks) + ring_bytes(gradients_bytes, ranks)),
        shard_collectives=sharded * several * (gathers + 1) * units,
        gradient_bytes=(1 - sharded) * 2 * ring_bytes(gradients_bytes, ranks),
        gradient_collectives=(1 - sharded) * several * (1 + gradients_bytes / BUCKET_BYTES),
        tensor_bytes=tensor_bytes,
        tensor_collectives=tensor_collectives,
    )
