"""Llama, Mistral, Qwen and Gemma: decoders with rotary positions, RMSNorm, gated MLPs and grouped-query attention.

Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; Jiang et al. 2023, arXiv 2310.06825; Yang et al. 2024, arXiv
2407.10671, and 2025, arXiv 2505.09388; Gemma Team 2024, arXiv 2403.08295 and 2408.00118, and 2025, arXiv 2503.19786.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wattlaw.workload.architecture import Architecture, Stack
from wattlaw.workload.families.bert import head_size as undivided_head_size
from wattlaw.workload.families.task import decoder_head

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.families.fields import Fields
    from wattlaw.workload.families.task import Task, TaskName

DEFAULT_TASK: TaskName = "lm"
TASKS: tuple[TaskName, ...] = ("lm", "classification", "token_classification", "question_answering", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What tells the members apart; sizes are those that a configuration without the field has.

    Attributes:
        qkv_bias: 1 where queries, keys and values always add a bias.
        qk_norm: 1 where queries and keys are normalised per head.
        num_norms: per block.
        head_size: where it is not the hidden size over the heads.
        num_kv_heads: where it is not the number of heads.
        tied_head: 1 where the head reuses the embedding.
    """

    qkv_bias: int = 0
    qk_norm: int = 0
    num_norms: int = 2
    head_size: int | None = None
    num_kv_heads: int | None = None
    tied_head: int = 0


TRAITS = {
    "llama": Traits(),
    "mistral": Traits(num_kv_heads=8),
    "qwen2": Traits(qkv_bias=1, num_kv_heads=32),
    "qwen3": Traits(qk_norm=1, head_size=128, num_kv_heads=32),
    "gemma": Traits(head_size=256, num_kv_heads=16, tied_head=1),
    "gemma2": Traits(num_norms=4, head_size=256, num_kv_heads=4, tied_head=1),
    "gemma3_text": Traits(qk_norm=1, num_norms=4, head_size=256, num_kv_heads=4, tied_head=1),
}
MODEL_TYPES = tuple(TRAITS)


def from_config(family: str, fields: Fields, task: Task) -> Architecture:
    """Read the sizes that a Llama-like configuration states."""
    return from_sizes(family, task, ffn_size=fields.count("intermediate_size"), **read_sizes(family, fields))


def read_sizes(family: str, fields: Fields, traits: Traits | None = None) -> dict[str, Any]:
    """Read what all Llama-like configurations state but the width of the MLP."""
    traits = TRAITS[family] if traits is None else traits
    num_heads = fields.count("num_attention_heads")
    hidden_size = fields.count("hidden_size")
    num_layers = fields.count("num_hidden_layers")
    window, windowed_layers = read_window(family, fields, num_layers)
    biased = fields.flag("attention_bias", default=False) if family not in ("mistral", "qwen2") else 0
    return {
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": num_heads,
        "vocab_size": fields.count("vocab_size"),
        # A null means one key and value head per query head; an absent field means the class's own number.
        "num_kv_heads": fields.count(
            "num_key_value_heads",
            default=num_heads if "num_key_value_heads" in fields.mapping else traits.num_kv_heads or num_heads,
        ),
        "head_size": fields.count("head_dim")
        if fields.has("head_dim")
        else traits.head_size or undivided_head_size(hidden_size, num_heads),
        "qkv_bias": max(biased, traits.qkv_bias),
        "output_bias": biased,
        "mlp_bias": fields.flag("mlp_bias", default=False) if family == "llama" else 0,
        "window": window,
        "windowed_layers": windowed_layers,
        "attention_dropout": fields.dropped("attention_dropout", default=0.0),
        "tied_head": fields.flag("tie_word_embeddings", default=bool(traits.tied_head)),
    }


def read_window(family: str, fields: Fields, num_layers: int) -> tuple[int, int]:
    """Read the attention window and the number of layers that have it."""
    default = {"mistral": 4096, "gemma2": 4096, "gemma3_text": 4096}.get(family, 0)
    optional = family.startswith("qwen")
    if family in ("llama", "gemma") or (optional and not fields.flag("use_sliding_window", default=False)):
        return 0, 0
    if "sliding_window" in fields.mapping and not fields.has("sliding_window"):
        return 0, 0
    window = fields.count("sliding_window", default=4096 if optional else default, least=0)
    return (window, _windowed_layers(family, fields, num_layers)) if window else (0, 0)


def _windowed_layers(family: str, fields: Fields, num_layers: int) -> int:
    kinds = fields.texts("layer_types")
    if kinds:
        return min(kinds.count("sliding_attention"), num_layers)
    if family == "gemma2":
        return (num_layers + 1) // 2
    if family == "gemma3_text":
        return num_layers - num_layers // fields.count("sliding_window_pattern", default=6)
    if family in ("qwen2", "qwen3"):
        return max(0, num_layers - fields.count("max_window_layers", default=28, least=0))
    return num_layers


def from_sizes(
    family: str,
    task: Task,
    *,
    num_layers: Quantity,
    hidden_size: Quantity,
    num_heads: Quantity,
    ffn_size: Quantity,
    vocab_size: Quantity,
    num_kv_heads: Quantity | None = None,
    head_size: Quantity | None = None,
    qkv_bias: Quantity | None = None,
    output_bias: Quantity = 0,
    mlp_bias: Quantity = 0,
    window: Quantity = 0,
    windowed_layers: Quantity = 0,
    attention_dropout: Quantity = 0,
    tied_head: Quantity | None = None,
    traits: Traits | None = None,
) -> Architecture:
    """Build a Llama-like model of these sizes; key and value heads are as many as heads where not given."""
    task.among(family, TASKS)
    traits = TRAITS[family] if traits is None else traits
    stack = Stack(
        role="decoder",
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_heads if num_kv_heads is None else num_kv_heads,
        head_size=undivided_head_size(hidden_size, num_heads) if head_size is None else head_size,
        ffn_size=ffn_size,
        gated=1,
        qkv_bias=traits.qkv_bias if qkv_bias is None else qkv_bias,
        output_bias=output_bias,
        mlp_bias=mlp_bias,
        num_norms=traits.num_norms,
        qk_norm=traits.qk_norm,
        final_norm=1,
        rotary=1,
        window=window,
        windowed_layers=windowed_layers,
        attention_dropout=attention_dropout,
    )
    return Architecture(
        family=family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        stacks=(stack,),
        **decoder_head(task, tied_head=traits.tied_head if tied_head is None else tied_head),
    )


def with_stacks(architecture: Architecture, *stacks: Stack) -> Architecture:
    """Replace the blocks; the normalisation behind the last block stays behind the last."""
    inner = [replace(stack, final_norm=0) for stack in stacks[:-1]]
    return replace(architecture, stacks=(*inner, stacks[-1]))
