"""The form of a figure that is claimed: its target beside what was measured, and how it prints."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Figure = dict[str, Any]
FIELDS = ("name", "target", "measured", "unit", "command", "note")


def claims_of(command: str) -> Callable[[str, Any, Any, str, str], Figure]:
    """Return what lays a figure out: its name, target, measurement, unit and note.

    Args:
        command: that recomputes the figures.

    >>> claims_of("python scripts/step_figures.py")("fit_s", "<= 2", 1, "s", "median of 5")["measured"]
    1.0
    """

    def claim(name: str, target: Any, measured: Any, unit: str, note: str) -> Figure:
        values = (name, target, float(measured), unit, command, note)
        return dict(zip(FIELDS, values, strict=True))

    return claim


def show(figures: Iterable[Figure]) -> None:
    """Print figures, one per line."""
    for figure in figures:
        print(
            f"{figure['name']:42} {figure['measured']:<12.6g} {figure['unit']:10} target {figure['target']}  "
            f"{figure['note']}"
        )


def start_ratios(command: Sequence[str]) -> list[float]:
    """Wall time of a command over that of importing numpy: ten pairs, after two that warm the disk."""
    numpy = [sys.executable, "-c", "import numpy"]
    return [_seconds(command) / _seconds(numpy) for _ in range(12)][2:]


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
