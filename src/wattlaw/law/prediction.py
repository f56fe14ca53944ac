"""From run specs and a calibration to predictions with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import DataError
from wattlaw.features.counts import count_columns
from wattlaw.features.paper import COMPUTE_DEFINITIONS, paper_columns
from wattlaw.features.physical import physical_columns, within
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration, Estimate, MachineCalibration
from wattlaw.law.interval import Interval, ends_of_runs, is_cold, outside_columns, require_level
from wattlaw.law.laws import law_named
from wattlaw.law.roofline import least_durations_s, least_energies_j
from wattlaw.parallel.memory import DeviceMemory
from wattlaw.run.spec import SETTABLE_SHARE, RunSpec, check_fits
from wattlaw.units import BYTES_PER_GIB

if TYPE_CHECKING:
    from wattlaw.hardware import Accelerator


#: Devices in the largest machine of a known kind.
LARGEST_NODE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a run is expected to take.

    Attributes:
        energy_j: energy within the ``boundary``.
        duration_s: wall-clock time of the run; ``None`` where the law says nothing about time.
        power_w: mean power, the middle energy over the middle duration.
        boundary: what the energy includes: ``accelerators``, ``node`` or ``facility``.
        terms_j: named parts that sum to ``energy_j.mid``.
        terms_s: named parts that sum to ``duration_s.mid``.
        calibration: the law and where its parameters come from.
        cold: nothing was measured on the target machine.
        energy_cold: no energy was measured on it, though times may have been.
        num_runs: how many runs the fit saw on hosts with this accelerator, by strategy; empty where that is not known.
        in_domain: the machine, its strategy and every column are such as the calibration saw.
        outside: the columns that are not.
        warnings: doubts, one line each.
    """

    energy_j: Interval
    duration_s: Interval | None
    power_w: float | None
    boundary: str
    terms_j: Mapping[str, float]
    terms_s: Mapping[str, float]
    calibration: str
    cold: bool
    energy_cold: bool
    num_runs: Mapping[str, int]
    in_domain: bool
    outside: tuple[str, ...]
    warnings: tuple[str, ...]


def predict(specs: Sequence[RunSpec], calibration: Calibration, *, level: float = 0.95) -> tuple[Prediction, ...]:
    """Predict each run, with an interval that holds the measured value for a share ``level`` of such runs.

    Raises:
        ConfigError: the level, or a run that does not fit into a device's memory.
        DataError: the calibration cannot say anything about a run, or not how sure it is.
    """
    require_level(level)
    if not specs:
        return ()
    memory = [check_fits(spec) for spec in specs]
    law = law_named(calibration.law)
    table = columns_of(specs, calibration)
    covered = law.covers(calibration, table)
    if not covered.all():
        row = int(np.flatnonzero(~covered)[0])
        raise DataError(
            f"this calibration of the {law.name} law knows nothing of such a run",
            given=f"strategy {specs[row].layout.strategy}",
            hint="the step law, or a fit to records that have it",
        )
    estimate = law.estimate(calibration, table)
    return tuple(_predictions(specs, memory, table, calibration, estimate, level))


def columns_of(specs: Sequence[RunSpec], calibration: Calibration) -> Table:
    """Return the columns that the calibration's law reads.

    Raises:
        DataError: the law reads the proxy of compute, and the calibration does not say by which definition.
    """
    read = law_named(calibration.law).columns
    if "compute_proxy" not in read:
        table = within(calibration.boundary, physical_columns(specs))
        return table.with_columns(**count_columns(specs).columns) if "trained_tokens" in read else table
    for definition in COMPUTE_DEFINITIONS:
        if calibration.options.get("compute") == definition:
            return paper_columns(specs, compute=definition)
    raise DataError(
        "the calibration does not say how its compute is counted",
        given=calibration.options.get("compute", "nothing"),
        allowed=", ".join(COMPUTE_DEFINITIONS),
        hint="fitting the law again",
    )


def host_doubt(has_node: Sequence[bool], boundary: str) -> str | None:
    """Say so where energies that are set beside one another hold different hosts.

    Args:
        has_node: of each run, whether its node type is named.
        boundary: of the energies.
    """
    if boundary == "accelerators" or all(has_node) or not any(has_node):
        return None
    return (
        "energies are not of the same kind: where a node type is named its own host counts, elsewhere the few tens of "
        "watts of the runs that the law was fitted to; name node types for all or for none"
    )


