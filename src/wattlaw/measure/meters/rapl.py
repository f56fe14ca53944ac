"""CPU packages and their DRAM: RAPL counters through Linux' powercap.

A zone is a folder with ``name``, ``energy_uj`` and ``max_energy_range_uj``; zones nest (core in package) and some
count the same energy twice: ``psys`` is the platform, packages included; ``intel-rapl-mmio`` shows the packages of
``intel-rapl`` again; the dies of a package may be windows on one counter. What is left here does not overlap.
Counters run through their range in minutes under load (Linux, Documentation/power/powercap).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattlaw.measure.reading import Boundary, MeterWarning
from wattlaw.measure.sensor import (
    DeviceLostError,
    DeviceState,
    Discovery,
    Finding,
    FindingState,
    ReadFailedError,
    SensorInfo,
)

ROOT = Path("/sys/class/powercap")
SUBJECT = "CPU and DRAM (RAPL)"
MEANING = "energy of CPU packages, and of DRAM where it has a domain of its own; no disks, fans, network or supply"
#: More than any package draws; for zones that do not state their largest power.
LARGEST_POWER_W = 1000.0
#: Counters of two dies this close in joules, out of some 10^5, are one counter read twice.
MIRROR_J = 1.0
#: The powercap drivers, the preferred one first; the others show the same packages.
DRIVERS = ("intel-rapl", "amd-rapl", "intel-rapl-mmio")
PERMISSION_REMEDY = (
    "sudo chmod a+r /sys/class/powercap/*/energy_uj (until the next boot; other users can then guess at secrets "
    "from the CPU's power), or run as root"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One folder of powercap."""

    path: Path
    name: str

    @property
    def driver(self) -> str:
        """Who made the zone, such as ``intel-rapl``."""
        return self.path.name.split(":")[0]

    @property
    def parent(self) -> str | None:
        """The folder name of the zone that this one is part of; ``None`` for a package."""
        parts = self.path.name.split(":")
        return ":".join(parts[:-1]) if len(parts) > 2 else None

    def read(self, file: str) -> float | None:
        """Read one number, ``None`` if the zone has no such file."""
        try:
            return float((self.path / file).read_text())
        except FileNotFoundError:
            return None


class RaplSensor:
    """One zone."""

    def __init__(self, zone: Zone, *, boundary: Boundary, domain: str, name: str, host: str) -> None:
        self._file = zone.path / "energy_uj"
        range_uj = zone.read("max_energy_range_uj")
        largest_uw = zone.read("constraint_0_max_power_uw")
        largest_w = max(largest_uw * 1e-6 if largest_uw else 0.0, LARGEST_POWER_W)
        self._info = SensorInfo(
            device=f"{host}/{zone.path.name}",
            name=name,
            boundary=boundary,
            domain=domain,
            counter=f"{zone.path.name}/energy_uj ({name})",
            counter_range_j=None if range_uj is None else range_uj * 1e-6,
            wrap_s=None if range_uj is None else range_uj * 1e-6 / largest_w,
        )

    @property
    def info(self) -> SensorInfo:
        """Tell what is measured."""
        return self._info

    def energy_j(self) -> float:
        """Read the counter."""
        try:
            return int(self._file.read_text()) * 1e-6
        except FileNotFoundError as error:
            raise DeviceLostError("the zone has vanished", given=self._file) from error
        except (OSError, ValueError) as error:
            raise ReadFailedError("the zone could not be read", given=error) from error

    def power_w(self) -> float:
        """Fail: RAPL has no power reading."""
        raise AssertionError

    def inspect(self) -> Sequence[MeterWarning]:
        """Find nothing: every process of the machine draws on the CPU, which ``MEANING`` says."""
        return ()

    def state(self) -> DeviceState | None:
        """Know nothing."""
        return None


