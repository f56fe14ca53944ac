"""Ordinary least squares with the inference that the paper reports: robust errors, influence, likelihood.

The numbers come from statsmodels (the ``stats`` extra); what is added here is that bad data is refused by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from wattlaw.errors import ConfigError, DataError, MissingExtraError
from wattlaw.law.interval import require_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Covariance = Literal["classical", "HC3", "cluster"]
COVARIANCES: tuple[Covariance, ...] = get_args(Covariance)

#: Singular values of the scaled design below this share of the largest make a column redundant. Columns of real
#: records that differ only by rounding stay below it, distinct proxies of one sweep far above.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeastSquares:
    """A fitted linear model y = X b + e, with n rows and p columns.

    Attributes:
        names: the columns of the design, shape ``[p]``.
        coefficients: b, shape ``[p]``.
        covariance: of the coefficients, shape ``[p, p]``.
        covariance_kind: how it was estimated.
        error_dof: degrees of freedom of the Student intervals: n - p, or the number of clusters - 1.
        fitted: X b, shape ``[n]``.
        residuals: y - X b, shape ``[n]``.
        leverage: diagonal of the hat matrix, shape ``[n]``.
        studentized: residuals over their own standard deviation (internally studentized), shape ``[n]``.
        cooks_distance: how far all fitted values move when a row is left out, shape ``[n]``.
        variance_inflation: 1 / (1 - R2) of each column on the others, by name; the intercept has none.
        r2: share of the variance of y explained.
        adjusted_r2: the same, for the number of columns.
        rmse: root of the mean squared residual.
        log_likelihood: of normal errors, at its maximum.
        condition_number: of the design as it was given.
        durbin_watson: serial correlation of the residuals in the order of the rows; 2 is none.
    """

    names: tuple[str, ...]
    coefficients: NDArray[np.float64]
    covariance: NDArray[np.float64]
    covariance_kind: Covariance
    error_dof: int
    fitted: NDArray[np.float64]
    residuals: NDArray[np.float64]
    leverage: NDArray[np.float64]
    studentized: NDArray[np.float64]
    cooks_distance: NDArray[np.float64]
    variance_inflation: dict[str, float]
    r2: float
    adjusted_r2: float
    rmse: float
    log_likelihood: float
    condition_number: float
    durbin_watson: float

    @property
    def num_records(self) -> int:
        """Rows of the fit."""
        return len(self.residuals)

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        """Standard error of each coefficient, shape ``[p]``."""
        errors: NDArray[np.float64] = np.sqrt(np.diag(self.covariance))
        return errors

    @property
    def left_out_residuals(self) -> NDArray[np.float64]:
        """What each residual would be had its row been left out of the fit: e / (1 - leverage), shape ``[n]``.

        A row that alone determines a coefficient (leverage 1) keeps its residual, which is zero.
        """
        return self.residuals / np.where(self.leverage < 1 - 1e-9, 1 - self.leverage, 1.0)

    def confidence_interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the Student interval of one coefficient."""
        from scipy.special import stdtrit

        position = self.names.index(name)
        half = stdtrit(self.error_dof, 1 - (1 - require_level(level)) / 2) * self.standard_errors[position]
        return float(self.coefficients[position] - half), float(self.coefficients[position] + half)


