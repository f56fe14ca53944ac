"""A plan along one of its axes: energy and time against the number of devices, and against a power cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.law.prediction import Prediction, predict
from wattlaw.plan.costs import costed
from wattlaw.plan.layouts import strategies_of
from wattlaw.plan.option import Option, options
from wattlaw.plan.points import Points, first

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.problem import Problem
    from wattlaw.run.spec import RunSpec

#: Beyond this many numbers of devices, a curve has powers of two only.
MOST_COUNTS = 16
#: Power caps of a curve, as shares of the board's limit: from where boards can be set to.
CAP_FRACTIONS = tuple(np.round(np.arange(0.4, 1.001, 0.05), 2).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where another strategy becomes the greenest on one kind of device.

    Attributes:
        accelerator: the kind of device.
        num_devices: from which on.
        before: the greenest strategy with fewer devices.
        after: the greenest from then on.
    """

    accelerator: str
    num_devices: int
    before: str
    after: str


def by_device_count(problem: Problem, calibration: Calibration, *, level: float) -> tuple[Option, ...]:
    """Find the best option of each strategy on each number of devices of each kind, whatever the limits but memory.

    Args:
        problem: whose space is looked at; power caps are left out.
        calibration: of the step law.
        level: of the intervals.

    Returns:
        by accelerator, strategy and number of devices, in this order.
    """
    space = problem.space
    counts = space.device_counts
    most = max(offer.num_devices for offer in space.offers)
    if not counts and most > MOST_COUNTS:
        counts = tuple(2**power for power in range(most.bit_length()) if 2**power <= most)
    uncapped = tuple(replace(offer, power_caps_w=()) for offer in space.offers)
    open_problem = replace(problem, space=replace(space, offers=uncapped, device_counts=counts))
    kept: dict[tuple[str, str, float], Points] = {}
    for part in costed(open_problem, calibration):
        points = part.points
        if not len(points):
            continue
        names, count = strategies_of(points.columns), points["num_devices"]
        device = part.accelerator
        for name, number in sorted({*zip(names.tolist(), count.tolist(), strict=True)}):
            some = points.take((names == name) & (count == number))
            key = (device, name, number)
            some = some if key not in kept else Points.joined([kept[key], some])
            kept[key] = first(some, open_problem.objective.value(some), 1)
    found = options(open_problem, calibration, [kept[key] for key in sorted(kept)], level=level)
    return tuple(option for (option,) in found)


def crossovers(curve: Sequence[Option]) -> tuple[Crossover, ...]:
    """Tell where the strategy with the least energy changes as devices are added, by kind of device."""
    least: dict[tuple[str, int], tuple[float, str]] = {}
    for option in curve:
        if option.prediction is not None:
            layout = option.spec.layout
            key = (option.spec.accelerator.name, int(layout.num_devices))
            mine = (option.prediction.energy_j.mid, layout.strategy)
            least[key] = min(least.get(key, mine), mine)
    found = []
    for (device, count), (_, strategy) in sorted(least.items()):
        fewer = [number for name, number in least if name == device and number < count]
        # One device has no strategy to compare.
        if fewer and max(fewer) > 1 and (before := least[device, max(fewer)][1]) != strategy:
            found.append(Crossover(accelerator=device, num_devices=count, before=before, after=strategy))
    return tuple(found)


def by_power_cap(
    spec: RunSpec, calibration: Calibration, *, level: float, fractions: Sequence[float] = CAP_FRACTIONS
) -> tuple[tuple[float, Prediction], ...]:
    """Predict one run under several power caps.

    Args:
        spec: of the run.
        calibration: of the law.
        level: of the intervals.
        fractions: caps as shares of the board's own limit.

    Returns:
        the caps in W, smallest first, each with its prediction.
    """
    caps = [share * spec.accelerator.power_limit_w for share in sorted(fractions)]
    capped = [replace(spec, power_limit_w=cap) for cap in caps]
    return tuple(zip(caps, predict(capped, calibration, level=level), strict=True))
