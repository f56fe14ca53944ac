"""How section 3.6 of the paper judges its law: random splits, calibration slope, residual-bootstrap intervals.

What any law is judged by is ``wattlaw.law.evaluation``; this is the paper's own way beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import ConfigError, DataError, FitError, MissingExtraError, WattlawError
from wattlaw.law.evaluation import METRICS as ANY_METRICS
from wattlaw.law.evaluation import Evaluation, Point, Split, Summary, Trial, Unjudged, Verdict
from wattlaw.law.evaluation.scores import interval_ends, score
from wattlaw.law.evaluation.verdict import Watch, measured_laws, points_of, unwatched, verdict_of
from wattlaw.law.fitting import USUAL, law_with_prior, refuse_seen
from wattlaw.law.interval import require_level
from wattlaw.law.paper.bootstrap import residual_bootstrap
from wattlaw.law.paper.log_linear import fit_least_squares, form_of, linear_names
from wattlaw.law.paper.power import PowerLaw
from wattlaw.law.paper.scaling import PaperLaw, prepared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.paper.options import PaperOptions
    from wattlaw.law.protocol import Law
    from wattlaw.run.record import RunRecord

#: What ``evaluate --protocol`` calls it.
PROTOCOL = "paper"
SEEDS = (0, 1, 2, 3, 4)
TRAINED_SHARE = 0.7
#: Refits of a bootstrap.
NUM_DRAWS = 1000
#: Held-out rows of a split that can judge a law.
FEWEST = 3
#: What is told of each law, with the calibration line: observed on predicted, of ln(energy).
METRICS = (*ANY_METRICS, "rmse_log", "slope", "intercept")


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
    law: Law,
    table: Table,
    *,
    seeds: Sequence[int] = SEEDS,
    trained_share: float = TRAINED_SHARE,
    level: float = 0.95,
    num_draws: int = NUM_DRAWS,
) -> Protocol:
    """Judge the law as section 3.6 does: 70/30 splits of the rows, stratified by architecture, five seeds.

    Everything is fitted on the training part only: coefficients, centring, speedup laws, residuals. Held-out rows
    whose strategy the training part lacks are left out.

    Raises:
        ConfigError: a share that is none.
        DataError: too few rows on either side of a split.
        MissingExtraError: statsmodels is not installed.
    """
    cuts = stratified_splits(table, seeds, trained_share)
    tried = [
        _scored(law, table, one, level=level, num_draws=num_draws, random=np.random.default_rng(seed))
        for seed, one in zip(seeds, _tried(law, table, cuts), strict=True)
    ]
    found = {name: Summary.of([figures[name] for figures in tried if name in figures]) for name in METRICS}
    return Protocol(
        r2=found["r2_log"],
        rmse=found["rmse_log"],
        slope=found["slope"],
        intercept=found["intercept"],
        coverage=_share(found["coverage"]),
        half_width=found["half_width"],
        level=level,
    )


def paper_verdict(
    records: Sequence[RunRecord],
    *,
    law_names: Sequence[str],
    prior_name: str = "none",
    num_splits: int = len(SEEDS),
    test_fraction: float = 1 - TRAINED_SHARE,
    seed: int = 0,
    level: float = 0.95,
    boundary: str | None = None,
    options: PaperOptions = USUAL,
    watch: Watch = unwatched,
) -> Verdict:
    """Judge laws on records by section 3.6: the verdict of ``judge`` with RMSE, calibration slope and intercept.

    Intervals of the paper and the power law are residual bootstraps on the training part, each residual drawn by itself
    as the paper does; every other law has its own.

    Raises:
        ConfigError: an option that is none.
        DataError: too few records, or no law that could be judged at all.
        UnknownNameError: no such law.
    """
    require_level(level)
    failures: dict[Unjudged, WattlawError] = {}
    wanted = [options.applied(law_with_prior(name, prior_name)) for name in law_names]
    for law in wanted:
        refuse_seen(law, records)
    laws, table = measured_laws(records, wanted, failures, boundary=boundary, targets=["energy"], options=options)
    cuts = tuple(stratified_splits(table, range(seed, seed + num_splits), 1 - test_fraction))
    evaluations: list[Evaluation] = []
    points: list[Point] = []
    for law in laws:
        try:
            tried = list(_tried(law, table, watch(cuts, law.name, len(cuts))))
            found = [
                _scored(law, table, one, level=level, num_draws=NUM_DRAWS, random=np.random.default_rng(seed + number))
                for number, one in enumerate(tried)
            ]
        except (DataError, FitError, MissingExtraError) as error:
            failures[Unjudged(law=law.name, target="energy", reason=str(error))] = error
            continue
        evaluations.append(_evaluation(law, tried, found, num_rows=len(table)))
        points += points_of(law, table, tried, "energy")
    return verdict_of(
        evaluations, points, failures, num_records=len(table), num_left_out=len(records) - len(table),
        num_splits=len(cuts), level=level,
    )  # fmt: skip


def _evaluation(law: Law, tried: Sequence[Trial], found: Sequence[dict[str, float]], *, num_rows: int) -> Evaluation:
    metrics = {name: [figures[name] for figures in found if name in figures] for name in METRICS}
    return Evaluation(
        law=law.name,
        protocol=PROTOCOL,
        target="energy",
        part="pooled",
        metrics={name: Summary.of(values) for name, values in metrics.items() if values},
        num_rows=num_rows,
        num_uncovered=sum(len(one.cut.test) - len(one.rows) for one in tried),
        num_failed=0,
        failure="",
    )


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


def _tried(law: Law, table: Table, cuts: Iterable[Split]) -> Iterator[Trial]:
    """Fit on each training part; a split that cannot be fitted is an error here, of so few."""
    for cut in cuts:
        calibration = law.fit(table.take(cut.train))
        rows = cut.test[law.covers(calibration, table.take(cut.test))]
        if len(rows) < FEWEST:
            raise DataError("too few held-out rows to judge a law", given=len(rows), allowed=f"at least {FEWEST}")
        test = table.take(rows)
        estimate = law.estimate(calibration, test)
        yield Trial(cut=cut, rows=rows, test=test, calibration=calibration, estimate=estimate, failure="")


def _scored(
    law: Law, table: Table, tried: Trial, *, level: float, num_draws: int, random: np.random.Generator
) -> dict[str, float]:
    """Score one split: the metrics of every protocol, and observed on predicted as a line."""
    assert tried.calibration is not None
    assert tried.estimate is not None
    measured = tried.test.positive("energy_j")
    predicted = np.log(tried.estimate.energy_j)
    errors = np.log(measured) - predicted
    if isinstance(law, PaperLaw | PowerLaw):
        trained = table.take(tried.cut.train)
        ends: tuple[NDArray[np.float64], NDArray[np.float64]] | None = bootstrap_offsets(
            tried.calibration, trained, tried.test, level=level, random=random, num_draws=num_draws
        )
    else:
        ends = interval_ends(tried.calibration, tried.test, "energy", level)
    figures = score(errors, measured, ends)
    if "r2_log" not in figures:
        raise DataError("all held-out rows took the same energy: there is nothing to explain", given=len(measured))
    slope, intercept = np.polyfit(predicted, np.log(measured), 1)
    return figures | {
        "rmse_log": float(np.sqrt(np.mean(errors**2))),
        "slope": float(slope),
        "intercept": float(intercept),
    }


def _share(percent: Summary) -> Summary:
    return Summary(
        median=percent.median / 100,
        lower_quartile=percent.lower_quartile / 100,
        upper_quartile=percent.upper_quartile / 100,
        count=percent.count,
    )


def bootstrap_offsets(
    calibration: Calibration,
    trained: Table,
    new: Table,
    *,
    level: float,
    random: np.random.Generator,
    num_draws: int = NUM_DRAWS,
    by_family: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of each new run's residual-bootstrap interval, as offsets of ln(energy) from its prediction.

    Args:
        calibration: of the power or the paper law.
        trained: the rows that it was fitted to.
        new: the rows to predict.
        level: share of new runs that the interval is to cover.
        random: where the draws come from.
        num_draws: refits.
        by_family: rows of a configuration family err together; without it each row by itself, as the paper does.
    """
    form, names = form_of(calibration), linear_names(calibration)
    seen = prepared(calibration, trained)
    design = form.design(seen, names)
    fit = fit_least_squares(seen, form, covariance="classical")
    new_design = form.design(prepared(calibration, new), names)
    groups = trained.text("group") if by_family else None
    return residual_bootstrap(fit, design, new_design, level=level, random=random, num_draws=num_draws, groups=groups)
