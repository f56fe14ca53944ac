"""How far a run may be from what a calibration predicts of it, as a standard deviation of the logarithm.

Where the law's logarithm is linear in those of its parameters, J their derivatives and C the parameters' covariance,

    spread^2 = J C J' + what the law leaves unexplained

(Gelman et al. 2013, Bayesian Data Analysis, section 14.3). C is a machine's own where a fit or a probe saw it; on
others it is that of the common parameters and of the difference between machines. What is left unexplained is the
residual's process' own variance there (``residual``), or the calibration's ``noise``. So the spread is wide for
machines that nothing was measured on, for terms that the measured runs do not have, and away from all runs; intervals
take its shape and find its size from residuals (``interval``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.law.residual import inputs_of
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, between_machines, terms

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration

Numbers = NDArray[np.float64]

TARGETS = ("energy", "duration")
#: Change of a parameter's logarithm over which slopes are taken.
STEP = 1e-5
#: Distance from the domain, in factors e, at which a machine's own parameters are half way to those of any machine: a
#: judgement, as hardly any table has runs so far from others on the same machine.
HALF_STRANGE = 3.0
#: Entries of one evaluation of the law, so that memory is bounded.
BLOCK = 1_000_000


def slopes(parameters: Mapping[str, float], columns: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Derivatives of ln(energy) and ln(duration) with respect to the parameters' logarithms.

    Args:
        parameters: one value each.
        columns: of ``step_terms.COLUMNS``, shape ``[runs]``.

    Returns:
        by target, shape ``[runs, parameters]``; below the parameters, so that none passes its bound.
    """
    moved = {
        one.name: np.where(
            np.arange(len(PARAMETERS) + 1)[:, None] == place + 1,
            parameters[one.name] * np.exp(-STEP),
            parameters[one.name],
        )
        for place, one in enumerate(PARAMETERS)
    }
    found = terms(moved, columns)
    result = {}
    for target, values in (("energy", found.energy_j), ("duration", found.duration_s)):
        logarithms = np.log(np.broadcast_to(values, (len(PARAMETERS) + 1, len(columns["micro_steps"]))))
        result[target] = ((logarithms[0] - logarithms[1:]) / STEP).T
    return result


def covariance_on(calibration: Calibration, machine: str) -> Numbers | None:
    """Covariance of the logarithms of a machine's parameters; ``None`` where the calibration does not know it."""
    if machine in calibration.machines:
        own = calibration.machines[machine].covariance
        return None if own is None else np.array(own)
    if calibration.covariance is None:
        return None
    return np.array(calibration.covariance) + between_machines()


def knows_spreads(calibration: Calibration) -> bool:
    """Tell whether the calibration says how sure it is of its parameters' logarithms, on every machine."""
    machines = [*calibration.machines.values()]
    return bool(calibration.noise) and calibration.covariance is not None and all(each.covariance for each in machines)


def strangeness(distance: Numbers) -> Numbers:
    """Share of the difference between machines by which a machine's own parameters may be off, so far from its runs.

    What was fitted on small models holds for large ones as far as the law is right. A share of 1 means that the runs
    say no more of this one than another machine's would; at ``HALF_STRANGE`` it is a half.

    >>> strangeness(np.array([0.0, 3.0, 1e9])).tolist()
    [0.0, 0.5, 1.0]
    """
    squared = (distance / HALF_STRANGE) ** 2
    found: Numbers = squared / (1 + squared)
    return found


def spreads(calibration: Calibration, table: Table, target: str, distance: Numbers | float = 0.0) -> Numbers:
    """Expected standard deviation of ln(observed / predicted) of each run, shape ``[runs]``.

    Ones for a calibration that does not know it, so that dividing by them changes nothing.

    Args:
        calibration: of the step law.
        table: the runs.
        target: ``energy`` or ``duration``.
        distance: of each run from the domain, as ``interval.distances`` has it.
    """
    share = np.broadcast_to(strangeness(np.asarray(distance, dtype=np.float64)), len(table))
    found = np.ones(len(table))
    if not knows_spreads(calibration) or target not in calibration.noise:
        return found
    machines = table.text("machine")
    for machine in np.unique(machines):
        rows = np.flatnonzero(machines == machine)
        size = max(1, BLOCK // len(PARAMETERS))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            found[part] = _on_machine(calibration, str(machine), table.take(part), target, share[part])
    return found


def _on_machine(calibration: Calibration, machine: str, table: Table, target: str, share: Numbers) -> Numbers:
    covariance = covariance_on(calibration, machine)
    assert covariance is not None
    own = calibration.machines.get(machine)
    derivatives = slopes(calibration.parameters_on(machine), {name: table.numbers(name) for name in COLUMNS})[target]
    # Row by row, so that the company of other runs changes no last bit.
    known = np.einsum("rp,pq,rq->r", derivatives, covariance, derivatives)
    if own is not None:
        known = known + share * np.einsum("rp,pq,rq->r", derivatives, between_machines(), derivatives)
    process = None if own is None else own.process
    if process is None or target not in process.targets:
        left: Numbers | float = calibration.noise[target]
    else:
        left = process.spread(inputs_of(table, tuple(process.lengths)), target)
    found: Numbers = np.sqrt(np.maximum(known, 0.0) + np.square(left))
    return found
