"""What a law leaves unexplained on a machine, interpolated between its runs.

The law's residuals are not noise only: runs that are alike have alike ones, from kernels that fit a device's tiles
or do not, and from all else that a formula leaves out. Of each machine and target they are taken as a Gaussian process
over the logarithms of a few columns (Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, chapter 2):

    residual(x) = g(x) + noise,    cov(g(x), g(x')) = amplitude^2 k(r)
    k(r) = (1 + r + r^2 / 3) exp(-r),    r^2 = 5 sum over columns ((x - x') / length)^2

k is the Matern kernel of smoothness 5/2. Predictions are multiplied by exp(mean of g), which returns to 1 some lengths
away from every run of the machine, and is 1 on machines without runs: processes of two machines have nothing in
common, as what machines have in common is the law's to say. Lengths, amplitudes and noise are shared by the machines
of a fit. They are the most probable ones: the marginal likelihood (their section 5.4.1) times priors that keep few runs
from telling stories.

scikit-learn's regressor knows no priors on what it fits, and no residuals of groups left out together with the law's
parameters; the algebra here is scipy's, and a test holds it against scikit-learn's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import DataError

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.hierarchy import Roots

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One column as the process sees it: ln(1 + column / scale).

    Attributes:
        column: of ``features.physical``.
        scale: below which differences do not count; strategies that send nothing are as far from those that send as
            the logarithm of what is sent.
        length: median of the prior of its length.
    """

    column: str
    scale: float
    length: float


