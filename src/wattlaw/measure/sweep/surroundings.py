"""What the numbers of a sweep depend on beside the configuration: versions, processor, clocks."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from wattlaw.measure.record import versions

CPUINFO = Path("/proc/cpuinfo")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def describe_machine(*, cpuinfo: Path = CPUINFO, governor: Path = GOVERNOR) -> dict[str, str]:
    """Describe the machine, without its name: a record may be published. What cannot be read is left out."""
    described = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "num_cpus": str(_usable_cpus()),
        **versions(),
    }
    for name, field in (("cpu_model", "model name"), ("cpu_clock_mhz", "cpu MHz")):
        if value := _first_field(cpuinfo, field):
            described[name] = value
    if text := _text(governor).strip():
        described["cpu_governor"] = text
    return described


def load_average() -> float | None:
    """Return how many processes wanted a CPU in the last minute, ``None`` where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_field(path: Path, field: str) -> str | None:
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
