"""How the paper and its follow-up judge the law: random splits, medians, calibration, interval coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import ConfigError, DataError
from wattlaw.law.bootstrap import residual_bootstrap
from wattlaw.law.log_linear import fit_least_squares, form_of, linear_names
from wattlaw.law.paper import PaperLaw, prepared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration

SEEDS = (0, 1, 2, 3, 4)
TRAINED_SHARE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median and quartiles of a figure over the splits."""

    low_quartile: float
    median: float
    high_quartile: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise the figure of each split."""
        low, middle, high = np.quantile(np.asarray(values, dtype=np.float64), [0.25, 0.5, 0.75])
        return cls(low_quartile=float(low), median=float(middle), high_quartile=float(high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Out-of-sample figures of ln(energy), section 3.6 of the paper.

    Attributes:
        r2: share of the variance of the held-out rows explained.
        rmse: root of the mean squared error.
        slope: of observed on predicted, 1 where the law is calibrated.
        intercept: of observed on predicted, 0 where the law is calibrated.
        coverage: share of held-out rows inside their residual-bootstrap interval.
        half_width: factor by which the interval's ends lie off its middle, the geometric mean of both sides.
        level: of the intervals.
        num_splits: splits that the spreads are over.
    """

    r2: Spread
    rmse: Spread
    slope: Spread
    intercept: Spread
    coverage: Spread
    half_width: Spread
    level: float
    num_splits: int


def run_protocol(
    law: PaperLaw,
    table: Table,
    *,
    seeds: Sequence[int] = SEEDS,
    trained_share: float = TRAINED_SHARE,
    level: float = 0.95,
    num_draws: int = 1000,
) -> Protocol:
    """Judge the law as section 3.6 does: 70/30 splits of the rows, stratified by architecture, five seeds.

    Everything is fitted on the training part only: coefficients, centring, speedup laws, residuals. Held-out rows
    whose strategy the training part lacks are left out.

    Raises:
        DataError: too few rows on either side of a split.
        MissingExtraError: statsmodels is not installed.
    """
    figures = [
        _judge(law, table, trained, level=level, num_draws=num_draws, random=np.random.default_rng(seed))
        for seed, trained in zip(seeds, stratified_splits(table, seeds, trained_share), strict=True)
    ]
    spreads = {name: Spread.of([figure[name] for figure in figures]) for name in figures[0]}
    return Protocol(**spreads, level=level, num_splits=len(figures))


def stratified_splits(table: Table, seeds: Sequence[int], trained_share: float) -> Iterator[NDArray[np.bool_]]:
    """Yield one mask of training rows per seed, with ``trained_share`` of the rows of each architecture."""
    _require_share(trained_share)
    for seed in seeds:
        random = np.random.default_rng(seed)
        trained = np.zeros(len(table), dtype=np.bool_)
        for architecture in np.unique(table.text("architecture")):
            rows = random.permutation(np.flatnonzero(table.text("architecture") == architecture))
            trained[rows[: round(trained_share * len(rows))]] = True
        yield trained


def grouped_splits(table: Table, seeds: Sequence[int], trained_share: float) -> Iterator[NDArray[np.bool_]]:
    """Yield one mask of training rows per seed, which never divides a configuration family (column ``group``)."""
    _require_share(trained_share)
    groups = np.unique(table.text("group"))
    for seed in seeds:
        chosen = np.random.default_rng(seed).permutation(groups)[: round(trained_share * len(groups))]
        yield np.isin(table.text("group"), chosen)


