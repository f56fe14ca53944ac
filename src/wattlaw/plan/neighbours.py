"""Why the ways next to the best one were rejected: one thing is changed, and what that breaks or costs is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from wattlaw.plan.layouts import contexts, divisors, searched_strategies
from wattlaw.plan.limits import Limits, Miss, misses
from wattlaw.plan.option import Option, options
from wattlaw.plan.problem import Problem
from wattlaw.plan.search import search
from wattlaw.plan.space import Offer, Space, global_batch

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.run.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A way to run that differs from the best one in one thing.

    Attributes:
        change: what is changed: ``strategy``, ``devices``, ``accelerator``, ``micro-batch``, ``checkpointing``,
            ``power cap``, ``precision``, ``optimizer``, ``attention kernel`` or ``adapter rank``.
        value: what it is changed to.
        option: the best way to run with this change, the micro-batch being free unless it is the change.
        misses: the limits that it does not keep; empty where it keeps them all, and only costs more.
        cost_fraction: what it costs over the best, as a share; ``None`` where it does not fit into memory.
    """

    change: str
    value: str
    option: Option
    misses: tuple[Miss, ...]
    cost_fraction: float | None


def neighbours(problem: Problem, calibration: Calibration, best: Option, *, level: float) -> tuple[Neighbour, ...]:
    """Change one thing of the best way to run after the other; what cannot be run at all is left out.

    Args:
        problem: that was asked.
        calibration: that costed it.
        best: the best way to run.
        level: of the intervals.
    """
    found = []
    for change, value, space in _changed(problem, best.spec):
        changed = replace(problem, space=space)
        result = search(changed, calibration, keep=1)
        point = result.best if result.best is not None else result.nearest
        if point is None:
            continue
        one = point.take(slice(0, 1))
        ((option,),) = options(changed, calibration, [one], level=level)
        limits = problem.limits
        if option.prediction is None:
            limits = Limits(memory_free_fraction=limits.memory_free_fraction)
        found.append(
            Neighbour(
                change=change,
                value=value,
                option=option,
                misses=misses(one, limits, 0),
                cost_fraction=None if option.cost is None or not best.cost else option.cost / best.cost - 1,
            )
        )
    return tuple(found)


def _changed(problem: Problem, best: RunSpec) -> Iterator[tuple[str, str, Space]]:
    """Yield the spaces in which one thing differs from the best, and all else but the micro-batch is as there."""
    space, recipe, layout = problem.space, best.recipe, best.layout
    offers = {_place(offer): offer for offer in space.offers}
    own = offers[_place(best)]
    cap_w = best.power_limit_w
    here = replace(own, power_caps_w=() if cap_w is None else (cap_w,))
    pinned = Space(
        offers=(here,),
        strategies=(layout.strategy,),
        device_counts=(int(layout.num_devices),),
        pipeline_interleavings=space.pipeline_interleavings,
        context_parallel=tuple(int(degree) for degree in contexts(problem.run, space)),
        expert_parallel=space.expert_parallel,
        checkpointings=(recipe.checkpointing,),
        attention_kernels=(recipe.attention_kernel,),
        precisions=(recipe.precision,),
        optimizers=(recipe.optimizer,),
        adapter_ranks=(int(recipe.adapter_rank),),
    )
    wanted = searched_strategies(problem.run, space)
    counts = _next_counts(problem, own.num_devices, int(layout.num_devices))
    for name in _next_strategies(layout.strategy, wanted):
        # Where one device is best, what divides the work needs more of them.
        alone_best = layout.num_devices == 1 and bool(counts)
        used = (counts[0],) if alone_best and name != "single" else pinned.device_counts
        text = f"{name} on {counts[0]}" if used != pinned.device_counts else name
        yield "strategy", text, replace(pinned, strategies=(name,), device_counts=used)
    for count in counts:
        alone: tuple[str, ...] = ("single",) if count == 1 and "single" in wanted else (layout.strategy,)
        if layout.num_devices == 1:
            alone = _next_strategies("single", wanted) or alone
        yield "devices", str(count), replace(pinned, device_counts=(count,), strategies=alone)
    for key, offer in offers.items():
        if offer is not own:
            counts = (min(int(layout.num_devices), offer.num_devices),)
            changed = replace(pinned, offers=(replace(offer, power_caps_w=()),), device_counts=counts)
            yield "accelerator", " in ".join(key), changed
    exact = replace(
        pinned,
        tensor_parallel=(int(layout.tensor_parallel),),
        pipeline_parallel=(int(layout.pipeline_parallel),),
        context_parallel=(int(layout.context_parallel),),
        expert_parallel=(int(layout.expert_parallel),),
    )
    for size in _next_micro_batches(problem, best):
        yield "micro-batch", str(size), replace(exact, micro_batches=(size,))
    yield from _other_names(space, pinned, best)
    for other_w in (*own.power_caps_w, None):
        if other_w != cap_w:
            caps = () if other_w is None else (other_w,)
            text = "none" if other_w is None else f"{other_w:g} W"
            yield "power cap", text, replace(pinned, offers=(replace(own, power_caps_w=caps),))


def _next_strategies(best: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Name the strategies that divide sequences and experts as the best one does, or all else as it does."""

    def part(name: str, *, inner: bool) -> set[str]:
        return {one for one in name.split(" x ") if (one in ("cp", "ep")) == inner}

    return tuple(
        name for name in wanted
        if name != best and any(part(name, inner=inner) == part(best, inner=inner) for inner in (False, True))
    )  # fmt: skip


def _place(where: Offer | RunSpec) -> tuple[str, ...]:
    """Name an accelerator and, where it is known, the node that it stands in."""
    return (where.accelerator.name,) if where.node is None else (where.accelerator.name, where.node.name)


def _other_names(space: Space, pinned: Space, best: RunSpec) -> Iterator[tuple[str, str, Space]]:
    for change, field in (
        ("checkpointing", "checkpointings"),
        ("attention kernel", "attention_kernels"),
        ("precision", "precisions"),
        ("optimizer", "optimizers"),
        ("adapter rank", "adapter_ranks"),
    ):
        own: Any = getattr(best.recipe, change.replace(" ", "_"))
        for other in getattr(space, field):
            unlike = other != own and not (
                other == "selective" and best.recipe.attention_kernel == "fused" and own == "none"
            )
            if unlike and (change != "precision" or other in best.accelerator.precisions):
                yield change, str(other), replace(pinned, **{field: (other,)})


def _next_counts(problem: Problem, most: int, count: int) -> tuple[int, ...]:
    """The numbers of devices next to the best one's: half and twice as many where nothing says which."""
    counts = sorted(set(problem.space.device_counts)) or [count // 2, 2 * count]
    fewer, more = [one for one in counts if one < count], [one for one in counts if count < one <= most]
    return tuple(one for one in (*fewer[-1:], *more[:1]) if one >= 1)


def _next_micro_batches(problem: Problem, best: RunSpec) -> list[int]:
    """The next smaller and larger divisor of what a rank computes in an optimizer step."""
    share = global_batch(problem.run) // int(best.layout.data_parallel)
    sizes = divisors(share)
    if problem.space.micro_batches:
        sizes = sizes[np.isin(sizes, problem.space.micro_batches)]
    place = int(np.searchsorted(sizes, best.recipe.batch_size))
    return [int(sizes[at]) for at in (place - 1, place + 1) if 0 <= at < len(sizes)]
