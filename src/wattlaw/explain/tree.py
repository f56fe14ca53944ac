"""From leaves to a tree: by module (model, blocks, modules, operations, phases), or by phase first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from wattlaw.errors import ConfigError
from wattlaw.explain.attribution import Leaf, attribute
from wattlaw.explain.node import BOTTLENECKS, PHASES, Bottleneck, Kind, Node
from wattlaw.law.interval import Interval
from wattlaw.law.prediction import Prediction, predict

if TYPE_CHECKING:
    from wattlaw.explain.correction import Correction
    from wattlaw.law.calibration import Calibration
    from wattlaw.run.spec import RunSpec

By = Literal["module", "phase"]
WAYS: tuple[By, ...] = get_args(By)

#: The law whose terms are known well enough to be shared out.
LAW = "step"


def explain(
    spec: RunSpec,
    calibration: Calibration,
    *,
    by: By = "module",
    level: float = 0.95,
    correction: Correction | None = None,
) -> Node:
    """Predict a run and share its energy and time out to modules, operations and phases.

    Args:
        spec: the run.
        calibration: of the step law.
        by: ``module`` goes from the model to its blocks, modules, operations and their phases, ``phase`` from phases
            to modules and operations.
        level: share of runs that the intervals hold.
        correction: factors learned from measured modules.

    Returns:
        the root of the tree; energy and time are those of ``predict``.

    Raises:
        ConfigError: another law, an unknown way to divide, or a run that does not fit into memory.
        DataError: as ``predict``.
    """
    check_explainable(calibration)
    (prediction,) = predict([spec], calibration, level=level)
    return explained(spec, calibration, prediction, by=by, correction=correction)


def explained(
    spec: RunSpec,
    calibration: Calibration,
    prediction: Prediction,
    *,
    by: By = "module",
    correction: Correction | None = None,
) -> Node:
    """Share out a prediction that was made already; arguments and errors as in ``explain``."""
    check_explainable(calibration)
    if by not in WAYS:
        raise ConfigError("unknown way to divide a run", given=by, allowed=", ".join(WAYS))
    assert prediction.duration_s is not None
    leaves = attribute(spec, calibration, prediction)
    if correction is not None:
        correction.apply(leaves)
    whole = _Whole(energy=prediction.energy_j, duration_s=prediction.duration_s.mid, correction=correction)
    several = len({leaf.work.stack for leaf in leaves if leaf.work is not None and leaf.work.stack}) > 1
    place = _by_module if by == "module" else _by_phase
    placed = [(place(leaf, several_stacks=several), leaf) for leaf in leaves]
    name = spec.name or spec.architecture.name or spec.architecture.family
    return _node(("model", name, 1), placed, 0, _Scale(), whole)


def check_explainable(calibration: Calibration) -> None:
    """Refuse the calibration of a law whose terms are not those of a step.

    Raises:
        ConfigError: the law is named, and the one that can be explained.
    """
    if calibration.law != LAW:
        raise ConfigError(
            "only the parts of a training step can be shared out to modules",
            given=f"the {calibration.law} law",
            allowed=LAW,
            hint="a calibration of the step law",
        )


#: Kind and name of a node, and how many alike there are.
Step = tuple[Kind, str, int]
Path = tuple[Step, ...]


def _by_module(leaf: Leaf, *, several_stacks: bool) -> Path:
    work = leaf.work
    if work is None:
        return (("module", leaf.name, 1),)
    inner: Path = (("module", work.module, 1), ("operation", work.operation, 1), ("phase", leaf.phase, 1))
    if not work.stack:
        return inner
    if not work.num_blocks:
        # What a stack has once, behind or between its blocks.
        return (("stack", work.stack, 1), *inner) if several_stacks else inner
    block: Step = ("block", "block", work.num_blocks)
    return (("stack", work.stack, 1), block, *inner) if several_stacks else (("stack", "blocks", 1), block, *inner)


def _by_phase(leaf: Leaf, *, several_stacks: bool) -> Path:
    phase: Step = ("phase", leaf.phase, 1)
    work = leaf.work
    if work is None:
        return (phase,) if leaf.name in (leaf.phase, "set-up") else (phase, ("module", leaf.name, 1))
    inner: Path = (("module", work.module, 1), ("operation", work.operation, 1))
    return (phase, ("stack", work.stack, 1), *inner) if several_stacks and work.stack else (phase, *inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """What shares and intervals are of."""

    energy: Interval
    duration_s: float
    correction: Correction | None

    def interval(self, energy_j: float, module: str) -> Interval:
        """Put the whole run's interval around a part, wider by what a correction knows of the module's share."""
        low = math.log(self.energy.mid / self.energy.low)
        high = math.log(self.energy.high / self.energy.mid)
        if self.correction is not None:
            further = self.correction.spread_at(module, self.energy.level)
            low, high = math.hypot(low, further), math.hypot(high, further)
        return Interval(
            low=energy_j * math.exp(-low), mid=energy_j, high=energy_j * math.exp(high), level=self.energy.level
        )


@dataclass(frozen=True, slots=True)
class _Scale:
    """What amounts are divided by below a node of which there are several alike, and the module one is in."""

    divisor: int = 1
    module: str = ""


def _node(step: Step, placed: Sequence[tuple[Path, Leaf]], depth: int, scale: _Scale, whole: _Whole) -> Node:
    kind, name, _ = step
    if kind == "module":
        scale = replace(scale, module=name)
    groups: dict[Step, list[tuple[Path, Leaf]]] = {}
    own: list[Leaf] = []
    for path, leaf in placed:
        if len(path) > depth:
            groups.setdefault(path[depth], []).append((path, leaf))
        else:
            own.append(leaf)
    children: list[Node] = []
    for below, group in _ordered(groups):
        count = below[2]
        child = _node(below, group, depth + 1, replace(scale, divisor=scale.divisor * count), whole)
        children += [replace(child, name=f"{child.name} {number}") for number in range(count)] if count > 1 else [child]
    if own and children:
        children += [_leaf_node(("phase", leaf.phase, 1), [leaf], scale, whole) for leaf in own]
    return _sum_node(step, children, scale, whole) if children else _leaf_node(step, own, scale, whole)


def _ordered(groups: Mapping[Step, list[tuple[Path, Leaf]]]) -> list[tuple[Step, list[tuple[Path, Leaf]]]]:
    """Put phases into their order; everything else stays in the order of the model."""
    found = list(groups.items())
    if all(step[0] == "phase" for step in groups):
        found.sort(key=lambda item: PHASES.index(item[0][1]))
    return found


def _leaf_node(step: Step, leaves: Sequence[Leaf], scale: _Scale, whole: _Whole) -> Node:
    """Build the end of a branch from what was given to its leaves."""
    share = 1 / scale.divisor
    energy_j = math.fsum(_summed([one.terms_j for one in leaves], share).values())
    time_s = math.fsum(_summed([one.terms_s for one in leaves], share).values())
    (phase,) = {one.phase for one in leaves}
    node = _built(step, leaves, scale, whole, energy_j=energy_j, time_s=time_s, share=share)
    return replace(node, phases_j={phase: energy_j}, phases_s={phase: time_s})


def _sum_node(step: Step, children: Sequence[Node], scale: _Scale, whole: _Whole) -> Node:
    """Build a node that is the sum of its children."""
    energy_j, time_s = math.fsum(one.energy_j for one in children), math.fsum(one.time_s for one in children)
    return replace(
        _built(step, children, scale, whole, energy_j=energy_j, time_s=time_s),
        phases_j=_summed([one.phases_j for one in children]),
        phases_s=_summed([one.phases_s for one in children]),
        children=tuple(children),
    )


def _built(
    step: Step,
    parts: Sequence[Leaf | Node],
    scale: _Scale,
    whole: _Whole,
    *,
    energy_j: float,
    time_s: float,
    share: float = 1.0,
) -> Node:
    """Build a node, without phases, whose terms, work and bounds are a share of its parts'."""
    bound_s = _summed([one.bound_s for one in parts], share)
    return Node(
        name=step[1],
        kind=step[0],
        energy_j=energy_j,
        interval=whole.interval(energy_j, scale.module),
        time_s=time_s,
        energy_share=energy_j / whole.energy.mid,
        time_share=time_s / whole.duration_s,
        flop=math.fsum(one.flop for one in parts) * share,
        traffic_bytes=math.fsum(one.traffic_bytes for one in parts) * share,
        bottleneck=_largest(bound_s),
        terms_j=_summed([one.terms_j for one in parts], share),
        terms_s=_summed([one.terms_s for one in parts], share),
        phases_j={},
        phases_s={},
        bound_s=bound_s,
    )


