"""The plan: from a problem and a calibration to the best way to run it, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import ConfigError
from wattlaw.features.physical import physical_columns
from wattlaw.law.interval import require_level
from wattlaw.law.prediction import host_doubt
from wattlaw.plan.confidence import FirstPlace, assumption, draw_errors, judge
from wattlaw.plan.costs import check_law, priced
from wattlaw.plan.limits import Limits, Miss, misses
from wattlaw.plan.neighbours import Neighbour, neighbours
from wattlaw.plan.option import Option, options
from wattlaw.plan.points import Points
from wattlaw.plan.search import Found, search
from wattlaw.plan.space import CHUNK, global_batch, groups
from wattlaw.plan.tradeoffs import Trade, missing_memory, more_devices, thinned, trades

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.problem import Problem

#: Level of the intervals that are shown where no confidence is asked for.
LEVEL = 0.95
#: Runners-up that are shown, and points of a front: more are not read.
SHOWN, MOST_ON_FRONT = 10, 40
#: Contenders for the first place that are compared by draws.
CONTENDERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Why no configuration keeps all limits.

    Attributes:
        nearest: the configuration whose worst miss is least; memory is not bent if it need not be.
        misses: the limits that it does not keep.
        alone: limits of which one alone, bent to what is needed, would let a configuration through; none where only
            several together would.
        more_devices: by kind of device, the way to run on the fewest of them, more than are offered, that keeps all
            limits.
    """

    nearest: Option
    misses: tuple[Miss, ...]
    alone: tuple[Miss, ...]
    more_devices: tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to a problem.

    Attributes:
        problem: that was asked.
        level: of the intervals.
        ranking: the configurations that keep all limits and cost least, in order; empty where none keeps them.
        front: those that keep all limits and are not beaten in time and energy, fastest first.
        open_front: the same without any limit but memory.
        neighbours: ways to run that differ from the best in one thing, and why they were rejected.
        trades: what moving one limit would change, all others kept, for time and devices without a limit too.
        first_place: how sure the first of the ranking is; ``None`` without one.
        infeasible: why there is none.
        num_configurations: that were costed.
        num_fitting: of these, those that fit into memory.
        num_feasible: of these, those that keep all limits.
    """

    problem: Problem
    level: float
    ranking: tuple[Option, ...]
    front: tuple[Option, ...]
    open_front: tuple[Option, ...]
    neighbours: tuple[Neighbour, ...]
    trades: tuple[Trade, ...]
    first_place: FirstPlace | None
    infeasible: Infeasible | None
    num_configurations: int
    num_fitting: int
    num_feasible: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about all of it, one line each."""
        if self.best is None or self.best.prediction is None:
            return ()
        has_node = [offer.node is not None for offer in self.problem.space.offers]
        doubt = host_doubt(has_node, self.best.prediction.boundary)
        return () if doubt is None else (doubt,)

    @property
    def best(self) -> Option | None:
        """The first of the ranking; ``None`` where no configuration keeps all limits."""
        return self.ranking[0] if self.ranking else None


def plan(problem: Problem, calibration: Calibration, *, level: float | None = None, chunk: int = CHUNK) -> Plan:
    """Find the best of all ways to run a training.

    Args:
        problem: what is asked.
        calibration: of the step law.
        level: of the intervals in the answer; the limits' confidence, or 0.95, where it is not given.
        chunk: configurations that are costed at once; it bounds memory and changes nothing else.

    Returns:
        the plan; where nothing keeps all limits, why, and what comes nearest.

    Raises:
        ConfigError: the space has no device for the run's precision or no configuration at all, or the level is none.
        DataError: the calibration's law does not know time and energy of a layout.

    >>> from wattlaw import Recipe, RunSpec, Layout, accelerator, bundled, preset
    >>> from wattlaw.plan import Offer, Problem, Space
    >>> run = RunSpec(
    ...     architecture=preset("bert-base-uncased", head="classification"),
    ...     recipe=Recipe(batch_size=32, seq_len=128, precision="fp16", samples=67349),
    ...     layout=Layout(),
    ...     accelerator=accelerator("rtx-2080-ti"),
    ... )
    >>> space = Space(offers=(Offer(accelerator=run.accelerator, num_devices=4),))
    >>> found = plan(Problem(run=run, space=space), bundled())
    >>> found.best.spec.layout.strategy
    'single'
    """
    check_law(calibration)
    level = require_level(problem.limits.confidence or LEVEL if level is None else level)
    found = search(problem, calibration, chunk=chunk)
    if not found.num_configurations:
        raise ConfigError(
            "no configuration is possible",
            given="choices that leave nothing: degrees must divide heads, MLP and blocks, ranks the global batch",
            allowed=f"a global batch of {global_batch(problem.run)}",
            hint="fewer restrictions, or a global batch with more divisors",
        )
    best = found.best
    fronts = [None if front is None else thinned(front, MOST_ON_FRONT) for front in (found.front, found.open_front)]
    sets = [None if best is None else best.take(slice(0, SHOWN)), *fronts]
    ranking, front, open_front, nearest = options(problem, calibration, [*sets, found.nearest], level=level)
    return Plan(
        problem=problem,
        level=level,
        ranking=ranking,
        front=front,
        open_front=open_front,
        neighbours=neighbours(problem, calibration, ranking[0], level=level) if ranking else (),
        trades=trades(problem, calibration, found.trades, level=level) if ranking else (),
        first_place=None if best is None else _first_place(problem, calibration, best),
        infeasible=_infeasible(problem, calibration, found, nearest[0], level) if nearest else None,
        num_configurations=found.num_configurations,
        num_fitting=found.num_fitting,
        num_feasible=found.num_feasible,
    )


def _infeasible(problem: Problem, calibration: Calibration, found: Found, nearest: Option, level: float) -> Infeasible:
    assert found.nearest is not None
    limits = problem.limits
    if nearest.prediction is None:  # nothing fits into memory, so that nothing else was looked at
        limits = Limits(memory_free_fraction=limits.memory_free_fraction)
    alone = [miss for points in found.alone.values() for miss in misses(points, limits, 0)]
    if found.num_fitting < found.num_configurations and (memory := missing_memory(problem, calibration)) is not None:
        alone.append(memory)
    return Infeasible(
        nearest=nearest,
        misses=misses(found.nearest, limits, 0),
        alone=tuple(alone),
        more_devices=more_devices(problem, calibration, level=level),
    )


def _first_place(problem: Problem, calibration: Calibration, best: Points) -> FirstPlace:
    """Draw what the contenders truly cost, and judge the first."""
    contenders = best.take(slice(0, CONTENDERS))
    every = groups(problem.run, problem.space)
    rows = [contenders.row(place) for place in range(len(contenders))]
    table = physical_columns([every[int(row["group"])].spec(row) for row in rows])
    errors = draw_errors(calibration, table)
    drawn = contenders.with_columns(
        energy_j=contenders["energy_j"] * np.exp(errors["energy"]),
        duration_s=contenders["duration_s"] * np.exp(errors["duration"]),
    )
    needs = problem.objective.needs
    if needs is not None:
        values = np.empty_like(drawn["energy_j"])
        for place in np.unique(contenders["group"]):
            own = contenders["group"] == place
            prices = problem.prices.of(every[int(place)].offer.accelerator.name)
            drawn_here = (drawn[name][:, own] for name in ("energy_j", "duration_s"))
            values[:, own] = priced(prices, contenders["num_devices"][own], *drawn_here)[needs]
        drawn = drawn.with_columns(**{needs: values})
    return judge(problem.objective.value(drawn), assumption=assumption(calibration))
