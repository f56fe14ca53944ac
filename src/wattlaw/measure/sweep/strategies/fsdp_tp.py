"""Fully sharded data parallel over groups of tensor-parallel ranks: a mesh with two axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.measure.sweep.strategies import fsdp, tp

if TYPE_CHECKING:
    from torch import nn

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.measure.sweep.strategies.divided import Divided
    from wattlaw.run import RunSpec


def check(spec: RunSpec) -> None:
    """Refuse what tensor parallelism refuses."""
    tp.check(spec)


def divide(model: nn.Module, ranks: Ranks, spec: RunSpec) -> Divided:
    """Divide the matrices along one axis, then shard the parts along the other."""
    return fsdp.shard(tp.parallelize(model, ranks.axis("tensor"), spec), ranks.axis("data"), spec)
