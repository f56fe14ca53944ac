"""One operation of a training step: what it computes, what it moves, what it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from wattlaw.units import Quantity

Module = Literal["embeddings", "attention", "mlp", "norm", "head"]
Kind = Literal["linear", "matmul", "memory"]

MODULES: tuple[Module, ...] = get_args(Module)
KINDS: tuple[Kind, ...] = get_args(Kind)


def as_flag(condition: Any) -> Quantity:
    """Turn a comparison of two numbers, or of two columns entry by entry, into 1 where it holds and 0 where not."""
    flag: Quantity = 1 * condition
    return flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Work that one module does in one micro-step, per execution; ``repeats`` executions make the micro-step.

    Attributes:
        name: module and part, ``attention.scores``; unique within a stack.
        stack: index of the stack it belongs to, -1 for embeddings and head.
        module: the group of the model that it counts for.
        kind: ``linear`` (a product with weights), ``matmul`` (a product of activations) or ``memory`` (elementwise).
        repeats: executions per micro-step, the number of layers for what every block has.
        rows: rows of the matrix product, over all of a batch (per head and sequence for ``matmul``); 0 for ``memory``.
        inner: length that the product sums over.
        columns: columns of the product.
        forward_flop: operations of the forward pass; a multiplication and an addition are two.
        backward_input_flop: operations for the gradients of the activations.
        backward_weight_flop: operations for the gradients of the weights; frozen weights save these.
        recompute_flop: forward operations that the backward pass does again.
        forward_bytes: traffic to and from device memory: each operand read once, each result written once.
        backward_bytes: the same for the backward pass.
        recompute_bytes: the same for what is computed again.
        forward_kernels: kernel launches of an eager framework.
        backward_kernels: the same for the backward pass.
        weight_kernels: of these, the ones for the gradients of the weights.
        recompute_kernels: the same for what is computed again.
        saved_bytes: activations kept from forward to backward.
        weights: numbers of the model.
        frozen_weights: those that are not trained.
        active_weights: those that one token meets; fewer than ``weights`` where a router chooses experts.
        tensors: separate tensors of trained weights, which an optimizer walks through.
        factored_weights: rows and columns of the trained matrices, and all of their vectors: what is left of a moment
            that is kept per row and column.
        tensor_parallel_divided: whether tensor parallelism divides this operation, or every rank repeats it.
        in_block: whether it is part of a Transformer block, or stands before, after or between them.
        of_experts: 1 where its weights are of experts that a router chooses from, which expert parallelism deals out;
            each device still computes as many rows.
    """

    name: str
    stack: int
    module: Module
    kind: Kind
    repeats: Quantity = 1
    rows: Quantity = 0
    inner: Quantity = 0
    columns: Quantity = 0
    forward_flop: Quantity = 0
    backward_input_flop: Quantity = 0
    backward_weight_flop: Quantity = 0
    recompute_flop: Quantity = 0
    forward_bytes: Quantity = 0
    backward_bytes: Quantity = 0
    recompute_bytes: Quantity = 0
    forward_kernels: Quantity = 0
    backward_kernels: Quantity = 0
    weight_kernels: Quantity = 0
    recompute_kernels: Quantity = 0
    saved_bytes: Quantity = 0
    weights: Quantity = 0
    frozen_weights: Quantity = 0
    active_weights: Quantity = 0
    tensors: Quantity = 0
    factored_weights: Quantity = 0
    tensor_parallel_divided: bool = False
    in_block: bool = False
    of_experts: Quantity = 0

    @property
    def backward_flop(self) -> Quantity:
        """Operations of the backward pass, without what it computes again."""
        return self.backward_input_flop + self.backward_weight_flop

    @property
    def trained_weights(self) -> Quantity:
        """Numbers that have a gradient."""
        frozen = self.frozen_weights
        return self.weights if isinstance(frozen, int) and frozen == 0 else self.weights - frozen

    @property
    def expert_weights(self) -> Quantity:
        """Numbers of experts that a router chooses from."""
        return _scaled(self.of_experts, self.weights)

    @property
    def frozen_expert_weights(self) -> Quantity:
        """Of these, the ones that are not trained."""
        return _scaled(self.of_experts, self.frozen_weights)

    @property
    def inactive_weights(self) -> Quantity:
        """Numbers that one token does not meet."""
        return 0 if self.active_weights is self.weights else self.weights - self.active_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a micro-step sends through one stack.

    Attributes:
        stack: index of the stack, -1 for embeddings and head.
        repeats: blocks of the stack.
        sequences: sequences in the micro-step.
        tokens: tokens in the micro-step, padding included.
        element_bytes: size of an activation.
        operand_bytes: size of an operand of a matrix product; below ``element_bytes`` in fp8.
        fused: whether the attention kernel keeps its scores out of memory.
        in_block: whether this is the inside of a block.
    """

    stack: int = -1
    repeats: Quantity = 1
    in_block: bool = False
    sequences: Quantity
    tokens: Quantity
    element_bytes: int
    operand_bytes: int
    fused: bool


def linear(
    name: str,
    module: Module,
    setting: Setting,
    *,
    rows: Quantity,
    inner: Quantity,
    columns: Quantity,
    bias: Quantity = 0,
    parts: Quantity = 1,
    experts: Quantity = 1,
    active_experts: Quantity = 1,
    of_experts: Quantity = 0,
    divided: bool = True,
    tied: Quantity = 0,
    present: Quantity = 1,
) -> Operation:
    """Build a product of activations with a weight matrix.

    A product of (rows, inner) with (inner, columns) takes 2 rows inner columns operations; the backward pass makes two
    of the same size, one for the gradient of the input and one for that of the weights (Narayanan et al. 2021, arXiv
    2104.04473, appendix). Both passes move the same three matrices per product, so the backward moves twice the bytes.

    Args:
        name: of the operation.
        module: the group it counts for.
        setting: what the micro-step sends through.
        rows: tokens that are multiplied, times the experts that each is sent to.
        inner: width of the input.
        columns: width of the output, of all parts together.
        bias: 1 where a bias is added.
        parts: separate products that the columns are divided over; each reads the input again, and the gradients of
            the input are added up.
        experts: copies of the matrix that the rows are divided over.
        active_experts: copies that one token meets.
        of_experts: 1 where a router chooses among these copies.
        divided: whether tensor parallelism divides it.
        tied: 1 where the weights belong to another module.
        present: 0 for the models of a column that lack this product.

    Returns:
        the operation.
    """
    rows, columns, parts = (_scaled(present, size) for size in (rows, columns, parts))
    matrix = inner * columns
    inputs = rows * inner
    flop = 2 * rows * matrix
    read_bytes = setting.operand_bytes * (_scaled(parts, inputs) + _scaled(experts, matrix))
    moved_bytes = read_bytes + setting.element_bytes * rows * columns
    expert_weights = _scaled(1 - tied, matrix) + _scaled(bias, columns)
    weights = _scaled(experts, expert_weights)
    return Operation(
        name=name,
        stack=setting.stack,
        module=module,
        kind="linear",
        repeats=setting.repeats,
        rows=rows,
        inner=inner,
        columns=columns,
        forward_flop=flop,
        backward_input_flop=flop,
        backward_weight_flop=flop,
        forward_bytes=moved_bytes,
        backward_bytes=2 * moved_bytes,
        forward_kernels=parts,
        backward_kernels=parts * (3 + bias) - present,
        weight_kernels=parts * (1 + bias),
        saved_bytes=setting.element_bytes * inputs,
        weights=weights,
        active_weights=weights if active_experts is experts else active_experts * expert_weights,
        tensors=parts * (1 - tied + bias),
        factored_weights=_scaled(experts, _scaled(1 - tied, inner + columns) + _scaled(bias, columns)),
        tensor_parallel_divided=divided,
        in_block=setting.in_block,
        of_experts=of_experts,
    )


def elementwise(
    name: str,
    module: Module,
    setting: Setting,
    *,
    forward_bytes: Quantity,
    backward_bytes: Quantity,
    forward_kernels: Quantity,
    backward_kernels: Quantity,
    saved_bytes: Quantity = 0,
    weights: Quantity = 0,
    tensors: Quantity = 0,
    factored_weights: Quantity | None = None,
    divided: bool = False,
) -> Operation:
    """Build an operation that moves memory and computes next to nothing; its operations are not counted as flop."""
    return Operation(
        name=name,
        stack=setting.stack,
        module=module,
        kind="memory",
        repeats=setting.repeats,
        forward_bytes=forward_bytes,
        backward_bytes=backward_bytes,
        forward_kernels=forward_kernels,
        backward_kernels=backward_kernels,
        saved_bytes=saved_bytes,
        weights=weights,
        active_weights=weights,
        tensors=tensors,
        factored_weights=weights if factored_weights is None else factored_weights,
        tensor_parallel_divided=divided,
        in_block=setting.in_block,
    )


def _scaled(factor: Quantity, quantity: Quantity) -> Quantity:
    """Multiply; a factor of 0 or 1 for all runs needs no pass over a column."""
    if isinstance(factor, int) and factor in (0, 1):
        return quantity if factor else 0
    return factor * quantity
