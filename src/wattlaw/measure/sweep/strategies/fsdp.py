"""Fully sharded data parallel (``fully_shard``): each rank holds a part of every block.

Zhao et al. 2023, arXiv 2304.11277. Blocks are gathered before the forward pass and, in a full shard, again before the
backward pass; ``fsdp-grad-op`` keeps them in between. Gradients are scattered in every micro-step, so that a rank
never holds the gradients of the whole model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.measure.sweep.models import blocks_of
from wattlaw.measure.sweep.strategies.divided import Divided

if TYPE_CHECKING:
    from torch import nn

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.run import RunSpec


def check(spec: RunSpec) -> None:
    """Every model whose blocks are known can be sharded."""


def divide(model: nn.Module, ranks: Ranks, spec: RunSpec) -> Divided:
    """Shard each block, then what is outside of the blocks."""
    return shard(model, ranks.axis("data"), spec)


def shard(model: nn.Module, mesh: Any, spec: RunSpec) -> Divided:
    """Shard a model, whose weights may be divided along another axis, over one axis of the mesh."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(spec.recipe.precision)
    policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=None if low is None else torch.float32)
    gathers_twice = spec.layout.zero_stage == 3
    for block in blocks_of(model, spec.architecture):
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=gathers_twice)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=gathers_twice)
    return Divided(model=model, casts=low is not None)
