"""What one training step costs: parameters, operations, traffic, kernel launches and memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from wattlaw.workload.operation import MODULES
from wattlaw.workload.operations import ELEMENT_BYTES, micro_step_tokens, operations, under_convention
from wattlaw.workload.optimizer import UPDATES, launches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Architecture
    from wattlaw.workload.attention import AttentionConvention
    from wattlaw.workload.ends import HeadConvention
    from wattlaw.workload.operation import Operation
    from wattlaw.workload.recipe import Recipe

#: Bytes per parameter of the weights that the model runs on and of their gradients, and of the fp32 master copy.
WEIGHT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2}
MASTER_BYTES = {"fp32": 0, "tf32": 0, "bf16": 4, "fp16": 4, "fp8": 4}

#: Products that tensor parallelism divides by columns: every rank keeps their input whole (Korthikanti et al. 2022,
#: arXiv 2205.05198, section 4.2.1).
DIVIDED_BY_COLUMNS = ("qkv", "query", "key_value", "up")

#: Names of the parts that all parameters are the sum of, in the order of ``MODULES``.
PARAMETER_GROUPS = (
    "embedding_parameters",
    "attention_parameters",
    "mlp_parameters",
    "norm_parameters",
    "head_parameters",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """The cost of training one undivided model, on one device that could hold it.

    Forward, backward and recompute are per micro-step; the optimizer's share is per optimizer step, which follows
    ``grad_accumulation`` micro-steps. Names that start with ``divided_`` are the part of the quantity without the
    prefix that tensor parallelism divides; every rank repeats the rest.

    Attributes:
        tokens: computed in a micro-step, padding included, encoder's and decoder's.
        num_layers: blocks of the model.
        boundary_bytes: activations that pass from one block to the next.
        embedding_parameters: token, position and segment tables.
        attention_parameters: projections, and norms of queries and keys.
        mlp_parameters: all experts and routers.
        norm_parameters: norms of the hidden state.
        head_parameters: what is not tied to the embedding; part of the model under either convention.
        active_parameters: parameters that one token meets; fewer than all where a router chooses experts.
        divided_parameters: held in parts under tensor parallelism.
        expert_parameters: of the experts that a router chooses from, which expert parallelism divides as well.
        frozen_parameters: that are not trained, so that they have no gradient, no master copy and no states.
        frozen_embedding_parameters: of these, in the embeddings.
        frozen_head_parameters: of these, in the head.
        frozen_divided_parameters: of these, held in parts under tensor parallelism.
        frozen_expert_parameters: of these, in experts.
        forward_flop: operations of the forward pass.
        backward_flop: operations of the backward pass, without what it computes again.
        recompute_flop: forward operations done again, by checkpointing or by a fused attention kernel.
        optimizer_flop: operations of one update.
        divided_forward_flop: see above.
        divided_backward_flop: see above.
        divided_recompute_flop: see above.
        forward_traffic_bytes: to and from device memory.
        backward_traffic_bytes: to and from device memory.
        recompute_traffic_bytes: to and from device memory.
        optimizer_traffic_bytes: to and from device memory, of one update.
        divided_forward_traffic_bytes: see above.
        divided_backward_traffic_bytes: see above.
        divided_recompute_traffic_bytes: see above.
        forward_kernels: launches of the forward pass.
        backward_kernels: launches of the backward pass.
        recompute_kernels: launches of what is computed again.
        optimizer_kernels: launches of one update.
        layer_kernels: launches of a micro-step per block, forward, backward and recompute.
        weights_bytes: what the matrix products read.
        master_weights_bytes: the fp32 copy that mixed precision updates; 0 where the weights are fp32.
        gradients_bytes: one gradient per trained parameter.
        optimizer_states_bytes: moments that the optimizer keeps.
        activations_bytes: kept from forward to backward, without the logits.
        logits_bytes: the head's output and its logarithmic softmax.
        divided_activations_bytes: see above.
    """

    tokens: Quantity
    num_layers: Quantity
    boundary_bytes: Quantity
    embedding_parameters: Quantity
    attention_parameters: Quantity
    mlp_parameters: Quantity
    norm_parameters: Quantity
    head_parameters: Quantity
    active_parameters: Quantity
    divided_parameters: Quantity
    expert_parameters: Quantity
    frozen_parameters: Quantity
    frozen_embedding_parameters: Quantity
    frozen_head_parameters: Quantity
    frozen_divided_parameters: Quantity
    frozen_expert_parameters: Quantity
    forward_flop: Quantity
    backward_flop: Quantity
    recompute_flop: Quantity
    optimizer_flop: Quantity
    divided_forward_flop: Quantity
    divided_backward_flop: Quantity
    divided_recompute_flop: Quantity
    forward_traffic_bytes: Quantity
    backward_traffic_bytes: Quantity
    recompute_traffic_bytes: Quantity
    optimizer_traffic_bytes: Quantity
    divided_forward_traffic_bytes: Quantity
    divided_backward_traffic_bytes: Quantity
    divided_recompute_traffic_bytes: Quantity
    forward_kernels: Quantity
    backward_kernels: Quantity
    recompute_kernels: Quantity
    optimizer_kernels: Quantity
    layer_kernels: Quantity
    weights_bytes: Quantity
    master_weights_bytes: Quantity
    gradients_bytes: Quantity
    optimizer_states_bytes: Quantity
    activations_bytes: Quantity
    logits_bytes: Quantity
    divided_activations_bytes: Quantity

    @property
    def parameters(self) -> Quantity:
        """All numbers of the model."""
        return (
            self.embedding_parameters
            + self.attention_parameters
            + self.mlp_parameters
            + self.norm_parameters
            + self.head_parameters
        )

    @property
    def trained_parameters(self) -> Quantity:
        """The numbers that have a gradient: all, but where adapters stand beside a frozen model."""
        return self.parameters - self.frozen_parameters

    @property
    def flop(self) -> Quantity:
        """Operations of one micro-step, with what is computed again."""
        return self.forward_flop + self.backward_flop + self.recompute_flop

    @property
    def traffic_bytes(self) -> Quantity:
        """Traffic of one micro-step."""
        return self.forward_traffic_bytes + self.backward_traffic_bytes + self.recompute_traffic_bytes

    @property
    def kernels(self) -> Quantity:
        """Kernel launches of one micro-step."""
        return self.forward_kernels + self.backward_kernels + self.recompute_kernels

    @property
    def memory_bytes(self) -> Quantity:
        """Device memory of the model, its update, and one micro-step's activations; no fragmentation, no context."""
        return (
            self.weights_bytes
            + self.master_weights_bytes
            + self.gradients_bytes
            + self.optimizer_states_bytes
            + self.activations_bytes
            + self.logits_bytes
        )


