"""Fit one law to several machines at once, each with its own parameters, tied to what they have in common.

The logarithms of a machine's parameters are normal around common ones, by as much as parameters of that scope
differ from machine to machine, and the common ones are normal around a prior. The most probable values are those of
a non-linear least squares problem (Gelman and Hill 2007, Data Analysis Using Regression, chapter 12). A machine with
few runs stays near the common values, one with many finds its own, and one without runs is predicted from the common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import FitError

Numbers = NDArray[np.float64]

#: Residuals are in units of this relative error: what is left when a law of this kind fits well.
SCALE = 0.03
#: Residuals beyond this many scales count linearly (pseudo-Huber), so that one odd run does not bend the fit.
ROBUST_SCALES = 1.5
_STEP = 1e-5
_MAX_EVALUATIONS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is known of the logarithms of the parameters before the fit; shape ``[parameters]`` each.

    Attributes:
        centre: medians, in logarithms.
        spread: standard deviations of the common values around the centre, above zero.
        between: covariance of a machine's values around the common ones, shape ``[parameters, parameters]``:
            parameters that are high or low together on a machine, such as all that its processor works on, are
            correlated.
        upper: logarithms of physical bounds, ``inf`` where there is none.
    """

    centre: Numbers
    spread: Numbers
    between: Numbers
    upper: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine's runs: the law's residuals at given logarithms of parameters.

    Attributes:
        name: of the machine.
        residuals: takes logarithms of parameters, shape ``[parameters]``, and returns ln(predicted / observed),
            shape ``[residuals]``.
        groups: which residuals are left out together, shape ``[residuals]``.
        slopes: takes the same and returns the residuals' derivatives, shape ``[residuals, parameters]``; ``None`` for
            differences of ``residuals``.
        anchors: logarithms of parameters that were measured by themselves, shape ``[parameters]``; any number where
            one was not.
        anchor_spread: standard deviations of these, ``inf`` where nothing was measured.
    """

    name: str
    residuals: Callable[[Numbers], Numbers]
    groups: NDArray[np.intp]
    slopes: Callable[[Numbers], Numbers] | None = None
    anchors: Numbers | float = 0.0
    anchor_spread: Numbers | float = np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """Roots of matrices over one machine's residuals, shape ``[residuals, unknowns]`` each.

    Attributes:
        spread: S, with S S' the covariance of the predictions' logarithms from that of the parameters.
        leverage: L, with L L' = J (J' J)^-1 J' of the softened residuals.
    """

    spread: Numbers
    leverage: Numbers

    def without(self, residuals: Numbers, member: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Say what leaving some residuals out does, from one step of the normal equations.

        With H = L L' of those left out and r their residuals, leaving them out makes them (I - H)^-1 r, and their
        predictions' covariance grows by S L' (I - H)^-1 L S': exact where the law is linear (Cook and Weisberg 1982,
        Residuals and Influence in Regression, section 2.2).

        Returns:
            how the unknowns move, such that all residuals become r + L move, shape ``[unknowns]``; and the variance
            of each prediction left out.
        """
        own, spread = self.leverage[member], self.spread[member]
        middle = np.linalg.inv(np.eye(len(own)) * (1 + 1e-9) - own @ own.T)
        cross = spread @ own.T
        variance = np.sum(spread**2, axis=1) + np.sum((cross @ middle) * cross, axis=1)
        return own.T @ (middle @ residuals[member]), variance


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What was found.

    Attributes:
        common: logarithms of the common parameters, shape ``[parameters]``.
        machines: the same of each machine, in the order given, shape ``[machines, parameters]``.
        residuals: of each machine, ln(predicted / observed) of the fit, shape ``[residuals]`` each.
        roots: of each machine, what its predictions owe to the parameters' uncertainty and to one another.
        covariance: of all unknowns, the common logarithms first and then each machine's, where the law is linear.
        held_out: of each machine, ln(predicted / observed) as if the residual's group had not been in the fit.
        evaluations: how often the law was evaluated on all rows.
    """

    common: Numbers
    machines: Numbers
    residuals: tuple[Numbers, ...]
    roots: tuple[Roots, ...]
    covariance: Numbers
    held_out: tuple[Numbers, ...]
    evaluations: int

    def covariance_of(self, place: int) -> Numbers:
        """Covariance of one set of logarithms: 0 for the common ones, 1 for the first machine's, and so on."""
        size = len(self.common)
        own = slice(place * size, (place + 1) * size)
        return self.covariance[own, own]


def fit(machines: Sequence[Machine], prior: Prior) -> Fit:
    """Find the most probable common and machine parameters.

    Raises:
        FitError: the search did not converge; ``partial`` is the fit it had reached.
    """
    from scipy.optimize import least_squares

    problem = _Problem(tuple(machines), prior)
    size = len(prior.centre) * (len(machines) + 1)
    upper = np.tile(prior.upper, len(machines) + 1)
    found = least_squares(
        problem.residuals,
        np.minimum(np.tile(prior.centre, len(machines) + 1), upper - 1e-3),
        jac=problem.jacobian,
        bounds=(-np.inf, np.where(np.isfinite(upper), upper, np.inf)),
        x_scale=np.full(size, 0.3),
        max_nfev=_MAX_EVALUATIONS,
    )
    result = problem.result(found.x, int(found.nfev))
    if found.status <= 0:
        raise FitError(
            "the fit did not converge", partial=result, given=found.message, hint="more runs, or fewer odd ones"
        )
    return result


