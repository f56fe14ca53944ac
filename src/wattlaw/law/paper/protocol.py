"""How section 3.6 of the paper judges its law: random splits, calibration slope, residual-bootstrap intervals.

What any law is judged by is ``wattlaw.law.evaluation``; this is the paper's own way beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import ConfigError, DataError
from wattlaw.law.evaluation import Split, Summary
from wattlaw.law.evaluation.scores import r2_log
from wattlaw.law.paper.bootstrap import residual_bootstrap
from wattlaw.law.paper.log_linear import fit_least_squares, form_of, linear_names
from wattlaw.law.paper.scaling import PaperLaw, prepared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration

SEEDS = (0, 1, 2, 3, 4)
TRAINED_SHARE = 0.7


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
    """

    r2: Summary
    rmse: Summary
    slope: Summary
    intercept: Summary
    coverage: Summary
    half_width: Summary
    level: float


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
        ConfigError: a share that is none.
        DataError: too few rows on either side of a split.
        MissingExtraError: statsmodels is not installed.
    """
    figures = [
        _judge(law, table, cut, level=level, num_draws=num_draws, random=np.random.default_rng(seed))
        for seed, cut in zip(seeds, stratified_splits(table, seeds, trained_share), strict=True)
    ]
    return Protocol(**{name: Summary.of([figure[name] for figure in figures]) for name in figures[0]}, level=level)


def stratified_splits(table: Table, seeds: Sequence[int], trained_share: float) -> Iterator[Split]:
    """Yield one split per seed, with ``trained_share`` of the rows of each architecture in training.

    Raises:
        ConfigError: a share that is none.
    """
    if not 0 < trained_share < 1:
        raise ConfigError("the share of training rows must lie between 0 and 1", given=trained_share)
    architectures = table.text("architecture")
    for seed in seeds:
        random = np.random.default_rng(seed)
        trained = np.zeros(len(table), dtype=np.bool_)
        for architecture in np.unique(architectures):
            rows = random.permutation(np.flatnonzero(architectures == architecture))
            trained[rows[: round(trained_share * len(rows))]] = True
        yield Split(name=f"seed {seed}", train=np.flatnonzero(trained), test=np.flatnonzero(~trained))


def _judge(
    law: PaperLaw, table: Table, cut: Split, *, level: float, num_draws: int, random: np.random.Generator
) -> dict[str, float]:
    trained, held_out = table.take(cut.train), table.take(cut.test)
    calibration = law.fit(trained)
    tested = held_out.take(law.covers(calibration, held_out))
    if len(tested) < 3:
        raise DataError("too few held-out rows to judge a law", given=len(tested), allowed="at least 3")
    measured = tested.positive("energy_j")
    predicted = np.log(law.estimate(calibration, tested).energy_j)
    low, high = bootstrap_offsets(calibration, trained, tested, level=level, random=random, num_draws=num_draws)
    errors = np.log(measured) - predicted
    slope, intercept = np.polyfit(predicted, np.log(measured), 1)
    r2 = r2_log(errors, measured)
    if r2 is None:
        raise DataError("all held-out rows took the same energy: there is nothing to explain", given=len(tested))
    return {
        "r2": r2,
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
