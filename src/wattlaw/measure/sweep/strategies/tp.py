"""Tensor parallel (``parallelize_module``): each rank holds a part of every matrix of the blocks.

Shoeybi et al. 2019, arXiv 1909.08053. The plans are our own, one file per family; a family without a plan is refused,
because a plan that does not fit a model's code can compute something else without any error. Embeddings, norms and
head are whole on every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError
from wattlaw.measure.sweep.models import blocks_of
from wattlaw.measure.sweep.strategies.divided import Divided
from wattlaw.measure.sweep.strategies.plans import PLANS

if TYPE_CHECKING:
    from torch import nn

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.run import RunSpec


def check(spec: RunSpec) -> None:
    """Refuse families without a plan, and fp16.

    Raises:
        ConfigError: the family has none, or the precision scales the loss.
    """
    if spec.architecture.family not in PLANS:
        raise ConfigError(
            "this family has no tensor-parallel plan",
            given=spec.architecture.family,
            allowed=", ".join(PLANS),
            hint="ddp or fsdp",
        )
    if spec.recipe.precision == "fp16":
        # torch's gradient scaler takes all gradients at once, and refuses divided beside whole ones.
        raise ConfigError("tensor parallelism is not run in fp16 here", given="fp16", allowed="fp32, tf32, bf16")


def divide(model: nn.Module, ranks: Ranks, spec: RunSpec) -> Divided:
    """Divide each block by its family's plan."""
    return Divided(model=parallelize(model, ranks.axis("tensor"), spec))


def parallelize(model: nn.Module, mesh: Any, spec: RunSpec) -> nn.Module:
    """Divide the blocks over one axis of the mesh, in place."""
    from torch.distributed.tensor.parallel import parallelize_module

    family = PLANS[spec.architecture.family]
    for block in blocks_of(model, spec.architecture):
        family.prepare(block, int(spec.layout.tensor_parallel))
        parallelize_module(block, mesh, family.plan())
    return model
