"""The meter of this machine: every sensor that can be found, in one window."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from wattlaw.errors import MeterError
from wattlaw.measure.devices import Place, place
from wattlaw.measure.meter import SampledMeter, ShortWindow
from wattlaw.measure.meters import amd, nvml, rapl, zeus
from wattlaw.measure.meters.declared import DeclaredPower
from wattlaw.measure.reading import Boundary
from wattlaw.measure.sensor import Discovery


def discover(
    environ: Mapping[str, str] | None = None, *, here: Place | None = None, rapl_root: Path | None = None
) -> Discovery:
    """Find every sensor of this machine that measures what this process uses.

    Args:
        environ: the environment to read; this process's if ``None``.
        here: where the process stands in its job; found out if ``None``.
        rapl_root: where powercap is, if not at its usual place.
    """
    environ = os.environ if environ is None else environ
    here = place(environ) if here is None else here
    parts = (
        nvml.discover(environ, here=here),
        amd.discover(environ, here=here),
        rapl.discover(rapl_root, host=here.host),
        zeus.discover(host=here.host),
    )
    return Discovery(
        sensors=tuple(sensor for part in parts for sensor in part.sensors),
        findings=tuple(finding for part in parts for finding in part.findings),
        warnings=tuple(warning for part in parts for warning in part.warnings),
    )


def machine_meter(
    *,
    synchronize: Callable[[], None] | None = None,
    short_window: ShortWindow = "widen",
    sample_interval_s: float | None = None,
    require: Iterable[Boundary] = (),
    declared_power_w: float | None = None,
    environ: Mapping[str, str] | None = None,
    here: Place | None = None,
    rapl_root: Path | None = None,
) -> SampledMeter:
    """Build the meter of this machine.

    Without any sensor its readings hold a duration and no energy: a time is worth recording by itself.

    Args:
        synchronize: waits for device work that is not done; called at both ends of a window.
        short_window: ``refuse`` or ``widen`` windows of fewer than ten updates of a sensor.
        sample_interval_s: time between reads within a window; see ``SampledMeter``.
        require: boundaries without which there is no point in going on.
        declared_power_w: power of the node as the user states it, added as an energy of method ``declared``.
        environ: the environment to read; this process's if ``None``.
        here: where the process stands in its job; found out if ``None``.
        rapl_root: where powercap is, if not at its usual place.

    Raises:
        MeterError: a required boundary cannot be measured; the message says why and what to do.
        ConfigError: the process has a rank but no local rank.
    """
    here = place(environ) if here is None else here
    found = discover(environ, here=here, rapl_root=rapl_root)
    sensors = list(found.sensors)
    if declared_power_w is not None:
        sensors.append(DeclaredPower(declared_power_w, host=here.host))
    measured = {sensor.info.boundary for sensor in sensors if sensor.info.counter or sensor.info.power}
    missing = [boundary for boundary in require if boundary not in measured]
    if missing:
        raise MeterError(
            f"nothing here measures the energy of {', '.join(missing)}",
            given=", ".join(f"{one.subject} {one.state}" for one in found.findings if one.state != "works"),
            hint="wattlaw doctor",
        )
    return SampledMeter(
        sensors,
        synchronize=synchronize,
        short_window=short_window,
        sample_interval_s=sample_interval_s,
        measured_by=str(here),
        warnings=found.warnings,
    )