def step_cost(
    architecture: Architecture, recipe: Recipe, *, attention: AttentionConvention, head: HeadConvention
) -> StepCost:
    """Cost one micro-step, and one update, of an undivided model.

    Memory follows mixed precision as in Rajbhandari et al. 2020 (arXiv 1910.02054, section 3.1): 2 bytes for weights,
    2 for gradients, and for AdamW 12 for the fp32 copy and two moments. PyTorch's autocast keeps fp32 weights and
    gradients instead, the same 16 bytes in all.

    Args:
        architecture: the model; its numbers may be columns.
        recipe: how it is trained.
        attention: ``causal`` counts the pairs of tokens that a decoder's mask leaves, ``full`` all of them.
        head: whether what turns hidden states into a loss is part of the work; its parameters always are of the model.

    Returns:
        the cost.

    Raises:
        ConfigError: a convention is unknown, or the recipe does not fit the model.
    """
    model = operations(architecture, recipe, attention=attention, head="counted")
    work = under_convention(model, head=head)
    divided = [op for op in work if op.tensor_parallel_divided]
    repeated = [op for op in work if not op.tensor_parallel_divided]
    logits = [op for op in repeated if op.name == "head.loss"]
    blocks = [op for op in work if op.in_block]
    groups = _model(model)
    parts = {}
    for phase in ("forward", "backward", "recompute"):
        for quantity, field in (("flop", f"{phase}_flop"), ("traffic_bytes", f"{phase}_bytes")):
            parts[f"divided_{phase}_{quantity}"] = total(divided, field)
            parts[f"{phase}_{quantity}"] = parts[f"divided_{phase}_{quantity}"] + total(repeated, field)
        parts[f"{phase}_kernels"] = total(work, f"{phase}_kernels")
    layer_kernels = sum(total(blocks, f"{phase}_kernels") for phase in ("forward", "backward", "recompute"))
    logits_bytes = total(logits, "saved_bytes")
    by_columns = [op for op in divided if op.name.rpartition(".")[2] in DIVIDED_BY_COLUMNS]
    by_rows = [op for op in divided if op.name.rpartition(".")[2] not in DIVIDED_BY_COLUMNS]
    divided_activations_bytes = total(by_rows, "saved_bytes")
    whole_activations_bytes = total(by_columns, "saved_bytes") + total(repeated, "saved_bytes") - logits_bytes
    tokens = micro_step_tokens(architecture, recipe)
    return StepCost(
        tokens=tokens,
        num_layers=architecture.num_layers,
        boundary_bytes=tokens * architecture.hidden_size * ELEMENT_BYTES[recipe.precision],
        layer_kernels=layer_kernels / architecture.num_layers,
        divided_activations_bytes=divided_activations_bytes,
        activations_bytes=divided_activations_bytes + whole_activations_bytes,
        logits_bytes=logits_bytes,
        **parts,
        **groups,
        **_update(
            model,
            recipe,
            parameters=sum(groups[name] for name in PARAMETER_GROUPS),
            frozen=groups["frozen_parameters"],
        ),
    )


