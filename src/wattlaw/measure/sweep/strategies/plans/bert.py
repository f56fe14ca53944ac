"""BERT: query, key, value and the MLP's first matrix by columns, the matrices after them by rows.

The attention finds its number of heads from the width it is given, so a rank that holds half of the width computes
half of the heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.tensor.parallel import ParallelStyle


def prepare(block: nn.Module, degree: int) -> None:
    """Nothing stands in the way."""


def plan() -> dict[str, ParallelStyle]:
    """Name the modules of one block."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    return {
        "attention.self.query": ColwiseParallel(),
        "attention.self.key": ColwiseParallel(),
        "attention.self.value": ColwiseParallel(),
        "attention.output.dense": RowwiseParallel(),
        "intermediate.dense": ColwiseParallel(),
        "output.dense": RowwiseParallel(),
    }
