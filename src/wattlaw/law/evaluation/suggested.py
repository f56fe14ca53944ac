"""The runs that ``wattlaw suggest`` would have chosen from those that were measured, before any of them was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.law.design import Costs, choose, problem_of
from wattlaw.law.step import StepLaw

if TYPE_CHECKING:
    from wattlaw.features.table import Table


def suggested_rows(table: Table, machine: str, num_runs: int, *, seed: int = 0) -> NDArray[np.intp]:
    """Return the positions of the ``num_runs`` runs on a machine that should teach most about all its runs.

    What is known beforehand is a fit of the step law to the other machines; what the runs on this one took is not
    looked at.

    Raises:
        DataError: the step law cannot be fitted to the other machines' runs.
    """
    own = table.text("machine") == machine
    rows = np.flatnonzero(own)
    candidates = table.take(rows).without("energy_j", "duration_s")
    problem = problem_of(StepLaw().fit(table.take(~own)), machine, candidates, candidates, seed=seed)
    free = np.zeros(len(rows))
    found: NDArray[np.intp] = rows[choose(problem, num_runs, Costs(duration_s=free, energy_j=free))]
    return found