def merged(root: Node) -> Node:
    """Return the tree with alike blocks as one part: what is in them stands below their stack, all blocks together."""
    blocks = [child for child in root.children if child.kind == "block"]
    if not blocks:
        return replace(root, children=tuple(merged(child) for child in root.children))
    inner = [_multiplied(child, len(blocks)) for child in blocks[0].children]
    rest = [child for child in root.children if child.kind != "block"]
    count = f"{len(blocks)} block" + ("s" if len(blocks) > 1 else "")
    name = count if root.name == "blocks" else f"{root.name}, {count}"
    return replace(root, name=name, children=(*inner, *rest))


def _multiplied(node: Node, factor: int) -> Node:
    interval = node.interval
    return replace(
        node,
        energy_j=node.energy_j * factor,
        interval=replace(interval, low=interval.low * factor, mid=interval.mid * factor, high=interval.high * factor),
        time_s=node.time_s * factor,
        energy_share=node.energy_share * factor,
        time_share=node.time_share * factor,
        flop=node.flop * factor,
        traffic_bytes=node.traffic_bytes * factor,
        terms_j=_each_times(node.terms_j, factor),
        terms_s=_each_times(node.terms_s, factor),
        phases_j=_each_times(node.phases_j, factor),
        phases_s=_each_times(node.phases_s, factor),
        bound_s=_each_times(node.bound_s, factor),
        children=tuple(_multiplied(child, factor) for child in node.children),
    )


Name = TypeVar("Name", bound=str)


def _summed(parts: Sequence[Mapping[Name, float]], factor: float = 1.0) -> dict[Name, float]:
    """Add mappings up by name; what is nothing is left out."""
    names = dict.fromkeys(name for part in parts for name in part)
    sums = {name: factor * math.fsum(part[name] for part in parts if name in part) for name in names}
    return {name: value for name, value in sums.items() if value}


def _each_times(parts: Mapping[Name, float], factor: int) -> dict[Name, float]:
    return {name: value * factor for name, value in parts.items()}


def _largest(bound_s: Mapping[Bottleneck, float]) -> Bottleneck:
    return max(BOTTLENECKS, key=lambda name: bound_s.get(name, 0.0))
