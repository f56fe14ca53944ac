"""The model as a list of operations: the one place that says what a micro-step computes and moves.

Everything larger (the cost of a step, memory, the energy of a module) is a sum over this list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError
from wattlaw.units import every
from wattlaw.workload import adapters, ends
from wattlaw.workload.attention import (
    ATTENTION_CONVENTIONS,
    AttentionConvention,
    cross_attention,
    position_bias,
    self_attention,
)
from wattlaw.workload.ends import HEAD_CONVENTIONS, HeadConvention
from wattlaw.workload.mlp import mlp, norm, norms
from wattlaw.workload.operation import Operation, Setting, as_flag

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Architecture, Stack
    from wattlaw.workload.recipe import Recipe

#: Bytes of an activation, and of an operand of a matrix product. fp8 quantises the operands only.
ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2}
OPERAND_BYTES = {**ELEMENT_BYTES, "fp8": 1}


def operations(
    architecture: Architecture, recipe: Recipe, *, attention: AttentionConvention, head: HeadConvention
) -> tuple[Operation, ...]:
    """List everything that one micro-step of the undivided model does.

    Args:
        architecture: the model.
        recipe: how it is trained.
        attention: ``full`` counts every pair of tokens, ``causal`` those that a decoder's mask leaves,
            S (S + 1) / 2. Memory and traffic do not depend on it.
        head: ``counted`` includes what turns hidden states into a loss, ``not_counted`` leaves it out altogether.

    Returns:
        the operations; each is per execution, and ``repeats`` says how often a micro-step executes it.

    Raises:
        ConfigError: the conventions are unknown, or the recipe does not fit the model.
    """
    _check(architecture, recipe, attention=attention)
    source_len = recipe.computed_len
    target_len = recipe.decoder_len if architecture.is_encoder_decoder else source_len
    lengths = {"encoder": source_len, "decoder": target_len}
    found = ends.embeddings(architecture, _setting(recipe, length=_embedded_len(architecture, recipe)))
    frozen = as_flag(recipe.adapter_rank > 0)
    if not adapters.trains_all(recipe):
        found = [adapters.without_backward(op, frozen) for op in found]
    for index, written_out in enumerate(architecture.stacks):
        # Fused software computes the non-linear function in one kernel, whatever the model's own code does.
        stack = written_out if recipe.software == "eager" else replace(written_out, activation_kernels=1)
        length = lengths[stack.role]
        setting = _setting(recipe, length=length, stack=index, repeats=stack.num_layers, in_block=True)
        block = _block(
            stack,
            architecture.hidden_size,
            setting,
            length=length,
            source_len=source_len,
            attention=attention,
            packed=recipe.packed_sequences,
        )
        once = _once_per_stack(
            stack, architecture.hidden_size, replace(setting, repeats=1, in_block=False), length=length
        )
        if not adapters.trains_all(recipe):
            block = adapters.adapted_block(block, stack, setting, recipe)
            once = [adapters.frozen(op, frozen) for op in once]
        found += _checkpointed(block, architecture.hidden_size, setting, checkpointing=recipe.checkpointing)
        found += once
    last = _setting(recipe, length=lengths[architecture.stacks[-1].role])
    head_work = ends.head(architecture, last, predicted_fraction=recipe.predicted_fraction)
    if not adapters.trains_all(recipe):
        head_work = adapters.adapted_head(head_work, architecture, recipe)
    found += head_work
    return under_convention(tuple(found), head=head)


def under_convention(found: tuple[Operation, ...], *, head: HeadConvention) -> tuple[Operation, ...]:
    """Leave out the head's operations where the convention does not count them."""
    if head not in HEAD_CONVENTIONS:
        raise ConfigError("unknown head convention", given=head, allowed=", ".join(HEAD_CONVENTIONS))
    return found if head == "counted" else tuple(op for op in found if op.module != "head")


def micro_step_tokens(architecture: Architecture, recipe: Recipe) -> Quantity:
    """Tokens that one micro-step computes, padding included, of encoder and decoder together."""
    return recipe.batch_size * _embedded_len(architecture, recipe)


