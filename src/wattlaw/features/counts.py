"""The columns of the rules of thumb: how many weights a model has and how many tokens it is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.features.batch import batches
from wattlaw.features.table import Table
from wattlaw.run.amount import schedule
from wattlaw.workload.cost import step_cost

if TYPE_CHECKING:
    from wattlaw.run.spec import RunSpec


def count_columns(specs: Sequence[RunSpec]) -> Table:
    """Return ``active_parameters`` and ``trained_tokens``, one row per run.

    Weights are counted with embeddings and head, those of experts as far as a token meets them; tokens with padding,
    over all devices.
    """
    columns = {name: np.zeros(len(specs)) for name in ("active_parameters", "trained_tokens")}
    for positions, batch in batches(specs):
        cost = step_cost(batch.architecture, batch.recipe, attention="full", head="counted")
        columns["active_parameters"][positions] = cost.active_parameters
        columns["trained_tokens"][positions] = schedule(batch.recipe, batch.layout).trained_tokens
    return Table(columns)
