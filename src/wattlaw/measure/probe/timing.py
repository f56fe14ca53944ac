"""Many times of one call, on a monotonic clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

#: A sample lasts at least this long, so that the clock and the wait at its end do not count.
SHORTEST_SAMPLE_S = 2e-3
FEWEST_SAMPLES = 5
MOST_SAMPLES = 200
WARMUP_CALLS = 3


def repeats_for(call_s: float, budget_s: float, fewest: int = FEWEST_SAMPLES) -> tuple[int, int]:
    """Return calls per sample, and samples, that fit into a budget; never fewer samples than ``fewest``.

    >>> repeats_for(1e-5, 0.1)
    (200, 50)
    >>> repeats_for(1.0, 0.1)
    (1, 5)
    """
    calls = max(1, math.ceil(SHORTEST_SAMPLE_S / call_s - 1e-9))
    samples = math.floor(budget_s / (calls * call_s) + 1e-9)
    return calls, min(MOST_SAMPLES, max(fewest, samples))


def sample_times(
    call: Callable[[], object],
    *,
    wait: Callable[[], None],
    budget_s: float,
    fewest: int = FEWEST_SAMPLES,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Time a call again and again.

    Args:
        call: hands work to the device.
        wait: waits until the device has done it.
        budget_s: for all samples, the warm-up not counted.
        fewest: samples that are taken whatever they cost.
        clock: replaced in tests.

    Returns:
        seconds per call, one entry per sample; calls of one sample are handed over without waiting in between.
    """
    for _ in range(WARMUP_CALLS):
        call()
    wait()
    start_s = clock()
    call()
    wait()
    calls, samples = repeats_for(max(clock() - start_s, 1e-7), budget_s, fewest)
    times_s = []
    for _ in range(samples):
        start_s = clock()
        for _ in range(calls):
            call()
        wait()
        times_s.append((clock() - start_s) / calls)
    return times_s


def in_turns(
    calls: Sequence[Callable[[], object]],
    *,
    wait: Callable[[], None],
    budget_s: float,
    rounds: int = 3,
    fewest: int = FEWEST_SAMPLES,
) -> list[list[float]]:
    """Time several calls in turns, a share of the budget each; return the samples of each call.

    A disturbance of the machine that lasts longer than a round meets all of them.
    """
    times_s: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, samples in zip(calls, times_s, strict=True):
            samples.extend(sample_times(call, wait=wait, budget_s=budget_s / (rounds * len(calls)), fewest=fewest))
    return times_s


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Fit a straight line by least squares; return slope and intercept.

    >>> line([(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)])
    (2.0, 1.0)
    """
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return slope, mean_y - slope * mean_x
