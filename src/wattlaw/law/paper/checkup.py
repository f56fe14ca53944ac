"""What to doubt about a fit of the ``paper`` or the ``power`` law to records: appendix D of the paper as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import ConfigError, DataError
from wattlaw.law.fitting import USUAL, measured
from wattlaw.law.interval import require_level
from wattlaw.law.laws import law_named
from wattlaw.law.paper.diagnostics import LemmaCheck, check_lemma, diagnose
from wattlaw.law.paper.least_squares import LikelihoodRatio, likelihood_ratio
from wattlaw.law.paper.options import PaperOptions
from wattlaw.law.paper.power import PowerLaw
from wattlaw.law.paper.protocol import bootstrap_offsets
from wattlaw.law.paper.scaling import PaperLaw

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.paper.least_squares import Covariance, LeastSquares
    from wattlaw.run.record import RunRecord

#: Runs that are named for their influence.
NAMED = 5
#: Of the draws of the bootstrap.
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """One coefficient of a regression.

    Attributes:
        value: as fitted.
        standard_error: robust to unequal errors (HC3), as the paper has it.
        family_error: robust to any correlation within a configuration family; ``None`` with fewer than two families.
        low: lower end of the Student interval.
        high: its upper end.
        variance_inflation: by how much the other columns inflate its variance; ``None`` for the intercept.
    """

    value: float
    standard_error: float
    family_error: float | None
    low: float
    high: float
    variance_inflation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluentialRun:
    """A run that moves the fit.

    Attributes:
        record_id: of the run.
        leverage: share of its own fitted value that it decides.
        studentized: residual in units of its own standard deviation.
        cooks_distance: how far all fitted values move without it.
    """

    record_id: str
    leverage: float
    studentized: float
    cooks_distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyTest:
    """What eta_h adds to the fit, as in table 4 of the paper: the same law on the same runs with and without it.

    Attributes:
        r2: with eta_h.
        r2_without: without it.
        rmse: root of the mean squared residual of ln(energy), with eta_h.
        rmse_without: without it.
        likelihood_ratio: test of its exponent being 0. Its chi-squared takes the runs as independent; where families
            err together it makes the evidence look stronger than it is.
    """

    r2: float
    r2_without: float
    rmse: float
    rmse_without: float
    likelihood_ratio: LikelihoodRatio


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The diagnosis of a fit.

    Attributes:
        num_records: runs of the fit.
        r2: share of the variance of ln(energy) explained.
        adjusted_r2: the same, for the number of coefficients.
        coefficients: by name.
        level: of the intervals.
        covariance: which errors the intervals of the coefficients are made of.
        num_families: configuration families among the runs.
        condition_number: of the design.
        durbin_watson: serial correlation of the residuals in the order of the runs; 2 is none.
        excess_kurtosis: 0 for normal residuals, above it for heavy tails.
        influential: the runs with the largest Cook's distances, largest first.
        half_width: factor from the middle of the median residual-bootstrap interval of a run to its end, residuals
            drawn by family.
        half_width_independent: the same with each residual drawn by itself, as the paper does.
        efficiency_test: what eta_h adds; ``None`` where the law has none.
        lemma: how far the assumptions of lemma 3.3 hold, by strategy; empty where no family ran on several device
            counts with times.
    """

    num_records: int
    r2: float
    adjusted_r2: float
    coefficients: Mapping[str, Coefficient]
    level: float
    covariance: Covariance
    num_families: int
    condition_number: float
    durbin_watson: float
    excess_kurtosis: float
    influential: tuple[InfluentialRun, ...]
    half_width: float
    half_width_independent: float
    efficiency_test: EfficiencyTest | None
    lemma: Mapping[str, LemmaCheck]


