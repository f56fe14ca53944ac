"""What stands before and after the blocks: embeddings and head, as operations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from wattlaw.units import every
from wattlaw.workload.mlp import norm
from wattlaw.workload.operation import Operation, Setting, as_flag, elementwise, linear

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Architecture

HeadConvention = Literal["counted", "not_counted"]
HEAD_CONVENTIONS: tuple[HeadConvention, ...] = get_args(HeadConvention)


def embeddings(architecture: Architecture, setting: Setting) -> list[Operation]:
    """List the look-up of tokens, positions and segments, and the normalisation behind it.

    The backward pass writes a dense gradient of every table, as large as the table itself.

    Args:
        architecture: the model.
        setting: all tokens of the micro-step, encoder's and decoder's.

    Returns:
        the operations.
    """
    d = architecture.hidden_size
    has_positions = as_flag(architecture.max_positions > 0)
    has_types = as_flag(architecture.token_types > 0)
    tables = 1 + has_positions + has_types
    rows = architecture.vocab_size + architecture.max_positions + architecture.token_types
    dropout = architecture.embedding_dropout
    numbers = setting.tokens * d
    element = setting.element_bytes
    moved_bytes = element * numbers * (2 * tables + 2 * dropout) + numbers * dropout
    lookup = elementwise(
        "embeddings.lookup",
        "embeddings",
        setting,
        forward_bytes=moved_bytes,
        backward_bytes=moved_bytes + element * rows * d,
        forward_kernels=2 * tables - 1 + dropout,
        backward_kernels=tables + dropout,
        saved_bytes=numbers * dropout,
        weights=rows * d,
        tensors=tables,
        factored_weights=rows + tables * d,
    )
    if every(architecture.embedding_norm == 0):
        return [lookup]
    normed = norm("embeddings.norm", setting, hidden_size=d, count=architecture.embedding_norm, bias=1)
    return [lookup, normed]


def head(architecture: Architecture, setting: Setting, *, predicted_fraction: Quantity = 1) -> list[Operation]:
    """List what turns hidden states into a loss.

    Args:
        architecture: the model.
        setting: the tokens that leave the last block.
        predicted_fraction: share of them that a vocabulary head computes.

    Returns:
        the operations, none for a model without a head and a pooler.
    """
    d = architecture.hidden_size
    operations = []
    if not every(architecture.pooler == 0):
        operations.append(
            linear(
                "head.pooler",
                "head",
                setting,
                rows=setting.sequences,
                inner=d,
                columns=d,
                bias=1,
                divided=False,
                present=architecture.pooler,
            )
        )
    predicted = setting
    if not every(predicted_fraction == 1):
        predicted = replace(setting, tokens=predicted_fraction * setting.tokens)
    if architecture.head == "mlm":
        operations += _transform(d, predicted)
    if architecture.head in ("lm", "mlm"):
        operations += _output(architecture, predicted, rows=predicted.tokens, columns=architecture.vocab_size)
    if architecture.head == "mlm" and not every(architecture.num_labels == 0):
        operations.append(_sentence(architecture, setting))
    if architecture.head == "classification":
        rows = setting.sequences + architecture.head_per_token * (setting.tokens - setting.sequences)
        operations += _output(architecture, setting, rows=rows, columns=architecture.num_labels)
    return operations


def _transform(hidden_size: Quantity, setting: Setting) -> list[Operation]:
    """The dense layer and LayerNorm of masked-language-model heads (Devlin et al. 2018, arXiv 1810.04805)."""
    dense = linear(
        "head.transform",
        "head",
        setting,
        rows=setting.tokens,
        inner=hidden_size,
        columns=hidden_size,
        bias=1,
        divided=False,
    )
    normed = norm("head.norm", setting, hidden_size=hidden_size, count=1, bias=1)
    return [dense, replace(normed, module="head")]


def _sentence(architecture: Architecture, setting: Setting) -> Operation:
    """The labels of a whole sequence beside a masked-language-model head, in BERT's pre-training."""
    return linear(
        "head.sentence",
        "head",
        setting,
        rows=setting.sequences,
        inner=architecture.hidden_size,
        columns=architecture.num_labels,
        bias=1,
        divided=False,
        present=as_flag(architecture.num_labels > 0),
    )


def _output(architecture: Architecture, setting: Setting, *, rows: Quantity, columns: Quantity) -> list[Operation]:
    """The last projection and the cross-entropy.

    The loss is computed in fp32: the logits, where they have 16 bits, are copied to 32, and their logarithmic
    softmax is kept for the backward pass.
    """
    projection = linear(
        "head.projection",
        "head",
        setting,
        rows=rows,
        inner=architecture.hidden_size,
        columns=columns,
        bias=architecture.head_bias,
        divided=False,
        tied=architecture.tied_head,
    )
    logits = rows * columns
    kept_bytes = logits_bytes(logits, element_bytes=setting.element_bytes)
    loss = elementwise(
        "head.loss",
        "head",
        setting,
        forward_bytes=logits * 4 + kept_bytes,
        backward_bytes=logits * 8 + setting.element_bytes * logits,
        forward_kernels=3,
        backward_kernels=3,
        saved_bytes=kept_bytes,
    )
    return [projection, loss]


def logits_bytes(logits: Quantity, *, element_bytes: int) -> Quantity:
    """Memory of the logits, their copy in fp32 where they are shorter, and their logarithmic softmax in fp32.

    >>> logits_bytes(1, element_bytes=2), logits_bytes(1, element_bytes=4)
    (10, 8)
    """
    return logits * (element_bytes + (4 if element_bytes < 4 else 0) + 4)
