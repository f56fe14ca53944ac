"""The step law before anything was measured: the data sheet and its priors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.law.calibration import Calibration, Residuals
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import PARAMETERS

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.protocol import Law


def cold(law: Law, others: Table) -> Calibration:
    """Return what a law knows of a machine of which nothing was measured.

    The step law has its prior's common parameters, or the round figures of ``PARAMETERS`` without a prior, and no
    machine of its own; runs on other machines only tell how far off such predictions are. A law without priors is
    fitted to those runs.

    Args:
        law: the law.
        others: runs on other machines.

    Raises:
        DataError: a law without priors cannot be fitted to them.
    """
    if not isinstance(law, StepLaw):
        return law.fit(others)
    common = {one.name: one.start for one in PARAMETERS} if law.prior is None else dict(law.prior.parameters)
    calibration = Calibration(law=law.name, parameters=common, provenance={"source": "priors", "state": "cold"})
    estimate = law.estimate(calibration, others)
    assert estimate.duration_s is not None
    predicted = {"energy": estimate.energy_j, "duration": estimate.duration_s}
    measured = {"energy": "energy_j", "duration": "duration_s"}
    errors = {
        name: tuple(np.log(others.positive(column) / predicted[name]).tolist())
        for name, column in measured.items()
        if column in others
    }
    return replace(calibration, residuals=Residuals(**errors))