def _embedded_len(architecture: Architecture, recipe: Recipe) -> Quantity:
    return recipe.computed_len + recipe.decoder_len if architecture.is_encoder_decoder else recipe.computed_len


def _check(architecture: Architecture, recipe: Recipe, *, attention: str) -> None:
    if attention not in ATTENTION_CONVENTIONS:
        raise ConfigError("unknown attention convention", given=attention, allowed=", ".join(ATTENTION_CONVENTIONS))
    if recipe.target_len is not None and not architecture.is_encoder_decoder:
        raise ConfigError(
            "target_len is for an encoder-decoder", given=architecture.family, hint="seq_len and padded_len alone"
        )
    longest = recipe.seq_len / recipe.packed_sequences
    if not every((architecture.max_positions == 0) | (longest <= architecture.max_positions)):
        raise ConfigError(
            "seq_len exceeds the model's positions", given=recipe.seq_len, allowed=f"<= {architecture.max_positions}"
        )
    if not every(recipe.predicted_fraction == 1) and architecture.head not in ("lm", "mlm"):
        raise ConfigError(
            "predicted_fraction is for a head that projects onto the vocabulary",
            given=f"{recipe.predicted_fraction} and head {architecture.head}",
            allowed="1",
            hint="--head mlm or lm",
        )


def _setting(
    recipe: Recipe, *, length: Quantity, stack: int = -1, repeats: Quantity = 1, in_block: bool = False
) -> Setting:
    return Setting(
        in_block=in_block,
        stack=stack,
        repeats=repeats,
        sequences=recipe.batch_size,
        tokens=recipe.batch_size * length,
        element_bytes=ELEMENT_BYTES[recipe.precision],
        operand_bytes=OPERAND_BYTES[recipe.precision],
        fused=recipe.attention_kernel == "fused",
    )


def _block(
    stack: Stack,
    hidden_size: Quantity,
    setting: Setting,
    *,
    length: Quantity,
    source_len: Quantity,
    attention: AttentionConvention,
    packed: Quantity,
) -> list[Operation]:
    block = [norms(stack, hidden_size, setting)]
    block += self_attention(stack, hidden_size, setting, length=length, attention=attention, packed=packed)
    if not every(stack.cross_attention == 0):
        block += cross_attention(stack, hidden_size, setting, length=length, source_len=source_len, packed=packed)
    return block + mlp(stack, hidden_size, setting)


def _once_per_stack(stack: Stack, hidden_size: Quantity, setting: Setting, *, length: Quantity) -> list[Operation]:
    found = []
    if not every(stack.position_buckets == 0):
        found.append(position_bias(stack, setting, length=length))
    if not every(stack.final_norm == 0):
        found.append(norm("final_norm", setting, hidden_size=hidden_size, count=stack.final_norm, bias=stack.norm_bias))
    return found


def _checkpointed(
    block: list[Operation], hidden_size: Quantity, setting: Setting, *, checkpointing: str
) -> list[Operation]:
    """Say what the backward pass computes again, and what is then not kept.

    ``full`` keeps the input of each block, and while the backward pass is inside a block, what that one block keeps;
    ``selective`` drops the scores and their softmax (Korthikanti et al. 2022, arXiv 2205.05198, section 5), which a
    fused kernel has never written.
    """
    if checkpointing == "full":
        input_bytes = setting.element_bytes * setting.tokens * hidden_size
        return [
            _again(op, saved_bytes=op.saved_bytes / setting.repeats + (input_bytes if op.module == "norm" else 0))
            for op in block
        ]
    if checkpointing == "selective" and not setting.fused:
        return [_selected(op) for op in block]
    return block


def _selected(op: Operation) -> Operation:
    part = op.name.rpartition(".")[2]
    if part == "softmax":
        return _again(op, saved_bytes=0)
    return _again(op, saved_bytes=op.saved_bytes) if part in ("scores", "values") else op


def _again(op: Operation, *, saved_bytes: Quantity) -> Operation:
    return replace(
        op,
        recompute_flop=op.recompute_flop + op.forward_flop,
        recompute_bytes=op.recompute_bytes + op.forward_bytes,
        recompute_kernels=op.recompute_kernels + op.forward_kernels,
        saved_bytes=saved_bytes,
    )
