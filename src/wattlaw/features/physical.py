"""The columns of the step law: what one device computes, moves and says in a step, and how many steps there are.

All work is per device, after the layout has divided it: tensor parallelism divides most operations of a block,
pipeline parallelism the blocks, data parallelism the sequences, sharding the optimizer's update. Of a pipeline, the
columns are those of the last stage, which holds the head and is the slowest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.features.batch import Batch, batches
from wattlaw.features.table import Table
from wattlaw.parallel.collectives import communication
from wattlaw.parallel.layout import divided, plainly
from wattlaw.run.amount import schedule
from wattlaw.workload import operations
from wattlaw.workload.attention import AttentionConvention
from wattlaw.workload.cost import WEIGHT_BYTES
from wattlaw.workload.optimizer import UPDATES

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.run.spec import RunSpec
    from wattlaw.units import Quantity
    from wattlaw.workload import Operation


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

    ``block_flop``, ``block_traffic_bytes`` and ``block_kernels`` are of all Transformer blocks of a stage in one
    micro-step; ``head_*`` is everything outside of the blocks. A fused attention kernel skips what the causal mask
    leaves out, an eager one computes it, so the kernel decides the convention.
    """
    recipe, layout = batch.recipe, batch.layout
    convention: AttentionConvention = "causal" if recipe.attention_kernel == "fused" else "full"
    work = operations(batch.architecture, recipe, attention=convention, head="counted")
    parts: dict[str, list[Quantity]] = {name: [] for name in WORK}
    for same in _alike(work):
        one = same[0]
        place = "block" if one.in_block else "head"
        repeats = divided(one.repeats, layout.pipeline_parallel) if one.in_block else one.repeats
        share = divided(repeats, work_divisor(one, layout))
        for name, repeated, names in (
            ("flop", share, FLOP),
            ("traffic_bytes", share, BYTES),
            ("kernels", repeats, KERNELS),
        ):
            parts[f"{place}_{name}"].append(_times(repeated, _total(getattr(each, n) for each in same for n in names)))
        held = repeats if keeps_weights(one) else share
        parts["weights"].append(_times(held, _total(each.weights for each in same)))
        parts["weight_tensors"].append(_times(repeats, _total(each.tensors for each in same)))
    columns = {name: _total(values) for name, values in parts.items()}
    columns |= _communicated(batch, columns["weights"])
    columns |= _updated(batch, columns["weights"])
    columns |= _scheduled(batch)
    return columns | {
        "num_layers": batch.architecture.num_layers,
        "num_devices": layout.num_devices,
        "num_nodes": layout.num_nodes,
        "pipeline_parallel": layout.pipeline_parallel,
        "peak_flop_per_s": batch.devices.peak_flop_per_s,
        "bandwidth_bytes_per_s": batch.devices.bandwidth_bytes_per_s,
        "link_bytes_per_s": batch.devices.link_bytes_per_s,
        "network_bytes_per_s": batch.devices.network_bytes_per_s,
        "power_limit_w": batch.devices.power_limit_w,
    }


#: Columns that are sums over operations.
WORK = (
    "block_flop",
    "head_flop",
    "block_traffic_bytes",
    "head_traffic_bytes",
    "block_kernels",
    "head_kernels",
    "weights",
    "weight_tensors",
)
#: What is added up for a column of work: forward and backward pass, and what is computed again.
FLOP = ("forward_flop", "backward_input_flop", "backward_weight_flop", "recompute_flop")
BYTES = ("forward_bytes", "backward_bytes", "recompute_bytes")
KERNELS = ("forward_kernels", "backward_kernels", "recompute_kernels")


def _alike(work: tuple[Operation, ...]) -> list[list[Operation]]:
    """Put operations together that are executed and divided alike, so that their sum is multiplied once."""
    groups: dict[tuple[int, bool, bool], list[Operation]] = {}
    for operation in work:
        key = (operation.stack, operation.in_block, operation.tensor_parallel_divided)
        groups.setdefault(key, []).append(operation)
    return list(groups.values())


def _total(values: Iterable[Quantity]) -> Quantity:
    """Add up, without a pass over a column for a plain zero."""
    found: Quantity = 0.0
    for value in values:
        if not plainly(value, 0):
            found = value if plainly(found, 0) else found + value
    return found


def _times(factor: Quantity, quantity: Quantity) -> Quantity:
    """Multiply; by a plain 1 without a pass over a column."""
    return quantity if plainly(factor, 1) else factor * quantity


def work_divisor(operation: Operation, layout: Layout) -> Quantity:
    """Over how many tensor-parallel devices one operation is divided.

    Sequence parallelism divides what tensor parallelism alone repeats on every device of a block; a divided vocabulary
    takes its look-up, last projection and loss with it.
    """
    if operation.tensor_parallel_divided:
        return layout.tensor_parallel
    flag = layout.sequence_parallel if operation.in_block else layout.vocabulary_parallel
    return 1 if plainly(flag, 0) else 1 + flag * (layout.tensor_parallel - 1)


def keeps_weights(operation: Operation) -> bool:
    """Tell whether every tensor-parallel device holds an operation's weights, as of norms, whatever is divided."""
    return operation.in_block and not operation.tensor_parallel_divided


def _communicated(batch: Batch, weights: Quantity) -> dict[str, Quantity]:
    weights_bytes = WEIGHT_BYTES[batch.recipe.precision] * weights
    said = communication(
        batch.architecture,
        batch.recipe,
        batch.layout,
        weights_bytes=weights_bytes,
        gradients_bytes=weights_bytes,
    )
    return {name: getattr(said, name) for name in said.__slots__}


def _updated(batch: Batch, weights: Quantity) -> dict[str, Quantity]:
    """The optimizer's traffic: weights and states read and written, gradients read, in fp32, by the shard's owner."""
    state_bytes = UPDATES[batch.recipe.optimizer].states_bytes
    return {"optimizer_traffic_bytes": (12 + 2 * state_bytes) * weights / batch.layout.state_shards}


def _scheduled(batch: Batch) -> dict[str, Quantity]:
    """Count the steps of a run.

    The bubble of a pipeline of p stages with v runs of blocks in each is, per update, the time of (p - 1) / v
    micro-steps of one stage (Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2).
    """
    amount = schedule(batch.recipe, batch.layout)
    bubble = divided(batch.layout.pipeline_parallel - 1, batch.layout.pipeline_interleaving)
    epochs = 1.0 if batch.recipe.epochs is None else batch.recipe.epochs
    return {
        "micro_steps": amount.micro_steps,
        "bubble_micro_steps": amount.optimizer_steps * bubble,
        "optimizer_steps": amount.optimizer_steps * (batch.recipe.optimizer != "none"),
        "evaluation_micro_steps": amount.evaluation_micro_steps,
        "num_epochs": epochs,
    }