def held_out_r2(law: PaperLaw, table: Table, *, num_splits: int = 20, trained_share: float = TRAINED_SHARE) -> float:
    """Return the median R2 of ln(energy) over splits by configuration family, as the follow-up reports it."""
    splits = grouped_splits(table, range(num_splits), trained_share)
    return float(np.median([_r2_of_split(law, table, trained).r2 for trained in splits]))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Figures of ln(energy) of rows that were left out.

    Attributes:
        r2: share of their variance explained; below zero where their mean would have done better.
        r2_without_bias: the same after the mean error is taken off.
        bias: mean of ln(observed / predicted).
        num_trained: rows of the fit.
        num_tested: rows predicted.
        num_left: rows not predicted, because the fit has seen none of their strategy.
    """

    r2: float
    r2_without_bias: float
    bias: float
    num_trained: int
    num_tested: int
    num_left: int


def leave_one_out_r2(law: PaperLaw, table: Table, *, column: str, value: str) -> LeftOut:
    """Fit to all rows but those whose ``column`` is ``value`` (a GPU model), and predict these.

    Raises:
        DataError: no row of that value, or none of the others.
    """
    trained = table.text(column) != value
    if trained.all() or not trained.any():
        raise DataError(f"leaving out one {column} needs rows of it and of others", given=value)
    return _r2_of_split(law, table, trained)


def _r2_of_split(law: PaperLaw, table: Table, trained: NDArray[np.bool_]) -> LeftOut:
    calibration = law.fit(table.take(trained))
    others = table.take(~trained)
    known = law.covers(calibration, others)
    tested = _require_rows(others.take(known))
    observed = np.log(tested.positive("energy_j"))
    errors = observed - np.log(law.estimate(calibration, tested).energy_j)
    return LeftOut(
        r2=_r2(observed, errors),
        r2_without_bias=_r2(observed, errors - errors.mean()),
        bias=float(errors.mean()),
        num_trained=int(trained.sum()),
        num_tested=len(tested),
        num_left=int((~known).sum()),
    )


def _judge(
    law: PaperLaw,
    table: Table,
    trained_rows: NDArray[np.bool_],
    *,
    level: float,
    num_draws: int,
    random: np.random.Generator,
) -> dict[str, float]:
    trained, held_out = table.take(trained_rows), table.take(~trained_rows)
    calibration = law.fit(trained)
    tested = _require_rows(held_out.take(law.covers(calibration, held_out)))
    observed = np.log(tested.positive("energy_j"))
    predicted = np.log(law.estimate(calibration, tested).energy_j)
    low, high = bootstrap_offsets(calibration, trained, tested, level=level, random=random, num_draws=num_draws)
    errors = observed - predicted
    slope, intercept = np.polyfit(predicted, observed, 1)
    return {
        "r2": _r2(observed, errors),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "slope": float(slope),
        "intercept": float(intercept),
        "coverage": float(np.mean((low <= errors) & (errors <= high))),
        "half_width": float(np.exp(np.median(high - low) / 2)),
    }


def bootstrap_offsets(
    calibration: Calibration,
    trained: Table,
    new: Table,
    *,
    level: float,
    random: np.random.Generator,
    num_draws: int = 1000,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of each new run's residual-bootstrap interval, as offsets of ln(energy) from its prediction.

    Args:
        calibration: of the power or the paper law.
        trained: the rows that it was fitted to.
        new: the rows to predict.
        level: share of new runs that the interval is to cover.
        random: where the draws come from.
        num_draws: refits.
    """
    form, names = form_of(calibration), linear_names(calibration)
    seen = prepared(calibration, trained)
    design = form.design(seen, names)
    fit = fit_least_squares(seen, form, covariance="classical")
    new_design = form.design(prepared(calibration, new), names)
    return residual_bootstrap(fit, design, new_design, level=level, random=random, num_draws=num_draws)


def _r2(observed: NDArray[np.float64], errors: NDArray[np.float64]) -> float:
    return float(1 - np.sum(errors**2) / np.sum((observed - observed.mean()) ** 2))


def _require_rows(tested: Table) -> Table:
    if len(tested) < 3:
        raise DataError("too few held-out rows to judge a law", given=len(tested), allowed="at least 3")
    return tested


def _require_share(share: float) -> None:
    if not 0 < share < 1:
        raise ConfigError("the share of training rows must lie between 0 and 1", given=share)
