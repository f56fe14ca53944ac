"""Low-rank adapters and the frozen model beside them, as operations.

Beside a projection W of (inner, columns) an adapter of rank r multiplies by A of (inner, r) and B of (r, columns), and
its scaled result is added: W x + s B A x (Hu et al. 2021, arXiv 2106.09685, section 4.1). Only A and B are trained. The
base then needs no gradients of weights: two products per projection instead of three, about 4 N operations per token
and parameter instead of 6 N. In a new classification head, which nothing was learnt for, the last projection is
trained as well (what PEFT does for sequence classification).

Whether the base is frozen is a mask: a rank of 0 trains every weight, and both may stand in one column.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from wattlaw.units import every
from wattlaw.workload.operation import Operation, Setting, as_flag, elementwise, linear

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Architecture, Stack
    from wattlaw.workload.recipe import Recipe


def trains_all(recipe: Recipe) -> bool:
    """Tell whether no run freezes its base."""
    return every(recipe.adapter_rank == 0)


def frozen(op: Operation, mask: Quantity) -> Operation:
    """Freeze the weights of an operation where the mask is 1.

    Of a product's backward pass only that for the gradients of its input is left, half of its bytes, and the input
    need not be kept for the other. Its tensors are not the optimizer's.
    """
    kept = 1 - mask
    product = op.kind == "linear"
    return replace(
        op,
        backward_weight_flop=kept * op.backward_weight_flop,
        backward_bytes=(1 - mask / 2) * op.backward_bytes if product else op.backward_bytes,
        backward_kernels=op.backward_kernels - mask * op.weight_kernels,
        weight_kernels=kept * op.weight_kernels,
        saved_bytes=kept * op.saved_bytes if product else op.saved_bytes,
        frozen_weights=mask * op.weights,
        tensors=kept * op.tensors,
        factored_weights=kept * op.factored_weights,
    )


def without_backward(op: Operation, mask: Quantity) -> Operation:
    """Freeze an operation that nothing trained stands before: where the mask is 1 it has no backward pass at all."""
    kept = 1 - mask
    found = frozen(op, mask)
    return replace(
        found,
        backward_input_flop=kept * found.backward_input_flop,
        backward_bytes=kept * found.backward_bytes,
        backward_kernels=kept * found.backward_kernels,
        saved_bytes=kept * found.saved_bytes,
    )


def adapted_block(block: list[Operation], stack: Stack, setting: Setting, recipe: Recipe) -> list[Operation]:
    """Freeze a block and put adapters beside its projections.

    The first block of a stack reads embeddings that nobody trains: see ``_unread``. One fused projection of queries,
    keys and values has one adapter, whatever the targets. Routers and gates of experts have none; each expert has its
    own.
    """
    mask = as_flag(recipe.adapter_rank > 0)
    found = []
    for op in block:
        unread = mask * _unread(op, stack, setting, recipe)
        found.append(_without_input_gradient(frozen(op, mask), unread))
        if op.name in _TARGETS[recipe.adapter_targets]:
            added = _adapter(op, stack, setting, recipe)
            found += [_without_input_gradient(added[0], unread), *added[1:]]
    return found


def adapted_head(head: list[Operation], architecture: Architecture, recipe: Recipe) -> list[Operation]:
    """Freeze a head, all but the last projection of a classification head."""
    mask = as_flag(recipe.adapter_rank > 0)
    new = architecture.head == "classification"
    return [op if new and op.name == "head.projection" else frozen(op, mask) for op in head]


_QUERY_VALUE = ("attention.qkv", "cross_attention.query", "cross_attention.key_value")
_ATTENTION = (*_QUERY_VALUE, "attention.output", "cross_attention.output")
_MLP = ("mlp.up", "mlp.down", "mlp.shared_up", "mlp.shared_down")
#: Operations that have an adapter beside them.
_TARGETS = {"query-value": _QUERY_VALUE, "attention": _ATTENTION, "all-linear": (*_ATTENTION, *_MLP)}


def _adapter(op: Operation, stack: Stack, setting: Setting, recipe: Recipe) -> tuple[Operation, Operation, Operation]:
    """The two slim products of an operation's adapters, and the addition of what they give."""
    mask = as_flag(recipe.adapter_rank > 0)
    parts, columns = _parts_and_columns(op, stack, recipe)
    rank, name = recipe.adapter_rank, op.name
    routed = name in ("mlp.up", "mlp.down")
    product = partial(
        linear,
        module=op.module,
        setting=setting,
        rows=op.rows,
        parts=parts,
        experts=stack.num_experts if routed else 1,
        active_experts=stack.experts_per_token if routed else 1,
        of_experts=op.of_experts,
        present=mask,
    )
    into = product(f"{name}.adapter_in", inner=op.inner, columns=parts * rank)
    out = product(f"{name}.adapter_out", inner=rank, columns=columns)
    numbers_bytes = mask * setting.element_bytes * op.rows * columns
    inputs_bytes = mask * setting.element_bytes * op.rows * op.inner
    added = elementwise(
        f"{name}.adapter_sum",
        op.module,
        setting,
        forward_bytes=5 * numbers_bytes,
        backward_bytes=2 * numbers_bytes + 3 * inputs_bytes,
        forward_kernels=2 * parts * mask,
        backward_kernels=(parts + 1) * mask,
        divided=op.tensor_parallel_divided,
    )
    # Each part keeps its own slim activation.
    return into, replace(out, saved_bytes=parts * out.saved_bytes), added


def _parts_and_columns(op: Operation, stack: Stack, recipe: Recipe) -> tuple[Quantity, Quantity]:
    """How many adapters stand beside an operation, and how many columns their results have together."""
    queries = stack.num_heads * stack.head_size
    keys = stack.num_kv_heads * stack.head_size
    with_keys = recipe.adapter_targets != "query-value"
    if op.name == "attention.qkv":
        apart = 1 - stack.fused_qkv
        keyless = 0 if with_keys else 1
        return 1 + apart * (2 - keyless), queries + 2 * keys - apart * keyless * keys
    if op.name == "cross_attention.key_value":
        return (2, 2 * keys) if with_keys else (1, keys)
    if op.name in ("mlp.up", "mlp.shared_up"):
        return 1 + stack.gated * as_flag(stack.num_experts == 1 if op.name == "mlp.up" else True), op.columns
    return 1, op.columns


def _unread(op: Operation, stack: Stack, setting: Setting, recipe: Recipe) -> Quantity:
    """Share of an operation's input gradients that nobody reads, because nothing trained stands before the first block.

    They are those of its queries, keys and values; and of its keys, where these have no adapter, in the scores, which
    a fused kernel computes all the same. A checkpointed block wants the gradient of its input.
    """
    if recipe.checkpointing == "full":
        return 0
    if op.name == "attention.qkv":
        return 1 / stack.num_layers
    if op.name == "attention.scores" and recipe.adapter_targets == "query-value" and not setting.fused:
        return (1 - stack.fused_qkv) / (2 * stack.num_layers)
    return 0


def _without_input_gradient(op: Operation, share: Quantity) -> Operation:
    """Leave out a share of the operations for the gradients of the activations."""
    return replace(op, backward_input_flop=(1 - share) * op.backward_input_flop)
