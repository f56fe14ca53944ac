"""The columns of the step law: what one device computes, moves and says in a step, and how many steps there are.

All work is per device, after the layout has divided it: tensor parallelism divides most operations of a block,
data parallelism the sequences, sharding the optimizer's update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.features.batch import Batch, batches
from wattlaw.features.table import Table
from wattlaw.parallel.collectives import communication
from wattlaw.run.amount import schedule
from wattlaw.workload import operations
from wattlaw.workload.attention import AttentionConvention
from wattlaw.workload.cost import WEIGHT_BYTES
from wattlaw.workload.optimizer import UPDATES

if TYPE_CHECKING:
    from wattlaw.run.spec import RunSpec
    from wattlaw.units import Quantity


def physical_columns(specs: Sequence[RunSpec]) -> Table:
    """Return the columns that the step law reads, one row per run.

    Raises:
        ConfigError: a spec that the layout or the data sheets cannot serve.
    """
    columns: dict[str, NDArray[np.float64]] = {}
    for positions, batch in batches(specs):
        for name, values in physical(batch).items():
            columns.setdefault(name, np.zeros(len(specs)))[positions] = values
    return Table({**columns, "machine": np.array([spec.accelerator.name for spec in specs])})


def physical(batch: Batch) -> Mapping[str, Quantity]:
    """Compute the columns of one batch; a column that is the same for all runs may be one number.

    ``block_flop``, ``block_traffic_bytes`` and ``block_kernels`` are of all Transformer blocks in one micro-step;
    ``head_*`` is everything outside of the blocks. A fused attention kernel skips what the causal mask leaves out,
    an eager one computes it, so the kernel decides the convention.
    """
    recipe, layout = batch.recipe, batch.layout
    convention: AttentionConvention = "causal" if recipe.attention_kernel == "fused" else "full"
    work = operations(batch.architecture, recipe, attention=convention, head="counted")
    columns: dict[str, Quantity] = dict.fromkeys(
        ("block_flop", "head_flop", "block_traffic_bytes", "head_traffic_bytes", "block_kernels", "head_kernels"), 0.0
    )
    weights: Quantity = 0.0
    tensors: Quantity = 0.0
    for operation in work:
        place = "block" if operation.in_block else "head"
        share = operation.repeats / layout.tensor_parallel if operation.tensor_parallel_divided else operation.repeats
        flop = operation.forward_flop + operation.backward_flop + operation.recompute_flop
        moved = operation.forward_bytes + operation.backward_bytes + operation.recompute_bytes
        launched = operation.forward_kernels + operation.backward_kernels + operation.recompute_kernels
        columns[f"{place}_flop"] = columns[f"{place}_flop"] + share * flop
        columns[f"{place}_traffic_bytes"] = columns[f"{place}_traffic_bytes"] + share * moved
        columns[f"{place}_kernels"] = columns[f"{place}_kernels"] + operation.repeats * launched
        weights = weights + share * operation.weights
        tensors = tensors + operation.repeats * operation.tensors
    columns["weights"] = weights
    columns |= _communicated(batch, weights)
    columns |= _updated(batch, weights, tensors)
    columns |= _scheduled(batch)
    return columns | {
        "num_layers": batch.architecture.num_layers,
        "num_devices": layout.num_devices,
        "num_nodes": layout.num_nodes,
        "peak_flop_per_s": batch.devices.peak_flop_per_s,
        "bandwidth_bytes_per_s": batch.devices.bandwidth_bytes_per_s,
        "link_bytes_per_s": batch.devices.link_bytes_per_s,
        "power_limit_w": batch.devices.power_limit_w,
    }


def _communicated(batch: Batch, weights: Quantity) -> dict[str, Quantity]:
    element_bytes = WEIGHT_BYTES[batch.recipe.precision]
    said = communication(
        batch.architecture,
        batch.recipe,
        batch.layout,
        weights_bytes=element_bytes * weights,
        gradients_bytes=element_bytes * weights,
    )
    return {name: getattr(said, name) for name in said.__slots__}


def _updated(batch: Batch, weights: Quantity, tensors: Quantity) -> dict[str, Quantity]:
    """The optimizer's traffic: weights and states read and written, gradients read, in fp32, by the shard's owner."""
    layout = batch.layout
    shards = 1 + (layout.data_parallel - 1) * (layout.zero_stage >= 2)
    state_bytes = UPDATES[batch.recipe.optimizer].states_bytes
    return {"optimizer_traffic_bytes": (12 + 2 * state_bytes) * weights / shards, "weight_tensors": tensors}


def _scheduled(batch: Batch) -> dict[str, Quantity]:
    amount = schedule(batch.recipe, batch.layout)
    epochs = 1.0 if batch.recipe.epochs is None else batch.recipe.epochs
    return {
        "micro_steps": amount.micro_steps,
        "optimizer_steps": amount.optimizer_steps,
        "evaluation_micro_steps": amount.evaluation_micro_steps,
        "num_epochs": epochs,
    }
