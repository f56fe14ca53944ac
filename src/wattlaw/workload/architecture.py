"""The architecture: the sizes of a Transformer, as a value.

A model is embeddings, one or more stacks of identical blocks, and a head. Every size and every flag is a number (a
flag is 0 or 1), so that it may also be a column of numbers with one entry per run: the arithmetic is written once and
serves both. Columns hold floats, because 64-bit integers overflow without a word.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from wattlaw.errors import ConfigError
from wattlaw.units import Quantity, every

Role = Literal["encoder", "decoder"]
Head = Literal["lm", "mlm", "classification", "none"]

ROLES: tuple[Role, ...] = get_args(Role)
HEADS: tuple[Head, ...] = get_args(Head)

#: Larger than any size of any model, and small enough that products of sizes stay finite in floats.
LARGEST_COUNT = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A run of identical Transformer blocks.

    Attributes:
        role: ``encoder`` attends in both directions, ``decoder`` to earlier positions only.
        num_layers: blocks in this stack.
        num_heads: query heads.
        num_kv_heads: key and value heads; fewer than ``num_heads`` in grouped-query attention.
        head_size: width of one head; heads times head size need not be the hidden size (T5, Gemma).
        ffn_size: inner width of the MLP, of one expert where there are several.
        gated: 1 where the MLP multiplies two projections (SwiGLU, GeGLU).
        activation_kernels: launches of the non-linear function; 8 for a GELU written out in elementary steps.
        fused_qkv: 1 where one matrix product computes queries, keys and values.
        cross_attention: 1 where each block also attends to the encoder's output.
        num_experts: MLPs per block that a router chooses from; 1 is a dense model without a router.
        experts_per_token: experts that each token is sent to.
        shared_ffn_size: inner width of an expert that every token passes, with a gate of its own; 0 where none.
        qkv_bias: 1 where the query, key and value projections add a bias.
        output_bias: 1 where the attention's output projection adds a bias.
        mlp_bias: 1 where the projections of the MLP add a bias.
        num_norms: normalisations of the hidden state per block.
        norm_bias: 1 for LayerNorm (weight and bias), 0 for RMSNorm (weight only).
        qk_norm: 1 where queries and keys are normalised per head.
        final_norm: 1 where a normalisation follows the last block.
        rotary: 1 where positions rotate queries and keys.
        position_buckets: rows of a learned relative position bias, one per stack; 0 where none.
        window: longest distance that windowed layers attend over, in tokens; counts only for ``attention="causal"``.
        windowed_layers: blocks whose attention is windowed.
        attention_dropout: 1 where attention weights are dropped at random in training.
        hidden_dropout: 1 where the outputs of attention and MLP are.
    """

    role: Role
    num_layers: Quantity
    num_heads: Quantity
    num_kv_heads: Quantity
    head_size: Quantity
    ffn_size: Quantity
    gated: Quantity = 0
    activation_kernels: Quantity = 1
    fused_qkv: Quantity = 0
    cross_attention: Quantity = 0
    num_experts: Quantity = 1
    experts_per_token: Quantity = 1
    shared_ffn_size: Quantity = 0
    qkv_bias: Quantity = 0
    output_bias: Quantity = 0
    mlp_bias: Quantity = 0
    num_norms: Quantity = 2
    norm_bias: Quantity = 0
    qk_norm: Quantity = 0
    final_norm: Quantity = 0
    rotary: Quantity = 0
    position_buckets: Quantity = 0
    window: Quantity = 0
    windowed_layers: Quantity = 0
    attention_dropout: Quantity = 0
    hidden_dropout: Quantity = 0

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be built."""
        if self.role not in ROLES:
            raise ConfigError("unknown role", given=self.role, allowed=", ".join(ROLES))
        sizes = (
            "num_layers",
            "num_heads",
            "num_kv_heads",
            "head_size",
            "ffn_size",
            "activation_kernels",
            "num_experts",
            "experts_per_token",
        )
        _require_whole(self, sizes, minimum=1)
        counts = ("shared_ffn_size", "num_norms", "position_buckets", "window", "windowed_layers")
        _require_whole(self, counts, minimum=0)
        _require_flags(self, sorted({field.name for field in fields(self)} - {"role", *sizes, *counts}))
        if self.num_kv_heads is not self.num_heads and not is_whole(self.num_heads / self.num_kv_heads):
            raise ConfigError(
                "num_kv_heads does not divide num_heads",
                given=f"{self.num_heads} heads, {self.num_kv_heads} key-value heads",
                allowed="a divisor",
            )
        if not every(self.experts_per_token <= self.num_experts):
            raise ConfigError(
                "experts_per_token exceeds num_experts", given=self.experts_per_token, allowed=f"<= {self.num_experts}"
            )
        if not every(self.windowed_layers <= self.num_layers):
            raise ConfigError(
                "windowed_layers exceeds num_layers", given=self.windowed_layers, allowed=f"<= {self.num_layers}"
            )
        if not (every(self.cross_attention == 0) or every(self.cross_attention == 1)):
            raise ConfigError("cross_attention must be the same for all runs of a column", given=self.cross_attention)
        if not every((self.windowed_layers == 0) | (self.window > 0)):
            raise ConfigError("windowed layers need a window", given=self.window, allowed=">= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A whole model.

    Attributes:
        family: name of the family, a key of ``wattlaw.workload.families.FAMILIES``.
        name: of this model; free text.
        hidden_size: width of the residual stream.
        vocab_size: rows of the token embedding.
        stacks: the blocks, encoder before decoder.
        max_positions: rows of a learned position embedding; 0 where positions are rotary, relative or computed.
        token_types: rows of the segment embedding; 0 where none.
        embedding_norm: 1 where a LayerNorm follows the embeddings.
        embedding_dropout: 1 where the embeddings are dropped at random in training.
        head: ``lm`` and ``mlm`` project every token onto the vocabulary (``mlm`` after a dense layer and a LayerNorm),
            ``classification`` onto labels, ``none`` returns the hidden states.
        num_labels: classes of a classification head; 0 where it has none.
        pooler: 1 where a dense layer with bias reads the first token of each sequence.
        head_bias: 1 where the last projection adds a bias.
        head_per_token: 1 where the last projection is computed for every token, 0 for one per sequence.
        tied_head: 1 where the last projection reuses the token embedding.
    """

    family: str
    name: str = ""
    hidden_size: Quantity
    vocab_size: Quantity
    stacks: tuple[Stack, ...]
    max_positions: Quantity = 0
    token_types: Quantity = 0
    embedding_norm: Quantity = 0
    embedding_dropout: Quantity = 0
    head: Head = "lm"
    num_labels: Quantity = 0
    pooler: Quantity = 0
    head_bias: Quantity = 0
    head_per_token: Quantity = 1
    tied_head: Quantity = 0

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be built."""
        if self.head not in HEADS:
            raise ConfigError("unknown head", given=self.head, allowed=", ".join(HEADS))
        sizes = ("hidden_size", "vocab_size")
        _require_whole(self, sizes, minimum=1)
        counts = ("max_positions", "token_types", "num_labels")
        _require_whole(self, counts, minimum=0)
        others = {"family", "name", "stacks", "head", *sizes, *counts}
        _require_flags(self, sorted({field.name for field in fields(self)} - others))
        if not self.stacks:
            raise ConfigError("a model needs at least one stack of blocks", given="none")
        if self.head == "classification" and not every(self.num_labels >= 1):
            raise ConfigError("a classification head needs num_labels", given=self.num_labels, allowed=">= 1")
        encoded = any(stack.role == "encoder" for stack in self.stacks)
        if any(not every(stack.cross_attention == 0) for stack in self.stacks) and not encoded:
            raise ConfigError("cross_attention needs an encoder stack", given="decoder stacks only")

    @property
    def num_layers(self) -> Quantity:
        """Blocks of all stacks."""
        return sum(stack.num_layers for stack in self.stacks)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether an encoder feeds a decoder, so that two lengths matter."""
        return {stack.role for stack in self.stacks} == set(ROLES)


def require_number(field: str, value: object) -> None:
    """Refuse what is neither a number nor a column of floats.

    Columns of integers are refused because products of sizes pass 2**63 and would wrap without an error.
    """
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(f"{field} must be a number", given=repr(value))
    if kind not in (None, "f"):
        raise ConfigError(f"{field} must be a column of floats", given=f"a column of dtype kind {kind!r}")


def is_whole(value: Any) -> bool:
    """Tell whether a finite number, or every entry of a column, has no fraction."""
    return every(value.round() == value) if hasattr(value, "dtype") else value % 1 == 0


def _require_whole(value: object, names: tuple[str, ...], *, minimum: int) -> None:
    for name in names:
        number = getattr(value, name)
        require_number(name, number)
        if not (every((number >= minimum) & (number <= LARGEST_COUNT)) and is_whole(number)):
            raise ConfigError(
                f"{name} must be a whole number", given=repr(number), allowed=f"{minimum} to {LARGEST_COUNT}"
            )


def _require_flags(value: object, names: list[str]) -> None:
    for name in names:
        flag = getattr(value, name)
        require_number(name, flag)
        if not every((flag == 0) | (flag == 1)):
            raise ConfigError(f"{name} must be 0 or 1", given=repr(flag), allowed="0, 1")
