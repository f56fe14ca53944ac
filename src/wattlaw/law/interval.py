"""Prediction intervals from held-out residuals.

A residual is ln(observed / predicted) of a run that the fit did not see, or as if it had not. The interval of a new
prediction multiplies its middle by the exponentials of their quantiles: split conformal prediction on the logarithmic
scale (Vovk et al. 2005; Lei et al. 2018, J. Am. Stat. Assoc. 113), which covers at its level whatever the shape of the
errors, as far as the new run is like those that left the residuals.

Runs differ in how sure a prediction can be. A law that says how far each may be off (``spread``) has its residuals
taken in units of that, and the interval is as much wider as the run is less sure (normalised conformal prediction, Lei
et al. 2018, section 5.2). What the units are worth depends on what is known of the machine:

- many runs: the quantiles of its own residuals;
- few runs: Student's t with their scale, shrunk to what was expected;
- none: Student's t with the error of machines that were left out of the fit, as few as they are.

Outside of the fitted domain the error of runs that were larger than their fit comes on top, in quadrature, more so
with the logarithm of the distance, and what was fitted on the machine counts for less: nobody has measured how errors
grow there. Laws that do not know their spread have quantiles of the residuals themselves, chosen by the same kinds,
and twice as wide one factor e beyond the range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration, Residuals
from wattlaw.law.spread import knows_spreads, spreads

#: Fewer held-out residuals of a machine than this say too little about their tails; cold ones are then added.
ENOUGH_RESIDUALS = 40
#: How many runs of a machine say as much about its noise as is known before: twice the inverse variance of the
#: logarithm of machines' variances, which differ by a factor of 3 or so.
EXPECTED_RUNS = 4
#: Fewer tell nothing about a spread.
LEAST_RESIDUALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A number with its lower and upper end at a level; all three in the unit of the field that holds it."""

    low: float
    mid: float
    high: float
    level: float

    def __post_init__(self) -> None:
        """Refuse ends that are out of order."""
        if not self.low <= self.mid <= self.high:
            raise ConfigError("an interval needs low <= mid <= high", given=(self.low, self.mid, self.high))
        require_level(self.level)


def require_level(level: float) -> float:
    """Return ``level`` if it is one, a share of runs strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ConfigError("a level is a share of runs", given=level, allowed="between 0 and 1, such as 0.95")
    return level


def ends(residuals: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the lower and upper quantile of ``residuals`` (shape ``[n]``) at ``level``, never on the wrong side of 0.

    With n residuals the outermost ones are taken where the finite-sample rank (n + 1) level asks for more.

    Raises:
        DataError: fewer than four residuals tell nothing about their spread.
    """
    require_level(level)
    if residuals.size < LEAST_RESIDUALS:
        raise DataError(
            "too few held-out residuals for an interval",
            given=residuals.size,
            allowed="at least 4",
            hint="fitting to more runs, or with a prior",
        )
    rank = min(1.0, (residuals.size + 1) * (1 - (1 - level) / 2) / residuals.size)
    low, high = (np.quantile(signed, rank, method="inverted_cdf") for signed in (-residuals, residuals))
    return min(-float(low), 0.0), max(float(high), 0.0)


def student(level: float, degrees: int) -> float:
    """Return what Student's t stays within, on either side of 0, with probability ``level``.

    By halving where the series of whole degrees of freedom reaches the level (Abramowitz and Stegun 1964, Handbook of
    Mathematical Functions, 26.7.3 and 26.7.4); scipy has it too, and takes longer to import than the prediction.

    >>> round(student(0.95, 2), 3), round(student(0.95, 30), 3)
    (4.303, 2.042)
    """
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t over the root of the degrees
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _within(angle, degrees) < level else (low, angle)
    return math.sqrt(degrees) * math.tan(low)


def _within(angle: float, degrees: int) -> float:
    term = math.cos(angle) if degrees % 2 else 1.0
    total = 0.0
    for power in range(1 + degrees % 2, degrees, 2):
        total += term
        term *= power / (power + 1) * math.cos(angle) ** 2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if degrees % 2 else total


def distances(calibration: Calibration, table: Table) -> NDArray[np.float64]:
    """How far each run is from the range that the fit saw, by column of the domain: shape ``[runs, columns]``.

    The distance is the logarithm of the ratio to the nearer end of the range, 0 within it, and 1 for a run that has
    some of what every run of the fit had none of, or is of another kind than all of them. A table that does not say
    of what kind its runs are is taken to be alike.
    """
    found = np.zeros((len(table), len(calibration.domain) + len(calibration.kinds)))
    for position, (name, (low, high)) in enumerate(calibration.domain.items()):
        values = table.numbers(name)
        if high > 0:
            found[:, position] = np.log(np.maximum(values / high, 1.0))
        else:
            found[:, position] = values > 0
        if low > 0:
            found[:, position] += np.log(np.maximum(low / np.maximum(values, low * 1e-6), 1.0))
    for position, (name, seen) in enumerate(calibration.kinds.items(), start=len(calibration.domain)):
        if name in table:
            found[:, position] = ~np.isin(table.text(name), seen)
    return np.where(found > 1e-9, found, 0.0)


