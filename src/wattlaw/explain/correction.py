"""Factors on predicted times of operations and modules, learned from measured ones.

IrEne (Cao et al. 2021, arXiv 2106.01199, section 4) predicts operations by regressions per kind of operation, and an
inner node as the sum of its children times factors held within 10 % of 1. Here the law predicts an operation; a factor
per kind of operation says how this machine differs from the law's one rate for all traffic and one for all products,
and a factor per module, within the same 10 %, what is left. Factors move time and energy between the parts of a run and
leave the run's own unchanged.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from wattlaw.errors import ConfigError, DataError
from wattlaw.explain.work import RUNNING

if TYPE_CHECKING:
    from wattlaw.explain.attribution import Leaf
    from wattlaw.explain.node import Node
    from wattlaw.law.calibration import Calibration
    from wattlaw.measure.module_times import ModuleTimes

#: How far a module's factor may be from 1.
LIMIT = 0.1
#: Phases that a module's measured forward and backward passes consist of.
MEASURED_PHASES = (*RUNNING, "launch")

#: Parts that hooks can tell apart -> the operations that they consist of.
PARTS: Mapping[str, tuple[str, ...]] = {
    "embeddings": ("embeddings.lookup", "embeddings.norm"),
    "attention.qkv": ("attention.qkv",),
    "attention.core": ("attention.scores", "attention.softmax", "attention.values", "attention.positions"),
    "attention.output": ("attention.output",),
    "attention.residual": ("attention.residual",),
    "mlp.up": ("mlp.up",),
    "mlp.activation": ("mlp.activation",),
    "mlp.down": ("mlp.down",),
    "mlp.residual": ("mlp.residual",),
    "norm": ("norm.norm",),
    "final_norm": ("norm.final_norm",),
    "head": ("head.pooler", "head.transform", "head.norm", "head.projection", "head.sentence", "head.loss"),
}
_PART_OF = {operation: part for part, operations in PARTS.items() for operation in operations}


def part_of(module: str, operation: str) -> str:
    """Name the part that an operation belongs to; itself where hooks do not join it with others."""
    return _PART_OF.get(f"{module}.{operation}", f"{module}.{operation}")


def module_of(part: str) -> str:
    """Name the module that a part belongs to.

    >>> module_of("attention.core"), module_of("final_norm")
    ('attention', 'norm')
    """
    return "norm" if part == "final_norm" else part.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Learned factors.

    Attributes:
        operations: factor on the time of each part that was measured.
        modules: factor on the time of each module, within ``LIMIT`` of 1.
        spread: standard deviation of ln(measured / predicted) of a module's share, of runs that the factors were not
            fitted to.
        source: what they were learned from.
    """

    operations: Mapping[str, float] = field(default_factory=dict)
    modules: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse factors that are none, and modules' factors that are not near 1."""
        for name, factor in self.operations.items():
            if not 0 < factor < math.inf:
                raise DataError("a factor must be above zero", given=f"{name} = {factor}")
        for name, factor in self.modules.items():
            if not abs(factor - 1) <= LIMIT + 1e-12:
                raise DataError(
                    "a module's factor must be near 1",
                    given=f"{name} = {factor}",
                    allowed=f"{1 - LIMIT:g} to {1 + LIMIT:g}",
                )

    def factor(self, module: str, operation: str) -> float:
        """The factor on an operation's time in forward and backward passes."""
        return self.operations.get(part_of(module, operation), 1.0) * self.modules.get(module, 1.0)

    def apply(self, leaves: Iterable[Leaf]) -> None:
        """Multiply what operations take in forward and backward passes; their sums stay what they were."""
        running = [leaf for leaf in leaves if leaf.work is not None and leaf.phase in MEASURED_PHASES]
        factors = [self.factor(leaf.work.module, leaf.work.operation) for leaf in running if leaf.work is not None]
        for amounts in ([leaf.terms_s for leaf in running], [leaf.terms_j for leaf in running]):
            _scale(amounts, factors)
        _scale([leaf.bound_s for leaf in running], factors)

    def spread_at(self, module: str, level: float) -> float:
        """How far ln(share) of a module may be from what was predicted, at a level; 0 where nothing is known."""
        return statistics.NormalDist().inv_cdf((1 + level) / 2) * self.spread.get(module, 0.0)


Name = TypeVar("Name", bound=str)


def _scale(amounts: Sequence[dict[Name, float]], factors: Sequence[float]) -> None:
    """Multiply each mapping by its factor, and all by one more that restores their sum."""
    before = math.fsum(value for part in amounts for value in part.values())
    after = math.fsum(value * factor for part, factor in zip(amounts, factors, strict=True) for value in part.values())
    if not after:
        return
    for part, factor in zip(amounts, factors, strict=True):
        for name in part:
            part[name] *= factor * before / after


