"""The MLP of one block and its normalisations, as operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.units import every
from wattlaw.workload.attention import residual
from wattlaw.workload.operation import Operation, Setting, as_flag, elementwise, linear

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Stack


def mlp(stack: Stack, hidden_size: Quantity, setting: Setting) -> list[Operation]:
    """List the operations of one block's MLP, of its experts where it has several.

    A dense MLP of inner width f takes 4 B S d f operations, a gated one 6 B S d f (Shazeer 2020, arXiv 2002.05202); a
    router sends each token to k of E experts, which multiplies that by k and adds 2 B S d E (Fedus et al. 2021, arXiv
    2101.03961). All experts' weights are read in a micro-step: with thousands of tokens none stays without.

    Args:
        stack: the blocks.
        hidden_size: width of the residual stream.
        setting: what the micro-step sends through.

    Returns:
        the operations.
    """
    operations = []
    if not every(stack.num_experts == 1):
        operations += _router(stack, hidden_size, setting)
    operations += _projections("mlp", stack, hidden_size, setting, width=stack.ffn_size)
    if not every(stack.shared_ffn_size == 0):
        operations += _shared_expert(stack, hidden_size, setting)
    operations.append(residual("mlp.residual", "mlp", stack, hidden_size, setting))
    return operations


def norms(stack: Stack, hidden_size: Quantity, setting: Setting) -> Operation:
    """All normalisations of one block's hidden state.

    Each reads and writes the state once, and again with its gradient in the backward pass; it keeps its input.
    """
    return norm("norm", setting, hidden_size=hidden_size, count=stack.num_norms, bias=stack.norm_bias)


def norm(name: str, setting: Setting, *, hidden_size: Quantity, count: Quantity, bias: Quantity) -> Operation:
    """LayerNorm (with ``bias``) or RMSNorm (without), ``count`` times over the hidden state."""
    numbers_bytes = setting.element_bytes * setting.tokens * hidden_size * count
    # LayerNorm is one kernel; RMSNorm is written in elementary steps (cast, square, mean, root, two products).
    return elementwise(
        name,
        "norm",
        setting,
        forward_bytes=2 * numbers_bytes,
        backward_bytes=3 * numbers_bytes,
        forward_kernels=count * (6 - 5 * bias),
        backward_kernels=count * (14 - 13 * bias),
        saved_bytes=numbers_bytes,
        weights=count * hidden_size * (1 + bias),
        tensors=count * (1 + bias),
    )


def _router(stack: Stack, hidden_size: Quantity, setting: Setting) -> list[Operation]:
    """Choose the experts of each token, gather the tokens by expert and add up their results."""
    present = as_flag(stack.num_experts > 1)
    routed_bytes = setting.element_bytes * setting.tokens * stack.experts_per_token * hidden_size * present
    choice = linear(
        "mlp.router",
        "mlp",
        setting,
        rows=setting.tokens,
        inner=hidden_size,
        columns=stack.num_experts,
        present=present,
        divided=False,
    )
    exchange = elementwise(
        "mlp.routing",
        "mlp",
        setting,
        forward_bytes=4 * routed_bytes,
        backward_bytes=4 * routed_bytes,
        forward_kernels=10 * present,
        backward_kernels=23 * present,
        saved_bytes=routed_bytes,
    )
    return [choice, exchange]


def _projections(
    prefix: str, stack: Stack, hidden_size: Quantity, setting: Setting, *, width: Quantity
) -> list[Operation]:
    rows = setting.tokens * stack.experts_per_token
    routed = 0 if every(stack.num_experts == 1) else as_flag(stack.num_experts > 1)
    up = linear(
        f"{prefix}.up",
        "mlp",
        setting,
        rows=rows,
        inner=hidden_size,
        columns=width * (1 + stack.gated),
        bias=stack.mlp_bias,
        # Experts keep both projections of a gated MLP in one tensor.
        parts=1 + stack.gated * as_flag(stack.num_experts == 1),
        experts=stack.num_experts,
        active_experts=stack.experts_per_token,
        of_experts=routed,
    )
    down = linear(
        f"{prefix}.down",
        "mlp",
        setting,
        rows=rows,
        inner=width,
        columns=hidden_size,
        bias=stack.mlp_bias,
        experts=stack.num_experts,
        active_experts=stack.experts_per_token,
        of_experts=routed,
    )
    return [up, _activation(prefix, stack, setting, numbers=rows * width), down]


def _shared_expert(stack: Stack, hidden_size: Quantity, setting: Setting) -> list[Operation]:
    """The expert that every token passes, and the gate of one number per token that scales it (Qwen-MoE)."""
    width = stack.shared_ffn_size
    present = as_flag(width > 0)
    gate = linear(
        "mlp.shared_gate",
        "mlp",
        setting,
        rows=setting.tokens,
        inner=hidden_size,
        columns=1,
        divided=False,
        present=present,
    )
    up = linear(
        "mlp.shared_up",
        "mlp",
        setting,
        rows=setting.tokens,
        inner=hidden_size,
        columns=width * (1 + stack.gated),
        parts=1 + stack.gated,
        present=present,
    )
    down = linear(
        "mlp.shared_down",
        "mlp",
        setting,
        rows=setting.tokens,
        inner=width,
        columns=hidden_size,
        present=present,
    )
    return [gate, up, _activation("mlp.shared", stack, setting, numbers=setting.tokens * width, present=present), down]


def _activation(prefix: str, stack: Stack, setting: Setting, *, numbers: Quantity, present: Quantity = 1) -> Operation:
    """The non-linear function, and the product of a gated MLP, which keeps both factors and the gate's input.

    Where the function is written out in elementary steps, each reads and writes once forward, and reads twice and
    writes once backward; GPT-2's GELU in eight then keeps four tensors: its input, the tanh, and the two factors of the
    last product.
    """
    element = setting.element_bytes
    kept = 1 if every(stack.activation_kernels == 1) else 1 + 3 * as_flag(stack.activation_kernels > 1)
    forward_steps = stack.activation_kernels
    backward_steps = 1 + 3 * (stack.activation_kernels - 1) // 2
    return elementwise(
        f"{prefix}.activation",
        "mlp",
        setting,
        forward_bytes=element * numbers * (2 * forward_steps + 3 * stack.gated),
        backward_bytes=element * numbers * (3 * backward_steps + 5 * stack.gated),
        forward_kernels=present * (forward_steps + stack.gated),
        backward_kernels=present * (backward_steps + 2 * stack.gated),
        saved_bytes=element * numbers * (kept + 2 * stack.gated),
        divided=True,
    )