def _predictions(
    specs: Sequence[RunSpec],
    memory: Sequence[DeviceMemory],
    table: Table,
    calibration: Calibration,
    estimate: Estimate,
    level: float,
) -> Iterator[Prediction]:
    cold = is_cold(calibration, table)
    columns = outside_columns(calibration, table)
    least_j = least_s = np.zeros(len(specs))
    if "block_flop" in table:
        least_s = least_durations_s(table)
        least_j = least_energies_j(estimate, least_s)
    ends = ends_of_runs(calibration, table, target="energy", level=level)
    energy = _intervals(estimate.energy_j, ends, least_j, level)
    duration = None
    if estimate.duration_s is not None:
        ends = ends_of_runs(calibration, table, target="duration", level=level)
        duration = _intervals(estimate.duration_s, ends, least_s, level)
    for row, spec in enumerate(specs):
        time = None if duration is None else duration[row]
        own = calibration.machines.get(spec.accelerator.name)
        num_runs = {} if own is None else own.num_runs
        outside = columns[row]
        if num_runs and spec.layout.strategy not in num_runs:
            outside = (*outside, "strategy")
        yield Prediction(
            energy_j=energy[row],
            duration_s=time,
            power_w=None if time is None else energy[row].mid / time.mid,
            boundary=calibration.boundary,
            terms_j={name: float(values[row]) for name, values in estimate.terms_j.items()},
            terms_s={name: float(values[row]) for name, values in estimate.terms_s.items()},
            calibration=f"{calibration.law}: {calibration.provenance.get('source', 'unknown source')}",
            cold=bool(cold[row]),
            energy_cold=bool(cold[row]) or _times_alone(own),
            num_runs=num_runs,
            in_domain=not cold[row] and not outside,
            outside=outside,
            warnings=tuple(_warnings(spec, memory[row], calibration, cold=bool(cold[row]), outside=outside)),
        )


def _intervals(
    middle: NDArray[np.float64],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    least: NDArray[np.float64],
    level: float,
) -> list[Interval]:
    low, high = (middle * np.exp(end) for end in ends)
    low = np.minimum(np.maximum(low, least), middle)
    return [
        Interval(low=float(below), mid=float(mid), high=float(above), level=level)
        for below, mid, above in zip(low, middle, high, strict=True)
    ]


def _warnings(
    spec: RunSpec, memory: DeviceMemory, calibration: Calibration, *, cold: bool, outside: tuple[str, ...]
) -> Iterator[str]:
    if memory.reserved_bytes > spec.accelerator.memory_bytes:
        needed, held = (size / BYTES_PER_GIB for size in (memory.reserved_bytes, spec.accelerator.memory_bytes))
        yield f"may not fit: about {needed:.3g} of {held:.3g} GiB per device with what a framework reserves"
    own = calibration.machines.get(spec.accelerator.name)
    if _times_alone(own):
        yield f"the energy is cold: times alone were measured on hosts with {spec.accelerator.name}"
    if spec.node is None and spec.layout.devices_per_node > LARGEST_NODE:
        yield (
            f"{spec.layout.devices_per_node:g} devices in one machine, and none of a known kind holds more than "
            f"{LARGEST_NODE}: no network between machines is counted; num_nodes and a node type say what joins them"
        )
    if spec.power_limit_w is not None:
        yield from _cap_warnings(spec.power_limit_w, spec.accelerator)
    if cold:
        name = spec.accelerator.name
        yield f"cold: nothing was measured on hosts with {name}; a few runs and `wattlaw fit` narrow this"
    if "strategy" in outside:
        yield (
            f"none of the runs on hosts with {spec.accelerator.name} was {spec.layout.strategy}: "
            "what it adds is known from other machines"
        )
    columns = [name for name in outside if name != "strategy"]
    if columns:
        yield f"outside of the range that the calibration saw: {', '.join(columns)}"
    yield from calibration.warnings


def _times_alone(own: MachineCalibration | None) -> bool:
    """Tell whether what is known of a machine says nothing of its energy: no run's, and no power that a probe read."""
    if own is None or own.residuals.energy:
        return False
    return not any(anchor.parameter == "active_fraction" for anchor in own.anchors)


def _cap_warnings(cap_w: float, device: Accelerator) -> Iterator[str]:
    """Say of a power cap that no board keeps it, or that it changes nothing."""
    own_w = device.power_limit_w
    if cap_w < SETTABLE_SHARE * own_w:
        least = f"{SETTABLE_SHARE:.0%} of its own {own_w:g} W"
        yield f"a cap of {cap_w:g} W cannot be set on a {device.name} board: below {least}, and more than it is drawn"
    elif cap_w > own_w:
        yield f"a cap of {cap_w:g} W is above the {own_w:g} W of a {device.name} board, and changes nothing"