def outside_columns(calibration: Calibration, table: Table) -> tuple[tuple[str, ...], ...]:
    """Name, for each run, the columns that leave the range that the fit saw."""
    names = [*calibration.domain, *calibration.kinds]
    return tuple(tuple(names[at] for at in np.flatnonzero(row)) for row in distances(calibration, table))


def is_cold(calibration: Calibration, table: Table) -> NDArray[np.bool_]:
    """Tell of each run whether nothing was measured on its machine; shape ``[runs]``.

    A law that does not tell machines apart is warm everywhere that it can be used.
    """
    if not calibration.machines:
        return np.zeros(len(table), dtype=bool)
    return ~np.isin(table.text("machine"), list(calibration.machines))


def ends_of_runs(
    calibration: Calibration, table: Table, *, target: str, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of the interval of ln(observed / predicted) of each run, shape ``[runs]`` each.

    Args:
        calibration: whose residuals are used.
        table: the runs.
        target: ``energy`` or ``duration``.
        level: share of runs that the interval is to hold.

    Raises:
        DataError: the calibration has no residuals of the kind that a run needs.
    """
    machines = table.text("machine") if calibration.machines else np.full(len(table), "")
    distance = distances(calibration, table).max(axis=1, initial=0.0)
    if not knows_spreads(calibration) or target not in calibration.noise:
        return _ends_by_residuals(calibration, machines, distance, target, level)
    low, high = np.empty(len(table)), np.empty(len(table))
    for machine in np.unique(machines):
        rows = machines == machine
        low[rows], high[rows] = _scaled_ends(calibration, str(machine), target, level)
    spread = spreads(calibration, table, target, distance)
    larger = np.where(distance > 0, calibration.noise[target] * (1 + distance), 0.0)
    low_outside, high_outside = _outside_ends(calibration, target, level)
    return -np.hypot(low * spread, low_outside * larger), np.hypot(high * spread, high_outside * larger)


def _scaled_ends(calibration: Calibration, machine: str, target: str, level: float) -> tuple[float, float]:
    """Ends of runs within the domain, in units of their expected spread."""
    if machine not in calibration.machines:
        half = _cold_end(calibration, target, level)
    else:
        errors = calibration.machines[machine].residuals.scaled(target)
        if errors.size >= ENOUGH_RESIDUALS:
            return ends(errors, level)
        half = _few_end(errors, level)
    return -half, half


def _outside_ends(calibration: Calibration, target: str, level: float) -> tuple[float, float]:
    """Ends that runs larger than their fit add, in units of what the law leaves unexplained within its domain."""
    errors = calibration.outside.scaled(target)
    normal = NormalDist().inv_cdf((1 + level) / 2)
    low, high = ends(errors, level) if errors.size >= LEAST_RESIDUALS else (0.0, 0.0)
    return min(low, -normal), max(high, normal)


def _cold_end(calibration: Calibration, target: str, level: float) -> float:
    """Half width on a machine that nothing was measured on, in units of the expected spread.

    What was seen of cold predictions are few machines, whose runs err together: Student's t with as many degrees of
    freedom, times their root mean square. With fewer than two the spread is what it was expected to be.
    """
    errors = calibration.cold.scaled(target)
    if calibration.num_cold < 2 or not errors.size:
        return NormalDist().inv_cdf((1 + level) / 2)
    return student(level, calibration.num_cold) * float(np.sqrt(np.mean(errors**2)))


def _few_end(errors: NDArray[np.float64], level: float) -> float:
    """Half width on a machine with few runs, in units of the expected spread, from these runs' ``errors``.

    How far machines differ in their noise makes what is expected worth ``EXPECTED_RUNS``: Student's t of the posterior
    with a scaled inverse chi-squared prior (Gelman et al. 2013, Bayesian Data Analysis, section 2.6).
    """
    weight = EXPECTED_RUNS + errors.size
    scale = np.sqrt((EXPECTED_RUNS + np.sum(errors**2)) / weight)
    return student(level, weight) * float(scale)


def _ends_by_residuals(
    calibration: Calibration, machines: NDArray[np.str_], distance: NDArray[np.float64], target: str, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends from the residuals as they are, of a calibration that does not know how sure its parameters are."""
    low, high = np.empty(len(machines)), np.empty(len(machines))
    for machine in np.unique(machines):
        for is_outside in (False, True):
            rows = (machines == machine) & ((distance > 0) == is_outside)
            if rows.any():
                kept = _residuals(calibration, str(machine), outside=is_outside)
                low[rows], high[rows] = ends(np.asarray(getattr(kept, target)), level)
    return low * (1 + distance), high * (1 + distance)


def _residuals(calibration: Calibration, machine: str, *, outside: bool) -> Residuals:
    """Choose the residuals for runs of one kind; what is missing is replaced by what is wider, never by less."""
    if calibration.machines and machine not in calibration.machines:
        return Residuals.joined([calibration.outside, calibration.cold]) if outside else calibration.cold
    own = calibration.machines[machine].residuals if machine in calibration.machines else calibration.residuals
    if outside:
        return Residuals.joined([own, calibration.outside, calibration.cold])
    few = max(len(own.energy), len(own.duration)) < ENOUGH_RESIDUALS
    return Residuals.joined([own, calibration.cold]) if few and machine else own