def part_times(root: Node) -> dict[str, float]:
    """Seconds of forward and backward passes by part, of a tree by module; blocks together."""
    found: dict[str, float] = {}
    for module in root.walk():
        if module.kind != "module":
            continue
        for operation in module.children:
            seconds = sum(operation.phases_s.get(phase, 0.0) for phase in MEASURED_PHASES)
            if operation.kind == "operation" and seconds:
                part = part_of(module.name, operation.name)
                found[part] = found.get(part, 0.0) + seconds
    return found


def measured_pairs(
    times: Sequence[ModuleTimes], calibration: Calibration
) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Pair what a calibration predicts of each measured run's parts with what was measured."""
    from wattlaw.explain.tree import explain

    return [(part_times(explain(one.spec, calibration)), one.by_part()) for one in times]


def learned_correction(times: Sequence[ModuleTimes], calibration: Calibration, machine: str) -> Correction:
    """Learn factors for a machine from modules that were measured on it.

    Args:
        times: of ``wattlaw measure --modules``.
        calibration: that predicts.
        machine: name of the accelerator that the factors are for.

    Returns:
        the factors.

    Raises:
        ConfigError: times of another machine: what differs between its operations says nothing of this one.
        DataError: no times.
    """
    others = sorted({one.spec.accelerator.name for one in times} - {machine})
    if others:
        raise ConfigError("modules were timed on another machine", given=", ".join(others), allowed=machine)
    return fit_correction(measured_pairs(times, calibration), source=f"{len(times)} configurations on {machine}")


def fit_correction(pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], *, source: str = "") -> Correction:
    """Learn factors from runs whose parts were measured.

    A part's factor is the geometric mean, over runs, of its measured over its predicted share of time; a module's is
    what its parts' factors leave, held within ``LIMIT`` of 1. Leaving each run out in turn tells the spread.

    Args:
        pairs: predicted and measured seconds by part, one pair per run, such as ``part_times`` returns.
        source: what was measured.

    Returns:
        the factors.

    Raises:
        DataError: no run, or a run without a time.
    """
    if not pairs:
        raise DataError("no measured run to learn factors from", given="none", allowed="one or more")
    found = _factors(pairs, source)
    if len(pairs) < 3:
        return found
    errors: dict[str, list[float]] = {}
    for number, (predicted, measured) in enumerate(pairs):
        others = _factors([pair for place, pair in enumerate(pairs) if place != number], source)
        expected, seen = module_shares(corrected(predicted, others)), module_shares(measured)
        for module in expected.keys() & seen.keys():
            errors.setdefault(module, []).append(math.log(seen[module] / expected[module]))
    spread = {name: math.sqrt(statistics.fmean(one * one for one in values)) for name, values in errors.items()}
    return Correction(operations=found.operations, modules=found.modules, spread=spread, source=source)


def _factors(pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], source: str) -> Correction:
    logarithms: dict[str, list[float]] = {}
    for predicted, measured in pairs:
        expected, seen = shares(predicted), shares(measured)
        for part in expected.keys() & seen.keys():
            if expected[part] > 0 and seen[part] > 0:
                logarithms.setdefault(part, []).append(math.log(seen[part] / expected[part]))
    operations = {part: math.exp(statistics.fmean(values)) for part, values in sorted(logarithms.items())}
    kinds = Correction(operations=operations)
    ratios: dict[str, list[float]] = {}
    for predicted, measured in pairs:
        expected, seen = module_shares(corrected(predicted, kinds)), module_shares(measured)
        for module in expected.keys() & seen.keys():
            ratios.setdefault(module, []).append(math.log(seen[module] / expected[module]))
    modules = {
        module: min(max(math.exp(statistics.fmean(values)), 1 - LIMIT), 1 + LIMIT)
        for module, values in sorted(ratios.items())
    }
    return Correction(operations=operations, modules=modules, source=source)


def corrected(predicted: Mapping[str, float], correction: Correction) -> dict[str, float]:
    """Multiply predicted seconds of parts by their factors."""
    return {
        part: seconds * correction.operations.get(part, 1.0) * correction.modules.get(module_of(part), 1.0)
        for part, seconds in predicted.items()
    }


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Each part's share of the sum.

    Raises:
        DataError: nothing takes any time.
    """
    whole = math.fsum(seconds.values())
    if not whole > 0:
        raise DataError("a run whose parts take no time has no shares", given=f"{whole:g} s", allowed="> 0")
    return {part: value / whole for part, value in seconds.items()}


def module_shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Each module's share of the sum of its and all other parts; those without any are left out."""
    found: dict[str, float] = {}
    for part, share in shares(seconds).items():
        found[module_of(part)] = found.get(module_of(part), 0.0) + share
    return {module: share for module, share in found.items() if share > 0}
