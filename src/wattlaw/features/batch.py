"""Runs that differ in numbers only, as one run whose numbers are columns.

The arithmetic of ``workload`` and ``parallel`` serves numbers and columns alike, so a million runs cost as many
calls as one. What is not a number (the family, the precision, the optimizer) is the same within a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError
from wattlaw.parallel.layout import Layout
from wattlaw.run.spec import RunSpec
from wattlaw.units import Quantity, every
from wattlaw.workload import Architecture, Recipe, Stack

if TYPE_CHECKING:
    from wattlaw.hardware import Accelerator, NodeType

#: What all but the devices draws where they hold the host themselves; 0 would mean that nothing is said of it.
NO_HOST_W = 1e-9
Value = TypeVar("Value", Stack, Architecture, Recipe, Layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The figures of data sheets that a law reads; each a number or a column.

    Attributes:
        peak_flop_per_s: dense rate of matrix products in the run's precision.
        unquantised_flop_per_s: of those that an fp8 recipe leaves in 16 bits; the peak of any other precision.
        bandwidth_bytes_per_s: of the device's memory.
        power_limit_w: the board's own limit.
        power_cap_w: the limit that is set for the run, the board's own where none below it is.
        link_bytes_per_s: in one direction, to the neighbours in the same node.
        network_bytes_per_s: in one direction, of the port to other nodes; the link's where there is one node.
        node_host_w: what all but the devices of a node draw, as its type declares; 0 where the law's own host counts.
    """

    peak_flop_per_s: Quantity
    unquantised_flop_per_s: Quantity
    bandwidth_bytes_per_s: Quantity
    power_limit_w: Quantity
    power_cap_w: Quantity
    link_bytes_per_s: Quantity
    network_bytes_per_s: Quantity
    node_host_w: Quantity = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One run, or many that differ in numbers only."""

    architecture: Architecture
    recipe: Recipe
    layout: Layout
    devices: Devices


def devices_of(spec: RunSpec) -> Devices:
    """Look up what a law reads of one run's hardware.

    Raises:
        ConfigError: several nodes, and none named whose network could be looked up.
    """
    device, node = spec.accelerator, spec.node
    link_bytes_per_s = (device.link if node is None else node.link_of(device)).bytes_per_s
    network_bytes_per_s = link_bytes_per_s
    if not every(spec.layout.num_nodes == 1):
        if node is None:
            raise ConfigError(
                "several nodes need a node type, whose network says how fast they talk",
                given=f"{spec.layout.num_nodes} nodes",
                hint="--node dgx-a100, or any of `wattlaw hardware list`",
            )
        network_bytes_per_s = node.inter_node_link.bytes_per_s
    precision, limit_w = spec.recipe.precision, device.power_limit_w
    sixteen_bits = [peak.precision for peak in device.peaks if peak.precision in ("bf16", "fp16")]
    unquantised = sixteen_bits[0] if precision == "fp8" and sixteen_bits else precision
    return Devices(
        peak_flop_per_s=device.peak_flop_per_s(precision),
        unquantised_flop_per_s=device.peak_flop_per_s(unquantised),
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s,
        power_limit_w=limit_w,
        power_cap_w=limit_w if spec.power_limit_w is None else min(limit_w, spec.power_limit_w),
        link_bytes_per_s=link_bytes_per_s,
        network_bytes_per_s=network_bytes_per_s,
        node_host_w=_host_power_w(device, node),
    )


def _host_power_w(device: Accelerator, node: NodeType | None) -> float:
    if node is not None:
        return node.host_power_w
    return NO_HOST_W if device.includes_host else 0.0


def batches(specs: Sequence[RunSpec]) -> Iterator[tuple[NDArray[np.intp], Batch]]:
    """Gather the specs that differ in numbers only; yield their positions and their batch."""
    shapes: dict[Any, list[int]] = {}
    for position, spec in enumerate(specs):
        shapes.setdefault(_shape(spec), []).append(position)
    for positions in shapes.values():
        chosen = [specs[position] for position in positions]
        devices = [devices_of(spec) for spec in chosen]
        yield (
            np.array(positions),
            Batch(
                architecture=_merged([spec.architecture for spec in chosen]),
                recipe=_merged([spec.recipe for spec in chosen]),
                layout=_merged([spec.layout for spec in chosen]),
                devices=Devices(
                    **{field.name: _column([getattr(one, field.name) for one in devices]) for field in fields(Devices)}
                ),
            ),
        )


def _shape(spec: RunSpec) -> tuple[Any, ...]:
    """Everything of a spec that is not a number."""
    model, recipe = spec.architecture, spec.recipe
    names = tuple(
        None if value is None else value if isinstance(value, str) else True
        for value in (getattr(recipe, field.name) for field in fields(recipe))
    )
    return (model.head, tuple(stack.role for stack in model.stacks), names)


def _merged(values: Sequence[Value]) -> Value:
    """Build the value whose numbers are the columns of the ``values``' numbers."""
    first = values[0]
    columns: dict[str, Any] = {}
    for field in fields(first):
        column = [getattr(value, field.name) for value in values]
        if isinstance(column[0], tuple):
            columns[field.name] = tuple(_merged(parts) for parts in zip(*column, strict=True))
        elif column[0] is None or isinstance(column[0], str):
            columns[field.name] = column[0]
        else:
            columns[field.name] = _column(column)
    return type(first)(**columns)


def _column(numbers: Sequence[float]) -> Quantity:
    """A column of the numbers, or the number itself where they are all the same: it need not be repeated."""
    first = numbers[0]
    if all(number == first for number in numbers):
        return float(first)
    return np.array(numbers, dtype=np.float64)
