"""What one device must hold."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from wattlaw.parallel.layout import smaller

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.units import Quantity
    from wattlaw.workload.cost import StepCost


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Bytes of one device by part; what a framework adds (context, fragmentation) is not in it.

    Attributes:
        weights_bytes: that the matrix products read.
        gradients_bytes: one per weight held.
        optimizer_bytes: master copies and moments.
        activations_bytes: kept from forward to backward.
        logits_bytes: output of the head and its softmax.
    """

    weights_bytes: Quantity
    gradients_bytes: Quantity
    optimizer_bytes: Quantity
    activations_bytes: Quantity
    logits_bytes: Quantity

    @property
    def total_bytes(self) -> Quantity:
        """All parts together: the least that a device needs."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.logits_bytes
        )


def device_memory(cost: StepCost, layout: Layout, *, micro_batches: Quantity = 1) -> DeviceMemory:
    """Divide the memory of a step over the devices of a layout; of a pipeline, that of the stage that needs most.

    Tensor parallelism divides most weights and the activations inside of attention and MLP, sequence parallelism the
    other activations of a block too, and a divided vocabulary both ends of the model; a pipeline deals out the blocks,
    and holds the embeddings on its first stage and the head on its last. Sharding divides the optimizer's states and
    the gradients (stage 2) and the weights (stage 3) over the data-parallel ranks (Rajbhandari et al. 2020, arXiv
    1910.02054, figure 1). A copy of tied embeddings on the last stage is not counted.

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
    fuller = last.total_bytes > first.total_bytes
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
    ends = has_embeddings * cost.embedding_parameters + has_head * cost.head_parameters
    repeated = cost.parameters - cost.embedding_parameters - cost.head_parameters - cost.divided_parameters
    held = (cost.divided_parameters / tensor + repeated) / stages + ends / ends_divisor
    share = held / cost.parameters
    repeated_bytes = cost.activations_bytes - cost.divided_activations_bytes
    repeated_divisor = 1 + layout.sequence_parallel * (tensor - 1)
    activations_bytes = cost.divided_activations_bytes / tensor + repeated_bytes / repeated_divisor
    return DeviceMemory(
        weights_bytes=cost.weights_bytes * share / layout.weight_shards,
        gradients_bytes=cost.gradients_bytes * share / layout.state_shards,
        optimizer_bytes=(cost.master_weights_bytes + cost.optimizer_states_bytes) * share / layout.state_shards,
        activations_bytes=activations_bytes * in_flight / stages,
        logits_bytes=has_head * cost.logits_bytes / ends_divisor,
    )
