"""Mixtral and Qwen's mixtures of experts: Llama-like decoders whose MLPs are chosen per token.

Jiang et al. 2024, arXiv 2401.04088; Qwen Team 2024, "Qwen1.5-MoE"; Yang et al. 2025, arXiv 2505.09388. Every token
passes ``experts_per_token`` experts; imbalance between experts and the auxiliary loss are not counted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wattlaw.workload.families import llama
from wattlaw.workload.families.llama import DEFAULT_TASK, Traits

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Architecture, Stack
    from wattlaw.workload.families.fields import Fields
    from wattlaw.workload.families.task import Task

__all__ = ["DEFAULT_TASK", "MODEL_TYPES", "from_config", "from_sizes"]

TRAITS = {
    "mixtral": Traits(num_kv_heads=8),
    "qwen2_moe": Traits(qkv_bias=1, num_kv_heads=16),
    "qwen3_moe": Traits(qk_norm=1, num_kv_heads=4),
}
MODEL_TYPES = tuple(TRAITS)


def from_config(family: str, fields: Fields, task: Task) -> Architecture:
    """Read the sizes of a mixture of experts."""
    sizes = llama.read_sizes(family, fields, TRAITS[family])
    if family == "mixtral":
        return from_sizes(
            family,
            task,
            ffn_size=fields.count("intermediate_size"),
            num_experts=fields.count("num_local_experts", "num_experts", default=8),
            experts_per_token=fields.count("num_experts_per_tok", default=2),
            **sizes,
        )
    shared = family == "qwen2_moe"
    if shared:
        sizes["qkv_bias"] = fields.flag("qkv_bias", default=True)
        sizes["output_bias"] = 0
    dense_layers = _dense_layers(fields, sizes["num_layers"])
    return from_sizes(
        family,
        task,
        ffn_size=fields.count("moe_intermediate_size", default=1408 if shared else 768),
        num_experts=fields.count("num_experts", "num_local_experts", default=60 if shared else 128),
        experts_per_token=fields.count("num_experts_per_tok", default=4 if shared else 8),
        shared_ffn_size=fields.count("shared_expert_intermediate_size", default=5632) if shared else 0,
        dense_layers=dense_layers,
        dense_ffn_size=fields.count("intermediate_size") if dense_layers else None,
        **sizes,
    )


def _dense_layers(fields: Fields, num_layers: int) -> int:
    """Count the blocks whose MLP is dense: those listed, and all but every n-th."""
    step = fields.count("decoder_sparse_step", default=1)
    listed = {layer for layer in fields.counts("mlp_only_layers") if 0 <= layer < num_layers}
    sparse = num_layers // step - sum((layer + 1) % step == 0 for layer in listed)
    return num_layers - sparse


def from_sizes(
    family: str,
    task: Task,
    *,
    num_layers: Quantity,
    hidden_size: Quantity,
    num_heads: Quantity,
    ffn_size: Quantity,
    vocab_size: Quantity,
    num_experts: Quantity,
    experts_per_token: Quantity,
    shared_ffn_size: Quantity = 0,
    dense_layers: int = 0,
    dense_ffn_size: Quantity | None = None,
    num_kv_heads: Quantity | None = None,
    head_size: Quantity | None = None,
    qkv_bias: Quantity | None = None,
    output_bias: Quantity = 0,
    mlp_bias: Quantity = 0,
    window: Quantity = 0,
    windowed_layers: Quantity = 0,
    attention_dropout: Quantity = 0,
    tied_head: Quantity | None = None,
) -> Architecture:
    """Build a mixture of experts of these sizes.

    ``ffn_size`` is the width of one expert; ``dense_layers`` blocks have a dense MLP of ``dense_ffn_size`` instead.
    """
    base = llama.from_sizes(
        family,
        task,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        ffn_size=ffn_size,
        vocab_size=vocab_size,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        mlp_bias=mlp_bias,
        window=window,
        windowed_layers=windowed_layers,
        attention_dropout=attention_dropout,
        tied_head=tied_head,
        traits=TRAITS[family],
    )
    sparse = replace(
        base.stacks[0],
        num_experts=num_experts,
        experts_per_token=experts_per_token,
        shared_ffn_size=shared_ffn_size,
    )
    if not dense_layers:
        return replace(base, stacks=(sparse,))
    return _mixed(base, sparse, dense_layers=dense_layers, dense_ffn_size=dense_ffn_size or ffn_size)


def _mixed(base: Architecture, sparse: Stack, *, dense_layers: int, dense_ffn_size: Quantity) -> Architecture:
    """Divide the blocks into dense and sparse ones."""
    windowed = sparse.windowed_layers
    dense = replace(
        base.stacks[0],
        num_layers=dense_layers,
        ffn_size=dense_ffn_size,
        windowed_layers=windowed * dense_layers // sparse.num_layers,
    )
    if dense_layers == sparse.num_layers:
        return replace(base, stacks=(dense,))
    rest = replace(
        sparse,
        num_layers=sparse.num_layers - dense_layers,
        windowed_layers=windowed - dense.windowed_layers,
    )
    return llama.with_stacks(base, dense, rest)
