"""The search: every configuration of a problem is looked at, and the best of them are kept.

Nothing is sampled and nothing depends on chance or on the order of the inputs. Memory does not grow with the space:
of each chunk only the points are kept that may be among the best, on a front, or, where nothing keeps all limits,
nearest to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.plan.costs import costed
from wattlaw.plan.limits import excess, needed
from wattlaw.plan.points import Points, beaten, first, pareto_front
from wattlaw.plan.space import CHUNK

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.costs import Costed
    from wattlaw.plan.problem import Problem

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Points kept in the order of the objective: those that may truly be best, given the intervals.
KEPT = 200
#: What can be traded for what the objective costs, whether it is limited or not.
ALWAYS_TRADED = ("deadline", "devices")
#: Columns of a front of time and energy, and of one that trades what a limit bounds for what the objective costs.
LEADING = {"across": "duration_s", "along": "energy_j"}
TRADING = {"across": "needed", "along": "cost"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What a search kept.

    Attributes:
        best: the points that keep all limits and cost least, in order; none where no point keeps them.
        front: the points that keep all limits and are not beaten in time and energy, fastest first.
        open_front: the same of all points that fit into memory, whatever the other limits.
        nearest: where no point keeps all limits, the one that misses them least; memory is not bent if it need not be.
        trades: by limit, and for time and devices without one too, the points that keep all others and are not beaten
            in what it bounds and what the objective costs, the least needed first.
        alone: where no point keeps all limits, by limit, the point that misses it least among those that keep all
            others; what that limit alone costs.
        num_configurations: all that were looked at.
        num_fitting: of these, those that fit into memory.
        num_feasible: of these, those that keep all limits.
    """

    best: Points | None
    front: Points | None
    open_front: Points | None
    nearest: Points | None
    trades: dict[str, Points]
    alone: dict[str, Points]
    num_configurations: int
    num_fitting: int
    num_feasible: int


def search(
    problem: Problem,
    calibration: Calibration,
    *,
    keep: int = KEPT,
    chunk: int = CHUNK,
    also_traded: tuple[str, ...] = (),
) -> Found:
    """Look at every configuration.

    Args:
        problem: what is asked.
        calibration: of the step law.
        keep: how many of the best are kept.
        chunk: how many configurations are costed at once.
        also_traded: what else than limits, time and devices is traded: ``memory``.

    Raises:
        ConfigError: the space has no device for the run's precision.
        DataError: the calibration's law does not know time and energy of a layout.
    """
    collection = _Collection(problem=problem, keep=keep, also_traded=also_traded)
    for part in costed(problem, calibration, chunk=chunk, hopes=collection):
        collection.add(part)
    return collection.found()


