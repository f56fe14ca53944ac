"""What +10 % of each input does to a run's energy and time, everything else as it is.

The law is evaluated beside the run and the slope of the logarithms is reported: with energy E and an input x, the
elasticity e = ln(E' / E) / ln(x' / x), and +10 % of x multiplies E by 1.1^e. Numbers are moved by a tenth, or down by
one where that is not allowed; what can only be doubled or halved, such as devices, is, so that its figure is a mean
slope over that range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wattlaw.errors import WattlawError
from wattlaw.law.laws import law_named
from wattlaw.law.prediction import columns_of
from wattlaw.law.step_terms import PARAMETERS
from wattlaw.run.spec import RunSpec, check_runnable

if TYPE_CHECKING:
    from wattlaw.hardware import Accelerator, NodeType
    from wattlaw.hardware.link import Link
    from wattlaw.law.calibration import Calibration
    from wattlaw.parallel.layout import Layout
    from wattlaw.workload import Architecture, Stack

TENTH = (1.1, 0.9)
DOUBLE = (2.0, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What a tenth more of one input does.

    Attributes:
        input: its name.
        value: what it is in the run.
        tried: what it was set to.
        energy_elasticity: d ln(energy) / d ln(input).
        duration_elasticity: d ln(time) / d ln(input).
    """

    input: str
    value: float
    tried: float
    energy_elasticity: float
    duration_elasticity: float

    @property
    def energy_change(self) -> float:
        """Relative change of the energy for a tenth more of the input."""
        return math.expm1(self.energy_elasticity * math.log(1.1))

    @property
    def duration_change(self) -> float:
        """Relative change of the time for a tenth more of the input."""
        return math.expm1(self.duration_elasticity * math.log(1.1))


@dataclass(frozen=True, slots=True)
class _Input:
    """One input: how it is read, how it is multiplied, by which factors one after the other until one is allowed."""

    name: str
    value: Callable[[RunSpec], float]
    scaled: Callable[[RunSpec, float], RunSpec]
    factors: tuple[float, ...] = TENTH


def sensitivities(spec: RunSpec, calibration: Calibration) -> tuple[Sensitivity, ...]:
    """Move each input that a run has, one at a time.

    Memory is not checked: a tenth more may not fit, and its slope is asked for all the same.

    Returns:
        one entry per input, that with the largest effect on the energy first. ``host pace`` is what the host needs for
        its work, which belongs to the calibration.
    """
    law = law_named(calibration.law)
    moved = [(one, *changed) for one in _inputs(spec) if (changed := _moved(one, spec)) is not None]
    table = columns_of([spec, *(run for *_, run in moved)], calibration)
    estimate = law.estimate(calibration, table)
    assert estimate.duration_s is not None
    energy_j, duration_s = estimate.energy_j, estimate.duration_s
    rows = [
        (one.name, one.value(spec), tried, energy_j[row] / energy_j[0], duration_s[row] / duration_s[0])
        for row, (one, tried, _) in enumerate(moved, start=1)
    ]
    slower = law.estimate(_slower_host(calibration, TENTH[0]), table.take([0]))
    assert slower.duration_s is not None
    rows.append(("host pace", 1.0, TENTH[0], slower.energy_j[0] / energy_j[0], slower.duration_s[0] / duration_s[0]))
    found = [
        Sensitivity(
            input=name,
            value=value,
            tried=tried,
            energy_elasticity=math.log(energy_ratio) / math.log(tried / value),
            duration_elasticity=math.log(duration_ratio) / math.log(tried / value),
        )
        for name, value, tried, energy_ratio, duration_ratio in rows
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.energy_elasticity)))


def _moved(one: _Input, spec: RunSpec) -> tuple[float, RunSpec] | None:
    """Multiply an input by the first factor that makes a run that can be; ``None`` where none does."""
    for factor in one.factors:
        try:
            changed = one.scaled(spec, factor)
            if one.factors is DOUBLE:
                check_runnable(changed)
        except WattlawError:
            continue
        if one.value(changed) != one.value(spec):
            return one.value(changed), changed
    return None


