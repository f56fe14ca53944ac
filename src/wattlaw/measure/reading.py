"""What a meter says about one window of time.

A :class:`Reading` lists one :class:`DeviceEnergy` per device or domain and never adds them up across boundaries.
What was not measured is ``None``; a sum in which one part is unknown is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from wattlaw.run.record import Boundary as RecordBoundary
from wattlaw.run.record import Method

#: Parts of a node that a meter tells apart and no record's boundary is: CPU packages, and DRAM.
Part = Literal["processors", "memory"]
#: What an energy includes. ``node`` includes the accelerators, both parts, and all else that the supply feeds.
Boundary = Literal[RecordBoundary, Part]

PARTS: tuple[Part, ...] = get_args(Part)
BOUNDARIES: tuple[Boundary, ...] = get_args(Boundary)

#: Kinds of doubt that a reading can carry.
WarningKind = Literal[
    "counter-unsupported",
    "counter-frozen",
    "counter-stalled",
    "counter-backward",
    "counter-distrusted",
    "disagreement",
    "wrap-missed",
    "power-unsupported",
    "not-measured",
    "permission",
    "device-lost",
    "reads-failed",
    "sampling-gap",
    "window-widened",
    "foreign-process",
    "mig-parent",
    "mirrored-counter",
    "scope",
    "device-order",
    "device-unknown",
    "ranks-unmetered",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterWarning:
    """One doubt about a reading.

    Attributes:
        kind: what went wrong, for programs.
        device: the device or domain it is about; ``None`` for the whole reading.
        text: the same for people, in one line.
    """

    kind: WarningKind
    text: str
    device: str | None = None

    def __str__(self) -> str:
        return f"{self.device}: {self.text}" if self.device else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheck:
    """The energy counter held against power integrated over the same window."""

    counter_j: float
    integrated_j: float

    @property
    def relative_difference(self) -> float | None:
        """Integrated over counted energy, minus one; ``None`` if the counter counted nothing.

        >>> CrossCheck(counter_j=200.0, integrated_j=210.0).relative_difference
        0.05
        """
        return round(self.integrated_j / self.counter_j - 1, 12) if self.counter_j > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEnergy:
    """The energy of one device or domain in a window.

    Attributes:
        device: a name that no other device in the world has: a UUID, or host and domain.
        name: what people call it.
        boundary: what kind of energy it is part of.
        domain: which part of the device was measured (``gpu``, ``package``, ``dram``).
        energy_j: ``None`` if it could not be measured; the warnings then say why.
        method: how ``energy_j`` was obtained; ``None`` with it.
        source: the query or file that was read.
        uncertainty_j: bound on the error that the window's edges and the sampling make (not the sensor's own).
        mean_power_w: ``energy_j`` over the time between its first and last read.
        peak_power_w: largest power seen; between two reads it may have been larger.
        counter_period_s: time between updates of the counter, an upper bound if it was read less often.
        cross_check: counter against integrated power, where both exist.
    """

    device: str
    name: str
    boundary: Boundary
    domain: str
    energy_j: float | None
    method: Method | None
    source: str
    uncertainty_j: float | None = None
    mean_power_w: float | None = None
    peak_power_w: float | None = None
    counter_period_s: float | None = None
    cross_check: CrossCheck | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The energy of all distinct devices of one boundary.

    Attributes:
        energy_j: ``None`` if one of the devices was not measured.
        method: ``mixed`` if the devices' methods differ; ``None`` without an energy.
        devices: what is included, by unique name.
    """

    boundary: Boundary
    energy_j: float | None
    method: Method | None
    source: str
    uncertainty_j: float | None
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One metered window.

    Attributes:
        energies: one entry per device or domain; empty if nothing here measures.
        duration_s: length of the window that the energies cover, on a monotonic clock.
        requested_s: from ``start`` to ``stop``; shorter than ``duration_s`` if the window was widened.
        synchronized: whether device work was waited for at both ends.
        measured_by: host and rank of the process that measured.
        warnings: doubts, in the order in which they arose.
    """

    energies: tuple[DeviceEnergy, ...]
    duration_s: float
    requested_s: float
    synchronized: bool = False
    measured_by: str = ""
    warnings: tuple[MeterWarning, ...] = ()

    def totals(self) -> tuple[Total, ...]:
        """Sum the energies of each boundary, over distinct devices."""
        return tuple(total for boundary in BOUNDARIES if (total := self.total(boundary)) is not None)

    def total(self, boundary: Boundary) -> Total | None:
        """Sum the energies of one boundary; ``None`` if no device of it was looked at."""
        parts = list(_distinct(entry for entry in self.energies if entry.boundary == boundary))
        if not parts:
            return None
        energies = [part.energy_j for part in parts if part.energy_j is not None]
        bounds = [part.uncertainty_j for part in parts if part.uncertainty_j is not None]
        complete = len(energies) == len(parts)
        methods = {part.method for part in parts}
        return Total(
            boundary=boundary,
            energy_j=sum(energies) if complete else None,
            method=(methods.pop() if len(methods) == 1 else "mixed") if complete else None,
            source="; ".join(dict.fromkeys(part.source for part in parts)),
            uncertainty_j=sum(bounds) if complete and len(bounds) == len(parts) else None,
            devices=tuple(part.device for part in parts),
        )

    def energy_j(self, *boundaries: Boundary) -> float | None:
        """Add up the named boundaries, which must not include one another; ``None`` if one is unknown."""
        totals = [self.total(boundary) for boundary in boundaries]
        energies = [total.energy_j for total in totals if total is not None and total.energy_j is not None]
        return sum(energies) if energies and len(energies) == len(totals) else None


def merge(readings: Sequence[Reading]) -> Reading:
    """Join readings of the same job from several processes or nodes; each device counts once.

    If two readings hold the same device, the one with the longer window is kept.
    """
    by_length = sorted(readings, key=lambda reading: -reading.duration_s)
    return Reading(
        energies=tuple(_distinct(entry for reading in by_length for entry in reading.energies)),
        duration_s=max((reading.duration_s for reading in readings), default=0.0),
        requested_s=max((reading.requested_s for reading in readings), default=0.0),
        synchronized=bool(readings) and all(reading.synchronized for reading in readings),
        measured_by="; ".join(dict.fromkeys(reading.measured_by for reading in readings if reading.measured_by)),
        warnings=tuple(dict.fromkeys(warning for reading in readings for warning in reading.warnings)),
    )


def _distinct(entries: Iterable[DeviceEnergy]) -> Iterable[DeviceEnergy]:
    """Keep the first entry of each device's domain."""
    seen: dict[tuple[str, str], DeviceEnergy] = {}
    for entry in entries:
        seen.setdefault((entry.device, entry.domain), entry)
    return seen.values()
