"""The diagnostic suite of the paper's appendix D, and a check of the assumptions behind its efficiency factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.paper.least_squares import LeastSquares


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diagnostics:
    """What appendix D and figure 8 of arXiv 2606.23546 show of a fit, as numbers to draw.

    Attributes:
        fitted: shape ``[n]``.
        residuals: shape ``[n]``.
        trend_fitted: sorted fitted values of the smooth curve through the residuals (LOWESS), shape ``[m]``.
        trend_residuals: the curve, shape ``[m]``; flat at zero where the law's shape is right.
        normal_quantiles: what sorted studentized residuals of normal errors would be, shape ``[n]``.
        sample_quantiles: the sorted studentized residuals, shape ``[n]``; beyond the line in heavy tails.
        cooks_distance: influence of each row, shape ``[n]``.
        by_level: residuals of each level of the text column, such as each strategy.
        variance_inflation: of each regressor, by name.
        condition_number: of the design.
        durbin_watson: serial correlation in the order of the rows; 2 is none.
        excess_kurtosis: 0 for normal errors, above it for heavy tails.
    """

    fitted: NDArray[np.float64]
    residuals: NDArray[np.float64]
    trend_fitted: NDArray[np.float64]
    trend_residuals: NDArray[np.float64]
    normal_quantiles: NDArray[np.float64]
    sample_quantiles: NDArray[np.float64]
    cooks_distance: NDArray[np.float64]
    by_level: Mapping[str, NDArray[np.float64]]
    variance_inflation: Mapping[str, float]
    condition_number: float
    durbin_watson: float
    excess_kurtosis: float


def diagnose(fit: LeastSquares, levels: NDArray[np.str_]) -> Diagnostics:
    """Compute the suite for a fit and the level (strategy) of each of its rows.

    Raises:
        DataError: not one level per row.
        MissingExtraError: statsmodels is not installed.
    """
    if len(levels) != fit.num_records:
        raise DataError("the levels are not of the rows of the fit", given=len(levels), allowed=fit.num_records)
    try:
        from statsmodels.nonparametric.smoothers_lowess import lowess
    except ImportError as error:
        raise MissingExtraError.of("stats", "the diagnostic suite") from error
    from scipy.special import ndtri

    curve = lowess(fit.residuals, fit.fitted, frac=2 / 3, return_sorted=True)
    plotting = (np.arange(1, fit.num_records + 1) - 0.375) / (fit.num_records + 0.25)  # Blom 1958
    centred = fit.residuals - fit.residuals.mean()
    return Diagnostics(
        fitted=fit.fitted,
        residuals=fit.residuals,
        trend_fitted=curve[:, 0],
        trend_residuals=curve[:, 1],
        normal_quantiles=ndtri(plotting),
        sample_quantiles=np.sort(fit.studentized),
        cooks_distance=fit.cooks_distance,
        by_level={str(level): fit.residuals[levels == level] for level in np.unique(levels)},
        variance_inflation=dict(fit.variance_inflation),
        condition_number=fit.condition_number,
        durbin_watson=fit.durbin_watson,
        excess_kurtosis=float(np.mean(centred**4) / np.mean(centred**2) ** 2 - 3),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LemmaCheck:
    """How far the assumptions of lemma 3.3 hold for one strategy: E(N) = P(N) T(N), so eta_h ~ S(N) / N.

    Elasticities are slopes of logarithms on ln N within configuration families, of time and energy per unit of
    compute, so that runs of a family that did more work (A1 broken) do not pass for slow ones. The energy's is the
    power's plus the time's, exactly.

    Attributes:
        power_elasticity: d ln P / d ln N of the mean power of the whole job; A2 asks for about zero.
        duration_elasticity: d ln T / d ln N per unit of compute; perfect speedup is -1. A3 asks that it
            exceed the power's in size.
        energy_elasticity: d ln E / d ln N per unit of compute.
        workload_spread: largest ratio of compute between device counts of one family; A1 asks for 1.
        num_families: families with several device counts.
        num_records: their runs.
    """

    power_elasticity: float
    duration_elasticity: float
    energy_elasticity: float
    workload_spread: float
    num_families: int
    num_records: int

    @property
    def workload_is_fixed(self) -> bool:
        """A1: the compute of a family changes by less than 5 % with the devices."""
        return self.workload_spread < 1.05

    @property
    def power_is_flat(self) -> bool:
        """A2: twice the devices change the mean power by less than a fifth (elasticity below 0.25)."""
        return abs(self.power_elasticity) < 0.25

    @property
    def time_dominates(self) -> bool:
        """A3: time responds to the devices more than power does."""
        return abs(self.duration_elasticity) > abs(self.power_elasticity)


def check_lemma(table: Table) -> dict[str, LemmaCheck]:
    """Check the assumptions of lemma 3.3 on records, for each strategy that divides the work.

    The single-device run of a family counts towards every strategy.

    Args:
        table: columns ``energy_j``, ``duration_s``, ``num_devices``, ``compute_proxy``, ``strategy``, ``group``.

    Raises:
        DataError: a column is missing, or no family was run on several device counts.
    """
    strategies = [level for level in np.unique(table.text("strategy")).tolist() if level != "single"]
    checks = {level: _check_strategy(table, level) for level in strategies}
    found = {level: check for level, check in checks.items() if check is not None}
    if not found:
        raise DataError("no configuration family was run on several device counts", given=f"{len(table)} runs")
    return found


def _check_strategy(table: Table, strategy: str) -> LemmaCheck | None:
    rows = table.take(np.isin(table.text("strategy"), ["single", strategy]))
    _, family = np.unique(rows.text("group"), return_inverse=True)
    ln_devices = np.log(rows.positive("num_devices"))
    varied = _spread(ln_devices, family) > 0
    if not varied.any():
        return None
    kept = varied[family]
    family, ln_devices = family[kept], ln_devices[kept]
    rows = rows.take(kept)
    ln_work = np.log(rows.positive("compute_proxy"))
    ln_duration = np.log(rows.positive("duration_s")) - ln_work
    ln_energy = np.log(rows.positive("energy_j")) - ln_work
    return LemmaCheck(
        power_elasticity=_slope_within(ln_devices, ln_energy - ln_duration, family),
        duration_elasticity=_slope_within(ln_devices, ln_duration, family),
        energy_elasticity=_slope_within(ln_devices, ln_energy, family),
        workload_spread=float(np.exp(np.max(_spread(ln_work, family)))),
        num_families=len(np.unique(family)),
        num_records=len(rows),
    )


def _spread(values: NDArray[np.float64], family: NDArray[np.intp]) -> NDArray[np.float64]:
    """Largest less smallest value of each family that has rows, zero for the others."""
    highest, lowest = np.full(family.max() + 1, -np.inf), np.full(family.max() + 1, np.inf)
    np.maximum.at(highest, family, values)
    np.minimum.at(lowest, family, values)
    return np.where(highest >= lowest, highest - lowest, 0.0)


def _slope_within(x: NDArray[np.float64], y: NDArray[np.float64], family: NDArray[np.intp]) -> float:
    """Slope of y on x with one level per family (the within estimator)."""
    x, y = _less_mean(x, family), _less_mean(y, family)
    return float(x @ y / (x @ x))


def _less_mean(values: NDArray[np.float64], family: NDArray[np.intp]) -> NDArray[np.float64]:
    counts = np.maximum(np.bincount(family), 1)
    return values - (np.bincount(family, weights=values) / counts)[family]
