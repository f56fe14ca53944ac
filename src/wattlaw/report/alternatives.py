"""Other layouts of a run that do the same work, each predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wattlaw.errors import WattlawError
from wattlaw.law.calibration import Calibration
from wattlaw.law.laws import law_named
from wattlaw.law.prediction import Prediction, columns_of, predict
from wattlaw.parallel.layout import Layout
from wattlaw.run.amount import schedule
from wattlaw.run.spec import RunSpec, check_fits, check_runnable

#: Strategies and device counts that most machines offer.
STRATEGIES = ("single", "ddp", "fsdp", "tp")
COUNTS = (1, 2, 4, 8)


def alternatives(
    spec: RunSpec, calibration: Calibration, *, counts: Sequence[int] = COUNTS, level: float = 0.95
) -> tuple[tuple[RunSpec, Prediction], ...]:
    """Predict the layouts that train on the same tokens with the same batch per device, where they can be run.

    Left out is what does not divide, does not fit into memory, does not stand in one node, or what the law knows
    nothing of. The run itself stands first.
    """
    same = _same_work(spec)
    found = [spec, *(one for one in _layouts(same, counts) if one.layout != spec.layout)]
    possible = _covered([one for one in found if _possible(one)], calibration)
    return tuple(zip(possible, predict(possible, calibration, level=level), strict=True)) if possible else ()


def _same_work(spec: RunSpec) -> RunSpec:
    """Count the work in tokens where it is counted in steps, whose size the devices change."""
    if spec.recipe.steps is None:
        return spec
    tokens = schedule(spec.recipe, spec.layout).trained_tokens
    return replace(spec, recipe=replace(spec.recipe, steps=None, tokens=tokens))


def _layouts(spec: RunSpec, counts: Sequence[int]) -> Iterator[RunSpec]:
    per_node = max(counts) if spec.node is None else int(spec.node.accelerators_per_node)
    for strategy in STRATEGIES:
        for count in sorted(set(counts)):
            if (count == 1) == (strategy == "single") and count <= per_node:
                yield replace(spec, layout=Layout.of(strategy, num_devices=count))


def _possible(spec: RunSpec) -> bool:
    try:
        check_fits(check_runnable(spec))
    except WattlawError:
        return False
    return True


def _covered(specs: list[RunSpec], calibration: Calibration) -> list[RunSpec]:
    """Keep the runs that the law knows something of."""
    law = law_named(calibration.law)
    if not specs:
        return specs
    covered = law.covers(calibration, columns_of(specs, calibration))
    return [spec for spec, known in zip(specs, covered, strict=True) if known]
