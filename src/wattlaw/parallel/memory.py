"""What one device must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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


def device_memory(cost: StepCost, layout: Layout) -> DeviceMemory:
    """Divide the memory of a step over the devices of a layout.

    Tensor parallelism divides most weights and the activations inside of attention and MLP; sharding divides the
    optimizer's states and the gradients (stage 2) and the weights (stage 3) over the data-parallel ranks
    (Rajbhandari et al. 2020, arXiv 1910.02054, figure 1).

    Args:
        cost: of the undivided model.
        layout: over which devices it is divided.

    Returns:
        the memory of one device.
    """
    held = cost.divided_parameters / layout.tensor_parallel + (cost.parameters - cost.divided_parameters)
    share = held / cost.parameters
    shards = 1 + (layout.data_parallel - 1) * (layout.zero_stage >= 2)
    weight_shards = 1 + (layout.data_parallel - 1) * (layout.zero_stage == 3)
    return DeviceMemory(
        weights_bytes=cost.weights_bytes * share / weight_shards,
        gradients_bytes=cost.gradients_bytes * share / shards,
        optimizer_bytes=(cost.master_weights_bytes + cost.optimizer_states_bytes) * share / shards,
        activations_bytes=cost.divided_activations_bytes / layout.tensor_parallel
        + (cost.activations_bytes - cost.divided_activations_bytes),
        logits_bytes=cost.logits_bytes,
    )
