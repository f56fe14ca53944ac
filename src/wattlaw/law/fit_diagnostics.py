"""What there is to doubt about a fitted law, from its slopes at the fit: residuals, leverage, inflation, coverage.

A law is linear in small changes of its parameters, so the hat matrix of linear least squares, with the prior's
precision added where the law has one, tells how far each run decides its own estimate (Cook and Weisberg 1982,
Residuals and Influence in Regression, chapter 2). The same for every law: of a law in logarithms the slopes are the
design itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import DataError
from wattlaw.law import hierarchy
from wattlaw.law.interval import ends_of_runs
from wattlaw.law.laws import law_named
from wattlaw.law.protocol import PriorLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.protocol import Law

    Numbers = NDArray[np.float64]

#: Levels at which intervals are checked.
LEVELS = (0.5, 0.8, 0.9, 0.95)
#: Change of a parameter (of its logarithm in the step law) by which slopes are taken.
STEP = 1e-4
#: Below this share of the largest singular value the runs tell nothing of a direction.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitDiagnostics:
    """Diagnostics of a calibration on runs, one entry per run.

    Attributes:
        estimated_j: energy that the law says, shape ``[n]``.
        residuals: ln(measured / estimated) of the energy, shape ``[n]``.
        leverage: share of its own estimate that each run decides, 0 to 1, shape ``[n]``.
        cooks_distance: how far all estimates move when the run is left out, in units of the fit's error and
            parameters, shape ``[n]``.
        variance_inflation: of each parameter: the variance of its estimate over what it were, did no other parameter
            do nearly the same to these runs; by machine and parameter where the law tells machines apart.
        coverage: share of the runs that the interval holds, by its level. Of runs that the fit has seen, whose
            intervals come from residuals as if it had not, it should not lie below the level.
        durbin_watson: serial correlation of the residuals in the order of the runs; 2 is none.
        excess_kurtosis: 0 for normal residuals, above it for heavy tails.
    """

    estimated_j: Numbers
    residuals: Numbers
    leverage: Numbers
    cooks_distance: Numbers
    variance_inflation: Mapping[str, float]
    coverage: Mapping[float, float]
    durbin_watson: float
    excess_kurtosis: float


def diagnose_fit(calibration: Calibration, table: Table) -> FitDiagnostics:
    """Diagnose a calibration on runs with ``energy_j`` and the columns of its law.

    Raises:
        DataError: no run, a column missing, or runs that the calibration knows nothing of.
    """
    law = law_named(calibration.law)
    if not len(table) or not law.covers(calibration, table).all():
        raise DataError("runs that this calibration knows nothing of", given=f"{len(table)} runs")
    estimated = law.estimate(calibration, table).energy_j
    residuals: Numbers = np.log(table.positive("energy_j") / estimated)
    leverage, parameters, inflation = _influence(law, calibration, table)
    spread = float(np.sqrt(np.sum(residuals**2) / max(1.0, len(residuals) - parameters))) or 1.0
    studentized = residuals / (spread * np.sqrt(np.maximum(1 - leverage, 1e-9)))
    centred = residuals - residuals.mean()
    squares = float(np.sum(residuals**2)) or 1.0
    variance = float(np.mean(centred**2)) or 1.0
    return FitDiagnostics(
        estimated_j=estimated,
        residuals=residuals,
        leverage=leverage,
        cooks_distance=studentized**2 * leverage / (np.maximum(1 - leverage, 1e-9) * max(parameters, 1.0)),
        variance_inflation=inflation,
        coverage=_coverage(calibration, table, residuals),
        durbin_watson=float(np.sum(np.diff(residuals) ** 2)) / squares,
        excess_kurtosis=float(np.mean(centred**4)) / variance**2 - 3,
    )


def _influence(law: Law, calibration: Calibration, table: Table) -> tuple[Numbers, float, dict[str, float]]:
    """Leverage of each run, the parameters that the runs decide in effect, and the inflation of each."""
    if not isinstance(law, PriorLaw):
        names = [name for name in calibration.parameters if not name.startswith("speedup.")]
        slopes = _slopes(law, calibration, table, names, machine=None)
        leverage, inflation = _hat(slopes, np.zeros((len(names), len(names))))
        return leverage, float(leverage.sum()), dict(zip(names, inflation.tolist(), strict=True))
    names = list(law.limits)
    precision = np.asarray(hierarchy.SCALE**2 * np.linalg.inv(law.between), dtype=np.float64)
    leverage = np.zeros(len(table))
    inflations: dict[str, float] = {}
    for machine in np.unique(table.text("machine")).tolist():
        rows = table.text("machine") == machine
        slopes = _slopes(law, calibration, table.take(rows), names, machine=machine)
        leverage[rows], inflation = _hat(slopes, precision)
        inflations |= {f"{machine}: {name}": value for name, value in zip(names, inflation.tolist(), strict=True)}
    return leverage, float(leverage.sum()), inflations


def _hat(slopes: Numbers, precision: Numbers) -> tuple[Numbers, Numbers]:
    """Diagonal of X (X' X + P)^-1 X', and by how much each parameter's variance exceeds what it were alone."""
    gram = slopes.T @ slopes
    inverse = np.linalg.pinv(gram + precision, rcond=RANK_TOLERANCE, hermitian=True)
    constant = np.ptp(slopes, axis=0) < 1e-6
    centred = slopes - slopes.mean(axis=0) if constant.any() else slopes
    alone = np.sum(centred**2, axis=0) + np.diag(precision)
    inflation = np.where(constant & (alone < 1e-9), 1.0, np.diag(inverse) * alone)
    return np.clip(np.einsum("ij,jk,ik->i", slopes, inverse, slopes), 0.0, 1.0), inflation


def _slopes(law: Law, calibration: Calibration, table: Table, names: list[str], *, machine: str | None) -> Numbers:
    """Derivatives of ln(energy) over parameters (their logarithms, of a machine), shape ``[runs, parameters]``."""
    here = np.log(law.estimate(calibration, table).energy_j)
    columns = []
    for name in names:
        moved = _moved(calibration, name, machine=machine)
        columns.append((np.log(law.estimate(moved, table).energy_j) - here) / STEP)
    return np.stack(columns, axis=1)


def _moved(calibration: Calibration, name: str, *, machine: str | None) -> Calibration:
    """Return the calibration with one parameter a little larger."""
    if machine is None:
        return replace(calibration, parameters=_larger(calibration.parameters, name, calibration.law == "additive"))
    if machine not in calibration.machines:
        return replace(calibration, parameters=_larger(calibration.parameters, name, relative=True))
    own = calibration.machines[machine]
    larger = replace(own, parameters=_larger(own.parameters, name, relative=True))
    return replace(calibration, machines={**calibration.machines, machine: larger})


def _larger(parameters: Mapping[str, float], name: str, relative: bool) -> dict[str, float]:
    value = parameters[name]
    return {**parameters, name: value * np.exp(STEP) if relative and value else value + STEP}


def _coverage(calibration: Calibration, table: Table, residuals: Numbers) -> dict[float, float]:
    """Share of the runs within their interval at each level; empty where the calibration holds no residuals."""
    found = {}
    for level in LEVELS:
        try:
            low, high = ends_of_runs(calibration, table, target="energy", level=level)
        except DataError:
            return {}
        found[level] = float(np.mean((low <= residuals) & (residuals <= high)))
    return found
