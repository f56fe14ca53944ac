"""One way to run a training, as a value to show, save, predict or launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wattlaw.law.interval import Interval
from wattlaw.law.prediction import Prediction, predict
from wattlaw.plan.costs import priced
from wattlaw.plan.points import Points
from wattlaw.plan.space import Group, groups

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.problem import Problem
    from wattlaw.run.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run the training.

    Attributes:
        spec: to save, predict, explain or launch.
        prediction: ``None`` where it does not fit into memory.
        memory_bytes: that a framework reserves on the fullest device.
        memory_allowed_bytes: of the device, less what stays free.
        money: electricity and rent, as far as they are priced.
        carbon_g: of the electricity, where its intensity is known.
        cost: what the objective makes small; ``None`` where it does not fit into memory.
    """

    spec: RunSpec
    prediction: Prediction | None
    memory_bytes: float
    memory_allowed_bytes: float
    money: Interval | None = None
    carbon_g: Interval | None = None
    cost: float | None = None


def options(
    problem: Problem, calibration: Calibration, points: Sequence[Points | None], *, level: float
) -> list[tuple[Option, ...]]:
    """Turn several sets of points into options; ``None`` is a set of none. What stands in two sets is predicted once.

    Args:
        problem: that the points are from.
        calibration: that costed them.
        points: the sets.
        level: of the intervals.
    """
    every = groups(problem.run, problem.space)
    rows = [[one.row(place) for place in range(len(one))] if one is not None else [] for one in points]
    specs = [[every[int(row["group"])].spec(row) for row in some] for some in rows]
    fitting = {
        spec: None
        for some, their_rows in zip(specs, rows, strict=True)
        for spec, row in zip(some, their_rows, strict=True)
        if row["memory_bytes"] <= row["memory_allowed_bytes"]
    }
    known = dict(zip(fitting, predict(list(fitting), calibration, level=level), strict=True))
    return [
        tuple(
            _option(problem, every[int(row["group"])], spec, known.get(spec), row)
            for spec, row in zip(some, their_rows, strict=True)
        )
        for some, their_rows in zip(specs, rows, strict=True)
    ]


def _option(
    problem: Problem, group: Group, spec: RunSpec, prediction: Prediction | None, row: Mapping[str, float]
) -> Option:
    memory_bytes, allowed_bytes = row["memory_bytes"], row["memory_allowed_bytes"]
    if prediction is None or prediction.duration_s is None:
        return Option(spec=spec, prediction=None, memory_bytes=memory_bytes, memory_allowed_bytes=allowed_bytes)
    energy, time = prediction.energy_j, prediction.duration_s
    prices = problem.prices.of(group.offer.accelerator.name)
    ends = [
        priced(prices, row["num_devices"], joules, seconds)
        for joules, seconds in ((energy.low, time.low), (energy.mid, time.mid), (energy.high, time.high))
    ]
    return Option(
        spec=spec,
        prediction=prediction,
        memory_bytes=memory_bytes,
        memory_allowed_bytes=allowed_bytes,
        money=_interval(ends, "money", energy.level),
        carbon_g=_interval(ends, "carbon_g", energy.level),
        cost=float(problem.objective.value(Points({name: np.array([value]) for name, value in row.items()}))[0]),
    )


def _interval(ends: list[dict[str, Any]], name: str, level: float) -> Interval | None:
    if name not in ends[0]:
        return None
    low, mid, high = (float(one[name]) for one in ends)
    return Interval(low=low, mid=mid, high=high, level=level)
