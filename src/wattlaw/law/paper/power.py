"""The power law: energy from compute and memory traffic only, a yardstick for laws that know more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattlaw.law.calibration import Calibration, Estimate
from wattlaw.law.paper.log_linear import Form, fit_least_squares, ln_energy, to_calibration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.paper.least_squares import Covariance, LeastSquares
    from wattlaw.law.protocol import Times


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """E = kappa C^aC M^aM: equation (13) of arXiv 2606.23546 without efficiency and without fixed effects.

    It knows neither the hardware nor the layout: use it within one of each.

    Attributes:
        covariance: how the errors of the coefficients are estimated.
    """

    name: ClassVar[str] = "power"
    columns: ClassVar[tuple[str, ...]] = ("compute_proxy", "memory_proxy")
    times: ClassVar[Times] = "unread"

    covariance: Covariance = "HC3"

    def fit(self, table: Table) -> Calibration:
        """Fit ln(energy_j) by ordinary least squares.

        Raises:
            DataError: too few rows, a number that is not above zero, columns that repeat each other.
            MissingExtraError: statsmodels is not installed.
        """
        form = Form.of_table(table, regressors=self.columns, effects=())
        return to_calibration(self.name, table, form, self.least_squares(table), columns=self.columns)

    def least_squares(self, table: Table) -> LeastSquares:
        """Return the whole fit, for its diagnostics and tests.

        Raises:
            DataError: as ``fit``.
            MissingExtraError: statsmodels is not installed.
        """
        form = Form.of_table(table, regressors=self.columns, effects=())
        return fit_least_squares(table, form, covariance=self.covariance)

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Return the energy of each run; the law has one term, and no time.

        Raises:
            DataError: a column is missing or not above zero.
        """
        energy_j = np.exp(ln_energy(calibration, table))
        return Estimate(energy_j=energy_j, duration_s=None, terms_j={"compute_and_memory": energy_j})

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Every run: the law knows no strategies."""
        return np.ones(len(table), dtype=bool)