def discover(root: Path | None = None, *, host: str | None = None) -> Discovery:
    """Find the zones that together count every package and DRAM once.

    Args:
        root: where powercap is; ``ROOT`` if ``None``.
        host: makes the zones' names unique among machines; this machine's if ``None``.
    """
    root = ROOT if root is None else root
    host = socket.gethostname() if host is None else host
    zones = _zones(root)
    packages = _packages(zones)
    if not packages:
        detail = f"no package zone in {root}"
        remedy = "virtual machines and containers hide it; on a real Linux machine: sudo modprobe intel_rapl_msr"
        return Discovery(findings=(_finding("absent", detail, remedy),))
    denied = [zone for zone in packages if not _readable(zone)]
    if denied:
        warning = MeterWarning(kind="permission", text=f"CPU energy may not be read; {PERMISSION_REMEDY}")
        finding = _finding("denied", f"{denied[0].path}/energy_uj may not be read", PERMISSION_REMEDY)
        return Discovery(findings=(finding,), warnings=(warning,))
    packages, warnings = _without_mirrors(packages, host)
    kept = {zone.path.name for zone in packages}
    memory = [zone for zone in zones if zone.name == "dram" and zone.parent in kept and _readable(zone)]
    names = {zone.path.name: zone.name for zone in packages}
    sensors = (
        *(RaplSensor(zone, boundary="processors", domain="package", name=zone.name, host=host) for zone in packages),
        *(
            RaplSensor(zone, boundary="memory", domain="dram", name=f"dram of {names[zone.parent or '']}", host=host)
            for zone in memory
        ),
    )
    left_out = sorted({zone.name for zone in zones} - {sensor.info.name for sensor in sensors} - {"dram"})
    overlapping = f"; left out, because counted already: {', '.join(left_out)}" if left_out else ""
    detail = f"{', '.join(sensor.info.name for sensor in sensors)}{overlapping}"
    return Discovery(sensors=sensors, findings=(_finding("works", detail, None),), warnings=warnings)


def _finding(state: FindingState, detail: str, remedy: str | None) -> Finding:
    return Finding(subject=SUBJECT, state=state, detail=detail, meaning=MEANING, remedy=remedy)


def _zones(root: Path) -> list[Zone]:
    """List the zones of the preferred driver that has any package."""
    found = []
    for path in sorted(root.glob("*rapl*:*")):
        try:
            found.append(Zone(path=path, name=(path / "name").read_text().strip()))
        except OSError:
            continue
    for driver in DRIVERS:
        of_driver = [zone for zone in found if zone.driver == driver]
        if _packages(of_driver):
            return of_driver
    return []


def _packages(zones: Sequence[Zone]) -> list[Zone]:
    return [zone for zone in zones if zone.parent is None and zone.name.startswith("package")]


def _readable(zone: Zone) -> bool:
    try:
        (zone.path / "energy_uj").read_text()
    except OSError:
        return False
    return True


def _without_mirrors(packages: Sequence[Zone], host: str) -> tuple[list[Zone], tuple[MeterWarning, ...]]:
    """Keep one of several dies of a package that show the same counter."""
    kept: list[tuple[str, float, Zone]] = []
    warnings = []
    for zone in packages:
        package = re.sub(r"-die-\d+$", "", zone.name)
        counter_j = (zone.read("energy_uj") or 0.0) * 1e-6
        twin = next(
            (other for name, energy_j, other in kept if name == package and abs(energy_j - counter_j) < MIRROR_J), None
        )
        if counter_j == 0 and any(name == package for name, _, _ in kept):
            text = f"{zone.name} counts nothing: the energy of {package} is what its first die counts"
            warnings.append(MeterWarning(kind="mirrored-counter", device=f"{host}/{zone.path.name}", text=text))
        elif twin is None:
            kept.append((package, counter_j, zone))
        else:
            text = f"{zone.name} shows the counter of {twin.name} again: counted once"
            warnings.append(MeterWarning(kind="mirrored-counter", device=f"{host}/{zone.path.name}", text=text))
    return [zone for _, _, zone in kept], tuple(warnings)
