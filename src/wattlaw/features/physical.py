"""The columns of the step law: what one device computes, moves and says in a step, and how many steps there are.

All work is per device, after the layout has divided it: tensor parallelism divides most operations of a block,
pipeline parallelism the blocks, data parallelism the sequences, sharding the optimizer's update. Of a pipeline, the
columns are those of the last stage, which holds the head and is the slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.features.batch import Batch, batches
from wattlaw.features.table import Table
from wattlaw.parallel.collectives import adapter_messages, communication, of_one_context
from wattlaw.parallel.layout import divided, plainly
from wattlaw.parallel.memory import sharded
from wattlaw.run.amount import schedule
from wattlaw.workload import operations
from wattlaw.workload.attention import AttentionConvention
from wattlaw.workload.cost import WEIGHT_BYTES
from wattlaw.workload.operations import OPERAND_BYTES
from wattlaw.workload.optimizer import UPDATES

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.run.spec import RunSpec
    from wattlaw.units import Quantity
    from wattlaw.workload import Operation, Recipe


#: Columns of text: what a run is of, which no number says. Both 16-bit formats are alike to the law.
KINDS: Mapping[str, Callable[[RunSpec], str]] = {
    "machine": lambda spec: spec.accelerator.name,
    "precision": lambda spec: {"fp16": "16-bit", "bf16": "16-bit"}.get(spec.recipe.precision, spec.recipe.precision),
    "optimizer": lambda spec: spec.recipe.optimizer,
    "software": lambda spec: spec.recipe.software,
}


def physical_columns(specs: Sequence[RunSpec]) -> Table:
    """Return the columns that the step law reads, one row per run.

    Raises:
        ConfigError: a spec that the layout or the data sheets cannot serve.
    """
    columns: dict[str, NDArray[np.float64]] = {}
    for positions, batch in batches(specs):
        for name, values in physical(batch).items():
            columns.setdefault(name, np.zeros(len(specs)))[positions] = values
    kinds = {name: np.array([kind(spec) for spec in specs], dtype=np.str_) for name, kind in KINDS.items()}
    return Table({**columns, **kinds})


def within(boundary: str, table: Table) -> Table:
    """Return the columns for energies within a boundary: that of the accelerators holds no declared host.

    What such energies hold besides, the law's own host power finds.
    """
    return table.with_columns(node_host_w=np.zeros(len(table))) if boundary == "accelerators" else table


def physical(batch: Batch) -> Mapping[str, Quantity]:
    """Compute the columns of one batch; a column that is the same for all runs may be one number.

    ``block_flop``, ``block_traffic_bytes`` and ``block_kernels`` are of all Transformer blocks of a stage in one
    micro-step; ``head_*`` is everything outside of the blocks. A fused attention kernel skips what the causal mask
    leaves out, an eager one computes it, so the kernel decides the convention.
    """
    recipe, layout, devices = batch.recipe, batch.layout, batch.devices
    work = operations_of(batch)
    parts: dict[str, list[Quantity]] = {name: [] for name in WORK}
    for same in _alike(work):
        one = same[0]
        place = "block" if one.in_block else "head"
        repeats = divided(one.repeats, layout.pipeline_parallel) if one.in_block else one.repeats
        share = divided(repeats, work_divisor(one, layout))
        for name, repeated, names in (
            ("flop", share, FLOP),
            ("traffic_bytes", share, BYTES),
            ("kernels", repeats, KERNELS),
        ):
            parts[f"{place}_{name}"].append(_times(repeated, _total(getattr(each, n) for each in same for n in names)))
        products = [each for each in same if each.kind == "matmul"]
        parts["attention_flop"].append(_times(share, _total(getattr(each, n) for each in products for n in FLOP)))
        held = repeats if keeps_weights(one) else share
        for name in ("weights", "frozen_weights", "expert_weights", "frozen_expert_weights"):
            parts[name].append(_times(held, _total(getattr(each, name) for each in same)))
        parts["weight_tensors"].append(_times(repeats, _total(each.tensors for each in same)))
    columns = {name: _total(values) for name, values in parts.items()}
    columns["attention_share"] = columns.pop("attention_flop") / columns["block_flop"]
    columns |= _shared(batch, columns)
    columns |= _scheduled(batch)
    alike = devices.power_cap_w is devices.power_limit_w
    return columns | {
        "num_layers": batch.architecture.num_layers,
        "num_devices": layout.num_devices,
        "num_nodes": layout.num_nodes,
        "pipeline_parallel": layout.pipeline_parallel,
        "fused": float(recipe.software != "eager"),
        "host_share": HOST_SHARES[recipe.software],
        **_beside(batch),
        **{field.name: getattr(devices, field.name) for field in fields(devices)},
        "cap_share": 1.0 if alike else devices.power_cap_w / devices.power_limit_w,
    }


def _beside(batch: Batch) -> dict[str, Quantity]:
    """Which messages travel beside the kernels: of fused software, those that it divides its kernels for.

    With sequence parallelism it multiplies one part of a matrix while it gathers or scatters another (Transformer
    Engine's overlap of tensor parallelism, on in NeMo's and MLPerf's configurations), and with several runs of blocks
    per stage it computes one while the other's state travels (Megatron's ``overlap_p2p_communication``). Two of the
    eight messages of a block, those that scatter the gradients of its inputs, travel behind the products for the
    gradients of weights, which a frozen base does not make; nor are messages of adapters hidden.
    """
    if batch.recipe.software == "eager":
        return {"tensor_beside": 0.0, "stage_beside": 0.0}
    layout, rank = batch.layout, batch.recipe.adapter_rank
    hidden: Quantity = 1.0
    if not plainly(rank, 0):
        hidden = 1 - (rank > 0) * (1 - 6 / (8 + adapter_messages(batch.recipe, layout)))
    return {
        "tensor_beside": _times(hidden, layout.sequence_parallel),
        "stage_beside": 1.0 * (layout.pipeline_interleaving > 1),
    }


#: What is left of an eager framework's work of the host: a third where fused kernels are launched, which are fewer (an
#: assumption; of large models nothing moves by more than some percent between none and half), none where graphs are
#: replayed.
HOST_SHARES = {"eager": 1.0, "fused": 1 / 3, "graphs": 0.0}


def operations_of(batch: Batch) -> tuple[Operation, ...]:
    """List the operations that are a device's, before tensor parallelism and a pipeline divide them further."""
    recipe, layout = batch.recipe, batch.layout
    convention: AttentionConvention = "causal" if recipe.attention_kernel == "fused" else "full"
    own = of_one_context(recipe, layout)
    return _on_own_experts(operations(batch.architecture, own, attention=convention, head="counted"), recipe, layout)


