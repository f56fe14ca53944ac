"""Residual bootstrap: prediction intervals of a straight line without assuming the shape of its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import DataError
from wattlaw.law.interval import require_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.law.paper.least_squares import LeastSquares

NUM_DRAWS = 2000


def residual_bootstrap(
    fit: LeastSquares,
    design: NDArray[np.float64],
    new_design: NDArray[np.float64],
    *,
    level: float,
    random: np.random.Generator,
    num_draws: int = NUM_DRAWS,
    groups: NDArray[np.str_] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and upper ends of the prediction interval of each new row, as offsets from its prediction.

    Each draw gives every row of the fit another row's residual, refits, and gives the new row a residual too
    (Davison and Hinkley 1997, algorithm 6.4): the offset is that residual less what the refit moved. Residuals
    are divided by the root of 1 - leverage, so that they have the spread of the errors, and centred.

    With ``groups`` the rows of a group err together: each draw gives a group the residuals of another group, drawn by
    its size, and each of its rows one of them (Davison and Hinkley 1997, section 3.8). Each residual is then as likely
    as without groups, but what the refit moves is as uncertain as so many groups, not rows, make it.

    Args:
        fit: the fit to ``design``.
        design: the rows of the fit, shape ``[n, p]``.
        new_design: the rows to predict, shape ``[m, p]``.
        level: share of new observations that the interval is to cover.
        random: where the draws come from.
        num_draws: refits.
        groups: of each row of the fit, shape ``[n]``; ``None`` draws each row by itself, as the paper does.

    Returns:
        two arrays of shape ``[m]``, below and above zero as a rule.

    Raises:
        DataError: no residuals to draw from.
    """
    require_level(level)
    errors = modified_residuals(fit)
    if errors.size == 0:
        raise DataError("no residuals to draw from")
    solver = np.linalg.pinv(design)
    if groups is None:
        draws = random.choice(errors, size=(num_draws, len(fit.residuals)))
    else:
        draws = _drawn_by_group(errors, groups[informative(fit)], groups, random, num_draws)
    moved = (draws @ solver.T) @ new_design.T
    offsets = random.choice(errors, size=moved.shape) - moved
    low, high = np.quantile(offsets, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def modified_residuals(fit: LeastSquares) -> NDArray[np.float64]:
    """Return residuals with the spread of the errors: e / sqrt(1 - leverage), less their mean, shape ``[n]``.

    A row that alone determines a coefficient (leverage 1) tells nothing of the spread and is left out.
    """
    free = informative(fit)
    errors: NDArray[np.float64] = fit.residuals[free] / np.sqrt(1 - fit.leverage[free])
    return errors - errors.mean() if errors.size else errors


def informative(fit: LeastSquares) -> NDArray[np.bool_]:
    """Tell of each row whether its residual says anything of the spread, shape ``[n]``."""
    return fit.leverage < 1 - 1e-9


def _drawn_by_group(
    errors: NDArray[np.float64],
    sources: NDArray[np.str_],
    targets: NDArray[np.str_],
    random: np.random.Generator,
    num_draws: int,
) -> NDArray[np.float64]:
    """Residuals of each row in each draw, shape ``[num_draws, rows]``, from one group for the rows of a group."""
    order = np.argsort(sources, kind="stable")
    _, starts, place, sizes = np.unique(sources[order], return_index=True, return_inverse=True, return_counts=True)
    _, member = np.unique(targets, return_inverse=True)
    rows = random.integers(len(errors), size=(num_draws, member.max() + 1))
    chosen = place[rows][:, member]
    within = (random.random(chosen.shape) * sizes[chosen]).astype(np.intp)
    drawn: NDArray[np.float64] = errors[order][starts[chosen] + within]
    return drawn
