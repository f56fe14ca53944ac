"""Apple silicon and Jetson, through zeus: chips whose parts have counters but no library of their own for Python.

Apple's counters are the operating system's; Jetson has only rail power, which zeus integrates in a process of its
own. Not tried on a real machine yet.
"""

from __future__ import annotations

import importlib
import platform
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wattlaw.measure.reading import Boundary, MeterWarning
from wattlaw.measure.sensor import DeviceState, Discovery, Finding, FindingState, ReadFailedError, SensorInfo
from wattlaw.run.record import Method

SUBJECT = "Apple silicon and Jetson (zeus)"
MEANING = "energy of the parts of the chip; on Jetson also of the whole module"

_I2C_DRIVERS = Path("/sys/bus/i2c/drivers")

#: Field of a measurement of zeus, in mJ -> boundary, domain and method. Parts that are inside of another one
#: (single cores, clusters) are left out.
_PARTS: dict[str, tuple[Boundary, str, Method]] = {
    "gpu_mj": ("accelerators", "gpu", "counter"),
    "gpu_sram_mj": ("accelerators", "gpu sram", "counter"),
    "ane_mj": ("accelerators", "neural engine", "counter"),
    "cpu_total_mj": ("processors", "cpu", "counter"),
    "dram_mj": ("memory", "dram", "counter"),
    "gpu_energy_mj": ("accelerators", "gpu", "integrated"),
    "cpu_energy_mj": ("processors", "cpu", "integrated"),
    "total_energy_mj": ("node", "module", "integrated"),
}


class ZeusSensor:
    """One part of a chip."""

    def __init__(self, soc: Any, field: str, *, host: str) -> None:
        self._soc = soc
        self._field = field
        boundary, domain, method = _PARTS[field]
        self._info = SensorInfo(
            device=f"{host}/soc",
            name=f"{type(soc).__name__} {domain}",
            boundary=boundary,
            domain=domain,
            counter=f"zeus {type(soc).__name__}.{field}",
            counter_method=method,
        )

    @property
    def info(self) -> SensorInfo:
        """Tell what is measured."""
        return self._info

    def energy_j(self) -> float:
        """Read the part's energy since zeus was started."""
        try:
            millijoules = getattr(self._soc.get_total_energy_consumption(), self._field)
        except Exception as error:  # zeus passes on whatever queue, process or system raise
            raise ReadFailedError("zeus could not read the chip", given=error) from error
        if millijoules is None:
            raise ReadFailedError("zeus tells nothing of this part", given=self._field)
        return float(millijoules) * 1e-3

    def power_w(self) -> float:
        """Fail: the parts have no power reading."""
        raise AssertionError

    def inspect(self) -> Sequence[MeterWarning]:
        """Find nothing."""
        return ()

    def state(self) -> DeviceState | None:
        """Know nothing."""
        return None


def discover(*, soc: Any = None, host: str | None = None) -> Discovery:
    """Find the parts of the chip that zeus reads.

    Args:
        soc: zeus' object for the chip; zeus is asked if ``None``.
        host: makes the parts' names unique among machines; this machine's if ``None``.
    """
    host = socket.gethostname() if host is None else host
    if soc is None:
        if not _is_chip():
            return Discovery(findings=(_finding("absent", "neither Apple silicon nor a Jetson", None),))
        try:
            package = importlib.import_module("zeus.device.soc")
            common = importlib.import_module("zeus.device.soc.common")
        except ImportError:
            remedy = "on an Apple or Jetson machine: pip install 'wattlaw[zeus]'"
            return Discovery(findings=(_finding("not installed", "zeus is not installed", remedy),))
        try:
            soc = package.get_soc()
        except common.ZeusSoCInitError as error:
            return Discovery(findings=(_finding("absent", str(error), None),))
    available = soc.get_available_metrics()
    sensors = tuple(ZeusSensor(soc, field, host=host) for field in _PARTS if field in available)
    detail = ", ".join(sensor.info.domain for sensor in sensors) or "no part has a meter"
    return Discovery(sensors=sensors, findings=(_finding("works" if sensors else "absent", detail, None),))


def _is_chip() -> bool:
    """Tell whether zeus is worth its import: macOS, or the power monitor of Jetson boards."""
    return platform.system() == "Darwin" or any((_I2C_DRIVERS / name).exists() for name in ("ina3221", "ina3221x"))


def _finding(state: FindingState, detail: str, remedy: str | None) -> Finding:
    return Finding(subject=SUBJECT, state=state, detail=detail, meaning=MEANING, remedy=remedy)
