"""From a reading to the fields of a run record."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata

from wattlaw.measure.reading import PARTS, Reading
from wattlaw.measure.sensor import DeviceState
from wattlaw.run.record import BOUNDARIES, Energy

#: Packages whose versions bear on what a step costs or on how it is measured.
PACKAGES = ("wattlaw", "torch", "transformers", "numpy", "nvidia-ml-py", "zeus", "amdsmi")


def energies_of(reading: Reading) -> tuple[Energy, ...]:
    """Return the reading's energies whose boundaries a record knows; what was not measured is left out."""
    return tuple(
        Energy(energy_j=total.energy_j, boundary=total.boundary, method=total.method, source=total.source)
        for total in reading.totals()
        if total.energy_j and total.method is not None and total.boundary in BOUNDARIES
    )


def observed_of(reading: Reading) -> dict[str, float]:
    """Return what else was measured, as numbers with their unit: parts of the host, uncertainty, largest power."""
    observed: dict[str, float] = {}
    for total in reading.totals():
        if total.energy_j is None:
            continue
        if total.boundary in PARTS:
            observed[f"{total.boundary}_energy_j"] = total.energy_j
        if total.uncertainty_j is not None:
            observed[f"{total.boundary}_energy_uncertainty_j"] = total.uncertainty_j
    peaks = [entry.peak_power_w for entry in reading.energies if entry.boundary == "accelerators"]
    known = [peak for peak in peaks if peak is not None]
    if known:
        observed["largest_accelerator_power_w"] = max(known)
    differences = [entry.cross_check.relative_difference for entry in reading.energies if entry.cross_check is not None]
    told = [abs(difference) for difference in differences if difference is not None]
    if told:
        observed["counter_against_power_fraction"] = max(told)
    return observed


def environment_of(
    reading: Reading, states: Iterable[DeviceState] = (), drivers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Describe what the numbers depend on: host, devices, their state, versions, doubts.

    Args:
        reading: what was measured.
        states: temperatures, clocks and limits, as ``SampledMeter.states`` tells them after the run.
        drivers: versions that ``wattlaw.measure.meters.nvml.Nvml.versions`` tells.
    """
    environment = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "implementation": sys.implementation.name,
        **versions(),
        **(drivers or {}),
    }
    if reading.measured_by:
        environment["measured_by"] = reading.measured_by
    for place, entry in enumerate(reading.energies):
        environment[f"device_{place}"] = f"{entry.device} {entry.domain}, {entry.name}"
    for place, state in enumerate(states):
        environment[f"state_{place}"] = _told(state)
    if reading.warnings:
        environment["meter_warnings"] = "; ".join(f"{warning.kind}: {warning}" for warning in reading.warnings)
    return environment


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Tell the versions of installed packages without importing them."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _told(state: DeviceState) -> str:
    parts = [state.device]
    parts += [] if state.temperature_c is None else [f"{state.temperature_c:g} degC"]
    parts += [] if state.core_clock_hz is None else [f"core {state.core_clock_hz:.4g} Hz"]
    parts += [] if state.memory_clock_hz is None else [f"memory {state.memory_clock_hz:.4g} Hz"]
    parts += [] if state.power_limit_w is None else [f"limit {state.power_limit_w:g} W"]
    parts += [f"slowed by {state.throttled_by}"] if state.throttled_by else []
    return ", ".join(parts)
