"""What each operation of a run does on one device: the shares that the law's columns are the sums of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattlaw.explain.node import Phase
from wattlaw.features.batch import batches
from wattlaw.features.physical import keeps_weights, operations_of, work_divisor
from wattlaw.parallel.collectives import all_reduces_of
from wattlaw.parallel.layout import divided
from wattlaw.workload.optimizer import UPDATES

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.run.spec import RunSpec
    from wattlaw.workload import Architecture, Operation, Recipe, Stack

#: Phases in which an operation runs kernels.
RUNNING: tuple[Phase, ...] = ("forward", "backward_input", "backward_weight", "recompute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One operation on one device, in one micro-step; all its executions in the device's blocks together.

    Attributes:
        operation: its name without the module's.
        module: as it is shown: ``embeddings``, ``attention``, ``mlp``, ``experts``, ``norm`` or ``head``.
        stack: ``encoder`` or ``decoder``; empty for embeddings and head.
        num_blocks: of the whole model that share the work; 0 outside of blocks.
        flop: by phase.
        traffic_bytes: by phase.
        kernels: launched.
        weights: held by the device, before sharding.
        trained_weights: of these, those that have a gradient.
        update_flop: operations of one update, after sharding.
        tensors: that an optimizer walks through.
        reductions: collectives of tensor parallelism that the operation asks for, in units of one.
        pairs_tokens: whether it is one of attention's own products.
        routed: whether it sends tokens to the experts of other devices.
        executing_fraction: share of all devices that do this work.
    """

    operation: str
    module: str
    stack: str
    num_blocks: int
    flop: Mapping[Phase, float]
    traffic_bytes: Mapping[Phase, float]
    kernels: float
    weights: float
    trained_weights: float
    update_flop: float
    tensors: float
    reductions: float
    pairs_tokens: bool
    routed: bool
    executing_fraction: float


def works(spec: RunSpec) -> tuple[Work, ...]:
    """List the operations of a run as one device executes them."""
    ((_, batch),) = batches([spec])
    architecture, recipe, layout = batch.architecture, batch.recipe, batch.layout
    return tuple(_work(one, architecture, recipe, layout) for one in operations_of(batch))


def _work(one: Operation, architecture: Architecture, recipe: Recipe, layout: Layout) -> Work:
    repeats = divided(one.repeats, layout.pipeline_parallel) if one.in_block else one.repeats
    share = float(repeats / work_divisor(one, layout))
    held = repeats if keeps_weights(one) else share
    weights = float(held * one.weights)
    trained_weights = weights - float(held * one.frozen_weights)
    stack = architecture.stacks[one.stack] if one.stack >= 0 else None
    update = UPDATES[recipe.optimizer]
    return Work(
        operation=one.name.removeprefix(f"{_module(one, stack)}."),
        module=_module(one, stack),
        stack="" if stack is None else stack.role,
        num_blocks=int(one.repeats) if one.in_block else 0,
        flop={phase: share * flop for phase, flop in _flop(one).items()},
        traffic_bytes={phase: share * moved for phase, moved in _traffic_bytes(one).items()},
        kernels=float(repeats * (one.forward_kernels + one.backward_kernels + one.recompute_kernels)),
        weights=weights,
        trained_weights=trained_weights,
        update_flop=update.flop * trained_weights / float(layout.state_shards),
        tensors=float(repeats * one.tensors),
        reductions=float(repeats * all_reduces_of(one, architecture, recipe, layout)),
        pairs_tokens=one.kind == "matmul",
        routed=one.name == "mlp.routing",
        executing_fraction=1.0 if one.in_block else float(1 / layout.pipeline_parallel),
    )


def _module(one: Operation, stack: Stack | None) -> str:
    """Name the module as people see the model: what stands before the blocks is the embeddings' with its norm."""
    if stack is None:
        return one.name.partition(".")[0]
    return "experts" if one.module == "mlp" and stack.num_experts > 1 else one.module


def _flop(one: Operation) -> dict[Phase, float]:
    return {
        "forward": float(one.forward_flop),
        "backward_input": float(one.backward_input_flop),
        "backward_weight": float(one.backward_weight_flop),
        "recompute": float(one.recompute_flop),
    }


def _traffic_bytes(one: Operation) -> dict[Phase, float]:
    """The backward pass moves the same matrices for either gradient; what computes none moves for its inputs.

    A look-up table is the exception: nothing stands before it, so that all it writes is the gradient of the table.
    """
    backward_flop = float(one.backward_flop)
    of_weights = float(one.backward_weight_flop) / backward_flop if backward_flop else one.name == "embeddings.lookup"
    return {
        "forward": float(one.forward_bytes),
        "backward_input": float((1 - of_weights) * one.backward_bytes),
        "backward_weight": float(of_weights * one.backward_bytes),
        "recompute": float(one.recompute_bytes),
    }
