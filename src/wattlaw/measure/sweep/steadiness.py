"""When warm-up ends, how many steps are measured, and what is told of their times. Pure arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A window that is cut to its longest length still has this many steps.
FEWEST_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How one configuration is warmed up and measured.

    Attributes:
        steps: measured optimizer steps, where their time lies between the two bounds.
        min_window_s: more steps are measured until the window is this long.
        max_window_s: fewer steps are, at least three, where the window would be longer.
        min_warmup_steps: before steadiness is looked for.
        max_warmup_steps: after which measuring begins, steady or not.
        warmup_tolerance: warm-up goes on while steps still get faster than the fastest before by more than this.
    """

    steps: int = 8
    min_window_s: float = 0.0
    max_window_s: float = 60.0
    min_warmup_steps: int = 3
    max_warmup_steps: int = 10
    warmup_tolerance: float = 0.05


def is_steady(times_s: Sequence[float], window: Window) -> bool:
    """Tell whether steps no longer get faster.

    >>> is_steady([0.9, 0.3, 0.2], Window()), is_steady([0.9, 0.3, 0.2, 0.199], Window())
    (False, True)
    """
    if len(times_s) < max(window.min_warmup_steps, 2):
        return False
    return times_s[-1] >= (1 - window.warmup_tolerance) * min(times_s[:-1])


def num_measured_steps(times_s: Sequence[float], window: Window) -> int:
    """Return how many steps to measure, from the times of the warm-up's steps.

    >>> num_measured_steps([0.1, 0.1], Window(steps=8, min_window_s=2.0))
    20
    >>> num_measured_steps([20.0, 20.0], Window(steps=8, max_window_s=80.0))
    4
    """
    step_s = median(times_s[-2:])
    enough = max(window.steps, math.ceil(window.min_window_s / step_s - 1e-9))
    most = max(FEWEST_STEPS, math.floor(window.max_window_s / step_s + 1e-9))
    return min(enough, most)


def describe_steps(times_s: Sequence[float]) -> Mapping[str, float]:
    """Tell median and spread of the steps: tenths from either end, and the median absolute deviation.

    ``step_spread`` is the distance between the two tenths over the median.

    >>> described = describe_steps([1.0, 1.0, 1.0, 2.0, 1.0])
    >>> described["step_s"], described["step_mad_s"]
    (1.0, 0.0)
    """
    middle = median(times_s)
    tenths = quantiles(times_s, n=10, method="inclusive") if len(times_s) > 1 else [middle] * 9
    return {
        "step_s": middle,
        "step_p10_s": tenths[0],
        "step_p90_s": tenths[-1],
        "step_spread": (tenths[-1] - tenths[0]) / middle,
        "step_mad_s": median(abs(time_s - middle) for time_s in times_s),
    }
