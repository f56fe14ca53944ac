"""Which few runs would teach the step law most about a machine, before any of them is measured.

A run tells of the parameters' logarithms what the law's derivatives there say: with prior covariance C, derivatives J
of ln(energy) and ln(time) and R the variance of what the law leaves unexplained, measuring it leaves

    C - C J' (J C J' + R)^-1 J C

(Gelman et al. 2013, Bayesian Data Analysis, section 14.8). The design is the set of candidates after which the mean
variance of ln(energy) and ln(time) over the runs that are to be predicted is least: V-optimal (Atkinson, Donev and
Tobias 2007, Optimum Experimental Designs, section 10.6), found greedily and then by exchanging one run at a time. A
machine may be bound by what another is not, so the derivatives are taken at several draws of the parameters that the
prior thinks possible, and the variances are averaged over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import DataError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration
from wattlaw.law.spread import TARGETS, covariance_on, knows_spreads, slopes
from wattlaw.law.step_terms import COLUMNS, PARAMETERS

Numbers = NDArray[np.float64]

#: Draws of the parameters that the variances are averaged over; the first is the most probable one.
NUM_DRAWS = 32
#: Random sets that exchanges start from, beside the greedy ones.
RANDOM_STARTS = 4
#: Random designs that the suggested one is compared with, and the most runs that they are given.
RANDOM_DESIGNS = 20
MOST_RANDOM = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What measuring each candidate takes, shape ``[candidates]`` each, and the budgets; ``inf`` for none.

    Attributes:
        duration_s: of each.
        energy_j: of each.
        most_s: of all that are chosen together.
        most_j: the same.
        possible: whether each can be measured at all.
    """

    duration_s: Numbers
    energy_j: Numbers
    most_s: float = np.inf
    most_j: float = np.inf
    possible: NDArray[np.bool_] | bool = True

    def affordable(self, chosen: Sequence[int]) -> NDArray[np.bool_]:
        """Tell of each candidate whether it can be measured beside those ``chosen``."""
        places = list(chosen)
        in_time = self.duration_s[places].sum() + self.duration_s <= self.most_s
        found: NDArray[np.bool_] = in_time & (self.energy_j[places].sum() + self.energy_j <= self.most_j)
        return found & self.possible

    def share(self) -> Numbers:
        """The larger of the two shares of the budget that each candidate takes."""
        return np.maximum(self.duration_s / self.most_s, self.energy_j / self.most_j)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is known before measuring, and what each candidate would tell.

    Attributes:
        covariance: of the parameters' logarithms, shape ``[parameters, parameters]``.
        told: derivatives of the candidates, shape ``[draws, candidates, targets, parameters]``.
        weights: mean outer products of the derivatives of the runs to predict, by target, shape
            ``[draws, targets, parameters, parameters]``.
        variance: of what a measurement leaves unexplained, shape ``[targets]``.
    """

    covariance: Numbers
    told: Numbers
    weights: Numbers
    variance: Numbers

    @classmethod
    def of(cls, *, covariance: Numbers, told: Numbers, wanted: Numbers, variance: Numbers) -> Self:
        """Build the problem from the derivatives of the runs to predict, shaped as those of the candidates."""
        by_target = wanted.transpose(0, 2, 3, 1)
        weights = by_target @ by_target.transpose(0, 1, 3, 2) / wanted.shape[1]
        return cls(covariance=covariance, told=told, weights=weights, variance=variance)

    def after(self, chosen: Sequence[int]) -> Numbers:
        """Covariance once the ``chosen`` are measured, shape ``[draws, parameters, parameters]``."""
        left = np.broadcast_to(self.covariance, (len(self.told), *self.covariance.shape))
        for place in chosen:
            left = self.measured(left, place)
        return left

    def measured(self, left: Numbers, place: int) -> Numbers:
        """Covariance once one more candidate is measured."""
        told = self.told[:, place]
        crossed = left @ told.transpose(0, 2, 1)
        inner = told @ crossed + np.diag(self.variance)
        found: Numbers = left - crossed @ np.linalg.solve(inner, crossed.transpose(0, 2, 1))
        return found

    def gains(self, left: Numbers) -> Numbers:
        """By how much each candidate would bring down the mean variance of the runs to predict; ``[candidates]``."""
        draws, candidates, targets, _ = self.told.shape
        flat = self.told.reshape(draws, candidates * targets, -1)
        crossed = flat @ left
        inner = crossed.reshape(self.told.shape) @ self.told.transpose(0, 1, 3, 2) + np.diag(self.variance)
        weighed = (crossed @ self.weights.mean(axis=1)).reshape(self.told.shape)
        spread = weighed @ crossed.reshape(self.told.shape).transpose(0, 1, 3, 2)
        found: Numbers = np.trace(np.linalg.solve(inner, spread), axis1=2, axis2=3).mean(axis=0)
        return found

    def loss(self, chosen: Sequence[int]) -> float:
        """Mean variance of ln(energy) and ln(time) over the runs to predict, once the ``chosen`` are measured."""
        return self.loss_at(self.after(chosen))

    def loss_at(self, left: Numbers) -> float:
        """The same at a covariance."""
        return float(np.mean(self._variances(left)))

    def spread(self, chosen: Sequence[int]) -> dict[str, float]:
        """The same by target, as a standard deviation."""
        by_target = np.sqrt(self._variances(self.after(chosen)))
        return {target: float(value) for target, value in zip(TARGETS, by_target, strict=True)}

    def _variances(self, left: Numbers) -> Numbers:
        """Mean variance of the runs to predict by target; the trace of weights times covariance."""
        found: Numbers = np.sum(self.weights * left[:, None], axis=(2, 3)).mean(axis=0)
        return found


def problem_of(calibration: Calibration, machine: str, candidates: Table, wanted: Table, *, seed: int = 0) -> Problem:
    """Take derivatives at draws of the machine's parameters.

    Raises:
        DataError: the calibration does not say how sure it is of its parameters.
    """
    covariance = covariance_on(calibration, machine)
    if covariance is None or not knows_spreads(calibration):
        raise DataError(
            "this calibration does not say how sure it is of its parameters",
            hint="the shipped one, or a law that `wattlaw fit` or `wattlaw probe` wrote",
        )
    parameters = calibration.parameters_on(machine)
    centre = np.log([parameters[one.name] for one in PARAMETERS])
    random = np.random.default_rng(seed)
    moves = random.standard_normal((NUM_DRAWS - 1, len(centre))) @ np.linalg.cholesky(_certain(covariance)).T
    bounds = np.log([one.upper for one in PARAMETERS])
    draws = np.minimum(np.vstack([centre, centre + moves]), bounds)
    told: list[Numbers] = []
    said: list[Numbers] = []
    for draw in draws:
        values = {one.name: float(value) for one, value in zip(PARAMETERS, np.exp(draw), strict=True)}
        for table, kept in ((candidates, told), (wanted, said)):
            found = slopes(values, {name: table.numbers(name) for name in COLUMNS})
            kept.append(np.stack([found[target] for target in TARGETS], axis=1))
    variance = np.array([calibration.noise.get(target, max(calibration.noise.values())) ** 2 for target in TARGETS])
    return Problem.of(covariance=covariance, told=np.stack(told), wanted=np.stack(said), variance=variance)


def choose(problem: Problem, num_runs: int, costs: Costs, *, seed: int = 0) -> list[int]:
    """Choose runs greedily, by what they teach and by that over what they cost, and at random; exchange; take the best.

    Exchanges end where no single one improves, which may be short of the best set: hence several starts.
    """
    random = np.random.default_rng(seed)
    count = min(num_runs, problem.told.shape[1])
    starts = [_greedy(problem, count, costs, price) for price in _prices(costs)]
    starts += [_at_random(random.permutation(problem.told.shape[1]), count, costs) for _ in range(RANDOM_STARTS)]
    best = min((_exchanged(problem, start, costs) for start in starts), key=problem.loss)
    return _by_worth(problem, best)


def random_runs_for(problem: Problem, loss: float, *, seed: int = 0) -> int | None:
    """How many random candidates bring the loss down as far, on average over random designs; budgets do not count."""
    random = np.random.default_rng(seed)
    num_candidates = problem.told.shape[1]
    orders = [random.permutation(num_candidates) for _ in range(RANDOM_DESIGNS)]
    left = [problem.after([]) for _ in orders]
    for count in range(min(MOST_RANDOM, num_candidates)):
        left = [problem.measured(each, int(order[count])) for each, order in zip(left, orders, strict=True)]
        if np.mean([problem.loss_at(each) for each in left]) <= loss:
            return count + 1
    return None


def _prices(costs: Costs) -> Iterator[Callable[[Numbers], Numbers]]:
    yield lambda gains: gains
    if np.isfinite(costs.most_s) or np.isfinite(costs.most_j):
        yield lambda gains: gains / np.maximum(costs.share(), 1e-9)


def _at_random(order: NDArray[np.intp], count: int, costs: Costs) -> list[int]:
    """Take candidates in an order, as far as the budget goes."""
    chosen: list[int] = []
    for place in order.tolist():
        if len(chosen) < count and costs.affordable(chosen)[place]:
            chosen.append(place)
    return chosen


def _greedy(problem: Problem, count: int, costs: Costs, price: Callable[[Numbers], Numbers]) -> list[int]:
    chosen: list[int] = []
    left = problem.after([])
    while len(chosen) < count:
        possible = costs.affordable(chosen)
        possible[chosen] = False
        if not possible.any():
            break
        worth = np.where(possible, price(problem.gains(left)), -np.inf)
        chosen.append(int(np.argmax(worth)))
        left = problem.measured(left, chosen[-1])
    return chosen


def _exchanged(problem: Problem, chosen: list[int], costs: Costs) -> list[int]:
    """Replace one run after another by the best for its place, while that helps."""
    best = problem.loss(chosen)
    improved = True
    while improved:
        improved = False
        for place in range(len(chosen)):
            others = chosen[:place] + chosen[place + 1 :]
            possible = costs.affordable(others)
            possible[others] = False
            left = problem.after(others)
            gains = np.where(possible, problem.gains(left), -np.inf)
            loss = problem.loss_at(left) - float(gains.max())
            if loss < best * (1 - 1e-6):
                chosen, best, improved = [*others, int(np.argmax(gains))], loss, True
    return chosen


def _by_worth(problem: Problem, chosen: list[int]) -> list[int]:
    """Put the chosen in the order of what each teaches after those before it."""
    ordered: list[int] = []
    left = problem.after([])
    while len(ordered) < len(chosen):
        gains = problem.gains(left)
        rest = [place for place in chosen if place not in ordered]
        ordered.append(max(rest, key=lambda place: float(gains[place])))
        left = problem.measured(left, ordered[-1])
    return ordered


def _certain(covariance: Numbers) -> Numbers:
    """The covariance with a whisker on its diagonal: rounded numbers may leave it short of positive."""
    certain: Numbers = covariance + 1e-9 * np.trace(covariance) * np.eye(len(covariance))
    return certain
