"""The paper's scaling law, equation (13) of arXiv 2606.23546."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from wattlaw.errors import ConfigError, DataError
from wattlaw.law.calibration import Calibration, Estimate
from wattlaw.law.paper.log_linear import Form, fit_least_squares, form_of, linear_names, ln_energy, to_calibration
from wattlaw.law.speedup import fit_speedup, speedup_efficiency
from wattlaw.parallel.speedup import PUBLISHED, SpeedupParameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.paper.least_squares import Covariance, LeastSquares
    from wattlaw.law.protocol import Times

Efficiency = Literal["measured", "speedup", "published", "none"]
EFFICIENCIES: tuple[Efficiency, ...] = get_args(Efficiency)
_SPEEDUP_NAMES = ("alpha", "beta", "s_max", "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperLaw:
    """E = kappa C^aC M^aM eta_h^aeta exp(fixed effects), one GPU the reference.

    Ordinary least squares in logarithms with mean-centred regressors. C and M are proxies, and the efficiency
    stands for all that parallel execution costs; the law knows no hardware, so it holds for one GPU model.

    Attributes:
        efficiency: where eta_h comes from. ``measured``: the column ``efficiency``, as (13) is stated and fitted,
            known only after the run. ``speedup``: phi of (8), the speedup laws (9) and (11) fitted to the measured
            efficiencies of the training rows, as the paper itself estimates large models: known before the run;
            the law is fitted with those values too. ``published``: the same
            with the paper's speedup parameters. ``none``: the law without eta_h.
        fixed_effects: text columns with one effect per level.
        covariance: how the errors of the coefficients are estimated; ``cluster`` by the column ``group``.
    """

    name: ClassVar[str] = "paper"
    times: ClassVar[Times] = "read"

    efficiency: Efficiency = "speedup"
    fixed_effects: tuple[str, ...] = ("strategy",)
    covariance: Covariance = "HC3"

    def __post_init__(self) -> None:
        """Refuse an unknown source of the efficiency."""
        if self.efficiency not in EFFICIENCIES:
            raise ConfigError("unknown efficiency", given=self.efficiency, allowed=", ".join(EFFICIENCIES))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that an estimate needs; a fit with ``speedup`` needs ``efficiency`` as well."""
        return ("compute_proxy", "memory_proxy", *self.fixed_effects, *_EFFICIENCY_COLUMNS[self.efficiency])

    @property
    def needs_measured_efficiency(self) -> bool:
        """Whether a fit reads the column ``efficiency``."""
        return self.efficiency in ("measured", "speedup")

    @property
    def regressors(self) -> tuple[str, ...]:
        """Columns whose logarithms enter."""
        return ("compute_proxy", "memory_proxy", *(() if self.efficiency == "none" else ("efficiency",)))

    def fit(self, table: Table) -> Calibration:
        """Fit ln(energy_j) by ordinary least squares.

        Raises:
            DataError: too few rows, a number that is not above zero, columns that repeat each other, no run over
                several devices to fit a speedup to.
            MissingExtraError: statsmodels is not installed.
        """
        speedup, warnings = self._speedup(table)
        rows = with_efficiency(table, speedup)
        form = Form.of_table(rows, regressors=self.regressors, effects=self.fixed_effects)
        fit = fit_least_squares(rows, form, covariance=self.covariance)
        options = {"efficiency": self.efficiency}
        calibration = to_calibration(self.name, rows, form, fit, columns=self.columns, options=options)
        extra = {} if speedup is None else {f"speedup.{name}": getattr(speedup, name) for name in _SPEEDUP_NAMES}
        return replace(calibration, parameters={**calibration.parameters, **extra},
                       warnings=(*calibration.warnings, *warnings))  # fmt: skip

    def least_squares(self, table: Table) -> LeastSquares:
        """Return the whole fit, for its diagnostics and tests.

        Raises:
            DataError: as ``fit``.
            MissingExtraError: statsmodels is not installed.
        """
        rows = with_efficiency(table, self._speedup(table)[0])
        form = Form.of_table(rows, regressors=self.regressors, effects=self.fixed_effects)
        return fit_least_squares(rows, form, covariance=self.covariance)

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Return the energy of each run, split into what it were at full efficiency and the rest; no time.

        The second term is negative where a run is faster than N devices could be (efficiency above 1).

        Raises:
            DataError: a column is missing or not above zero, a strategy that the fit did not see, a calibration
                published without its centring constants.
        """
        rows = prepared(calibration, table)
        if "efficiency" in form_of(calibration).regressors and "efficiency" not in rows:
            raise DataError(
                "eta_h of this calibration is the measured one, which nobody knows before the run",
                given=f"{len(table)} runs over several devices",
                hint="a fit with --efficiency speedup",
            )
        energy_j = np.exp(ln_energy(calibration, rows))
        exponent = calibration.parameters.get("ln_efficiency", 0.0)
        loss = rows.positive("efficiency") ** exponent if exponent else np.ones(len(rows))
        ideal_j = energy_j / loss
        return Estimate(
            energy_j=energy_j,
            duration_s=None,
            terms_j={"at_full_efficiency": ideal_j, "efficiency_loss": energy_j - ideal_j},
        )

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Tell of each run whether the calibration has seen its strategy and other levels."""
        return form_of(calibration).covers(table, linear_names(calibration))

    def _speedup(self, table: Table) -> tuple[SpeedupParameters | None, tuple[str, ...]]:
        """Return the speedup laws to use, if any, and doubts about them."""
        match self.efficiency:
            case "speedup":
                fit = fit_speedup(table)
                return fit.parameters, tuple(f"{name} of the speedup laws is on its bound" for name in fit.on_bound)
            case "published":
                above = float(np.max(speedup_efficiency(table, PUBLISHED), initial=0.0)) > 1
                return PUBLISHED, ("the published speedup laws promise an efficiency above 1",) if above else ()
            case _:
                return None, ()


_EFFICIENCY_COLUMNS: dict[str, tuple[str, ...]] = {
    "measured": ("efficiency",),
    "speedup": ("data_parallel", "tensor_parallel"),
    "published": ("data_parallel", "tensor_parallel"),
    "none": (),
}


def with_efficiency(table: Table, speedup: SpeedupParameters | None) -> Table:
    """Return the table with the efficiency that the speedup laws promise, or as it is without them."""
    return table if speedup is None else table.with_columns(efficiency=speedup_efficiency(table, speedup))


def prepared(calibration: Calibration, table: Table) -> Table:
    """Return the table with the efficiency that the calibration's own speedup laws promise, if it has any."""
    values = {name: calibration.parameters.get(f"speedup.{name}") for name in _SPEEDUP_NAMES}
    known = {name: value for name, value in values.items() if value is not None}
    return with_efficiency(table, SpeedupParameters(**known) if len(known) == len(values) else None)
