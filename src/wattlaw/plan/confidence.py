"""How sure the first place is: the chance that it is truly best, given how far predictions may be off.

Two configurations on one machine are wrong together: both rest on the same share of the peak, the same launch time,
the same link. So their errors are drawn from what they are made of: errors of the law's parameters, which all
configurations of a machine share and different terms feel differently, and what the law leaves unexplained, which each
configuration has by itself,

    ln(true / predicted) = J d(machine) + noise,    d ~ Normal(0, covariance of the parameters' logarithms)

(``law.spread``; on machines that the calibration did not see, the error of the common parameters is shared by all
such machines and each adds its own). All errors are then scaled by one factor, the median over the contenders of how
much wider their intervals are: outside of the fitted domain, and where residuals were larger than expected. Energy and
time of a configuration have the same parameter errors and, as power times time is energy, the same noise.

A calibration that does not know the covariance of its parameters cannot say what is shared: then half of the variance
is taken to be common to a machine, which is an assumption and no measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.law.interval import ends_of_runs
from wattlaw.law.spread import covariance_on, knows_spreads, slopes
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, between_machines

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration

Numbers = NDArray[np.float64]

DRAWS = 4000
SEED = 0
#: One standard deviation to either side.
ONE_SIGMA = 0.6827
#: Share of the variance that configurations of a machine have in common where the calibration does not say.
ASSUMED_COMMON = 0.5
#: Costs that differ by less than this are as good as equal to anybody who pays them.
CLOSE = 0.02
#: Target -> the column that it multiplies.
TARGETS = {"energy": "energy_j", "duration": "duration_s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPlace:
    """How sure it is that what is predicted to be best is best.

    Attributes:
        chance: that no other configuration truly costs less.
        close_chance: that none costs less by more than 2 %.
        typical_regret: what the first place costs more than the truly best, as a share: the median of the draws.
        num_contenders: configurations that were compared.
        assumption: what is taken to be common to the errors of two configurations.
    """

    chance: float
    close_chance: float
    typical_regret: float
    num_contenders: int
    assumption: str


def judge(costs: Numbers, *, assumption: str) -> FirstPlace:
    """Judge the first of some configurations by draws of what all truly cost.

    Args:
        costs: shape ``[draws, configurations]``; the one to judge stands first.
        assumption: under which the draws were made, in words.

    >>> import numpy as np
    >>> judge(np.array([[1.0, 2.0], [3.0, 2.0]]), assumption="").chance
    0.5
    """
    regret = costs[:, 0] / costs.min(axis=1) - 1
    return FirstPlace(
        chance=float(np.mean(regret <= 0)),
        close_chance=float(np.mean(regret <= CLOSE)),
        typical_regret=float(np.median(regret)),
        num_contenders=costs.shape[1],
        assumption=assumption,
    )


def assumption(calibration: Calibration) -> str:
    """Say what is taken to be common to the errors of two configurations."""
    if knows_spreads(calibration):
        return "errors of the law's parameters are shared on a machine, what the law leaves unexplained is not"
    return f"{ASSUMED_COMMON:.0%} of the variance of the errors is taken to be common to a machine"


def draw_errors(
    calibration: Calibration,
    table: Table,
    *,
    targets: Sequence[str] = tuple(TARGETS),
    draws: int = DRAWS,
    seed: int = SEED,
) -> dict[str, Numbers]:
    """Draw ln(true / predicted) of energy and duration, shape ``[draws, runs]`` each.

    Args:
        calibration: of the law.
        table: the columns that the law reads, and the machine.
        targets: ``energy``, ``duration``, or both.
        draws: how often.
        seed: of the draws; the same seed gives the same draws.
    """
    rng = np.random.default_rng(seed)
    shared = _parameter_errors(calibration, table, draws, rng) if knows_spreads(calibration) else None
    own = rng.standard_normal((draws, len(table)))
    found = {}
    for target in targets:
        low, high = ends_of_runs(calibration, table, target=target, level=ONE_SIGMA)
        width = (high - low) / 2
        if shared is None:
            share = ASSUMED_COMMON
            standard = np.sqrt(share) * _per_machine(table, draws, seed) + np.sqrt(1 - share) * own
            found[target] = np.median(width) * standard
        else:
            noise = calibration.noise[target]
            spread = np.sqrt(np.square(shared[target]).mean(axis=0) + noise**2)
            found[target] = np.median(width / spread) * (shared[target] + noise * own)
    return found


def _per_machine(table: Table, draws: int, seed: int) -> Numbers:
    machines, member = np.unique(table.text("machine"), return_inverse=True)
    errors = np.random.default_rng(seed + 1).standard_normal((draws, len(machines)))
    return np.asarray(errors[:, member])


def _parameter_errors(
    calibration: Calibration, table: Table, draws: int, rng: np.random.Generator
) -> dict[str, Numbers]:
    """What errors of the parameters do to each run, by target."""
    found = {target: np.empty((draws, len(table))) for target in TARGETS}
    common = _normal(np.array(calibration.covariance), draws, rng)
    machines = table.text("machine")
    for machine in np.unique(machines):
        rows = np.flatnonzero(machines == machine)
        name = str(machine)
        seen = calibration.machines.get(name)
        if seen is None:
            errors = common + _normal(between_machines(), draws, rng)
        else:
            covariance = covariance_on(calibration, name)
            assert covariance is not None
            errors = _normal(covariance, draws, rng)
        part = table.take(rows)
        derivatives = slopes(calibration.parameters_on(name), {column: part.numbers(column) for column in COLUMNS})
        for target, values in derivatives.items():
            found[target][:, rows] = errors @ values.T
    return found


def _normal(covariance: Numbers, draws: int, rng: np.random.Generator) -> Numbers:
    """Draw normal errors of the parameters, shape ``[draws, parameters]``."""
    values, vectors = np.linalg.eigh(covariance)
    standard = rng.standard_normal((draws, len(PARAMETERS)))
    errors: Numbers = standard * np.sqrt(np.maximum(values, 0)) @ vectors.T
    return errors
