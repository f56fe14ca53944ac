"""The run spec: everything that says what is run, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError, WattlawError
from wattlaw.parallel.memory import DeviceMemory, device_memory
from wattlaw.run.amount import schedule
from wattlaw.run.fields import expect_positive
from wattlaw.units import BYTES_PER_GIB, MOST_DEVICES, every
from wattlaw.workload import step_cost

if TYPE_CHECKING:
    from wattlaw.hardware import Accelerator, NodeType
    from wattlaw.parallel.layout import Layout
    from wattlaw.workload import Architecture, Recipe


#: No board that is known here can be set to less of its own limit: an A100 of 400 W takes 100 W and more, an H100 of
#: 700 W 200 W and more (the least that their drivers accept).
SETTABLE_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run: a workload on a layout of accelerators.

    Attributes:
        architecture: the model.
        recipe: how it is trained, and how much.
        layout: how a step is divided over the devices.
        accelerator: the kind of device.
        node: the machine that the devices stand in, or ``None`` where it is not known.
        power_limit_w: the cap set on each device, or ``None`` for the accelerator's own limit.
        name: free text.
    """

    architecture: Architecture
    recipe: Recipe
    layout: Layout
    accelerator: Accelerator
    node: NodeType | None = None
    power_limit_w: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse a precision that the accelerator has no rate for, and a limit that is none."""
        try:
            self.accelerator.peak_flop_per_s(self.recipe.precision)
        except WattlawError as error:
            error.at("[recipe] precision")
            raise
        if self.power_limit_w is not None:
            expect_positive("power_limit_w", self.power_limit_w)


def check_runnable(spec: RunSpec) -> RunSpec:
    """Return the spec, or refuse a combination of its parts that no framework runs, with the numbers that clash.

    Raises:
        ConfigError: heads or MLP that do not divide over tensor-parallel devices, blocks that do not divide over the
            stages of a pipeline, experts over their ranks or sequences over context-parallel ones, sequences longer
            than the learned positions, less than one step, more devices than the node holds or than stand in any, or
            a power cap that no board takes.
    """
    _check_tensor_parallel(spec.architecture, spec.layout)
    _check_pipeline(spec.architecture, spec.layout)
    _check_experts(spec.architecture, spec.layout)
    _check_context(spec.recipe, spec.layout)
    _check_positions(spec.architecture, spec.recipe)
    _check_amount(spec.recipe, spec.layout)
    _check_devices(spec.layout)
    if spec.node is not None:
        _check_node(spec.node, spec.accelerator, spec.layout)
    _check_power_limit(spec)
    return spec


def _check_power_limit(spec: RunSpec) -> None:
    """Refuse a cap below what any driver sets on such a board; one above its own limit changes nothing."""
    cap_w, own_w = spec.power_limit_w, spec.accelerator.power_limit_w
    if cap_w is not None and cap_w < SETTABLE_SHARE * own_w:
        raise ConfigError(
            f"a cap that cannot be set on a {spec.accelerator.name}",
            given=f"{cap_w:g} W",
            allowed=f"{SETTABLE_SHARE * own_w:g} to {own_w:g} W",
        ).at("[hardware] power_limit_w")


def _check_devices(layout: Layout) -> None:
    if not every(layout.num_devices <= MOST_DEVICES):
        raise ConfigError(
            "more devices than stand in any one place", given=layout.num_devices, allowed=f"<= {MOST_DEVICES}"
        ).at("[layout] num_devices")


def check_fits(spec: RunSpec) -> DeviceMemory:
    """Refuse a run that needs more memory than a device has, even without what the framework adds.

    Returns:
        what it needs.

    Raises:
        ConfigError: with the parts that need it.
    """
    cost = step_cost(spec.architecture, spec.recipe, attention="full", head="counted")
    needed = device_memory(cost, spec.layout, micro_batches=spec.recipe.grad_accumulation)
    held = spec.accelerator.memory_bytes
    if needed.total_bytes <= held:
        return needed
    parts = {
        "weights": needed.weights_bytes,
        "gradients": needed.gradients_bytes,
        "optimizer": needed.optimizer_bytes,
        "activations": needed.activations_bytes,
        "logits": needed.logits_bytes,
    }
    shown = ", ".join(f"{name} {value / BYTES_PER_GIB:.3g}" for name, value in parts.items() if value)
    raise ConfigError(
        "the run does not fit into a device's memory",
        given=f"at least {needed.total_bytes / BYTES_PER_GIB:.3g} GiB per device ({shown})",
        allowed=f"{held / BYTES_PER_GIB:.3g} GiB on {spec.accelerator.name}",
        hint="a smaller batch_size, checkpointing = full, strategy fsdp over more devices, or a larger accelerator",
    ).at("[recipe] batch_size")


def _check_tensor_parallel(architecture: Architecture, layout: Layout) -> None:
    degree = layout.tensor_parallel
    for stack in architecture.stacks:
        for field in ("num_heads", "num_kv_heads", "ffn_size"):
            size = getattr(stack, field)
            if not every(size % degree == 0):
                raise ConfigError(
                    f"{field} does not divide by tensor_parallel",
                    given=f"{field} {size}, tensor_parallel {degree}",
                    allowed=f"tensor_parallel a divisor of {size}",
                    hint="fewer tensor-parallel devices, with ddp or fsdp for the rest",
                ).at("[layout] tensor_parallel")


def _check_pipeline(architecture: Architecture, layout: Layout) -> None:
    layers, stages, runs = architecture.num_layers, layout.pipeline_parallel, layout.pipeline_interleaving
    if not every(layers % (stages * runs) == 0):
        interleaved = "" if every(runs == 1) else f", pipeline_interleaving {runs}"
        raise ConfigError(
            "num_layers does not divide by the stages of the pipeline",
            given=f"num_layers {layers}, pipeline_parallel {stages}{interleaved}",
            allowed=f"pipeline_parallel x pipeline_interleaving a divisor of {layers}",
        ).at("[layout] pipeline_parallel")


def _check_experts(architecture: Architecture, layout: Layout) -> None:
    ranks = layout.expert_parallel
    for stack in architecture.stacks:
        if not every((ranks == 1) | ((stack.num_experts > 1) & (stack.num_experts % ranks == 0))):
            raise ConfigError(
                "num_experts does not divide by expert_parallel",
                given=f"num_experts {stack.num_experts}, expert_parallel {ranks}",
                allowed=f"expert_parallel a divisor of {stack.num_experts}",
            ).at("[layout] expert_parallel")


def _check_context(recipe: Recipe, layout: Layout) -> None:
    parts = 2 * layout.context_parallel
    if not every((layout.context_parallel == 1) | (recipe.seq_len % parts == 0)):
        raise ConfigError(
            "seq_len does not divide by twice context_parallel",
            given=f"seq_len {recipe.seq_len}, context_parallel {layout.context_parallel}",
            allowed=f"a multiple of {parts}, an early and a late part for each device",
        ).at("[recipe] seq_len")


def _check_positions(architecture: Architecture, recipe: Recipe) -> None:
    positions = architecture.max_positions
    for field in ("seq_len", "target_len"):
        length = getattr(recipe, field)
        if length is not None and not every((positions == 0) | (length / recipe.packed_sequences <= positions)):
            raise ConfigError(
                f"{field} exceeds the model's learned positions", given=length, allowed=f"<= {positions}"
            ).at(f"[recipe] {field}")


def _check_amount(recipe: Recipe, layout: Layout) -> None:
    steps = schedule(recipe, layout).optimizer_steps
    if recipe.epochs is not None and not every(steps >= 1):
        raise ConfigError(
            "the run ends before its first step",
            given=f"{recipe.epochs:g} epochs, {steps:.3g} steps of the optimizer",
            allowed="one step or more",
        ).at("[recipe] epochs")


def _check_node(node: NodeType, accelerator: Accelerator, layout: Layout) -> None:
    try:
        node.link_of(accelerator)
    except WattlawError as error:
        error.at("[hardware] node")
        raise
    if not every(layout.devices_per_node <= node.accelerators_per_node):
        raise ConfigError(
            f"more devices per node than a {node.name} holds",
            given=f"{layout.num_devices} devices on {layout.num_nodes} nodes",
            allowed=f"<= {node.accelerators_per_node} per node",
            hint="a larger num_nodes",
        ).at("[layout] num_devices")
