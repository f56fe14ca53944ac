"""When to start, as lines for people and as a mapping for machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wattlaw.footprint.series import BestStart, moment
from wattlaw.law.footprint import Footprint
from wattlaw.report import quantities

if TYPE_CHECKING:
    from wattlaw.footprint import Timing


#: What the best start is the best for, for people.
LEAST = {"carbon": "least carbon", "electricity": "cheapest electricity"}


def timing_mapping(timing: Timing, footprint: Footprint) -> dict[str, Any]:
    """Lay out the start and, for carbon and electricity, the best and the worst start within the window."""
    return {
        "start": moment(timing.start_s),
        "window_s": timing.window_s,
        "best": {name: _best(one, _whole(name, footprint)) for name, one in timing.best.items()},
    }


def timing_lines(timing: Timing | None, footprint: Footprint) -> Iterator[str]:
    """Say for carbon and electricity when to start, what that saves against now, and against the worst."""
    if timing is None:
        return
    yield f"starts {moment(timing.start_s)}"
    if not timing.window_s:
        return
    window = quantities.duration(timing.window_s)
    for name, one in timing.best.items():
        mapping = _best(one, _whole(name, footprint))
        write = quantities.mass if name == "carbon" else quantities.digits
        line = "start now"
        if one.start_s != timing.start_s:
            line = f"start {mapping['start']}, {_percent(one.saving)} less than now"
            line += "" if mapping["saved"] is None else f" ({write(mapping['saved'])})"
        worst = f"{_percent(one.saving_against_worst)} less than the worst, {mapping['worst_start']}"
        yield f"{LEAST[name]} within {window}: {line}; {worst}"


def _best(one: BestStart, whole: float | None) -> dict[str, Any]:
    """One best start; ``whole`` is what the run takes of it when it starts now."""
    return {
        "start": moment(one.start_s),
        "per_kwh": one.per_kwh,
        "now_per_kwh": one.now_per_kwh,
        "worst_start": moment(one.worst_start_s),
        "worst_per_kwh": one.worst_per_kwh,
        "saving": one.saving,
        "saving_against_worst": one.saving_against_worst,
        "saved": None if whole is None or one.saving is None else whole * one.saving,
    }


def _whole(name: str, footprint: Footprint) -> float | None:
    found = footprint.carbon_g if name == "carbon" else footprint.electricity_cost
    return None if found is None else found.mid


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{share:.0%}"
