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
        anchors: logarithms of parameters that were measured by themselves, shape ``[parameters]``; any number where
            one was not.
        anchor_spread: standard deviations of these, ``inf`` where nothing was measured.
    """

    name: str
    residuals: Callable[[Numbers], Numbers]
    groups: NDArray[np.intp]
    anchors: Numbers | float = 0.0
    anchor_spread: Numbers | float = np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What was found.

    Attributes:
        common: logarithms of the common parameters, shape ``[parameters]``.
        machines: the same of each machine, in the order given, shape ``[machines, parameters]``.
        held_out: of each machine, ln(predicted / observed) as if the residual's group had not been in the fit.
        evaluations: how often the law was evaluated on all rows.
    """

    common: Numbers
    machines: Numbers
    held_out: tuple[Numbers, ...]
    evaluations: int


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
    common, own = problem.split(found.x)
    result = Fit(common=common, machines=own, held_out=problem.held_out(found.x), evaluations=int(found.nfev))
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

    def held_out(self, unknowns: Numbers) -> tuple[Numbers, ...]:
        """Residuals as if each group had been left out, from one step of the normal equations.

        With H = J (J' J)^-1 J' and r the residuals of a group, leaving it out makes them (I - H_gg)^-1 r: exact where
        the law is linear (Cook and Weisberg 1982, Residuals and Influence in Regression, section 2.2).
        """
        jacobian = self.jacobian(unknowns)
        inverse = np.linalg.pinv(jacobian.T @ jacobian)
        _, own = self.split(unknowns)
        found = []
        start = len(self.prior.centre)
        for machine, values in zip(self.machines, own, strict=True):
            plain = machine.residuals(values)
            rows = jacobian[start : start + len(plain)]
            out = np.empty_like(plain)
            for group in np.unique(machine.groups):
                member = machine.groups == group
                leverage = rows[member] @ inverse @ rows[member].T
                out[member] = np.linalg.solve(np.eye(len(leverage)) * (1 + 1e-9) - leverage, plain[member])
            found.append(out)
            start += len(plain) + 2 * len(self.prior.centre)
        return tuple(found)


def _slopes(machine: Machine, values: Numbers) -> Numbers:
    """Derivatives of the softened residuals, shape ``[residuals, parameters]``, by differences below the bounds."""
    here = soften(machine.residuals(values))
    columns = []
    for position in range(len(values)):
        moved = values.copy()
        moved[position] -= _STEP
        columns.append((here - soften(machine.residuals(moved))) / _STEP)
    return np.stack(columns, axis=1)
