"""What to doubt about a fit of the ``paper`` or the ``power`` law to records: appendix D of the paper as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import ConfigError, DataError
from wattlaw.law.fitting import measured
from wattlaw.law.interval import require_level
from wattlaw.law.laws import law_named
from wattlaw.law.paper.diagnostics import LemmaCheck, check_lemma, diagnose
from wattlaw.law.paper.power import PowerLaw
from wattlaw.law.paper.protocol import bootstrap_offsets
from wattlaw.law.paper.scaling import PaperLaw

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.paper.least_squares import LeastSquares
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
        standard_error: robust to unequal errors (HC3).
        low: lower end of the Student interval.
        high: its upper end.
        variance_inflation: by how much the other columns inflate its variance; ``None`` for the intercept.
    """

    value: float
    standard_error: float
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
class Checkup:
    """The diagnosis of a fit.

    Attributes:
        num_records: runs of the fit.
        r2: share of the variance of ln(energy) explained.
        adjusted_r2: the same, for the number of coefficients.
        coefficients: by name.
        level: of the intervals.
        condition_number: of the design.
        durbin_watson: serial correlation of the residuals in the order of the runs; 2 is none.
        excess_kurtosis: 0 for normal residuals, above it for heavy tails.
        influential: the runs with the largest Cook's distances, largest first.
        half_width: factor from the middle of the median residual-bootstrap interval of a run to its end.
        lemma: how far the assumptions of lemma 3.3 hold, by strategy; empty where no family ran on several device
            counts with times.
    """

    num_records: int
    r2: float
    adjusted_r2: float
    coefficients: Mapping[str, Coefficient]
    level: float
    condition_number: float
    durbin_watson: float
    excess_kurtosis: float
    influential: tuple[InfluentialRun, ...]
    half_width: float
    lemma: Mapping[str, LemmaCheck]


def checkup(
    records: Sequence[RunRecord], *, law_name: str, boundary: str | None = None, level: float = 0.95
) -> Checkup:
    """Diagnose the fit of a law to the records that state a whole run.

    Raises:
        ConfigError: a law that is no regression, an unknown boundary, or a level that is none.
        DataError: no usable record, or too few for the law.
        MissingExtraError: statsmodels is not installed.
    """
    require_level(level)
    law = law_named(law_name)
    if not isinstance(law, PaperLaw | PowerLaw):
        raise ConfigError("only a regression has these diagnostics", given=law_name, allowed="paper, power")
    measurements = measured(records, laws=[law], boundary=boundary)
    table = measurements.table
    fit = law.least_squares(table)
    suite = diagnose(fit, table.text("strategy"))
    low, high = bootstrap_offsets(law.fit(table), table, table, level=level, random=np.random.default_rng(SEED))
    return Checkup(
        num_records=fit.num_records,
        r2=fit.r2,
        adjusted_r2=fit.adjusted_r2,
        coefficients=dict(_coefficients(fit, level)),
        level=level,
        condition_number=fit.condition_number,
        durbin_watson=fit.durbin_watson,
        excess_kurtosis=suite.excess_kurtosis,
        influential=tuple(_influential(fit, [record.record_id for record in measurements.records])),
        half_width=float(np.exp(np.median(high - low) / 2)),
        lemma=_lemma(table),
    )


def _coefficients(fit: LeastSquares, level: float) -> Iterator[tuple[str, Coefficient]]:
    for name, value, error in zip(fit.names, fit.coefficients.tolist(), fit.standard_errors.tolist(), strict=True):
        low, high = fit.confidence_interval(name, level)
        yield (
            name,
            Coefficient(
                value=value,
                standard_error=error,
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
