"""The attention of one block, as operations.

With B sequences of S tokens, d the hidden size, h heads of size k (g of them for keys and values), one block does
2 B S d k (h + 2 g) operations for the projections of queries, keys and values, 4 P h k for scores and values over P
pairs of tokens, and 2 B S h k d for the output projection (Narayanan et al. 2021, arXiv 2104.04473, appendix, for
g = h, h k = d). What is kept for the backward pass follows Korthikanti et al. 2022, arXiv 2205.05198, section 4.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from wattlaw.units import every
from wattlaw.workload.operation import Operation, Setting, as_flag, elementwise, linear

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Stack

AttentionConvention = Literal["causal", "full"]
ATTENTION_CONVENTIONS: tuple[AttentionConvention, ...] = get_args(AttentionConvention)


def causal_pairs(length: Quantity) -> Quantity:
    """Pairs of one token and itself or an earlier one, in a sequence: S (S + 1) / 2."""
    return length * (length + 1) / 2


def windowed_pairs(length: Quantity, window: Quantity) -> Quantity:
    """Pairs of one token and the ``window`` tokens that end with it; all causal pairs where the window is longer.

    >>> windowed_pairs(4, 2), windowed_pairs(4, 9)
    (7.0, 10.0)
    """
    reach = length + (window - length) * as_flag(window < length)
    return causal_pairs(reach) + (length - reach) * reach


def self_attention_pairs(stack: Stack, length: Quantity, *, attention: AttentionConvention) -> Quantity:
    """Mean number of token pairs that one block's self-attention computes per sequence and head.

    Args:
        stack: the blocks; an encoder attends to every pair under either convention.
        length: tokens per sequence.
        attention: ``full`` counts every pair, as profilers and most published figures do, ``causal`` only those that
            a decoder's mask and window leave.

    Returns:
        pairs, a mean over the stack's layers.
    """
    if attention == "full" or stack.role == "encoder":
        return length * length
    if every(stack.windowed_layers == 0):
        return causal_pairs(length)
    share = stack.windowed_layers / stack.num_layers
    return share * windowed_pairs(length, stack.window) + (1 - share) * causal_pairs(length)


def self_attention(
    stack: Stack,
    hidden_size: Quantity,
    setting: Setting,
    *,
    length: Quantity,
    attention: AttentionConvention,
    packed: Quantity = 1,
) -> list[Operation]:
    """List the operations of one block's attention to its own sequence.

    Args:
        stack: the blocks.
        hidden_size: width of the residual stream.
        setting: what the micro-step sends through.
        length: tokens per sequence.
        attention: which pairs of tokens count as operations.
        packed: sequences in one row of ``length`` tokens, which a fused kernel computes apart. Scores that are written
            out are masked between them instead, and full attention counts them.

    Returns:
        the operations.
    """
    queries = stack.num_heads * stack.head_size
    keys = stack.num_kv_heads * stack.head_size
    operations = [
        linear(
            "attention.qkv",
            "attention",
            setting,
            rows=setting.tokens,
            inner=hidden_size,
            columns=queries + 2 * keys,
            bias=stack.qkv_bias,
            parts=3 - 2 * stack.fused_qkv,
        )
    ]
    if not every(stack.rotary + stack.qk_norm == 0):
        operations.append(_positions(stack, setting))
    apart = packed if setting.fused or attention == "causal" else 1
    pairs = apart * self_attention_pairs(stack, length / apart, attention=attention)
    operations += _core(
        stack,
        setting,
        pairs=setting.sequences * pairs,
        stored_pairs=setting.sequences * length * length,
        key_tokens=setting.tokens,
        query_len=length,
        key_len=length,
        prefix="attention",
    )
    operations.append(_output(stack, hidden_size, setting, prefix="attention"))
    operations.append(residual("attention.residual", "attention", stack, hidden_size, setting))
    return operations


def cross_attention(
    stack: Stack,
    hidden_size: Quantity,
    setting: Setting,
    *,
    length: Quantity,
    source_len: Quantity,
    packed: Quantity = 1,
) -> list[Operation]:
    """List the operations of one decoder block's attention to the encoder's output; every pair counts.

    Args:
        stack: the decoder's blocks.
        hidden_size: width of the residual stream.
        setting: what the micro-step sends through the decoder.
        length: tokens per sequence in the decoder.
        source_len: tokens per sequence in the encoder.
        packed: sequences in one row, which a fused kernel computes apart.

    Returns:
        the operations.
    """
    key_tokens = setting.sequences * source_len
    stored_pairs = setting.tokens * source_len
    pairs = stored_pairs / packed if setting.fused else stored_pairs
    query = linear(
        "cross_attention.query",
        "attention",
        setting,
        rows=setting.tokens,
        inner=hidden_size,
        columns=stack.num_heads * stack.head_size,
        bias=stack.qkv_bias,
    )
    key_value = linear(
        "cross_attention.key_value",
        "attention",
        setting,
        rows=key_tokens,
        inner=hidden_size,
        columns=2 * stack.num_kv_heads * stack.head_size,
        bias=stack.qkv_bias,
        parts=2,
    )
    # The encoder's output is one tensor, which all blocks of the stack keep together.
    key_value = replace(key_value, saved_bytes=key_value.saved_bytes / stack.num_layers)
    return [
        query,
        key_value,
        *_core(
            stack,
            setting,
            pairs=pairs,
            stored_pairs=stored_pairs,
            key_tokens=key_tokens,
            query_len=length,
            key_len=source_len,
            prefix="cross_attention",
        ),
        _output(stack, hidden_size, setting, prefix="cross_attention"),
        residual("cross_attention.residual", "attention", stack, hidden_size, setting),
    ]


def residual(
    name: str, module: Literal["attention", "mlp"], stack: Stack, hidden_size: Quantity, setting: Setting
) -> Operation:
    """Dropout and the addition to the residual stream; the mask of the dropout is one byte per number."""
    numbers = setting.tokens * hidden_size
    mask_bytes = numbers * stack.hidden_dropout
    moved_bytes = setting.element_bytes * numbers * (3 + 2 * stack.hidden_dropout) + mask_bytes
    return elementwise(
        name,
        module,
        setting,
        forward_bytes=moved_bytes,
        backward_bytes=moved_bytes,
        forward_kernels=1 + stack.hidden_dropout,
        backward_kernels=1 + stack.hidden_dropout,
        saved_bytes=mask_bytes,
    )


def _core(
    stack: Stack,
    setting: Setting,
    *,
    pairs: Quantity,
    stored_pairs: Quantity,
    key_tokens: Quantity,
    query_len: Quantity,
    key_len: Quantity,
    prefix: str,
) -> list[Operation]:
    """Scores, softmax and weighted values: what a fused attention kernel does in one."""
    query_numbers = setting.tokens * stack.num_heads * stack.head_size
    key_numbers = key_tokens * stack.num_kv_heads * stack.head_size
    scores = stored_pairs * stack.num_heads
    flop = 2 * pairs * stack.num_heads * stack.head_size
    element = setting.element_bytes
    moved_bytes = element * (query_numbers + key_numbers + (0 if setting.fused else scores))
    # Eager products of four dimensions copy their operands into order: two copies for the scores, two for the values.
    # The fused kernel is launched once for both products, and its backward computes the scores again from queries,
    # keys and one saved logarithm of a sum (fp32) per row: Dao et al. 2022, arXiv 2205.14135, algorithm 4.
    score_product = Operation(
        name=f"{prefix}.scores",
        stack=setting.stack,
        module="attention",
        kind="matmul",
        repeats=setting.repeats,
        rows=query_len,
        inner=stack.head_size,
        columns=key_len,
        forward_flop=flop,
        backward_input_flop=2 * flop,
        recompute_flop=flop if setting.fused else 0,
        forward_bytes=moved_bytes,
        backward_bytes=2 * moved_bytes,
        forward_kernels=1 if setting.fused else 3,
        backward_kernels=3 if setting.fused else 4,
        saved_bytes=element * (query_numbers + key_numbers)
        + (4 * setting.tokens * stack.num_heads if setting.fused else 0),
        tensor_parallel_divided=True,
        in_block=setting.in_block,
    )
    value_product = Operation(
        name=f"{prefix}.values",
        stack=setting.stack,
        module="attention",
        kind="matmul",
        repeats=setting.repeats,
        rows=query_len,
        inner=key_len,
        columns=stack.head_size,
        forward_flop=flop,
        backward_input_flop=2 * flop,
        forward_bytes=moved_bytes,
        backward_bytes=2 * moved_bytes,
        forward_kernels=0 if setting.fused else 3,
        backward_kernels=0 if setting.fused else 4,
        saved_bytes=element * key_numbers,
        tensor_parallel_divided=True,
        in_block=setting.in_block,
    )
    if setting.fused:
        return [score_product, value_product]
    return [score_product, _softmax(stack, setting, scores=scores, prefix=prefix), value_product]


def _softmax(stack: Stack, setting: Setting, *, scores: Quantity, prefix: str) -> Operation:
    """Scale, mask, softmax and dropout of the scores; keeps the probabilities, the mask and what the mask left."""
    element = setting.element_bytes
    dropout = stack.attention_dropout
    return elementwise(
        f"{prefix}.softmax",
        "attention",
        setting,
        forward_bytes=scores * (element * (4 + 2 * dropout) + dropout),
        backward_bytes=scores * (element * (5 + 2 * dropout) + dropout),
        forward_kernels=3 + dropout,
        backward_kernels=2 + dropout,
        saved_bytes=scores * (element + (element + 1) * dropout),
        divided=True,
    )


def _output(stack: Stack, hidden_size: Quantity, setting: Setting, *, prefix: str) -> Operation:
    return linear(
        f"{prefix}.output",
        "attention",
        setting,
        rows=setting.tokens,
        inner=stack.num_heads * stack.head_size,
        columns=hidden_size,
        bias=stack.output_bias,
    )


def _positions(stack: Stack, setting: Setting) -> Operation:
    """Rotation and normalisation of queries and keys per head."""
    numbers = setting.tokens * (stack.num_heads + stack.num_kv_heads) * stack.head_size
    element = setting.element_bytes
    return elementwise(
        "attention.positions",
        "attention",
        setting,
        forward_bytes=element * numbers * 2 * (stack.rotary + stack.qk_norm),
        backward_bytes=element * numbers * (2 * stack.rotary + 3 * stack.qk_norm),
        forward_kernels=10 * stack.rotary + 12 * stack.qk_norm,
        backward_kernels=14 * stack.rotary + 30 * stack.qk_norm,
        saved_bytes=element * numbers * stack.qk_norm,
        weights=2 * stack.head_size * stack.qk_norm,
        tensors=2 * stack.qk_norm,
        divided=True,
    )


def position_bias(stack: Stack, setting: Setting, *, length: Quantity) -> Operation:
    """Look up the relative position bias of a stack, which all of its blocks share (Raffel et al. 2019).

    Args:
        stack: the blocks.
        setting: what the micro-step sends through the stack, executed once.
        length: tokens per sequence.

    Returns:
        the operation.
    """
    present = as_flag(stack.position_buckets > 0)
    moved_bytes = 2 * setting.element_bytes * length * length * stack.num_heads * present
    return elementwise(
        "attention.position_bias",
        "attention",
        setting,
        forward_bytes=moved_bytes,
        backward_bytes=moved_bytes,
        forward_kernels=present,
        backward_kernels=present,
        weights=stack.position_buckets * stack.num_heads,
        tensors=present,
        divided=True,
    )
