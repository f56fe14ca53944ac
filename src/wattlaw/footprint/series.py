"""A price or an intensity over time, and when to start a run under it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """What a kilowatt-hour costs, in money or in grams, constant over each of equal steps of time.

    Attributes:
        start_s: when the first step begins, in seconds since 1970 UTC.
        step_s: length of a step.
        per_kwh: value of each step, shape ``[steps]``; NaN where it is missing.
        name: what it is, for people, such as ``life-cycle carbon of DE``.
        source: the file that it comes from.
        estimated: share of the steps that the source itself calls estimated; ``None`` where it does not say.
    """

    start_s: float
    step_s: float
    per_kwh: NDArray[np.float64]
    name: str = ""
    source: str = ""
    estimated: float | None = None

    def __post_init__(self) -> None:
        """Refuse a series without steps, and steps that take no time."""
        if self.per_kwh.ndim != 1 or self.per_kwh.size == 0:
            raise DataError("a series needs a value", given="none", allowed="one per step of time")
        if not self.step_s > 0:
            raise ConfigError("step_s must be above zero", given=self.step_s, allowed="> 0")

    @property
    def end_s(self) -> float:
        """When the last step ends."""
        return self.start_s + self.step_s * self.per_kwh.size

    def mean_per_kwh(self, start_s: float, duration_s: float) -> float:
        """What the average kilowatt-hour of a run costs that draws the same power all the time.

        Raises:
            DataError: the series does not reach over the run, or a step within it is missing.
        """
        require_covered(self, start_s, start_s + duration_s)
        return float(means(self, np.array([start_s - self.start_s]), duration_s)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class BestStart:
    """When a run costs least per kilowatt-hour, within a window.

    Attributes:
        start_s: the best time to start; the first of equals.
        per_kwh: what an average kilowatt-hour of the run costs then.
        now_per_kwh: the same, starting when the window opens.
        worst_start_s: the worst time to start; the first of equals.
        worst_per_kwh: what it costs then.
    """

    start_s: float
    per_kwh: float
    now_per_kwh: float
    worst_start_s: float
    worst_per_kwh: float

    @property
    def saving(self) -> float | None:
        """Share that waiting saves against starting now; ``None`` where now costs nothing or less."""
        return _saved(self.per_kwh, self.now_per_kwh)

    @property
    def saving_against_worst(self) -> float | None:
        """Share that is saved against the worst start within the window."""
        return _saved(self.per_kwh, self.worst_per_kwh)


def best_start(series: Series, *, duration_s: float, start_s: float, window_s: float) -> BestStart:
    """Find the start within a window at which a run of steady power costs least.

    The cost of a run is the integral of the series over it, so its mean is a difference of two prefix sums over the
    duration. Between the times at which either end of the run crosses into another step, the mean changes linearly with
    the start: only these times and the ends of the window can be best, and all are tried at once.

    Args:
        series: price or intensity.
        duration_s: of the run.
        start_s: when the window opens; the run may start from then on.
        window_s: how long the run may wait; it may end after the window.

    Raises:
        ConfigError: a duration that is not above zero, or a window below zero.
        DataError: the series does not reach from the start to the end of a run that starts last, or has a gap there.
    """
    if not 0 < duration_s < float("inf"):
        raise ConfigError("duration_s must be above zero", given=duration_s, allowed="> 0")
    if not 0 <= window_s < float("inf"):
        raise ConfigError("window_s must not be negative", given=window_s, allowed=">= 0")
    require_covered(series, start_s, start_s + window_s + duration_s)
    # From here on in seconds since the series begins: seconds since 1970 have no digits left for short runs.
    first_s = start_s - series.start_s
    edges_s = series.step_s * np.arange(series.per_kwh.size + 1)
    crossings_s = np.concatenate([edges_s, edges_s - duration_s])
    within = crossings_s[(crossings_s > first_s) & (crossings_s < first_s + window_s)]
    starts_s = np.unique(np.concatenate([[first_s, first_s + window_s], within]))
    found = means(series, starts_s, duration_s)
    noise = 1e-9 * np.abs(found).max()
    best, worst = (int(np.flatnonzero(signed <= signed.min() + noise)[0]) for signed in (found, -found))
    return BestStart(
        start_s=series.start_s + float(starts_s[best]),
        per_kwh=float(found[best]),
        now_per_kwh=float(found[0]),
        worst_start_s=series.start_s + float(starts_s[worst]),
        worst_per_kwh=float(found[worst]),
    )


def means(series: Series, starts_s: NDArray[np.float64], duration_s: float) -> NDArray[np.float64]:
    """Return the mean of the series over runs of one duration, by prefix sums; shape of ``starts_s``.

    ``starts_s`` are seconds since the series begins.
    """
    sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(series.per_kwh))])

    def integral(times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of the steps up to a time, and the part of the step that it falls into."""
        return np.asarray(np.interp(times_s / series.step_s, np.arange(sums.size), sums), dtype=float)

    return (integral(starts_s + duration_s) - integral(starts_s)) * series.step_s / duration_s


def require_covered(series: Series, start_s: float, end_s: float) -> None:
    """Refuse a range of time that the series does not reach over, or within which a step is missing.

    Raises:
        DataError: with what the series covers, or the first gap.
    """
    about = series.name or "the series"
    if start_s < series.start_s or end_s > series.end_s:
        raise DataError(
            f"{about} does not cover the run and its window",
            given=f"{moment(start_s)} to {moment(end_s)}",
            allowed=f"{moment(series.start_s)} to {moment(series.end_s)}",
            hint="--start within it, or a shorter --window",
        )
    first = int((start_s - series.start_s) // series.step_s)
    stop = int(np.ceil((end_s - series.start_s) / series.step_s))
    missing = np.flatnonzero(np.isnan(series.per_kwh[first:stop]))
    if missing.size:
        gap_s = series.start_s + series.step_s * float(first + missing[0])
        raise DataError(
            f"{about} has {missing.size} gaps within the run and its window",
            given=f"the first at {moment(gap_s)}",
            allowed="a value for every step",
        )


def moment(seconds: float) -> str:
    """Write a time in UTC, to the minute.

    >>> moment(0)
    '1970-01-01T00:00Z'
    """
    return f"{datetime.fromtimestamp(round(seconds), UTC):%Y-%m-%dT%H:%M}Z"


def _saved(found: float, against: float) -> float | None:
    return None if against <= 0 else 1 - found / against
