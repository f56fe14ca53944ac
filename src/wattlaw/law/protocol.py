"""What every law offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration, Estimate

#: What measured durations are to a fit: ``unread``; ``read``, beside energies; ``enough``, where there are no energies.
Times = Literal["unread", "read", "enough"]


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

    @property
    def times(self) -> Times:
        """What measured durations are to a fit; where they are read, runs without one are left out."""
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


@runtime_checkable
class PriorLaw(Law, Protocol):
    """A law that knows something of machines before it has seen any: bounded parameters, of each machine apart.

    A law that offers this is fitted from a prior, predicts cold, and is checked against its bounds when it is read.
    """

    @property
    def limits(self) -> Mapping[str, float]:
        """The largest value of each parameter, by name; the smallest is above 0."""
        ...

    @property
    def common(self) -> Mapping[str, float]:
        """The parameters of a machine of which nothing was measured, by name."""
        ...

    @property
    def common_spread(self) -> NDArray[np.float64]:
        """How sure these are: standard deviations of their logarithms, shape ``[parameters]``."""
        ...

    @property
    def between(self) -> NDArray[np.float64]:
        """How machines differ: covariance of the parameters' logarithms, shape ``[parameters, parameters]``."""
        ...

    def starting_from(self, prior: Calibration | None, *, residual: bool = True) -> Law:
        """Return the law that starts from a calibration of it, or from round figures.

        Args:
            prior: of this law; ``None`` for the round figures.
            residual: interpolate what the law leaves unexplained between runs.
        """
        ...
