"""Rate between a device and its memory: long, even passes over arrays that no cache holds.

As in STREAM (McCalpin 1995): a copy moves each byte twice, a sum of two arrays into a third moves three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.measure.probe.figure import Figure
from wattlaw.measure.probe.timing import sample_times

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

#: Bytes of one array: several times the largest caches of such devices.
ARRAY_BYTES = {"cpu": 256 * 2**20, "cuda": 2**30}
ELEMENT_BYTES = 4
NAMES = ("copy_bytes_per_s", "add_bytes_per_s")


def measure(
    device: torch.device, budget_s: float, *, wait: Callable[[], None], array_bytes: int | None = None
) -> dict[str, Figure]:
    """Measure ``copy_bytes_per_s`` and ``add_bytes_per_s``."""
    size = ARRAY_BYTES[device.type] if array_bytes is None else array_bytes
    calls = {
        "copy": (copy(device, size), 2, "copy of an array"),
        "add": (add(device, size), 3, "sum of two arrays into a third"),
    }
    found = {}
    for name, (call, passes, method) in calls.items():
        times_s = sample_times(call, wait=wait, budget_s=budget_s / len(calls))
        found[f"{name}_bytes_per_s"] = Figure.of_samples(
            [passes * size / time_s for time_s in times_s],
            unit="B/s",
            method=f"{method} of {size} bytes, read and written bytes counted",
        )
    return found


def copy(device: torch.device, array_bytes: int) -> Callable[[], object]:
    """Make two arrays; return what copies one to the other."""
    import torch

    source = torch.ones(array_bytes // ELEMENT_BYTES, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def add(device: torch.device, array_bytes: int) -> Callable[[], object]:
    """Make three arrays; return what adds two into the third."""
    import torch

    first = torch.ones(array_bytes // ELEMENT_BYTES, device=device)
    second, third = torch.ones_like(first), torch.empty_like(first)
    return lambda: torch.add(first, second, out=third)