def soften(residuals: Numbers) -> Numbers:
    """Signed root of twice the pseudo-Huber loss of residuals in units of ``SCALE``."""
    scaled = residuals / SCALE
    bend = ROBUST_SCALES
    return np.sign(scaled) * np.sqrt(2 * bend * bend * (np.sqrt(1 + (scaled / bend) ** 2) - 1))


def softening(residuals: Numbers) -> Numbers:
    """Derivative of ``soften``: 1 / ``SCALE`` of small residuals, less of large ones."""
    softened, scaled = soften(residuals), residuals / SCALE
    small = np.abs(scaled) < 1e-4
    slope = scaled / (np.sqrt(1 + (scaled / ROBUST_SCALES) ** 2) * np.where(small, 1.0, softened))
    return np.where(small, 1.0, slope) / SCALE


@dataclass(frozen=True, slots=True)
class _Problem:
    """Residuals and their derivatives over the unknowns: the common parameters, then each machine's."""

    machines: tuple[Machine, ...]
    prior: Prior

    def split(self, unknowns: Numbers) -> tuple[Numbers, Numbers]:
        rows = unknowns.reshape(len(self.machines) + 1, -1)
        return rows[0], rows[1:]

    def tie(self) -> Numbers:
        """A root of the inverse of ``between``: it turns a machine's deviations into independent unit normals."""
        return np.linalg.inv(np.linalg.cholesky(self.prior.between))

    def residuals(self, unknowns: Numbers) -> Numbers:
        common, own = self.split(unknowns)
        tie = self.tie()
        parts = [(common - self.prior.centre) / self.prior.spread]
        for machine, values in zip(self.machines, own, strict=True):
            held = (values - machine.anchors) / machine.anchor_spread
            parts += [soften(machine.residuals(values)), tie @ (values - common), held]
        return np.concatenate(parts)

    def jacobian(self, unknowns: Numbers) -> Numbers:
        size = len(self.prior.centre)
        blocks = [np.zeros((size, len(unknowns)))]
        blocks[0][:, :size] = np.diag(1 / self.prior.spread)
        tie = self.tie()
        _, own = self.split(unknowns)
        for index, (machine, values) in enumerate(zip(self.machines, own, strict=True)):
            place = slice(size * (index + 1), size * (index + 2))
            slopes = _slopes(machine, values)
            data = np.zeros((len(slopes), len(unknowns)))
            data[:, place] = slopes
            tied = np.zeros((size, len(unknowns)))
            tied[:, place], tied[:, :size] = tie, -tie
            held = np.zeros((size, len(unknowns)))
            held[:, place] = np.diag(np.broadcast_to(1 / np.asarray(machine.anchor_spread), size))
            blocks += [data, tied, held]
        return np.concatenate(blocks)

    def result(self, unknowns: Numbers, evaluations: int) -> Fit:
        """Gather what is known at the end of the search."""
        jacobian = self.jacobian(unknowns)
        root = np.linalg.inv(np.linalg.cholesky(jacobian.T @ jacobian))
        common, own = self.split(unknowns)
        start = len(common)
        plain, roots = [], []
        for machine, values in zip(self.machines, own, strict=True):
            plain.append(machine.residuals(values))
            leverage = jacobian[start : start + len(plain[-1])] @ root.T
            roots.append(Roots(spread=leverage / softening(plain[-1])[:, None], leverage=leverage))
            start += len(plain[-1]) + 2 * len(common)
        return Fit(
            common=common,
            machines=own,
            residuals=tuple(plain),
            roots=tuple(roots),
            covariance=root.T @ root,
            held_out=tuple(
                _held_out(values, part, machine.groups)
                for values, part, machine in zip(plain, roots, self.machines, strict=True)
            ),
            evaluations=evaluations,
        )


def _held_out(residuals: Numbers, roots: Roots, groups: NDArray[np.intp]) -> Numbers:
    """Residuals as if each group had been left out."""
    out = np.empty_like(residuals)
    for group in np.unique(groups):
        member = groups == group
        move, _ = roots.without(residuals, member)
        out[member] = residuals[member] + roots.leverage[member] @ move
    return out


def _slopes(machine: Machine, values: Numbers) -> Numbers:
    """Derivatives of the softened residuals, shape ``[residuals, parameters]``."""
    here = machine.residuals(values)
    found = _differences(machine, values, here) if machine.slopes is None else machine.slopes(values)
    return softening(here)[:, None] * found


def _differences(machine: Machine, values: Numbers, here: Numbers) -> Numbers:
    """Derivatives of the residuals by differences below the bounds."""
    columns = []
    for position in range(len(values)):
        moved = values.copy()
        moved[position] -= _STEP
        columns.append((here - machine.residuals(moved)) / _STEP)
    return np.stack(columns, axis=1)