#: Columns that are sums over operations.
WORK = (
    "block_flop",
    "head_flop",
    "block_traffic_bytes",
    "head_traffic_bytes",
    "block_kernels",
    "head_kernels",
    "attention_flop",
    "weights",
    "frozen_weights",
    "expert_weights",
    "frozen_expert_weights",
    "weight_tensors",
)
#: What is added up for a column of work: forward and backward pass, and what is computed again.
FLOP = ("forward_flop", "backward_input_flop", "backward_weight_flop", "recompute_flop")
BYTES = ("forward_bytes", "backward_bytes", "recompute_bytes")
KERNELS = ("forward_kernels", "backward_kernels", "recompute_kernels")


def _alike(work: tuple[Operation, ...]) -> list[list[Operation]]:
    """Put operations together that are executed and divided alike, so that their sum is multiplied once."""
    groups: dict[tuple[int, bool, bool], list[Operation]] = {}
    for operation in work:
        key = (operation.stack, operation.in_block, operation.tensor_parallel_divided)
        groups.setdefault(key, []).append(operation)
    return list(groups.values())


def _total(values: Iterable[Quantity]) -> Quantity:
    """Add up, without a pass over a column for a plain zero."""
    found: Quantity = 0.0
    for value in values:
        if not plainly(value, 0):
            found = value if plainly(found, 0) else found + value
    return found


def _times(factor: Quantity, quantity: Quantity) -> Quantity:
    """Multiply; by a plain 1 without a pass over a column."""
    return quantity if plainly(factor, 1) else factor * quantity


def work_divisor(operation: Operation, layout: Layout) -> Quantity:
    """Over how many tensor-parallel devices one operation is divided.

    Sequence parallelism divides what tensor parallelism alone repeats on every device of a block; a divided vocabulary
    takes its look-up, last projection and loss with it.
    """
    if operation.tensor_parallel_divided:
        return layout.tensor_parallel
    flag = layout.sequence_parallel if operation.in_block else layout.vocabulary_parallel
    return 1 if plainly(flag, 0) else 1 + flag * (layout.tensor_parallel - 1)


