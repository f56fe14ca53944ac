"""The step law before anything was measured: the data sheet and its priors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.law.calibration import Calibration, Residuals
from wattlaw.law.protocol import PriorLaw
from wattlaw.law.spread import spreads
from wattlaw.law.step import LEAST_NOISE

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.protocol import Law

Numbers = NDArray[np.float64]


def cold(law: Law, others: Table) -> Calibration:
    """Return what a law knows of a machine of which nothing was measured.

    The step law has its prior's common parameters, or the round figures of ``PARAMETERS`` without a prior, and no
    machine of its own. Runs on other machines only tell how far off such predictions are, in units of what the
    spreads of the priors make expected: their intervals are those that a user gets of a machine that no fit saw. A law
    without priors is fitted to those runs.

    Args:
        law: the law.
        others: runs on other machines.

    Raises:
        DataError: a law without priors cannot be fitted to them.
    """
    if not isinstance(law, PriorLaw):
        return law.fit(others)
    calibration = Calibration(
        law=law.name,
        parameters=dict(law.common),
        covariance=tuple(tuple(row) for row in np.diag(law.common_spread**2).tolist()),
        provenance={"source": "priors", "state": "cold"},
    )
    estimate = law.estimate(calibration, others)
    assert estimate.duration_s is not None
    predicted = {"energy": estimate.energy_j, "duration": estimate.duration_s}
    measured = {"energy": "energy_j", "duration": "duration_s"}
    errors = {
        target: np.log(others.positive(column) / predicted[target])
        for target, column in measured.items()
        if column in others
    }
    known = replace(calibration, noise={target: _noise(values, others) for target, values in errors.items()})
    kept: dict[str, tuple[float, ...]] = {}
    for target, values in errors.items():
        kept[target] = tuple(values.tolist())
        kept[f"{target}_spread"] = tuple(spreads(known, others, target).tolist())
    return replace(known, cold=Residuals(**kept), num_cold=len(np.unique(others.text("machine"))))


def _noise(errors: Numbers, others: Table) -> float:
    """What is left of the errors within each machine, whose common part is the machine's and not the run's."""
    machines = others.text("machine")
    left = np.concatenate([errors[machines == name] - errors[machines == name].mean() for name in np.unique(machines)])
    return max(float(np.sqrt(np.mean(left**2))), LEAST_NOISE)