INPUTS = (
    Input(column="block_flop", scale=1.0, length=2.0),
    Input(column="block_traffic_bytes", scale=1.0, length=2.0),
    Input(column="block_kernels", scale=1.0, length=2.0),
    Input(column="head_flop", scale=1.0, length=4.0),
    Input(column="optimizer_traffic_bytes", scale=1.0, length=2.0),
    Input(column="micro_steps", scale=1.0, length=4.0),
    Input(column="num_devices", scale=1.0, length=2.0),
    Input(column="pipeline_parallel", scale=1.0, length=2.0),
    Input(column="shard_bytes", scale=1e6, length=4.0),
    Input(column="gradient_bytes", scale=1e6, length=4.0),
    Input(column="tensor_bytes", scale=1e6, length=4.0),
    Input(column="stage_bytes", scale=1e6, length=4.0),
    Input(column="context_bytes", scale=1e6, length=4.0),
    Input(column="expert_collectives", scale=1.0, length=2.0),
    Input(column="peak_flop_per_s", scale=1.0, length=1.0),  # of one machine, another precision
    Input(column="fused", scale=0.1, length=1.0),
    Input(column="cap_share", scale=1e-3, length=1.0),
)
#: Standard deviations of the logarithms of lengths, amplitude and noise around their medians.
LENGTH_SPREAD = 0.7
AMPLITUDE, AMPLITUDE_SPREAD = 0.03, 0.7
NOISE, NOISE_SPREAD = 0.02, 0.7
#: Runs of a machine that the hyperparameters are found on, and that the process keeps: more tell little more.
MOST_SEARCHED = 200
MOST_KEPT = 1500
#: Decimals of the inputs, which are logarithms: a millionth of a column is nothing.
INPUT_DIGITS = 6
#: Entries of one block of kernels between runs to predict and runs kept, so that memory is bounded.
BLOCK = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetProcess:
    """One target's process: what is predicted of its residual is amplitude^2 k(x, inputs) weights.

    Attributes:
        amplitude: standard deviation of g.
        noise: of what a run adds by itself.
        weights: one per input.
    """

    amplitude: float
    noise: float
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualProcess:
    """What a fit left on one machine.

    Attributes:
        lengths: by column; a column that is not named does not count.
        inputs: the runs, one row each, columns in the order of ``lengths``, as ``inputs_of`` gives them.
        targets: by name, ``energy`` or ``duration``.
    """

    lengths: Mapping[str, float]
    inputs: tuple[tuple[float, ...], ...]
    targets: Mapping[str, TargetProcess]

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        known = {one.column for one in INPUTS}
        if not set(self.lengths) <= known or not all(0 < value < math.inf for value in self.lengths.values()):
            raise DataError(
                "lengths of a residual's process are above zero, of known columns", allowed=", ".join(known)
            )
        if not all(len(row) == len(self.lengths) and all(map(math.isfinite, row)) for row in self.inputs):
            raise DataError("inputs of a residual's process are finite, one for each length")
        for target, one in self.targets.items():
            if not (0 < one.amplitude < math.inf and 0 < one.noise < math.inf):
                raise DataError("amplitude and noise of a residual's process are above zero", given=target)
            if len(one.weights) != len(self.inputs) or not all(map(math.isfinite, one.weights)):
                raise DataError("weights of a residual's process are finite, one for each input", given=target)

    def mean(self, inputs: Numbers) -> dict[str, Numbers]:
        """Expected residual of each run by target, shape ``[runs]``, from ``inputs`` of shape ``[runs, columns]``."""
        kept = self._scaled(np.array(self.inputs))
        found = {target: np.empty(len(inputs)) for target in self.targets}
        for rows in _blocks(len(inputs), len(kept)):
            shape = kernel(_squared(self._scaled(inputs[rows]), kept))
            for target, process in self.targets.items():
                found[target][rows] = process.amplitude**2 * (shape @ np.array(process.weights))
        return found

    def spread(self, inputs: Numbers, target: str) -> Numbers:
        """Standard deviation of each run's residual around the mean, noise included; shape ``[runs]``."""
        from scipy.linalg import cholesky, solve_triangular

        process = self.targets[target]
        ratio = (process.noise / process.amplitude) ** 2
        kept = self._scaled(np.array(self.inputs))
        root = cholesky(kernel(_squared(kept, kept)) + ratio * np.eye(len(kept)), lower=True)
        found = np.empty(len(inputs))
        for rows in _blocks(len(inputs), len(kept)):
            shape = kernel(_squared(self._scaled(inputs[rows]), kept))
            told = np.sum(solve_triangular(root, shape.T, lower=True) ** 2, axis=0)
            found[rows] = process.amplitude * np.sqrt(np.maximum(1 - told, 0.0) + ratio)
        return found

    def _scaled(self, inputs: Numbers) -> Numbers:
        scaled: Numbers = inputs / np.array(list(self.lengths.values()))
        return scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """What the processes of all machines share: logarithms, of lengths ``[columns]`` and, by target, of the others."""

    lengths: Numbers
    amplitudes: Mapping[str, float]
    noises: Mapping[str, float]

    def spread(self) -> dict[str, float]:
        """By target, the standard deviation of what a law leaves unexplained away from every run."""
        return {name: math.hypot(math.exp(self.amplitudes[name]), math.exp(self.noises[name])) for name in self.noises}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What a fit leaves on one machine, to make a process of.

    Attributes:
        inputs: shape ``[runs, columns]``.
        residuals: by target ln(observed / predicted), shape ``[runs]``.
    """

    inputs: Numbers
    residuals: Mapping[str, Numbers]


def inputs_of(table: Table, columns: Sequence[str] | None = None) -> Numbers:
    """Lay a table out for the processes: these ``columns`` of ``INPUTS``, or all of them; shape ``[runs, columns]``."""
    wanted = INPUTS if columns is None else tuple(one for name in columns for one in INPUTS if one.column == name)
    return np.stack([np.log1p(table.numbers(one.column) / one.scale) for one in wanted], axis=1)


def kernel(squared: Numbers) -> Numbers:
    """The Matern kernel of smoothness 5/2 at squared distances in lengths, any shape."""
    r = np.sqrt(5 * squared)
    found: Numbers = (1 + r + r * r / 3) * np.exp(-r)
    return found


def search(leftovers: Sequence[Leftover], *, seed: int = 0) -> Hyperparameters:
    """Find the most probable hyperparameters, from at most ``MOST_SEARCHED`` runs of each machine."""
    from scipy.optimize import minimize

    random = np.random.default_rng(seed)
    chosen = [_thinned(one, MOST_SEARCHED, random) for one in leftovers]
    problem = _Problem(tuple(chosen), tuple(chosen[0].residuals))
    start = problem.centre()
    found = minimize(problem.cost, start, jac=True, method="L-BFGS-B", bounds=[(each - 3, each + 3) for each in start],
                     options={"maxiter": 40, "ftol": 1e-5})  # fmt: skip
    return problem.hyperparameters(found.x)


def only_noise(noises: Mapping[str, float]) -> Hyperparameters:
    """Hyperparameters of a process that is nothing, beside noise with a standard deviation by target."""
    return Hyperparameters(
        lengths=np.log([one.length for one in INPUTS]),
        amplitudes=dict.fromkeys(noises, -math.inf),
        noises={target: math.log(value) for target, value in noises.items()},
    )


def thinned(groups: NDArray[np.intp], *, most: int | None = None, seed: int = 0) -> NDArray[np.intp]:
    """Places of at most ``most`` runs (``MOST_KEPT``), in order: whole groups at random, one at least."""
    most = MOST_KEPT if most is None else most
    if len(groups) <= most:
        return np.arange(len(groups))
    names, counts = np.unique(groups, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    within = max(1, int(np.searchsorted(np.cumsum(counts[order]), most, side="right")))
    return np.flatnonzero(np.isin(groups, names[order[:within]]))


def process_of(leftover: Leftover, known: Hyperparameters) -> ResidualProcess | None:
    """Build a machine's process from its runs; none where all is noise."""
    if not any(map(math.isfinite, known.amplitudes.values())):
        return None
    inputs = np.round(leftover.inputs, INPUT_DIGITS)
    scaled = inputs / np.exp(known.lengths)
    shape = kernel(_squared(scaled, scaled))
    return ResidualProcess(
        lengths={one.column: float(np.exp(each)) for one, each in zip(INPUTS, known.lengths, strict=True)},
        inputs=tuple(tuple(row) for row in inputs.tolist()),
        targets={
            target: TargetProcess(
                amplitude=math.exp(known.amplitudes[target]),
                noise=math.exp(known.noises[target]),
                weights=tuple((_precision(shape, known, target) @ residuals).tolist()),
            )
            for target, residuals in leftover.residuals.items()
        },
    )


