"""The additive roofline law, equation (4) of arXiv 2606.23546."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from wattlaw.errors import ConfigError, DataError, FitError
from wattlaw.law.calibration import Calibration, Estimate, Residuals
from wattlaw.law.covered import boundary, domain
from wattlaw.law.paper.least_squares import hc3_covariance, leverages, require_full_rank
from wattlaw.law.paper.log_linear import counted, counting_doubts
from wattlaw.law.paper.run_bounds import traffic_diagnostics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.protocol import Times

Weighting = Literal["absolute", "relative"]
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditiveLaw:
    """Energy of a training step E = e_comp C + e_mem M + E0, with one E0 per strategy; a run is its steps.

    Non-negative least squares: e_comp, e_mem and the fixed energy of every strategy are at least zero. Parameters:
    ``compute_j`` and ``memory_j`` (joules per unit of the proxies), ``fixed_j`` (joules per step with the
    reference strategy), ``strategy:NAME`` (what another strategy's step costs more; may be negative).

    Attributes:
        weighting: ``absolute`` minimises the error in joules, as the paper does; ``relative`` the error as a share
            of the energy, so that small steps count as much as large ones.
    """

    name: ClassVar[str] = "additive"
    columns: ClassVar[tuple[str, ...]] = ("compute_proxy", "memory_proxy", "num_steps", "strategy")
    times: ClassVar[Times] = "unread"

    weighting: Weighting = "absolute"

    def __post_init__(self) -> None:
        """Refuse an unknown weighting."""
        if self.weighting not in WEIGHTINGS:
            raise ConfigError("unknown weighting", given=self.weighting, allowed=", ".join(WEIGHTINGS))

    def fit(self, table: Table) -> Calibration:
        """Fit the energy of a step by non-negative least squares, with HC3 errors.

        A parameter on its bound of zero is held there: the errors are those of the others, its own is not known, and
        ``diagnostics`` names it (``on_bound:memory_j``; ``on_bound:strategy:fsdp`` where that strategy's steps have no
        fixed energy left). They also hold b, k1 and k2 of theorem 3.2 (``traffic_exponent`` ...). Residuals are
        ln(observed / predicted) with the row left out (linear, by leverage), or with it where that would leave no
        positive prediction.

        Raises:
            DataError: too few rows, a number that is not above zero, columns that repeat each other.
            FitError: the least squares did not converge.
        """
        if len(table) == 0:
            raise DataError("no rows to fit")
        strategies = _levels(table)
        names = ("compute_j", "memory_j", *(f"fixed_j:{level}" for level in strategies))
        design = _design(table, strategies)
        observed = table.positive("energy_j") / table.positive("num_steps")
        weights = 1 / observed if self.weighting == "relative" else np.ones(len(table))
        weighted, target = design * weights[:, None], observed * weights
        require_full_rank(weighted, target, names)
        values = _non_negative(weighted, target)
        predicted = design @ values
        free = values > 0
        residuals = target - weighted @ values
        covariance = np.zeros((len(names), len(names)))
        covariance[np.ix_(free, free)] = hc3_covariance(weighted[:, free], residuals)
        to_offsets = _offsets(len(strategies))
        parameters = _parameter_names(strategies)
        doubts = [f"{name} is on its bound of zero" for name, is_free in zip(names, free, strict=True) if not is_free]
        return Calibration(
            law=self.name,
            parameters=dict(zip(parameters, (to_offsets @ values).tolist(), strict=True)),
            covariance=tuple(tuple(row) for row in (to_offsets @ covariance @ to_offsets.T).tolist()),
            domain=domain(table, self.columns),
            residuals=Residuals(energy=tuple(_left_out(observed, predicted, leverages(weighted[:, free])).tolist())),
            boundary=boundary(table),
            warnings=(*doubts, *counting_doubts(table)),
            diagnostics={
                "num_records": float(len(table)),
                "adjusted_r2": _adjusted_r2(observed, predicted, len(names)),
                **{f"on_bound:{name}": 1.0 for name, is_free in zip(parameters, free, strict=True) if not is_free},
                **traffic_diagnostics(design[:, 0], design[:, 1]),
            },
            options={"weighting": self.weighting, "reference:strategy": strategies[0], **counted(table)},
            provenance={"source": "fit", "num_records": str(len(table)), "state": "warm"},
        )

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Return the energy of each run as the sum of compute, memory, fixed and strategy terms; no time.

        Raises:
            DataError: a column is missing or not above zero, a strategy that the fit did not see, a calibration
                published without its units and centring constants.
        """
        if "reference:strategy" not in calibration.options:
            raise DataError(
                "this calibration cannot predict: the units and constants of its regressors are not published",
                given=calibration.provenance.get("source"),
                hint="fitting the additive law to records",
            )
        steps = table.positive("num_steps")
        terms_j = {
            "compute": calibration.parameter("compute_j") * table.positive("compute_proxy"),
            "memory": calibration.parameter("memory_j") * table.positive("memory_proxy") * steps,
            "fixed": calibration.parameter("fixed_j") * steps,
            "strategy": _offset_of_rows(calibration, table) * steps,
        }
        return Estimate(energy_j=sum(terms_j.values(), np.zeros(len(table))), duration_s=None, terms_j=terms_j)

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Tell of each run whether the calibration has seen its strategy; one without units refuses the estimate."""
        if "reference:strategy" not in calibration.options:
            return np.ones(len(table), dtype=np.bool_)
        return np.isin(table.text("strategy"), _known_strategies(calibration))


def _levels(table: Table) -> list[str]:
    """Strategies in the order of the parameters: the reference first."""
    levels: list[str] = np.unique(table.text("strategy")).tolist()
    return sorted(levels, key=lambda level: (level != "single", level))


def _parameter_names(strategies: list[str]) -> tuple[str, ...]:
    return ("compute_j", "memory_j", "fixed_j", *(f"strategy:{level}" for level in strategies[1:]))


def _design(table: Table, strategies: list[str]) -> NDArray[np.float64]:
    per_step = table.positive("compute_proxy") / table.positive("num_steps")
    indicators = [(table.text("strategy") == level).astype(np.float64) for level in strategies]
    return np.column_stack([per_step, table.positive("memory_proxy"), *indicators])


def _non_negative(design: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.optimize import nnls

    lengths = np.linalg.norm(design, axis=0)  # the proxies are 1e10 and more: scaled, the solver's tolerance holds
    try:
        values, _ = nnls(design / lengths, target)
    except RuntimeError as error:
        raise FitError("non-negative least squares did not converge", given=str(error)) from error
    return np.asarray(values / lengths)


def _offsets(num_strategies: int) -> NDArray[np.float64]:
    """Matrix from (e_comp, e_mem, fixed energy of each strategy) to the parameters, offsets from the first."""
    matrix = np.eye(2 + num_strategies)
    matrix[3:, 2] = -1
    return matrix


def _left_out(
    observed: NDArray[np.float64], predicted: NDArray[np.float64], leverage: NDArray[np.float64]
) -> NDArray[np.float64]:
    without = observed - (observed - predicted) / np.where(leverage < 1 - 1e-9, 1 - leverage, 1.0)
    residuals: NDArray[np.float64] = np.log(observed / np.where(without > 0, without, predicted))
    return residuals


def _adjusted_r2(observed: NDArray[np.float64], predicted: NDArray[np.float64], num_columns: int) -> float:
    unexplained = float(np.sum((observed - predicted) ** 2) / np.sum((observed - observed.mean()) ** 2))
    return 1 - unexplained * (len(observed) - 1) / (len(observed) - num_columns)


def _known_strategies(calibration: Calibration) -> list[str]:
    prefix = "strategy:"
    offsets = [name.removeprefix(prefix) for name in calibration.parameters if name.startswith(prefix)]
    return [calibration.options["reference:strategy"], *offsets]


def _offset_of_rows(calibration: Calibration, table: Table) -> NDArray[np.float64]:
    known, strategies = _known_strategies(calibration), table.text("strategy")
    unknown = sorted(set(strategies.tolist()) - set(known))
    if unknown:
        raise DataError(
            "the calibration has no effect for this strategy", given=", ".join(unknown), allowed=", ".join(known)
        )
    offsets = np.zeros(len(table))
    for level in known[1:]:
        offsets[strategies == level] = calibration.parameters[f"strategy:{level}"]
    return offsets
