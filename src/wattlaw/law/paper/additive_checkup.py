"""What to doubt about a fit of the additive law, and what proposition 3.1 and theorem 3.2 say of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.law.fitting import USUAL, measured
from wattlaw.law.laws import law_named
from wattlaw.law.paper.bounds import TrafficBand
from wattlaw.law.paper.run_bounds import bounds_of_runs, traffic_of

if TYPE_CHECKING:
    from wattlaw.law.paper.options import PaperOptions
    from wattlaw.run.record import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One parameter of the additive law.

    Attributes:
        value: joules per unit of C or M, or per step.
        standard_error: HC3; ``None`` on the bound of zero, where least squares tells no error.
        on_bound: whether it leans on that bound.
    """

    value: float
    standard_error: float | None
    on_bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditiveCheckup:
    """The diagnosis of an additive fit; the theorem's figures are of a training step.

    Attributes:
        num_records: runs of the fit.
        adjusted_r2: of the energy per step, in joules.
        prices: the parameters, by name.
        traffic: b, k1 and k2 of k1 C^b <= M <= k2 C^b; ``None`` where one value of C has no slope.
        theorem_applies: whether b lies in [1/2, 1).
        slope: lowest, median and highest local slope d ln E / d ln C of the runs; the theorem puts it between b and 1
            where E0 is negligible. Empty without b.
        fixed_share: median share of E0 in the energy that the law says: what the theorem neglects.
        within_band: share of the runs whose measured energy lies within the theorem's band.
        energy_over_bound: lowest, median and highest ratio of measured energy over (6).
        duration_over_bound: the same of time over (5); empty where a run has no time.
        compute_limited: share of the runs whose bound is that of compute.
    """

    num_records: int
    adjusted_r2: float
    prices: Mapping[str, Price]
    traffic: TrafficBand | None
    theorem_applies: bool
    slope: tuple[float, ...]
    fixed_share: float
    within_band: float
    energy_over_bound: tuple[float, ...]
    duration_over_bound: tuple[float, ...]
    compute_limited: float


def additive_checkup(
    records: Sequence[RunRecord], *, boundary: str | None = None, options: PaperOptions = USUAL
) -> AdditiveCheckup:
    """Diagnose the additive law's fit to the records that state a whole run.

    Raises:
        ConfigError: an unknown boundary.
        DataError: no usable record, or too few for the law.
    """
    law = options.applied(law_named("additive"))
    measurements = measured(records, laws=[law], boundary=boundary, options=options)
    table = measurements.table
    calibration = law.fit(table)
    bounds = bounds_of_runs(calibration, table, [record.require_spec() for record in measurements.records])
    terms_j, energy_j = law.estimate(calibration, table).terms_j, table.positive("energy_j")
    fixed = (terms_j["fixed"] + terms_j["strategy"]) / sum(terms_j.values(), np.zeros(len(table)))
    traffic = traffic_of(calibration)
    within = (bounds.band_low_j <= energy_j) & (energy_j <= bounds.band_high_j)
    return AdditiveCheckup(
        num_records=len(table),
        adjusted_r2=calibration.diagnostics["adjusted_r2"],
        prices={
            name: Price(
                value=value,
                standard_error=calibration.standard_error(name),
                on_bound=f"on_bound:{name}" in calibration.diagnostics,
            )
            for name, value in calibration.parameters.items()
        },
        traffic=traffic,
        theorem_applies=traffic is not None and traffic.theorem_applies,
        slope=() if bounds.slope is None else _spread(bounds.slope),
        fixed_share=float(np.median(fixed)),
        within_band=float(np.mean(within)),
        energy_over_bound=_spread(energy_j / bounds.least_energy_j),
        duration_over_bound=(
            _spread(table.positive("duration_s") / bounds.least_duration_s) if "duration_s" in table else ()
        ),
        compute_limited=float(np.mean(bounds.limited_by == "compute")),
    )


def _spread(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, float, float]:
    return float(values.min()), float(np.median(values)), float(values.max())