def ordinary_least_squares(
    design: NDArray[np.float64],
    response: NDArray[np.float64],
    *,
    names: Sequence[str],
    covariance: Covariance = "HC3",
    groups: NDArray[np.str_] | None = None,
) -> LeastSquares:
    """Fit y = X b + e.

    HC3 divides each residual by 1 - leverage before the sandwich (MacKinnon and White 1985); ``cluster`` allows
    any correlation within a group of ``groups`` and applies the small-sample factor G/(G-1) (n-1)/(n-p).

    Args:
        design: X, shape ``[n, p]``, with its intercept column.
        response: y, shape ``[n]``.
        names: of the columns of X; the intercept, if any, is called ``intercept``.
        covariance: how the errors of the coefficients are estimated.
        groups: the cluster of each row, shape ``[n]``; needed for ``cluster`` only.

    Raises:
        DataError: not finite, too few rows, columns that repeat each other (named), fewer than two clusters.
        MissingExtraError: statsmodels is not installed.
    """
    require_full_rank(design, response, names)
    arguments, error_dof = _covariance_arguments(covariance, groups, design)
    try:
        from statsmodels.regression.linear_model import OLS
        from statsmodels.stats.outliers_influence import OLSInfluence
        from statsmodels.stats.stattools import durbin_watson
    except ImportError as error:
        raise MissingExtraError.of("stats", "least squares with robust errors") from error
    fit = OLS(response, design).fit(**arguments)
    influence = OLSInfluence(fit)
    leverage = np.asarray(influence.hat_matrix_diag, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):  # a row of leverage 1 has no spread of its own
        studentized = np.nan_to_num(influence.resid_studentized_internal, posinf=0.0, neginf=0.0)
    rank = design.shape[1]
    exact = 1 - leverage < 1e-9
    cooks = np.where(exact, 0.0, studentized**2 * leverage / np.where(exact, 1.0, 1 - leverage) / rank)
    return LeastSquares(
        names=tuple(names),
        coefficients=np.asarray(fit.params),
        covariance=np.asarray(fit.cov_params()),
        covariance_kind=covariance,
        error_dof=error_dof,
        fitted=np.asarray(fit.fittedvalues),
        residuals=np.asarray(fit.resid),
        leverage=leverage,
        studentized=studentized,
        cooks_distance=cooks,
        variance_inflation=_variance_inflation(design, names),
        r2=float(fit.rsquared),
        adjusted_r2=float(fit.rsquared_adj),
        rmse=float(np.sqrt(np.mean(fit.resid**2))),
        log_likelihood=float(fit.llf),
        condition_number=float(np.linalg.cond(design)),
        durbin_watson=float(durbin_watson(fit.resid)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelihoodRatio:
    """Test of a law against one with fewer columns.

    Attributes:
        statistic: twice the difference of the log-likelihoods.
        dof: columns left out.
        p_value: chance of a larger statistic if they did nothing (chi-squared, large samples).
        log10_p_value: its decimal logarithm, which does not vanish where the chance is too small for a float.
    """

    statistic: float
    dof: int
    p_value: float
    log10_p_value: float


def likelihood_ratio(full: LeastSquares, restricted: LeastSquares) -> LikelihoodRatio:
    """Compare two fits to the same response, where the columns of one are among those of the other.

    Raises:
        ConfigError: the fits have other rows, or the restricted one has a column that the full one lacks.
    """
    dof = len(full.names) - len(restricted.names)
    response, other = full.fitted + full.residuals, restricted.fitted + restricted.residuals
    if dof < 1 or not set(restricted.names) < set(full.names):
        raise ConfigError("the restricted fit must have fewer of the same columns", given=", ".join(restricted.names))
    if response.shape != other.shape or not np.allclose(response, other):
        raise ConfigError("the two fits are of different rows")
    from scipy.stats import chi2

    statistic = 2 * (full.log_likelihood - restricted.log_likelihood)
    return LikelihoodRatio(
        statistic=statistic,
        dof=dof,
        p_value=float(chi2.sf(statistic, dof)),
        log10_p_value=float(chi2.logsf(statistic, dof)) / math.log(10),
    )


def require_full_rank(design: NDArray[np.float64], response: NDArray[np.float64], names: Sequence[str]) -> None:
    """Refuse data from which the coefficients cannot be told.

    Raises:
        DataError: not finite, no more rows than columns, or columns that are sums of multiples of each other.
    """
    num_rows, num_columns = design.shape
    for name, column in (*zip(names, design.T, strict=True), ("the response", response)):
        wrong = np.flatnonzero(~np.isfinite(column))
        if wrong.size:
            raise DataError(f"{name} is not finite", given=f"{column[wrong[0]]} in row {wrong[0]}")
    if num_rows <= num_columns:
        raise DataError(
            "too few rows to fit",
            given=f"{num_rows} rows for {num_columns} coefficients ({', '.join(names)})",
            allowed=f"at least {num_columns + 1} rows",
        )
    lengths = np.linalg.norm(design, axis=0)
    empty = [name for name, length in zip(names, lengths, strict=True) if length == 0]
    if empty:
        raise DataError("a column never varies from its mean", given=", ".join(empty), hint="leaving it out")
    _, singular, directions = np.linalg.svd(design / lengths, full_matrices=False)
    redundant = np.abs(directions[singular < RANK_TOLERANCE * singular[0]])
    if redundant.size:
        guilty = [name for name, share in zip(names, redundant.max(axis=0), strict=True) if share > 1e-6]
        raise DataError(
            "columns repeat each other, so their coefficients cannot be told apart",
            given=", ".join(guilty),
            hint="records in which they vary apart, or a law without one of them",
        )


def leverages(design: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the diagonal of the hat matrix of a design of full rank, shape ``[n]``."""
    basis, _ = np.linalg.qr(design / np.linalg.norm(design, axis=0))
    diagonal: NDArray[np.float64] = np.sum(basis**2, axis=1)
    return diagonal


def hc3_covariance(design: NDArray[np.float64], residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the HC3 covariance of the coefficients for residuals of any solver, shape ``[p, p]``.

    (X'X)^-1 X' diag(e^2 / (1 - h)^2) X (X'X)^-1, MacKinnon and White 1985. A row that alone determines a
    coefficient (leverage 1) has no residual and adds nothing.
    """
    leverage = leverages(design)
    scaled: NDArray[np.float64] = residuals / np.where(leverage < 1 - 1e-9, 1 - leverage, 1.0)
    lengths = np.linalg.norm(design, axis=0)  # columns of very different size would cost digits
    moved = np.linalg.pinv(design / lengths) * scaled / lengths[:, None]
    covariance: NDArray[np.float64] = moved @ moved.T
    return covariance


def _covariance_arguments(
    covariance: Covariance, groups: NDArray[np.str_] | None, design: NDArray[np.float64]
) -> tuple[dict[str, object], int]:
    error_dof = design.shape[0] - design.shape[1]
    match covariance:
        case "classical":
            return {"cov_type": "nonrobust"}, error_dof
        case "HC3":
            return {"cov_type": "HC3"}, error_dof
        case "cluster":
            if groups is None:
                raise ConfigError("cluster-robust errors need the group of each row", given="no groups")
            levels, codes = np.unique(groups, return_inverse=True)
            if len(levels) < 2:
                raise DataError("cluster-robust errors need several groups", given=len(levels), allowed="at least 2")
            return {"cov_type": "cluster", "cov_kwds": {"groups": codes}}, len(levels) - 1
        case _:
            raise ConfigError("unknown covariance", given=covariance, allowed=", ".join(COVARIANCES))


def _variance_inflation(design: NDArray[np.float64], names: Sequence[str]) -> dict[str, float]:
    """Diagonal of the inverse correlation matrix, which is 1 / (1 - R2) of each column on the others."""
    kept = [position for position, name in enumerate(names) if name != "intercept"]
    if len(kept) == len(names) or not kept:
        return {}
    correlation = np.atleast_2d(np.corrcoef(design[:, kept], rowvar=False))
    return dict(zip([names[position] for position in kept], np.diag(np.linalg.inv(correlation)).tolist(), strict=True))