def total(found: Iterable[Operation], field: str) -> Quantity:
    """Sum a quantity of operations over all their executions in a micro-step.

    Operations that repeat equally often stand together, so that a column is multiplied once for all of them; zeros
    that are no columns are not added to any.
    """
    result: Quantity = 0
    for _, group in groupby(found, key=lambda op: id(op.repeats)):
        same = list(group)
        values = [getattr(op, field) for op in same]
        result = result + same[0].repeats * sum(value for value in values if not isinstance(value, int) or value)
    return result


def _model(model: tuple[Operation, ...]) -> dict[str, Quantity]:
    """Parameters by group."""
    divided = [_weights(model, module, divided=True) for module in MODULES]
    repeated = [_weights(model, module, divided=False) for module in MODULES]
    groups = [first + second for first, second in zip(divided, repeated, strict=True)]
    parts = {
        "": model,
        "embedding_": [op for op in model if op.module == "embeddings"],
        "head_": [op for op in model if op.module == "head"],
        "divided_": [op for op in model if op.tensor_parallel_divided],
    }
    return {
        **dict(zip(PARAMETER_GROUPS, groups, strict=True)),
        "active_parameters": sum(groups) - total(model, "inactive_weights"),
        "divided_parameters": sum(divided),
        "expert_parameters": total(model, "expert_weights"),
        "frozen_expert_parameters": total(model, "frozen_expert_weights"),
        **{f"frozen_{name}parameters": total(part, "frozen_weights") for name, part in parts.items()},
    }


def _weights(model: tuple[Operation, ...], module: str, *, divided: bool) -> Quantity:
    return total([op for op in model if op.module == module and op.tensor_parallel_divided is divided], "weights")


def _update(
    model: tuple[Operation, ...], recipe: Recipe, *, parameters: Quantity, frozen: Quantity
) -> dict[str, Quantity]:
    """One optimizer step, and the memory of weights, gradients and states."""
    update = UPDATES[recipe.optimizer]
    weight_bytes = WEIGHT_BYTES[recipe.precision]
    master_bytes = MASTER_BYTES[recipe.precision]
    trained = parameters if isinstance(frozen, int) and frozen == 0 else parameters - frozen
    states_bytes = update.states_bytes * trained
    if update.factored:
        states_bytes = 4 * total(model, "factored_weights")
    # Gradients are read; weights (the master copy where there is one) and states are read and written, and the
    # working copy is written behind the master copy.
    weights_traffic_bytes = (weight_bytes + 2 * master_bytes) if master_bytes else 2 * weight_bytes
    return {
        "optimizer_flop": update.flop * trained,
        "optimizer_traffic_bytes": (weight_bytes + weights_traffic_bytes) * trained + 2 * states_bytes,
        "optimizer_kernels": launches(update, tensors=total(model, "tensors"), parameters=trained),
        "weights_bytes": weight_bytes * parameters,
        "master_weights_bytes": master_bytes * trained,
        "gradients_bytes": weight_bytes * trained,
        "optimizer_states_bytes": states_bytes,
    }