@dataclass(slots=True, kw_only=True, eq=False)
class _Collection:
    """What a search has kept so far; it says which lower bounds leave a point a chance to be kept too."""

    problem: Problem
    keep: int
    also_traded: tuple[str, ...]
    best: Points | None = None
    front: Points | None = None
    open_front: Points | None = None
    nearest: Points | None = None
    leanest: Points | None = None
    trades: dict[str, Points] = field(default_factory=dict)
    num_configurations: int = 0
    num_fitting: int = 0
    num_feasible: int = 0

    def add(self, part: Costed) -> None:
        """Take what is of use of a chunk."""
        self.num_configurations += part.num_configurations
        self.leanest = _joined(self.leanest, part.leanest)
        self.leanest = first(self.leanest, self.leanest["memory_bytes"] / self.leanest["memory_allowed_bytes"], 1)
        if part.dropped is not None:
            self.num_fitting += len(part.dropped)
            self.num_feasible += int((_worst(self._excess(part.dropped)) <= 0).sum())
        points = part.points
        self.num_fitting += len(points)
        if not len(points):
            return
        self.open_front = _front(self.open_front, points, **LEADING)
        over = self._excess(points)
        worst = _worst(over)
        cost = self.problem.objective.value(points)
        for limit in self._traded():
            self._trade(limit, points, over, cost)
        kept = points if (worst <= 0).all() else points.take(worst <= 0)
        self.num_feasible += len(kept)
        if len(kept):
            self.best = self._first(kept)
            self.front = _front(self.front, kept, **LEADING)
        elif self.best is None:
            both = _joined(self.nearest, points.with_columns(over=worst))
            self.nearest = first(both, both["over"], 1)

    def may_keep(self, floors: Points) -> Mask:
        """Tell which points may be among the best, the trades or the nearest, if they take no less than these.

        Who may keep the limits is to be counted, unless the limits are on what the lower bounds know exactly.
        """
        over = self._excess(floors)
        worst = _worst(over)
        useful = worst <= 0
        cost = self.problem.objective.value(floors)
        if set(self.problem.limits.bounds()) <= {"devices"}:
            dear = np.zeros(len(floors), dtype=bool) if self.best is None else cost > self._most(self.best)
            useful &= ~(dear & beaten(self.front, floors["duration_s"], floors["energy_j"], **LEADING))
        if self.best is None:
            useful |= worst <= (np.inf if self.nearest is None else self.nearest["over"][0])
        for limit in self._traded():
            least = needed(floors, limit)
            useful |= _keeps_others(over, limit) & ~beaten(self.trades.get(limit), least, cost, **TRADING)
        return useful

    def may_lead(self, floors: Points) -> Mask:
        """Tell which points may be on the front of time and energy, if they take no less than these."""
        return ~beaten(self.open_front, floors["duration_s"], floors["energy_j"], **LEADING)

    def found(self) -> Found:
        """Return what was kept."""
        fails = self.best is None
        nearest = self.leanest if self.nearest is None else self.nearest
        bounds = self.problem.limits.bounds()
        return Found(
            best=self.best,
            front=self.front,
            open_front=self.open_front,
            nearest=nearest if fails else None,
            trades=self.trades,
            alone={limit: self.trades[limit].take([0]) for limit in bounds if fails and limit in self.trades},
            num_configurations=self.num_configurations,
            num_fitting=self.num_fitting,
            num_feasible=self.num_feasible,
        )

    def _excess(self, points: Points) -> dict[str, Numbers]:
        return excess(points, self.problem.limits)

    def _traded(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*ALWAYS_TRADED, *self.problem.limits.bounds(), *self.also_traded)))

    def _trade(self, limit: str, points: Points, over: dict[str, Numbers], cost: Numbers) -> None:
        """Lay the front of what a limit bounds and of costs through the points that keep all other limits."""
        least = needed(points, limit)
        rows = _keeps_others(over, limit) & ~beaten(self.trades.get(limit), least, cost, **TRADING)
        if rows.any():
            part = points.take(rows).with_columns(needed=least[rows], cost=cost[rows])
            self.trades[limit] = _front(self.trades.get(limit), part, **TRADING)

    def _first(self, points: Points) -> Points:
        value = self.problem.objective.value
        if self.best is not None:
            points = points.take(value(points) <= self._most(self.best))
        both = _joined(self.best, points)
        return first(both, value(both), self.keep)

    def _most(self, best: Points) -> float:
        """What a point may cost to be kept."""
        return float(self.problem.objective.value(best)[-1]) if len(best) >= self.keep else np.inf


def _worst(over: dict[str, Numbers]) -> Numbers:
    found: Numbers = np.max(list(over.values()), axis=0)
    return found


def _keeps_others(over: dict[str, Numbers], limit: str) -> Mask:
    """Tell which points keep all limits but perhaps one."""
    others = [values for name, values in over.items() if name != limit]
    return _worst(dict(enumerate(others))) <= 0  # type: ignore[arg-type]


def _joined(before: Points | None, points: Points) -> Points:
    return points if before is None else Points.joined([before, points])


def _front(before: Points | None, points: Points, *, across: str, along: str) -> Points:
    """Lay a front through more points; most are beaten by it already, and those are dropped first."""
    if before is not None:
        points = points.take(~beaten(before, points[across], points[along], across=across, along=along))
    if before is None and len(points) > KEPT:
        points = points.take(_undominated(points[across], points[along]))
    both = _joined(before, points)
    return pareto_front(both, across=across, along=along) if len(points) else both


def _undominated(across: Numbers, along: Numbers) -> NDArray[np.intp]:
    order = np.lexsort((along, across))
    least = np.minimum.accumulate(along[order])
    return order[along[order] <= least]
