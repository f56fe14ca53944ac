"""Power laws fitted as straight lines in logarithms: what the ``power`` and the ``paper`` law share.

ln E = b0 + sum_j b_j (ln x_j - centre_j) + sum_k (effect of the level of text column k), where the first level of
each text column is the reference and has no effect of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import DataError
from wattlaw.law.calibration import Calibration, Residuals
from wattlaw.law.covered import boundary, domain
from wattlaw.law.paper.least_squares import Covariance, LeastSquares, ordinary_least_squares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wattlaw.features.table import Table

INTERCEPT = "intercept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Which columns enter the law.

    Attributes:
        regressors: columns of positive numbers whose logarithms are regressors.
        effects: text columns with one additive effect per level.
        references: the level of each text column that has no effect.
        centres: mean logarithm of each regressor in the fit, by ``ln_`` and its name.
    """

    regressors: tuple[str, ...]
    effects: tuple[str, ...]
    references: Mapping[str, str]
    centres: Mapping[str, float]

    @classmethod
    def of_table(cls, table: Table, *, regressors: Sequence[str], effects: Sequence[str]) -> Form:
        """Centre the regressors on a table, and take ``single``, or else the first level, as reference."""
        references = {}
        for column in effects:
            levels = np.unique(table.text(column)).tolist()
            if levels:
                references[column] = "single" if "single" in levels else levels[0]
        centres = {f"ln_{name}": float(np.mean(np.log(table.positive(name)))) for name in regressors if len(table)}
        return cls(regressors=tuple(regressors), effects=tuple(effects), references=references, centres=centres)

    def names(self, table: Table) -> tuple[str, ...]:
        """Return the columns of the design for the levels that ``table`` holds."""
        levels = [
            f"{column}:{level}"
            for column in self.effects
            for level in np.unique(table.text(column)).tolist()
            if level != self.references[column]
        ]
        return (INTERCEPT, *levels, *(f"ln_{name}" for name in self.regressors))

    def design(self, table: Table, names: Sequence[str]) -> NDArray[np.float64]:
        """Return the design matrix, shape ``[len(table), len(names)]``.

        Raises:
            DataError: a level that has neither an effect among ``names`` nor is the reference.
        """
        for column in self.effects:
            self._require_known_levels(table, column, names)
        return np.column_stack([self._column(table, name) for name in names])

    def covers(self, table: Table, names: Sequence[str]) -> NDArray[np.bool_]:
        """Tell of each row whether the levels of all its text columns are known, shape ``[len(table)]``."""
        known = np.ones(len(table), dtype=np.bool_)
        for column in self.effects:
            known &= np.isin(table.text(column), self._levels(column, names))
        return known

    def _column(self, table: Table, name: str) -> NDArray[np.float64]:
        if name == INTERCEPT:
            return np.ones(len(table))
        if name.startswith("ln_"):
            centred: NDArray[np.float64] = np.log(table.positive(name.removeprefix("ln_"))) - self.centres[name]
            return centred
        column, _, level = name.partition(":")
        chosen: NDArray[np.bool_] = table.text(column) == level
        return chosen.astype(np.float64)

    def _levels(self, column: str, names: Sequence[str]) -> list[str]:
        prefix = f"{column}:"
        return [self.references[column], *(name.removeprefix(prefix) for name in names if name.startswith(prefix))]

    def _require_known_levels(self, table: Table, column: str, names: Sequence[str]) -> None:
        known = self._levels(column, names)
        unknown = sorted(set(table.text(column).tolist()) - set(known))
        if unknown:
            raise DataError(
                f"the calibration has no effect for this {column}",
                given=", ".join(unknown),
                allowed=", ".join(known),
                hint=f"a fit to records with {column} {unknown[0]}",
            )


def fit_least_squares(
    table: Table, form: Form, *, covariance: Covariance = "HC3", target: str = "energy_j"
) -> LeastSquares:
    """Fit the law to ln(``target``), with clusters by the column ``group`` where they are asked for.

    Raises:
        DataError: too few rows, a number that is not above zero, columns that repeat each other.
        MissingExtraError: statsmodels is not installed.
    """
    if len(table) == 0:
        raise DataError("no rows to fit")
    _require_variation(table, form.regressors)
    names = form.names(table)
    groups = table.text("group") if covariance == "cluster" else None
    return ordinary_least_squares(
        form.design(table, names), np.log(table.positive(target)), names=names, covariance=covariance, groups=groups
    )