def _slower_host(calibration: Calibration, factor: float) -> Calibration:
    """Let the host need more time for everything that it works on."""
    paced = {parameter.name for parameter in PARAMETERS if parameter.scope == "pace"}

    def slower(parameters: Mapping[str, float]) -> dict[str, float]:
        return {name: value * factor if name in paced else value for name, value in parameters.items()}

    machines = {
        name: replace(machine, parameters=slower(machine.parameters)) for name, machine in calibration.machines.items()
    }
    return replace(calibration, parameters=slower(calibration.parameters), machines=machines)


def _inputs(spec: RunSpec) -> Iterator[_Input]:
    yield from _recipe_inputs(spec)
    yield _Input("width", lambda run: float(run.architecture.hidden_size), _wider)
    yield _Input("layers", lambda run: float(run.architecture.num_layers), _deeper)
    yield _Input("vocab_size", lambda run: float(run.architecture.vocab_size), _larger_vocabulary)
    yield _Input("devices", lambda run: float(run.layout.num_devices), more_devices, DOUBLE)
    yield _Input("peak rate", lambda run: run.accelerator.peak_flop_per_s(run.recipe.precision), _faster_peak)
    yield _Input("bandwidth", lambda run: run.accelerator.bandwidth_bytes_per_s, _faster_memory)
    if spec.layout.num_devices > 1:
        yield _Input("link", _link_rate, _faster_link)
    if spec.layout.num_nodes > 1 and spec.node is not None:
        yield _Input("network", _network_rate, _faster_network)
    # The board's own limit cannot be raised; a cap is set below it.
    yield _Input("power cap", lambda run: run.power_limit_w or run.accelerator.power_limit_w, _capped)


def _recipe_inputs(spec: RunSpec) -> Iterator[_Input]:
    amount = next(name for name in ("steps", "samples", "tokens") if getattr(spec.recipe, name) is not None)
    yield _Input("batch_size", _of_recipe("batch_size"), _recipe_times("batch_size"))
    yield _Input("seq_len", _of_recipe("computed_len"), _longer)
    yield _Input("grad_accumulation", _of_recipe("grad_accumulation"), _recipe_times("grad_accumulation"), DOUBLE)
    yield _Input(amount, _of_recipe(amount), _recipe_times(amount))
    for name in ("epochs", "evaluation_fraction"):
        if getattr(spec.recipe, name):
            yield _Input(name, _of_recipe(name), _recipe_times(name))


def _of_recipe(name: str) -> Callable[[RunSpec], float]:
    return lambda run: float(getattr(run.recipe, name))


def _recipe_times(*names: str) -> Callable[[RunSpec, float], RunSpec]:
    def scaled(run: RunSpec, factor: float) -> RunSpec:
        changed = {name: getattr(run.recipe, name) * factor for name in names if getattr(run.recipe, name) is not None}
        return replace(run, recipe=replace(run.recipe, **changed))

    return scaled


def _longer(run: RunSpec, factor: float) -> RunSpec:
    longer = _recipe_times("seq_len", "padded_len", "target_len")(run, factor)
    if 0 < run.architecture.max_positions < longer.recipe.seq_len:
        # The table of positions ends here; what is computed per token does not depend on it.
        positions = float(math.ceil(longer.recipe.seq_len))
        longer = replace(longer, architecture=replace(run.architecture, max_positions=positions))
    return longer


def _wider(run: RunSpec, factor: float) -> RunSpec:
    """Multiply hidden size, heads and MLP alike, by what whole head sizes allow."""
    model = run.architecture
    head_size = model.stacks[0].head_size
    exact = max(1, round(float(head_size) * factor)) / float(head_size)

    def sized(value: Any) -> float:
        return float(round(float(value) * exact))

    def widened(stack: Stack) -> Stack:
        return replace(
            stack,
            head_size=sized(stack.head_size),
            ffn_size=sized(stack.ffn_size),
            shared_ffn_size=sized(stack.shared_ffn_size),
        )

    stacks = tuple(widened(stack) for stack in model.stacks)
    return _with_model(run, replace(model, hidden_size=sized(model.hidden_size), stacks=stacks))


