"""What can be measured on this machine, what each number will mean, and what to do about what is missing."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from wattlaw.errors import MeterError, MissingExtraError
from wattlaw.measure.devices import Place, place
from wattlaw.measure.machine import discover
from wattlaw.measure.meter import SampledMeter
from wattlaw.measure.meters.nvml import Nvml
from wattlaw.measure.power_limit import LeftOver, left_over
from wattlaw.measure.reading import Reading
from wattlaw.measure.record import versions
from wattlaw.measure.sensor import DeviceState, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was found out about this machine's meters.

    Attributes:
        findings: one per possible sensor.
        measurable: boundaries of which an energy can be measured here.
        trial: a short reading while nothing was asked of the devices; ``None`` without sensors.
        states: temperatures, clocks and power limits of devices that tell them.
        versions: of the machine's software and drivers.
        left_over: power limits that processes which are gone have not given back.
        place: where this process stands in its job.
    """

    host: str
    findings: tuple[Finding, ...]
    measurable: tuple[str, ...]
    trial: Reading | None
    states: tuple[DeviceState, ...]
    versions: Mapping[str, str]
    left_over: tuple[LeftOver, ...]
    place: Place


#: Doubts that a trial can raise about a sensor which answers.
_SPOILING = ("counter-frozen", "counter-backward", "counter-distrusted", "disagreement", "not-measured", "device-lost")


def diagnose(
    environ: Mapping[str, str] | None = None,
    *,
    rapl_root: Path | None = None,
    notes: Path | None = None,
    trial_s: float = 1.0,
) -> Diagnosis:
    """Look at every sensor, and try those that are there.

    Args:
        environ: the environment to read; this process's if ``None``.
        rapl_root: where powercap is, if not at its usual place.
        notes: where notes of power limits are, if not at their usual place.
        trial_s: length of the trial; longer if a sensor needs it.

    Raises:
        ConfigError: the environment's variables contradict each other.
    """
    here = place(environ)
    found = discover(environ, here=here, rapl_root=rapl_root)
    meter = SampledMeter(found.sensors, warnings=found.warnings, measured_by=str(here))
    trial = _try(meter, trial_s) if found.sensors else None
    boundaries = {entry.boundary for entry in (trial.energies if trial else ()) if entry.energy_j is not None}
    return Diagnosis(
        host=here.host,
        findings=tuple(_after(trial, finding) for finding in found.findings),
        measurable=tuple(sorted(boundaries)),
        trial=trial,
        states=meter.states(),
        versions={"python": platform.python_version(), "platform": platform.platform(), **_drivers(), **versions()},
        left_over=left_over(notes),
        place=here,
    )


def _try(meter: SampledMeter, trial_s: float) -> Reading:
    """Take a reading, as long as the slowest sensor needs."""
    meter.start()
    time.sleep(trial_s)
    return meter.stop()


def _after(trial: Reading | None, finding: Finding) -> Finding:
    """Take back that a sensor works if the trial says otherwise."""
    if trial is None or finding.device is None or finding.state != "works":
        return finding
    doubts = [
        warning.text for warning in trial.warnings if warning.device == finding.device and warning.kind in _SPOILING
    ]
    return replace(finding, state="doubtful", detail="; ".join([finding.detail, *doubts])) if doubts else finding


def _drivers() -> dict[str, str]:
    try:
        nvml = Nvml()
    except (MeterError, MissingExtraError):
        return {}
    try:
        return nvml.versions()
    finally:
        nvml.close()
