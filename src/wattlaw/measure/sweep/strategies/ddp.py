"""Data parallel: every rank holds the model, gradients are averaged once per optimizer step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from wattlaw.measure.sweep.strategies.divided import Divided

if TYPE_CHECKING:
    from torch import nn

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.run import RunSpec


def check(spec: RunSpec) -> None:
    """Every model can be copied."""


def divide(model: nn.Module, ranks: Ranks, spec: RunSpec) -> Divided:
    """Average the gradients in the last micro-step of each optimizer step."""
    from torch.nn.parallel import DistributedDataParallel

    devices = [ranks.device.index] if ranks.device.type == "cuda" else None
    copied = DistributedDataParallel(model, device_ids=devices, process_group=ranks.axis("data").get_group())

    def micro_step(last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else copied.no_sync()

    return Divided(model=copied, micro_step=micro_step)
