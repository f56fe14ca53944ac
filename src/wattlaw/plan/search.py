"""The search: every configuration of a problem is costed, and the best of them are kept.

Nothing is sampled and nothing depends on chance or on the order of the inputs. Memory does not grow with the space:
of each chunk only the points are kept that may be among the best, on the front, or, where nothing keeps all limits,
nearest to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.plan.costs import costed
from wattlaw.plan.limits import excess
from wattlaw.plan.points import Points, first, pareto_front
from wattlaw.plan.space import CHUNK

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.problem import Problem

#: Points kept in the order of the objective: those that may truly be best, given the intervals.
KEPT = 200


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What a search kept.

    Attributes:
        best: the points that keep all limits and cost least, in order; none where no point keeps them.
        front: the points that keep all limits and are not beaten in time and energy, fastest first.
        open_front: the same of all points that fit into memory, whatever the other limits.
        nearest: where no point keeps all limits, the one that misses them least; memory is not bent if it need not be.
        alone: by limit, the point that misses it least among those that keep all others; what that limit alone costs.
        num_configurations: all that were looked at.
        num_fitting: of these, those that fit into memory.
        num_feasible: of these, those that keep all limits.
    """

    best: Points | None
    front: Points | None
    open_front: Points | None
    nearest: Points | None
    alone: dict[str, Points]
    num_configurations: int
    num_fitting: int
    num_feasible: int


def search(problem: Problem, calibration: Calibration, *, keep: int = KEPT, chunk: int = CHUNK) -> Found:
    """Look at every configuration.

    Args:
        problem: what is asked.
        calibration: of the step law.
        keep: how many of the best are kept.
        chunk: how many configurations are costed at once.

    Raises:
        ConfigError: the space has no device for the run's precision.
        DataError: the calibration's law does not know time and energy of a layout.
    """
    best = front = open_front = nearest = leanest = None
    alone: dict[str, Points] = {}
    total = fitting = feasible = 0
    for part in costed(problem, calibration, chunk=chunk):
        total += part.num_configurations
        fitting += len(part.points)
        leanest = _joined(leanest, part.leanest)
        leanest = first(leanest, leanest["memory_bytes"] / leanest["memory_allowed_bytes"], 1)
        if not len(part.points):
            continue
        open_front = _front(open_front, part.points)
        over = excess(part.points, problem.limits)
        worst = np.max(list(over.values()), axis=0)
        kept = part.points if (worst <= 0).all() else part.points.take(worst <= 0)
        feasible += len(kept)
        if len(kept):
            best = _first(best, kept, problem, keep)
            front = _front(front, kept)
        elif best is None:
            nearest = _nearest(nearest, part.points.with_columns(over=worst))
            _bend_one(alone, part.points, over)
    return Found(
        best=best,
        front=front,
        open_front=open_front,
        nearest=None if best is not None else leanest if nearest is None else nearest,
        alone={} if best is not None else alone,
        num_configurations=total,
        num_fitting=fitting,
        num_feasible=feasible,
    )


def _joined(before: Points | None, points: Points) -> Points:
    return points if before is None else Points.joined([before, points])


def _first(before: Points | None, points: Points, problem: Problem, keep: int) -> Points:
    if before is not None and len(before) >= keep:
        limit = problem.objective.value(before)[-1]
        points = points.take(problem.objective.value(points) <= limit)
    both = _joined(before, points)
    return first(both, problem.objective.value(both), keep)


def _front(before: Points | None, points: Points) -> Points:
    """Lay the front through more points; most are beaten by it already, and those are dropped first."""
    if before is not None:
        place = np.searchsorted(before["duration_s"], points["duration_s"], side="left") - 1
        beaten = (place >= 0) & (before["energy_j"][np.maximum(place, 0)] <= points["energy_j"])
        points = points.take(~beaten)
    if before is None and len(points) > KEPT:
        points = points.take(_undominated(points["duration_s"], points["energy_j"]))
    return pareto_front(_joined(before, points)) if len(points) else _joined(before, points)


def _undominated(duration_s: NDArray[np.float64], energy_j: NDArray[np.float64]) -> NDArray[np.intp]:
    order = np.lexsort((energy_j, duration_s))
    least = np.minimum.accumulate(energy_j[order])
    return order[energy_j[order] <= least]


def _nearest(before: Points | None, points: Points) -> Points:
    both = _joined(before, points)
    return first(both, both["over"], 1)


def _bend_one(alone: dict[str, Points], points: Points, over: dict[str, NDArray[np.float64]]) -> None:
    """Keep, for each limit, the point that misses it least among those that keep all others."""
    for limit, by in over.items():
        others = [values for name, values in over.items() if name != limit]
        keeps_others = np.max(others, axis=0) <= 0 if others else np.ones(len(points), dtype=bool)
        if keeps_others.any():
            part = points.take(keeps_others).with_columns(over=by[keeps_others])
            alone[limit] = _nearest(alone.get(limit), part)
