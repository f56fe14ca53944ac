"""What every law offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration, Estimate


class Law(Protocol):
    """A formula from features to energy. A law holds no state: what a fit finds is in the calibration."""

    @property
    def name(self) -> str:
        """The word that ``--law`` takes and that a calibration records."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Features that the law reads."""
        ...

    def fit(self, table: Table) -> Calibration:
        """Find the parameters that explain ``energy_j`` (and ``duration_s``, where the law knows time).

        Raises:
            DataError: too few rows, values that are not finite or positive, columns that cannot be told apart.
            FitError: the search did not converge; it carries what it had reached.
        """
        ...

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Say what each run takes; a plain evaluation of the formula, vectorised over the table's rows."""
        ...

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Tell of each run whether the law can say anything about it with this calibration."""
        ...
