"""Fitting the speedup laws (9) and (11) of arXiv 2606.23546 to measured efficiencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import DataError, FitError
from wattlaw.parallel.speedup import PUBLISHED, SpeedupParameters, combined_efficiency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table

#: Bounds of the fitted parameters (alpha, beta, s_max, rate). Beyond them the curves no longer change over the
#: device counts of one machine, so a fit that wants to leave them only says "no overhead" or "saturated at once".
LOWEST = (1e-4, 1e-2, 1e-3, 1e-3)
HIGHEST = (1e3, 8.0, 1e4, 10.0)

_NAMES = ("alpha", "beta", "s_max", "rate")
#: Of each axis: its column, the scale and the shape among the parameters.
_AXES = (("data_parallel", 0, 1), ("tensor_parallel", 2, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupFit:
    """Speedup laws fitted to measurements.

    Attributes:
        parameters: of both laws.
        fitted: the parameters that the records determine; the others are the published ones.
        on_bound: fitted parameters that lean on their bound.
        rmse_ln_efficiency: root of the mean squared residual of ln(efficiency), over divided runs.
        num_records: divided runs in the fit.
    """

    parameters: SpeedupParameters
    fitted: tuple[str, ...]
    on_bound: tuple[str, ...]
    rmse_ln_efficiency: float
    num_records: int


def fit_speedup(table: Table) -> SpeedupFit:
    """Fit alpha and beta of (11), S_max and k of (9) to the measured efficiency of divided runs.

    Least squares of ln(efficiency) in the logarithms of the parameters. An axis (data or tensor parallel) that no
    run divides keeps its published parameters; one with a single degree keeps its published shape (beta or k)
    and is scaled to that degree.

    Args:
        table: columns ``efficiency``, ``data_parallel``, ``tensor_parallel``.

    Raises:
        DataError: no run is divided over several devices, or an efficiency is not above zero.
        FitError: the least squares did not converge.
    """
    data, tensor = table.positive("data_parallel"), table.positive("tensor_parallel")
    divided = data * tensor > 1
    if not divided.any():
        raise DataError(
            "no run is divided over several devices, so there is no speedup to fit", given=f"{len(table)} rows"
        )
    rows = table.take(divided)
    free = _determined(rows)
    start = np.log([PUBLISHED.alpha, PUBLISHED.beta, PUBLISHED.s_max, PUBLISHED.rate])
    target = np.log(rows.positive("efficiency"))
    solution = _solve(rows, target, start, free)
    values = np.exp(solution)
    on_bound = [_NAMES[k] for k in free if values[k] < 1.2 * LOWEST[k] or values[k] > HIGHEST[k] / 1.2]
    residuals = _ln_efficiency(rows, solution) - target
    return SpeedupFit(
        parameters=_parameters(solution),
        fitted=tuple(_NAMES[k] for k in free),
        on_bound=tuple(on_bound),
        rmse_ln_efficiency=float(np.sqrt(np.mean(residuals**2))),
        num_records=len(rows),
    )


def speedup_efficiency(table: Table, parameters: SpeedupParameters) -> NDArray[np.float64]:
    """Return phi(t, d) of each run, equation (8): the efficiency that is known before the run."""
    return np.asarray(
        combined_efficiency(
            tensor_parallel=table.positive("tensor_parallel"),
            data_parallel=table.positive("data_parallel"),
            parameters=parameters,
        )
    )


def _determined(rows: Table) -> list[int]:
    """Positions of the parameters that the degrees in ``rows`` determine."""
    free = []
    for column, scale, shape in _AXES:
        degrees = np.unique(rows.numbers(column)[rows.numbers(column) > 1])
        free += [scale] if len(degrees) >= 1 else []
        free += [shape] if len(degrees) >= 2 else []
    return free


def _solve(
    rows: Table, target: NDArray[np.float64], start: NDArray[np.float64], free: list[int]
) -> NDArray[np.float64]:
    from scipy.optimize import least_squares

    def residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
        trial = start.copy()
        trial[free] = values
        return _ln_efficiency(rows, trial) - target

    lowest, highest = np.log(LOWEST)[free], np.log(HIGHEST)[free]
    result = least_squares(residuals, start[free], bounds=(lowest, highest), x_scale=1.0)
    solution = start.copy()
    solution[free] = result.x
    if not result.success:
        raise FitError("the speedup laws did not converge", partial=_parameters(solution), given=result.message)
    return solution


def _ln_efficiency(rows: Table, ln_parameters: NDArray[np.float64]) -> NDArray[np.float64]:
    efficiency: NDArray[np.float64] = np.log(speedup_efficiency(rows, _parameters(ln_parameters)))
    return efficiency


def _parameters(ln_parameters: NDArray[np.float64]) -> SpeedupParameters:
    return SpeedupParameters(**dict(zip(_NAMES, np.exp(ln_parameters).tolist(), strict=True)))
