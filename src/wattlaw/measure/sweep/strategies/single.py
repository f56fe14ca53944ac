"""One device, nothing divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.measure.sweep.strategies.divided import Divided

if TYPE_CHECKING:
    from torch import nn

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.run import RunSpec


def check(spec: RunSpec) -> None:
    """Everything that can be built runs on one device."""


def divide(model: nn.Module, ranks: Ranks, spec: RunSpec) -> Divided:
    """Return the model as it is."""
    return Divided(model=model)