def left_out(
    leftover: Leftover, known: Hyperparameters, *, roots: Roots, groups: NDArray[np.intp]
) -> dict[str, tuple[Numbers, Numbers]]:
    """Residuals as if each group had been left out of the law's fit and of the process, without fitting again.

    Leaving a group out moves the law's parameters, and with them all residuals, to v (``hierarchy.Roots.without``).
    What the process then leaves of the group is [K^-1]_gg^-1 [K^-1 v]_g, with covariance [K^-1]_gg^-1 (Rasmussen and
    Williams 2006, section 5.4.2, for groups in place of single runs). Hyperparameters stay.

    Args:
        leftover: of one machine.
        known: of all machines.
        roots: of the machine's residuals, one target after the other.
        groups: of each run, shape ``[runs]``.

    Returns:
        by target ln(observed / predicted) and its expected standard deviation, shape ``[runs]`` each.
    """
    scaled = leftover.inputs / np.exp(known.lengths)
    shape = kernel(_squared(scaled, scaled))
    stacked = np.concatenate(list(leftover.residuals.values()))
    found = {}
    members = [groups == group for group in np.unique(groups)]
    moves = [roots.without(stacked, np.tile(member, len(leftover.residuals))) for member in members]
    for number, (target, residuals) in enumerate(leftover.residuals.items()):
        precision = _precision(shape, known, target)
        own = precision @ residuals
        moved = precision @ roots.leverage[number * len(groups) : (number + 1) * len(groups)]
        values, variances = np.empty(len(groups)), np.empty(len(groups))
        for member, (move, by_parameters) in zip(members, moves, strict=True):
            covariance = np.linalg.inv(precision[np.ix_(member, member)])
            values[member] = covariance @ (own[member] + moved[member] @ move)
            count = len(covariance)
            variances[member] = np.diag(covariance) + by_parameters[number * count : (number + 1) * count]
        found[target] = (values, np.sqrt(variances))
    return found


