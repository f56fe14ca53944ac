"""Prediction intervals from held-out residuals.

A residual is ln(observed / predicted) of a run that the fit did not see, or as if it had not. The interval of a new
prediction multiplies its middle by the exponentials of their quantiles: split conformal prediction on the logarithmic
scale (Vovk et al. 2005; Lei et al. 2018, J. Am. Stat. Assoc. 113), which covers at its level whatever the shape of the
errors, as far as the new run is like those that left the residuals. So the residuals are chosen by what the run is:
on a machine that the fit knows well, the machine's own; outside of the fitted domain, those of runs larger than a fit
had seen; on an unknown machine, those of machines left out. Farther out than measured nobody knows how errors grow:
there the interval widens with the logarithm of the distance, twice as wide one factor e beyond the range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration, Residuals

#: Fewer held-out residuals of a machine than this say too little about their tails; cold ones are then added.
ENOUGH_RESIDUALS = 40


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
    if residuals.size < 4:
        raise DataError(
            "too few held-out residuals for an interval",
            given=residuals.size,
            allowed="at least 4",
            hint="fitting to more runs, or with a prior",
        )
    rank = min(1.0, (residuals.size + 1) * (1 - (1 - level) / 2) / residuals.size)
    low, high = (np.quantile(signed, rank, method="inverted_cdf") for signed in (-residuals, residuals))
    return min(-float(low), 0.0), max(float(high), 0.0)


def distances(calibration: Calibration, table: Table) -> NDArray[np.float64]:
    """How far each run is from the range that the fit saw, by column of the domain: shape ``[runs, columns]``.

    The distance is the logarithm of the ratio to the nearer end of the range, 0 within it, and 1 for a run that has
    some of what every run of the fit had none of.
    """
    found = np.zeros((len(table), len(calibration.domain)))
    for position, (name, (low, high)) in enumerate(calibration.domain.items()):
        values = table.numbers(name)
        if high > 0:
            found[:, position] = np.log(np.maximum(values / high, 1.0))
        else:
            found[:, position] = values > 0
        if low > 0:
            found[:, position] += np.log(np.maximum(low / np.maximum(values, low * 1e-6), 1.0))
    return np.where(found > 1e-9, found, 0.0)


def outside_columns(calibration: Calibration, table: Table) -> tuple[tuple[str, ...], ...]:
    """Name, for each run, the columns that leave the range that the fit saw."""
    names = list(calibration.domain)
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
    cold = is_cold(calibration, table)
    distance = distances(calibration, table).max(axis=1, initial=0.0)
    low, high = np.empty(len(table)), np.empty(len(table))
    for machine in np.unique(machines):
        for is_outside in (False, True):
            rows = (machines == machine) & ((distance > 0) == is_outside)
            if rows.any():
                kept = _residuals(calibration, str(machine), cold=bool(cold[rows][0]), outside=is_outside)
                low[rows], high[rows] = ends(np.asarray(getattr(kept, target)), level)
    return low * (1 + distance), high * (1 + distance)


def _residuals(calibration: Calibration, machine: str, *, cold: bool, outside: bool) -> Residuals:
    """Choose the residuals for runs of one kind; what is missing is replaced by what is wider, never by less."""
    if cold:
        return Residuals.joined([calibration.outside, calibration.cold]) if outside else calibration.cold
    own = calibration.machines[machine].residuals if machine in calibration.machines else calibration.residuals
    if outside:
        return Residuals.joined([own, calibration.outside, calibration.cold])
    few = max(len(own.energy), len(own.duration)) < ENOUGH_RESIDUALS
    return Residuals.joined([own, calibration.cold]) if few and machine else own
