"""Work that keeps a device busy in one way, while its power is metered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wattlaw.measure.probe import bandwidth, matrix

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

#: The smallest kernels one after another, large matrix products, long passes over memory.
LOADS = ("launch", "matrix", "memory")
#: Shape of the matrix load: large enough that hardly any time goes to memory.
MATRIX = {"cpu": (1024, 1024, 1024), "cuda": (8192, 8192, 8192)}
#: Work is handed over in portions of this length, so that an end is not overrun.
PORTION_S = 0.05


def make_load(kind: str, device: torch.device, precision: str) -> Callable[[], object]:
    """Return one call of a load."""
    import torch

    if kind == "matrix":
        return matrix.multiply((MATRIX[device.type],), device, precision)
    if kind == "memory":
        return bandwidth.copy(device, bandwidth.ARRAY_BYTES[device.type])
    number = torch.zeros(1, device=device)
    return lambda: number.add_(1)


def keep_busy(
    call: Callable[[], object],
    duration_s: float,
    *,
    wait: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Call until the time is over; return how often."""
    start_s = clock()
    count = 1
    call()
    wait()
    portion = max(1, int(PORTION_S / max(clock() - start_s, 1e-6)))
    while clock() - start_s < duration_s:
        for _ in range(portion):
            call()
        wait()
        count += portion
    return count
