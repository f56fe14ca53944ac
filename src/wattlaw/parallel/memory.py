"""What one device must hold, and what a framework reserves for it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from wattlaw.parallel.layout import divided, larger, plainly, smaller

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.units import Quantity
    from wattlaw.workload.cost import StepCost


#: What lies between the allocator's blocks, as a share of what is allocated; declared. PyTorch's allocator loses
#: little on steps that are all alike; under recomputation, adapters and offloading 15 % on average were measured (Guo
#: et al. 2024, GMLake, arXiv 2401.08156), which is what a share left free is for.
FRAGMENTATION_FRACTION = 0.05
#: The driver's context, the libraries' workspaces and the buffers of their communicators; declared.
CONTEXT_BYTES = 2.0**30
#: Units of a sharded model that are whole at once: the block that computes and the one that is gathered ahead.
GATHERED_UNITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Bytes of one device by part.

    Attributes:
        weights_bytes: that the matrix products read.
        gradients_bytes: one per trained weight held.
        optimizer_bytes: master copies and moments.
        activations_bytes: kept from forward to backward.
        logits_bytes: output of the head and its softmax.
        buffers_bytes: what PyTorch holds besides: shards gathered ahead, buckets of gradients, casts of weights,
            gradients of the logits, states received. Megatron's contiguous buffers need less.
    """

    weights_bytes: Quantity
    gradients_bytes: Quantity
    optimizer_bytes: Quantity
    activations_bytes: Quantity
    logits_bytes: Quantity
    buffers_bytes: Quantity

    @property
    def total_bytes(self) -> Quantity:
        """All parts together but the buffers: the least that a device needs."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.logits_bytes
        )

    @property
    def reserved_bytes(self) -> Quantity:
        """What a framework takes from the device: all parts, what lies between its blocks, and its context."""
        return (1 + FRAGMENTATION_FRACTION) * (self.total_bytes + self.buffers_bytes) + CONTEXT_BYTES


def device_memory(cost: StepCost, layout: Layout, *, micro_batches: Quantity = 1) -> DeviceMemory:
    """Divide the memory of a step over the devices of a layout; of a pipeline, that of the stage that needs most.

    Tensor parallelism divides most weights and the activations inside of attention and MLP, sequence parallelism the
    other activations of a block too, and a divided vocabulary both ends of the model; a pipeline deals out the blocks,
    and holds the embeddings on its first stage and the head on its last. Context parallelism divides the activations,
    expert parallelism the experts. Sharding divides the optimizer's states (stage 1), the gradients (stage 2) and the
    weights (stage 3) over the ranks that hold the same (Rajbhandari et al. 2020, arXiv 1910.02054, figure 1). Frozen
    weights have neither gradients nor states. A copy of tied embeddings on the last stage is not counted.

    Args:
        cost: of the undivided model.
        layout: over which devices it is divided.
        micro_batches: per optimizer step; no more than these are in flight in a pipeline.

    Returns:
        the memory of one device.
    """
    alone = 1 * (layout.pipeline_parallel == 1)
    first = _stage_memory(
        cost, layout, has_embeddings=1, has_head=alone, in_flight=first_in_flight(layout, micro_batches)
    )
    last = _stage_memory(cost, layout, has_embeddings=alone, has_head=1, in_flight=1)
    fuller = last.reserved_bytes > first.reserved_bytes
    chosen = {}
    for field in fields(DeviceMemory):
        of_first, of_last = getattr(first, field.name), getattr(last, field.name)
        chosen[field.name] = of_first + (of_last - of_first) * fuller
    return DeviceMemory(**chosen)


def first_in_flight(layout: Layout, micro_batches: Quantity) -> Quantity:
    """Micro-batches whose activations the first stage of a pipeline keeps at once.

    One forward, one backward: as many as there are stages p (Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1);
    interleaved over v runs of blocks (p - 1) / v more (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.3).
    """
    stages, runs = layout.pipeline_parallel, layout.pipeline_interleaving
    return smaller(stages + (runs > 1) * (stages - 1) / runs, micro_batches)


def _stage_memory(
    cost: StepCost, layout: Layout, *, has_embeddings: Quantity, has_head: Quantity, in_flight: Quantity
) -> DeviceMemory:
    """The memory of one device of one stage."""
    tensor, stages = layout.tensor_parallel, layout.pipeline_parallel
    ends_divisor = 1 + layout.vocabulary_parallel * (tensor - 1)
    held, ends = _held(
        layout,
        has_embeddings=has_embeddings,
        has_head=has_head,
        embedding=cost.embedding_parameters,
        head=cost.head_parameters,
        in_parts=cost.divided_parameters,
        experts=cost.expert_parameters,
        parameters=cost.parameters,
    )
    share = trained_share = held / cost.parameters
    experts = trained_experts = _dealt_out(layout, cost.expert_parameters) / cost.parameters
    if not plainly(cost.frozen_parameters, 0):
        held_trained, _ = _held(
            layout,
            has_embeddings=has_embeddings,
            has_head=has_head,
            embedding=cost.embedding_parameters - cost.frozen_embedding_parameters,
            head=cost.head_parameters - cost.frozen_head_parameters,
            in_parts=cost.divided_parameters - cost.frozen_divided_parameters,
            experts=cost.expert_parameters - cost.frozen_expert_parameters,
            parameters=cost.trained_parameters,
        )
        trained_share = held_trained / cost.trained_parameters
        trained_experts = (
            _dealt_out(layout, cost.expert_parameters - cost.frozen_expert_parameters) / cost.trained_parameters
        )
    repeated_bytes = cost.activations_bytes - cost.divided_activations_bytes
    repeated_divisor = 1 + layout.sequence_parallel * (tensor - 1)
    activations_bytes = cost.divided_activations_bytes / tensor + repeated_bytes / repeated_divisor
    weights_bytes = cost.weights_bytes * share
    gradients_bytes = cost.gradients_bytes * trained_share
    block_share = (held - ends) * stages / cost.num_layers / held
    logits_bytes = divided(has_head * cost.logits_bytes / ends_divisor, layout.context_parallel)
    return DeviceMemory(
        weights_bytes=cost.weights_bytes * sharded(layout, share, experts, shards=layout.weight_shards),
        gradients_bytes=cost.gradients_bytes
        * sharded(layout, trained_share, trained_experts, shards=layout.gradient_shards),
        optimizer_bytes=(cost.master_weights_bytes + cost.optimizer_states_bytes)
        * sharded(layout, trained_share, trained_experts, shards=layout.state_shards),
        activations_bytes=divided(activations_bytes * in_flight / stages, layout.context_parallel),
        logits_bytes=logits_bytes,
        buffers_bytes=logits_bytes
        + _buffers_bytes(
            cost,
            layout,
            weights_bytes=weights_bytes,
            gradients_bytes=gradients_bytes,
            casts_bytes=cost.master_weights_bytes * trained_share / 2,
            gathered_share=smaller(ends / held + GATHERED_UNITS * block_share, 1),
        ),
    )


def sharded(layout: Layout, held: Quantity, experts: Quantity, *, shards: Quantity) -> Quantity:
    """Divide what a device computes with over the ranks that shard it.

    Expert-parallel ranks hold different experts: only every e-th rank has the same ones to share.

    Args:
        layout: over which devices the model is divided.
        held: numbers or bytes that a device computes with.
        experts: of these, the ones in experts.
        shards: ranks that hold the rest in common.

    Returns:
        what one rank keeps.
    """
    if plainly(layout.expert_parallel, 1):
        return held / shards
    return (held - experts) / shards + experts * layout.expert_parallel / larger(shards, layout.expert_parallel)


def _dealt_out(layout: Layout, experts: Quantity) -> Quantity:
    """Numbers of experts that one device computes with."""
    return divided(experts / (layout.tensor_parallel * layout.pipeline_parallel), layout.expert_parallel)


def _held(
    layout: Layout,
    *,
    has_embeddings: Quantity,
    has_head: Quantity,
    embedding: Quantity,
    head: Quantity,
    in_parts: Quantity,
    experts: Quantity,
    parameters: Quantity,
) -> tuple[Quantity, Quantity]:
    """Numbers that one device of one stage computes with, all of them and those outside of the blocks."""
    ends = has_embeddings * embedding + has_head * head
    ends = ends / (1 + layout.vocabulary_parallel * (layout.tensor_parallel - 1))
    repeated = parameters - embedding - head - in_parts
    whole = (in_parts / layout.tensor_parallel + repeated) / layout.pipeline_parallel + ends
    elsewhere = 0 if plainly(layout.expert_parallel, 1) else _dealt_out(layout, experts) * (layout.expert_parallel - 1)
    return whole - elsewhere, ends


def _buffers_bytes(
    cost: StepCost,
    layout: Layout,
    *,
    weights_bytes: Quantity,
    gradients_bytes: Quantity,
    casts_bytes: Quantity,
    gathered_share: Quantity,
) -> Quantity:
    """What PyTorch holds beside the parts that any framework needs.

    FSDP gathers the weights outside of the blocks, the block that computes and the next one, and holds as much of
    whole gradients before they are scattered. DDP copies all gradients into the buckets that it reduces
    (``gradient_as_bucket_view`` is off by default). Without sharding, autocast keeps a 16-bit cast of every trained
    weight until the backward pass is through; FSDP casts what it gathers. The backward pass of the loss starts while
    all activations are still kept, and holds as much as the logits take again. A stage receives one state and one
    gradient, and sequence parallelism gathers one state.
    """
    scattered = layout.gradient_shards > 1
    replicated = (1 - 1 * scattered) * (layout.replicas > 1)
    gathered_bytes = (layout.weight_shards > 1) * weights_bytes + scattered * gradients_bytes
    received = 2 * (layout.pipeline_parallel > 1) / layout.tensor_parallel + layout.sequence_parallel * (
        layout.tensor_parallel > 1
    )
    return (
        gathered_share * gathered_bytes
        + replicated * gradients_bytes
        + (1 - 1 * scattered) * casts_bytes
        + divided(received * cost.boundary_bytes, layout.context_parallel)
    )