def _deeper(run: RunSpec, factor: float) -> RunSpec:
    def deepened(stack: Stack) -> Stack:
        step = max(1, round(abs(factor - 1) * float(stack.num_layers)))
        layers = float(stack.num_layers) + math.copysign(step, factor - 1)
        share = float(stack.windowed_layers) / float(stack.num_layers)
        return replace(stack, num_layers=layers, windowed_layers=float(round(share * layers)))

    stacks = tuple(deepened(stack) for stack in run.architecture.stacks)
    return _with_model(run, replace(run.architecture, stacks=stacks))


def _larger_vocabulary(run: RunSpec, factor: float) -> RunSpec:
    size = float(round(float(run.architecture.vocab_size) * factor))
    return _with_model(run, replace(run.architecture, vocab_size=size))


def _with_model(run: RunSpec, model: Architecture) -> RunSpec:
    return replace(run, architecture=model)


def more_devices(run: RunSpec, factor: float) -> RunSpec:
    """Multiply the devices along the axis that divides the run: data, else tensor, else pipeline.

    A single device becomes replicas. Where a node holds no more, nodes are multiplied as well.
    """
    layout = run.layout
    axis = next(
        (name for name in ("data_parallel", "tensor_parallel", "pipeline_parallel") if getattr(layout, name) > 1),
        "data_parallel",
    )
    changed: Layout = replace(layout, **{axis: getattr(layout, axis) * factor}, **_nodes(run, factor))
    return replace(run, layout=changed)


def _nodes(run: RunSpec, factor: float) -> dict[str, Any]:
    layout, node = run.layout, run.node
    full = node is not None and layout.devices_per_node * factor > node.accelerators_per_node
    if full or (factor < 1 and layout.num_nodes > 1):
        return {"num_nodes": max(1, layout.num_nodes * factor)}
    return {}


def _faster_peak(run: RunSpec, factor: float) -> RunSpec:
    peaks = tuple(replace(peak, flop_per_s=peak.flop_per_s * factor) for peak in run.accelerator.peaks)
    return _with_device(run, replace(run.accelerator, peaks=peaks))


def _faster_memory(run: RunSpec, factor: float) -> RunSpec:
    rate = run.accelerator.bandwidth_bytes_per_s * factor
    return _with_device(run, replace(run.accelerator, bandwidth_bytes_per_s=rate))


def _link_rate(run: RunSpec) -> float:
    return (run.accelerator.link if run.node is None else run.node.link_of(run.accelerator)).bytes_per_s


def _faster_link(run: RunSpec, factor: float) -> RunSpec:
    faster = _with_device(run, replace(run.accelerator, link=_times(run.accelerator.link, factor)))
    if run.node is None or run.node.intra_node_link is None:
        return faster
    return _with_node(faster, replace(run.node, intra_node_link=_times(run.node.intra_node_link, factor)))


def _network_rate(run: RunSpec) -> float:
    assert run.node is not None
    return run.node.inter_node_link.bytes_per_s


def _faster_network(run: RunSpec, factor: float) -> RunSpec:
    assert run.node is not None
    return _with_node(run, replace(run.node, inter_node_link=_times(run.node.inter_node_link, factor)))


def _capped(run: RunSpec, factor: float) -> RunSpec:
    board_w = run.accelerator.power_limit_w
    cap_w = (run.power_limit_w or board_w) * factor
    return replace(run, power_limit_w=cap_w if cap_w <= board_w else (run.power_limit_w or board_w) / factor)


def _times(link: Link, factor: float) -> Link:
    return replace(link, bytes_per_s=link.bytes_per_s * factor)


def _with_device(run: RunSpec, device: Accelerator) -> RunSpec:
    return replace(run, accelerator=device)


def _with_node(run: RunSpec, node: NodeType) -> RunSpec:
    return replace(run, node=node)