def _precision(shape: Numbers, known: Hyperparameters, target: str) -> Numbers:
    """Inverse of the covariance of one target's residuals, noise included; shape ``[runs, runs]``."""
    from scipy.linalg import cho_factor, cho_solve

    amplitude, noise = math.exp(known.amplitudes[target]), math.exp(known.noises[target])
    root = cho_factor(amplitude**2 * shape + noise**2 * np.eye(len(shape)), lower=True)
    found: Numbers = cho_solve(root, np.eye(len(shape)))
    return found


@dataclass(frozen=True, slots=True)
class _Problem:
    """Minus the logarithm of the posterior over lengths, amplitudes and noises, all in logarithms."""

    leftovers: tuple[Leftover, ...]
    targets: tuple[str, ...]

    def centre(self) -> Numbers:
        lengths = [math.log(one.length) for one in INPUTS]
        return np.array([*lengths, *([math.log(AMPLITUDE), math.log(NOISE)] * len(self.targets))])

    def spread(self) -> Numbers:
        return np.array([*([LENGTH_SPREAD] * len(INPUTS)), *([AMPLITUDE_SPREAD, NOISE_SPREAD] * len(self.targets))])

    def hyperparameters(self, unknowns: Numbers) -> Hyperparameters:
        others = unknowns[len(INPUTS) :].reshape(-1, 2)
        return Hyperparameters(
            lengths=unknowns[: len(INPUTS)],
            amplitudes={target: float(each[0]) for target, each in zip(self.targets, others, strict=True)},
            noises={target: float(each[1]) for target, each in zip(self.targets, others, strict=True)},
        )

    def cost(self, unknowns: Numbers) -> tuple[float, Numbers]:
        """Cost and gradient; with W = a a' - K^-1 and a = K^-1 r, d ln p / dx = tr(W dK/dx) / 2 (section 5.4.1)."""
        known = self.hyperparameters(unknowns)
        away = (unknowns - self.centre()) / self.spread()
        cost, gradient = 0.5 * float(away @ away), away / self.spread()
        for one in self.leftovers:
            scaled = one.inputs / np.exp(known.lengths)
            r = np.sqrt(5 * _squared(scaled, scaled))
            shape, slope = (1 + r + r * r / 3) * np.exp(-r), 5 / 3 * (1 + r) * np.exp(-r)
            for number, target in enumerate(self.targets):
                amplitude, noise = math.exp(known.amplitudes[target]), math.exp(known.noises[target])
                precision = _precision(shape, known, target)
                weights = precision @ one.residuals[target]
                pull = np.outer(weights, weights) - precision
                cost += 0.5 * float(one.residuals[target] @ weights - np.linalg.slogdet(precision)[1])
                weighted = amplitude**2 * pull * slope
                # sum over i, j of W_ij (x_i - x_j)^2, for every column at once
                apart = 2 * (weighted.sum(axis=1) @ scaled**2 - np.sum(scaled * (weighted @ scaled), axis=0))
                gradient[: len(INPUTS)] -= 0.5 * apart
                at = len(INPUTS) + 2 * number
                gradient[at] -= amplitude**2 * float(np.sum(pull * shape))
                gradient[at + 1] -= noise**2 * float(np.trace(pull))
        return cost, gradient


def _squared(first: Numbers, second: Numbers) -> Numbers:
    """Squared distances between rows, shape ``[first, second]``."""
    crossed = first @ second.T
    found = np.sum(first**2, axis=1)[:, None] + np.sum(second**2, axis=1) - 2 * crossed
    positive: Numbers = np.maximum(found, 0.0)
    return positive


def _blocks(num_rows: int, num_kept: int) -> Iterator[slice]:
    size = max(1, BLOCK // max(1, num_kept))
    for start in range(0, num_rows, size):
        yield slice(start, start + size)


def _thinned(leftover: Leftover, most: int, random: np.random.Generator) -> Leftover:
    count = len(leftover.inputs)
    if count <= most:
        return leftover
    places = np.sort(random.permutation(count)[:most])
    residuals = {target: values[places] for target, values in leftover.residuals.items()}
    return Leftover(inputs=leftover.inputs[places], residuals=residuals)
