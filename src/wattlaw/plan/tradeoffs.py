"""What limits cost: what waiting longer or using fewer devices would change, and what would make a plan possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.plan.limits import COLUMNS, Miss
from wattlaw.plan.objective import COLUMNS as GOALS
from wattlaw.plan.option import Option, options
from wattlaw.plan.search import search
from wattlaw.plan.space import MOST_WITHOUT_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.points import Points
    from wattlaw.plan.problem import Problem

#: Points of a trade that are kept: its ends and every so-manieth between them.
MOST_OF_A_TRADE = 24
#: How much memory a device is given to see what it lacks, over what it has.
ROOMY = 1024.0
#: How many times as many devices are looked at where those offered do not do.
TIMES_AS_MANY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """What the objective costs when one limit moves and all others are kept.

    Attributes:
        limit: its name.
        allowed: where it is; ``None`` where there is no such limit.
        needed: of each option, what it needs of what the limit bounds, the least first.
        options: the ways to run that nothing beats in both what they need and what they cost.
    """

    limit: str
    allowed: float | None
    needed: tuple[float, ...]
    options: tuple[Option, ...]


def trades(
    problem: Problem, calibration: Calibration, found: Mapping[str, Points], *, level: float
) -> tuple[Trade, ...]:
    """Turn the trades of a search into values; what the objective itself makes small is traded for nothing.

    Args:
        problem: that was asked.
        calibration: that costed it.
        found: fronts by limit, as ``Found.trades`` has them.
        level: of the intervals.
    """
    own = GOALS.get(problem.objective.goal)
    same = {limit for limit, column in COLUMNS.items() if column.removeprefix("facility_") == own}
    kept = {limit: thinned(points, MOST_OF_A_TRADE) for limit, points in found.items() if limit not in same}
    bounds = problem.limits.bounds()
    each = options(problem, calibration, list(kept.values()), level=level)
    return tuple(
        Trade(limit=limit, allowed=bounds.get(limit), needed=tuple(points["needed"].tolist()), options=some)
        for (limit, points), some in zip(kept.items(), each, strict=True)
    )


def thinned(front: Points, most: int) -> Points:
    """Leave the ends of a long front and every so-manieth point between them."""
    if len(front) <= most:
        return front
    return front.take(np.unique(np.linspace(0, len(front) - 1, most).round().astype(np.intp)))


def missing_memory(problem: Problem, calibration: Calibration) -> Miss | None:
    """Say how much memory devices lack for a plan that keeps all other limits; ``None`` where no memory would do."""
    found = []
    for changed in _by_offer(problem):
        (offer,) = changed.space.offers
        device = offer.accelerator
        roomy = replace(offer, accelerator=replace(device, memory_bytes=ROOMY * device.memory_bytes))
        asked = replace(changed, space=replace(changed.space, offers=(roomy,)))
        points = search(asked, calibration, keep=1, also_traded=("memory",)).trades.get("memory")
        if points is not None:
            allowed_bytes = float(points["memory_allowed_bytes"][0]) / ROOMY
            found.append(Miss(limit="memory", allowed=allowed_bytes, needed=float(points["needed"][0])))
    return min(found, key=lambda miss: miss.over_fraction, default=None)


def more_devices(problem: Problem, calibration: Calibration, *, level: float) -> tuple[Option, ...]:
    """Find, for each kind of device, the fewest of them, more than are offered, with which all limits are kept.

    Up to eight times as many are looked at, and no more than stand in one machine where no node type says how
    machines are joined; none where the user says how many there may be.
    """
    if problem.space.device_counts or problem.limits.max_devices is not None:
        return ()
    found: list[Option] = []
    for changed in _by_offer(problem):
        (offer,) = changed.space.offers
        most = TIMES_AS_MANY * offer.num_devices
        most = most if offer.node is not None else min(most, MOST_WITHOUT_NODE)
        if most <= offer.num_devices:
            continue
        asked = replace(changed, space=replace(changed.space, offers=(replace(offer, num_devices=most),)))
        points = search(asked, calibration, keep=1).trades.get("devices")
        if points is not None:
            ((option,),) = options(asked, calibration, [points.take([0])], level=level)
            found.append(option)
    return tuple(found)


def beyond(trade: Trade, count: int) -> Sequence[int]:
    """Choose options of a trade that do not keep its limit: the nearest one, the cheapest, and some between them."""
    places = [place for place, need in enumerate(trade.needed) if trade.allowed is not None and need > trade.allowed]
    return [places[at] for at in spread(len(places), count)]


def spread(length: int, count: int) -> Sequence[int]:
    """Choose places evenly, both ends among them.

    >>> spread(9, 3)
    [0, 4, 8]
    """
    if length <= count:
        return list(range(length))
    return [round(place * (length - 1) / (count - 1)) for place in range(count)]


def _by_offer(problem: Problem) -> Iterator[Problem]:
    """Ask the same of each kind of device that computes in one of the precisions."""
    precisions = problem.space.precisions or (problem.run.recipe.precision,)
    for offer in problem.space.offers:
        if any(precision in offer.accelerator.precisions for precision in precisions):
            yield replace(problem, space=replace(problem.space, offers=(offer,)))
