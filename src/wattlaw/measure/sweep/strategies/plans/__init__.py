"""Tensor-parallel plans, one family per file.

``plan()`` names the modules of one block that are divided by columns or by rows; ``prepare(block, degree)`` first
changes what ``parallelize_module`` cannot divide as it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wattlaw.measure.sweep.strategies.plans import bert, gpt2, llama

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.tensor.parallel import ParallelStyle


class Plan(Protocol):
    """What a file of this package offers."""

    def prepare(self, block: nn.Module, degree: int) -> None:
        """Change one block so that the plan fits."""
        ...

    def plan(self) -> dict[str, ParallelStyle]:
        """Name the modules of one block and how each is divided."""
        ...


PLANS: dict[str, Plan] = {"bert": bert, "gpt2": gpt2, "llama": llama}
