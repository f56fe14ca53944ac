"""From what could be measured, and a budget, to the runs that are worth measuring: ``design`` for run specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattlaw.errors import ConfigError
from wattlaw.features.physical import physical_columns
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration
from wattlaw.law.design import Costs, choose, problem_of, random_runs_for
from wattlaw.law.laws import law_named
from wattlaw.run.spec import RunSpec, check_fits


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedRun:
    """One run to measure.

    Attributes:
        place: among the candidates.
        spec: what to run.
        duration_s: what measuring it is predicted to take.
        energy_j: the same.
        spread_after: by target, how far runs to predict are then expected to be off, as the standard deviation of the
            logarithm, root mean square over them; after this and the runs before it.
    """

    place: int
    spec: RunSpec
    duration_s: float
    energy_j: float
    spread_after: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Which runs to measure, and what they are expected to be worth.

    Attributes:
        machine: the accelerator.
        runs: in the order of what they teach.
        spread_before: by target, as ``SuggestedRun.spread_after``, without any of the runs.
        noise: by target, what no number of runs brings down: the law's own error.
        num_candidates: to choose from.
        num_too_large: candidates that need more memory than a device has, and are not chosen.
        num_too_dear: others that by themselves exceed the budget.
        num_random: random runs that teach as much on average; ``None`` where ``MOST_RANDOM`` do not.
        cold: nothing was measured on this machine before.
    """

    machine: str
    runs: tuple[SuggestedRun, ...]
    spread_before: dict[str, float]
    noise: dict[str, float]
    num_candidates: int
    num_too_large: int
    num_too_dear: int
    num_random: int | None
    cold: bool

    @property
    def duration_s(self) -> float:
        """What measuring all of them is predicted to take."""
        return sum(run.duration_s for run in self.runs)

    @property
    def energy_j(self) -> float:
        """The same in joules."""
        return sum(run.energy_j for run in self.runs)

    @property
    def spread_after(self) -> dict[str, float]:
        """What is expected of runs to predict once all are measured."""
        return self.runs[-1].spread_after if self.runs else self.spread_before


def suggest(
    candidates: Sequence[RunSpec],
    calibration: Calibration,
    *,
    num_runs: int,
    targets: Sequence[RunSpec] = (),
    max_duration_s: float | None = None,
    max_energy_j: float | None = None,
    min_window_s: float = 0.0,
    rest_s: float = 0.0,
    seed: int = 0,
) -> Suggestion:
    """Choose the runs that teach most about a machine.

    Args:
        candidates: what can be measured, all on one kind of accelerator, with the steps that a measurement makes.
        calibration: of the step law, which says what is known of the machine so far.
        num_runs: how many to choose; fewer where the budget is spent before.
        targets: the runs that are to be predicted; the candidates where none are named.
        max_duration_s: of all measurements together, as predicted.
        max_energy_j: the same.
        min_window_s: a measurement that would be shorter is made this long by more steps.
        rest_s: between measurements.
        seed: of the draws.

    Raises:
        ConfigError: no candidate, several accelerators, none that fits into memory, or a budget that none is within.
        DataError: a calibration that does not say how sure it is of its parameters.
    """
    machine = _machine_of([*candidates, *targets])
    if num_runs < 1:
        raise ConfigError("a suggestion needs runs", given=num_runs, allowed="1 or more")
    table = physical_columns(candidates)
    wanted = physical_columns(targets) if targets else table
    fitting = np.array([_fits(spec) for spec in candidates])
    if not fitting.any():
        check_fits(candidates[0])
    costs = replace(
        _costs(calibration, table, max_duration_s, max_energy_j, min_window_s=min_window_s, rest_s=rest_s),
        possible=fitting,
    )
    alone = costs.affordable([])
    if not alone.any():
        raise _too_dear(costs)
    problem = problem_of(calibration, machine, table, wanted, seed=seed)
    chosen = choose(problem, num_runs, costs, seed=seed)
    worth = [problem.spread(chosen[:count]) for count in range(len(chosen) + 1)]
    return Suggestion(
        machine=machine,
        runs=tuple(
            SuggestedRun(
                place=place,
                spec=candidates[place],
                duration_s=float(costs.duration_s[place]),
                energy_j=float(costs.energy_j[place]),
                spread_after=after,
            )
            for place, after in zip(chosen, worth[1:], strict=True)
        ),
        spread_before=worth[0],
        noise=dict(calibration.noise),
        num_candidates=len(candidates),
        num_too_large=int(np.sum(~fitting)),
        num_too_dear=int(np.sum(~alone & fitting)),
        num_random=random_runs_for(problem, problem.loss(chosen), seed=seed),
        cold=machine not in calibration.machines,
    )


def _costs(
    calibration: Calibration,
    table: Table,
    max_duration_s: float | None,
    max_energy_j: float | None,
    *,
    min_window_s: float,
    rest_s: float,
) -> Costs:
    estimate = law_named(calibration.law).estimate(calibration, table)
    assert estimate.duration_s is not None
    longer = np.maximum(min_window_s / estimate.duration_s, 1.0)
    return Costs(
        duration_s=estimate.duration_s * longer + rest_s,
        energy_j=estimate.energy_j * longer,
        most_s=np.inf if max_duration_s is None else max_duration_s,
        most_j=np.inf if max_energy_j is None else max_energy_j,
    )


def _too_dear(costs: Costs) -> ConfigError:
    """Say what the cheapest candidate takes, where even that is beyond the budget."""
    cheapest = int(np.argmin(np.where(costs.possible, costs.share(), np.inf)))
    return ConfigError(
        "no candidate is within the budget",
        given=f"the cheapest takes {costs.duration_s[cheapest]:.3g} s and {costs.energy_j[cheapest]:.3g} J",
        hint="a larger budget, or smaller candidates",
    )


def _fits(spec: RunSpec) -> bool:
    try:
        check_fits(spec)
    except ConfigError:
        return False
    return True


def _machine_of(specs: Sequence[RunSpec]) -> str:
    names = sorted({spec.accelerator.name for spec in specs})
    if not names:
        raise ConfigError("no candidate to choose from", given="0 runs", allowed="1 or more")
    if len(names) > 1:
        raise ConfigError(
            "runs on several accelerators teach about several machines", given=", ".join(names), allowed="one"
        )
    return names[0]