def keeps_weights(operation: Operation) -> bool:
    """Tell whether every tensor-parallel device holds an operation's weights, as of norms, whatever is divided."""
    return operation.in_block and not operation.tensor_parallel_divided


def _on_own_experts(work: tuple[Operation, ...], recipe: Recipe, layout: Layout) -> tuple[Operation, ...]:
    """Leave each expert-parallel rank its own experts: as many rows, but an e-th of the weights to hold and to read."""
    if plainly(layout.expert_parallel, 1):
        return work
    kept = 1 / layout.expert_parallel
    return tuple(_with_fewer_experts(op, OPERAND_BYTES[recipe.precision], kept) for op in work)


def _with_fewer_experts(op: Operation, operand_bytes: int, kept: Quantity) -> Operation:
    if plainly(op.of_experts, 0):
        return op
    share = 1 - op.of_experts * (1 - kept)
    unread_bytes = (1 - share) * operand_bytes * op.weights
    unmade_bytes = (1 - share) * operand_bytes * (op.weights - op.frozen_weights)  # gradients
    again = 0 if plainly(op.recompute_bytes, 0) else 1
    return replace(
        op,
        forward_bytes=op.forward_bytes - unread_bytes,
        backward_bytes=op.backward_bytes - unread_bytes - unmade_bytes,
        recompute_bytes=op.recompute_bytes - again * unread_bytes,
        weights=share * op.weights,
        frozen_weights=share * op.frozen_weights,
    )


def _shared(batch: Batch, columns: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """What devices say to each other, and the optimizer's traffic.

    Replicated gradients have 4 bytes in PyTorch's DDP, the size of the weights that autocast casts from; those that
    FSDP scatters (``MixedPrecision``), and those of fused frameworks, have that of the working copy. An update reads
    and writes weights and states and reads gradients, in fp32, by the shard's owner.
    """
    recipe, layout = batch.recipe, batch.layout
    weight_bytes = WEIGHT_BYTES[recipe.precision]
    weights, experts = columns["weights"], columns["expert_weights"]
    trained = weights if plainly(columns["frozen_weights"], 0) else weights - columns["frozen_weights"]
    trained_experts = experts if trained is weights else experts - columns["frozen_expert_weights"]
    weights_bytes = weight_bytes * weights
    sent = 1.0 if recipe.software != "eager" else 4 / weight_bytes
    whole = plainly(layout.zero_stage, 3) or plainly(layout.zero_stage, 2) or sent == 1
    growth = 1.0 if whole else 1 + (sent - 1) * (layout.zero_stage < 2)
    gradients_bytes = weights_bytes if trained is weights else weight_bytes * trained
    said = communication(
        batch.architecture,
        recipe,
        layout,
        weights_bytes=weights_bytes,
        gradients_bytes=_times(growth, gradients_bytes),
        expert_weights_bytes=weight_bytes * experts,
        expert_gradients_bytes=_times(growth, weight_bytes * trained_experts),
        updated_fraction=1 / sent,
    )
    state_bytes = 12 + 2 * UPDATES[recipe.optimizer].states_bytes
    return {
        **{name: getattr(said, name) for name in said.__slots__},
        "optimizer_traffic_bytes": state_bytes * sharded(layout, trained, trained_experts, shards=layout.state_shards),
    }


def _scheduled(batch: Batch) -> dict[str, Quantity]:
    """Count the steps of a run.

    The bubble of a pipeline of p stages with v runs of blocks in each is, per update, the time of (p - 1) / v
    micro-steps of one stage (Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2).
    """
    amount = schedule(batch.recipe, batch.layout)
    bubble = divided(batch.layout.pipeline_parallel - 1, batch.layout.pipeline_interleaving)
    epochs = batch.recipe.epochs
    if epochs is None:
        # Steps alone are a window of a training, such as a sweep's: no epoch begins or ends in it.
        epochs = 0.0 if batch.recipe.steps is not None else 1.0
    return {
        "micro_steps": amount.micro_steps,
        "bubble_micro_steps": amount.optimizer_steps * bubble,
        "optimizer_steps": amount.optimizer_steps * (batch.recipe.optimizer != "none"),
        "evaluation_micro_steps": amount.evaluation_micro_steps,
        "num_epochs": epochs,
    }