def _require_variation(table: Table, regressors: Sequence[str]) -> None:
    """Refuse a column that is the same in every row: centred, it is rounding, which no test of rank would see."""
    constant = [name for name in regressors if np.ptp(np.log(table.positive(name))) < 1e-9]
    if constant:
        raise DataError(
            "a column is the same in every row, so its exponent cannot be told",
            given=", ".join(constant),
            hint="records in which it varies, or a law without it",
        )


#: Column of the table -> the option of a calibration that keeps its value.
_COUNTED = {"compute_definition": "compute", "proxy_source": "proxies"}


def counted(table: Table) -> dict[str, str]:
    """How the table's compute and memory proxies were counted, as options: a prediction must count the same way.

    Raises:
        DataError: rows that are counted in several ways.
    """
    options = {}
    for column, option in _COUNTED.items():
        found = np.unique(table.text(column)) if column in table else np.array([])
        if len(found) > 1:
            raise DataError(f"{option} is counted in several ways", given=", ".join(found), allowed="one of them")
        if len(found):
            options[option] = str(found[0])
    return options


def counting_doubts(table: Table) -> tuple[str, ...]:
    """Say so where the law was fitted to what only a record knows: on a spec it is off by as much as they differ."""
    if "observed" in counted(table).values():
        return ("fitted to observed C and M, of which a spec implies others: padding, runs that stopped early",)
    return ()


def to_calibration(
    law: str,
    table: Table,
    form: Form,
    fit: LeastSquares,
    *,
    columns: Sequence[str],
    options: Mapping[str, str] | None = None,
) -> Calibration:
    """Make the value that is saved from a fit; its residuals are what leaving each row out would have left.

    ``columns`` are those that an estimate reads: their range is the domain.
    """
    return Calibration(
        law=law,
        parameters=dict(zip(fit.names, fit.coefficients.tolist(), strict=True)),
        covariance=tuple(tuple(row) for row in fit.covariance.tolist()),
        centres=dict(form.centres),
        domain=domain(table, columns),
        residuals=Residuals(energy=tuple(fit.left_out_residuals.tolist())),
        boundary=boundary(table),
        warnings=counting_doubts(table),
        diagnostics={
            "num_records": float(fit.num_records),
            "r2": fit.r2,
            "adjusted_r2": fit.adjusted_r2,
            "rmse_ln_energy": fit.rmse,
            "log_likelihood": fit.log_likelihood,
            "condition_number": fit.condition_number,
            "durbin_watson": fit.durbin_watson,
            "largest_cooks_distance": float(fit.cooks_distance.max()),
            "largest_variance_inflation": max(fit.variance_inflation.values(), default=1.0),
        },
        options={
            "regressors": " ".join(form.regressors),
            "effects": " ".join(form.effects),
            "covariance": fit.covariance_kind,
            **{f"reference:{column}": level for column, level in form.references.items()},
            **counted(table),
            **(options or {}),
        },
        provenance={"source": "fit", "num_records": str(fit.num_records), "state": "warm"},
    )


def form_of(calibration: Calibration) -> Form:
    """Read back which columns enter a calibrated law."""
    effects = tuple(calibration.options.get("effects", "").split())
    return Form(
        regressors=tuple(calibration.options["regressors"].split()),
        effects=effects,
        references={column: calibration.options[f"reference:{column}"] for column in effects},
        centres=calibration.centres,
    )


def linear_names(calibration: Calibration) -> tuple[str, ...]:
    """Return the parameters that multiply a column of the design: all but those of the speedup laws."""
    return tuple(name for name in calibration.parameters if not name.startswith("speedup."))


def ln_energy(calibration: Calibration, table: Table) -> NDArray[np.float64]:
    """Return ln(energy_j) of each run.

    Raises:
        DataError: a column is missing or not above zero, a level is unknown, or the calibration was published
            without the constants that its regressors were centred on.
    """
    form, names = form_of(calibration), linear_names(calibration)
    missing = [f"ln_{name}" for name in form.regressors if f"ln_{name}" not in form.centres]
    if missing:
        raise DataError(
            "this calibration gives ratios between runs only: the constants it was centred on are not published",
            given=", ".join(missing),
            hint="anchoring it on measured runs: --anchor records.jsonl",
        )
    coefficients = np.array([calibration.parameters[name] for name in names])
    values: NDArray[np.float64] = form.design(table, names) @ coefficients
    return values