def checkup(
    records: Sequence[RunRecord],
    *,
    law_name: str,
    boundary: str | None = None,
    level: float = 0.95,
    options: PaperOptions = USUAL,
) -> Checkup:
    """Diagnose the fit of a law to the records that state a whole run.

    Runs of one configuration family resemble each other, so that intervals of coefficients come from errors by family
    where there are several, unless the options name a covariance.

    Raises:
        ConfigError: a law that is no regression, an unknown boundary, or a level that is none.
        DataError: no usable record, or too few for the law.
        MissingExtraError: statsmodels is not installed.
    """
    require_level(level)
    law = options.applied(law_named(law_name))
    if not isinstance(law, PaperLaw | PowerLaw):
        raise ConfigError("only a regression has these diagnostics", given=law_name, allowed="paper, power")
    measurements = measured(records, laws=[law], boundary=boundary, options=options)
    table = measurements.table
    num_families = len(np.unique(table.text("group")))
    robust = replace(law, covariance="HC3").least_squares(table)
    by_family = replace(law, covariance="cluster").least_squares(table) if num_families > 1 else None
    match options.covariance:
        case "HC3":
            fit = robust
        case None:
            fit = by_family or robust
        case _:
            fit = law.least_squares(table)
    suite = diagnose(fit, table.text("strategy"))
    calibration = law.fit(table)
    return Checkup(
        num_records=fit.num_records,
        r2=fit.r2,
        adjusted_r2=fit.adjusted_r2,
        coefficients=dict(_coefficients(fit, robust, by_family, level)),
        level=level,
        covariance=fit.covariance_kind,
        num_families=num_families,
        condition_number=fit.condition_number,
        durbin_watson=fit.durbin_watson,
        excess_kurtosis=suite.excess_kurtosis,
        influential=tuple(_influential(fit, [record.record_id for record in measurements.records])),
        half_width=_half_width(calibration, table, level, by_family=num_families > 1),
        half_width_independent=_half_width(calibration, table, level, by_family=False),
        efficiency_test=efficiency_test(law, table) if isinstance(law, PaperLaw) else None,
        lemma=_lemma(table),
    )


def efficiency_test(law: PaperLaw, table: Table) -> EfficiencyTest | None:
    """Fit the law with and without eta_h; ``None`` where it has none.

    Raises:
        DataError: as ``PaperLaw.fit``.
        MissingExtraError: statsmodels is not installed.
    """
    if law.efficiency == "none":
        return None
    fit, without = law.least_squares(table), replace(law, efficiency="none").least_squares(table)
    return EfficiencyTest(
        r2=fit.r2,
        r2_without=without.r2,
        rmse=fit.rmse,
        rmse_without=without.rmse,
        likelihood_ratio=likelihood_ratio(fit, without),
    )


def _half_width(calibration: Calibration, table: Table, level: float, *, by_family: bool) -> float:
    random = np.random.default_rng(SEED)
    low, high = bootstrap_offsets(calibration, table, table, level=level, random=random, by_family=by_family)
    return float(np.exp(np.median(high - low) / 2))


def _coefficients(
    fit: LeastSquares, robust: LeastSquares, by_family: LeastSquares | None, level: float
) -> Iterator[tuple[str, Coefficient]]:
    family_errors = [None] * len(fit.names) if by_family is None else by_family.standard_errors.tolist()
    errors = zip(robust.standard_errors.tolist(), family_errors, strict=True)
    for name, value, (error, family_error) in zip(fit.names, fit.coefficients.tolist(), errors, strict=True):
        low, high = fit.confidence_interval(name, level)
        yield (
            name,
            Coefficient(
                value=value,
                standard_error=error,
                family_error=family_error,
                low=low,
                high=high,
                variance_inflation=fit.variance_inflation.get(name),
            ),
        )


def _influential(fit: LeastSquares, names: Sequence[str]) -> Iterator[InfluentialRun]:
    for row in np.argsort(-fit.cooks_distance, kind="stable")[:NAMED].tolist():
        yield InfluentialRun(
            record_id=names[row],
            leverage=float(fit.leverage[row]),
            studentized=float(fit.studentized[row]),
            cooks_distance=float(fit.cooks_distance[row]),
        )


def _lemma(table: Table) -> dict[str, LemmaCheck]:
    """Check the lemma, where the runs can tell."""
    try:
        return check_lemma(table)
    except DataError:
        return {}
