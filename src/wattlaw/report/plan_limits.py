"""What the limits of a plan cost, and by how much they are missed, as text and as a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.plan.layouts import AXES
from wattlaw.plan.limits import Miss
from wattlaw.plan.option import Option
from wattlaw.plan.planning import Plan
from wattlaw.plan.tradeoffs import Trade, beyond, spread
from wattlaw.report import quantities
from wattlaw.report.machine import as_builtins
from wattlaw.units import BYTES_PER_GIB

if TYPE_CHECKING:
    from rich.table import Table

#: How the numbers of each limit are written.
WRITE: dict[str, Callable[[float], str]] = {
    "memory": lambda value: f"{quantities.digits(value / BYTES_PER_GIB)} GiB",
    "deadline": quantities.duration,
    "energy": quantities.energy,
    "money": quantities.digits,
    "carbon": quantities.mass,
    "devices": lambda value: f"{value:.0f}",
}
#: Rows of one trade that are read, on one side of where its limit is.
ROWS = 3


def missed(miss: Miss) -> str:
    """Say by how much a limit is missed.

    >>> missed(Miss(limit="deadline", allowed=3600.0, needed=7200.0))
    'deadline: needs 2.00 h, 1.00 h over the 1.00 h allowed'
    """
    write = WRITE[miss.limit]
    return f"{miss.limit}: needs {write(miss.needed)}, {write(miss.over)} over the {write(miss.allowed)} allowed"


def miss_mapping(miss: Miss) -> dict[str, Any]:
    """Lay out a miss, with what is too much."""
    return {**as_builtins(miss), "over": miss.over, "over_fraction": miss.over_fraction}


def divided(layout: Any) -> str:
    """Name a strategy with the degrees that its product does not say."""
    parts = layout.strategy.split(" x ")
    if len(parts) == 1:
        return str(layout.strategy)
    return " x ".join(f"{part} {int(getattr(layout, AXES.get(part, 'data_parallel')))}" for part in parts)


def trades_mapping(plan: Plan, write: Callable[[Option], Mapping[str, Any]]) -> dict[str, Any]:
    """Lay out by limit what moving it would change.

    Args:
        plan: with its trades.
        write: that lays out one option.
    """
    return {
        trade.limit: {
            "allowed": trade.allowed,
            "options": [
                {"needed": need, "cost_fraction": _share(option, plan), "option": write(option)}
                for need, option in zip(trade.needed, trade.options, strict=True)
            ],
        }
        for trade in plan.trades
    }


def trades_table(plan: Plan) -> Table | None:
    """Show what waiting longer, fewer devices or another limit would change; ``None`` where nothing would."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("with", "on", "energy", "time", str(plan.problem.objective.goal)):
        table.add_column(heading, no_wrap=heading in ("energy", "time"))
    for trade in plan.trades:
        for place in _places(trade, plan):
            option, spec = trade.options[place], trade.options[place].spec
            share = _share(option, plan)
            assert option.prediction is not None
            assert option.prediction.duration_s is not None
            table.add_row(
                _moved(trade, trade.needed[place]),
                f"{int(spec.layout.num_devices)} {spec.accelerator.name}, {divided(spec.layout)}",
                quantities.energy(option.prediction.energy_j.mid),
                quantities.duration(option.prediction.duration_s.mid),
                "" if share is None else quantities.change(share),
            )
    return table if table.row_count else None


def _places(trade: Trade, plan: Plan) -> Iterator[int]:
    """Choose what is read of a trade: what its limit keeps out, and, of devices and time, what is below the best."""
    assert plan.best is not None
    assert plan.best.prediction is not None
    assert plan.best.prediction.duration_s is not None
    own = {"devices": float(plan.best.spec.layout.num_devices), "deadline": plan.best.prediction.duration_s.mid}
    # The front of time and energy stands in its own table.
    if trade.limit == "devices" or (trade.limit == "deadline" and plan.problem.objective.goal != "energy"):
        below = [place for place, need in enumerate(trade.needed) if need < own[trade.limit] * (1 - 1e-9)]
        yield from (below[at] for at in spread(len(below), ROWS))
    yield from beyond(trade, ROWS)


def _moved(trade: Trade, needed: float) -> str:
    """Name a limit where it would have to be."""
    write = WRITE[trade.limit]
    if trade.limit == "devices":
        return quantities.counted(int(needed), "device")
    if trade.allowed is None or needed <= trade.allowed:
        return f"{trade.limit} {write(needed)}"
    return f"{trade.limit} {write(needed)} ({quantities.change(needed / trade.allowed - 1)})"


def _share(option: Option, plan: Plan) -> float | None:
    """What an option costs over the best one."""
    if plan.best is None or not plan.best.cost or option.cost is None:
        return None
    return option.cost / plan.best.cost - 1


def relaxed(plan: Plan) -> Sequence[str]:
    """Say what would make a plan possible where there is none: one limit moved, or more devices."""
    assert plan.infeasible is not None
    lines = [f"with all other limits kept, {missed(miss)}" for miss in plan.infeasible.alone]
    offered = {(offer.accelerator.name, offer.node): offer.num_devices for offer in plan.problem.space.offers}
    for option in plan.infeasible.more_devices:
        spec = option.spec
        count, name = int(spec.layout.num_devices), spec.accelerator.name
        time = None if option.prediction is None else option.prediction.duration_s
        takes = "" if time is None else f" in {quantities.duration(time.mid)}"
        given = offered[name, spec.node]
        lines.append(f"with {count} {name}, where {given} are offered, {divided(spec.layout)} keeps all limits{takes}")
    if not lines and len(plan.infeasible.misses) > 1:
        lines.append("no limit alone is to blame: several must give way together")
    return lines
