"""GPT-2: the fused query-key-value matrix and the MLP's first by columns, the matrices after them by rows.

Hugging Face's GPT-2 has ``Conv1D`` modules, which ``parallelize_module`` does not know, and one matrix for queries,
keys and values, whose rows are all queries, then all keys, then all values. A contiguous part of it would be some
queries and keys of no common head, so the rows are first put in the order of the ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed.tensor.parallel import ParallelStyle


def prepare(block: nn.Module, degree: int) -> None:
    """Turn the block's ``Conv1D`` into ``Linear``, and give each rank the queries, keys and values of its heads."""
    attention: Any = block.get_submodule("attn")
    mlp: Any = block.get_submodule("mlp")
    attention.c_attn = to_linear(attention.c_attn, rows=rows_by_rank(attention.c_attn.nf // 3, degree))
    attention.c_proj = to_linear(attention.c_proj)
    attention.split_size = attention.embed_dim // degree
    mlp.c_fc, mlp.c_proj = to_linear(mlp.c_fc), to_linear(mlp.c_proj)


def plan() -> dict[str, ParallelStyle]:
    """Name the modules of one block."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    return {
        "attn.c_attn": ColwiseParallel(),
        "attn.c_proj": RowwiseParallel(),
        "mlp.c_fc": ColwiseParallel(),
        "mlp.c_proj": RowwiseParallel(),
    }


def rows_by_rank(width: int, degree: int) -> torch.Tensor:
    """Order the rows of queries, keys and values, each ``width`` long, so that equal parts go to the ranks.

    Of rows q0 q1 k0 k1 v0 v1 and two ranks, rank 0 takes q0 k0 v0 and rank 1 takes q1 k1 v1.
    """
    import torch

    return torch.arange(3 * width).view(3, degree, width // degree).transpose(0, 1).reshape(-1)


def to_linear(module: Any, *, rows: torch.Tensor | None = None) -> nn.Linear:
    """Build the ``Linear`` that computes what a ``Conv1D`` does, its rows perhaps in another order."""
    import torch

    weight, bias = module.weight.detach().t(), module.bias.detach()
    if rows is not None:
        order = rows.to(weight.device)
        weight, bias = weight[order], bias[order]
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    return linear
