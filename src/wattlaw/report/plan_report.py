"""The report of a plan, from what ``wattlaw plan --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from wattlaw.errors import FileError, WattlawError
from wattlaw.report import quantities
from wattlaw.report.document import DataTable, Document, Figure, Section, Snippet
from wattlaw.report.figures.drawing import altair, colour_of, figure
from wattlaw.run.fields import expect_list, expect_mapping, expect_number, expect_text
from wattlaw.run.spec_file import spec_from_mapping, spec_to_mapping
from wattlaw.run.toml_text import toml_text
from wattlaw.units import JOULES_PER_KWH, SECONDS_PER_HOUR

Row = dict[str, Any]


def plan_document(path: Path) -> Document:
    """Report a plan.

    Raises:
        FileError: not there, or not what ``wattlaw plan --json`` prints; the field is named.
    """
    try:
        content = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise FileError("cannot read the plan", given=error.strerror).at(path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError("not JSON", given=error, hint="wattlaw plan --json").at(path) from error
    try:
        return _document(expect_mapping("a plan", content))
    except WattlawError as error:
        error.at(path)
        raise


def _document(plan: Mapping[str, Any]) -> Document:
    for name in ("run", "objective", "limits", "front", "num_configurations"):
        if name not in plan:
            raise FileError("not a plan", given=f"no {name}", hint="what `wattlaw plan --json` prints")
    front = _rows("front", plan["front"])
    ranking = _rows("ranking", plan.get("ranking", []))
    objective = expect_mapping("objective", plan["objective"])
    sections = [*_best(plan), *_front(front), *_ranking(ranking), *_not_possible(plan)]
    return Document(
        title=f"Plan: {expect_text('run', plan['run'])}",
        kind="plan",
        summary=(_searched(plan), f"Least {objective.get('goal', 'cost')}{_limits(plan)}."),
        sections=tuple(sections),
        provenance={"searched": f"{expect_number('num_configurations', plan['num_configurations']):,.0f} ways to run"},
    )


def _searched(plan: Mapping[str, Any]) -> str:
    counts = [expect_number(name, plan.get(name, 0)) for name in ("num_configurations", "num_fitting", "num_feasible")]
    searched, fitting, feasible = (f"{count:,.0f}" for count in counts)
    return f"Of {searched} ways to run it, {fitting} fit into memory and {feasible} keep all limits."


def _limits(plan: Mapping[str, Any]) -> str:
    limits = {name: value for name, value in expect_mapping("limits", plan["limits"]).items() if value is not None}
    return "" if not limits else f", under {', '.join(f'{name} {value}' for name, value in limits.items())}"


def _rows(field: str, options: object) -> list[Row]:
    return [_row(f"{field}[{place}]", option) for place, option in enumerate(expect_list(field, options))]


def _row(place: str, option: object) -> Row:
    table = expect_mapping(place, option)
    try:
        energy, time = table["energy_j"], table["duration_s"]
        return {
            "strategy": expect_text("strategy", table["strategy"]),
            "devices": int(expect_number("num_devices", table["num_devices"])),
            "accelerator": expect_text("accelerator", table["accelerator"]),
            "batch": table.get("batch_size"),
            "accumulation": table.get("grad_accumulation"),
            "checkpointing": table.get("checkpointing"),
            "cap, W": table.get("power_cap_w"),
            "energy_kwh": expect_number("energy_j", energy["mid"]) / JOULES_PER_KWH,
            "energy_low_kwh": expect_number("energy_j", energy["low"]) / JOULES_PER_KWH,
            "energy_high_kwh": expect_number("energy_j", energy["high"]) / JOULES_PER_KWH,
            "time_h": expect_number("duration_s", time["mid"]) / SECONDS_PER_HOUR,
        }
    except (KeyError, TypeError) as error:
        raise FileError("not an option of a plan", given=f"lacks {error}").at(place) from error
    except WattlawError as error:
        error.at(place)
        raise


def _best(plan: Mapping[str, Any]) -> list[Section]:
    if plan.get("best") is None:
        return []
    best = expect_mapping("best", plan["best"])
    row = _row("best", best)
    sentence = (
        f"{row['strategy']} on {row['devices']} x {row['accelerator']}: "
        f"{quantities.energy(row['energy_kwh'] * JOULES_PER_KWH)} in "
        f"{quantities.duration(row['time_h'] * SECONDS_PER_HOUR)}."
    )
    blocks: tuple[Snippet, ...] = ()
    if "spec" in best:
        spec = spec_from_mapping(expect_mapping("best.spec", best["spec"]))
        blocks = (Snippet(caption="Its run spec", language="toml", text=toml_text(spec_to_mapping(spec))),)
    return [Section(heading="The best way", sentences=(sentence,), blocks=blocks)]


def _front(front: Sequence[Row]) -> list[Section]:
    if not front:
        return []
    sentence = "No other way that keeps the limits is better in both time and energy."
    return [Section(heading="The front of time and energy", sentences=(sentence,), blocks=(_figure(front),))]


def _ranking(ranking: Sequence[Row]) -> list[Section]:
    if len(ranking) < 2:
        return []
    return [Section(heading="The next best", blocks=(DataTable.of("In the order of the objective", ranking),))]


def _not_possible(plan: Mapping[str, Any]) -> list[Section]:
    if plan.get("infeasible") is None:
        return []
    why = expect_mapping("infeasible", plan["infeasible"])
    misses = [expect_mapping("misses", one) for one in expect_list("misses", why.get("misses", []))]
    rows = [{name: value for name, value in miss.items() if not isinstance(value, (dict, list))} for miss in misses]
    heading = "Why no way keeps all limits"
    return [Section(heading=heading, blocks=(DataTable.of("What the nearest way misses", rows),))]


def _figure(front: Sequence[Row]) -> Figure:
    alt = altair()
    rows = [{**row, "label": f"{row['strategy']} x {row['devices']}"} for row in front]
    scale = alt.Scale(type="log", nice=False, padding=16)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("time_h:Q", title="time, hours", scale=scale),
        color=colour_of([row["strategy"] for row in rows], title="strategy", field="strategy"),
        tooltip=["label:N", "energy_kwh:Q", "time_h:Q"],
    )
    y = alt.Y("energy_low_kwh:Q", title="energy, kWh", scale=scale)
    chart = base.mark_rule(strokeWidth=1.5).encode(y=y, y2="energy_high_kwh:Q")
    chart += base.mark_point(filled=True, size=70).encode(y="energy_kwh:Q")
    greenest = min(rows, key=lambda row: row["energy_kwh"])
    fastest = min(rows, key=lambda row: row["time_h"])
    return figure(
        "front", chart.properties(width=560, height=320), front, title="Energy against time on the front",
        alt_text=f"{len(rows)} ways with intervals, from the fastest, {fastest['label']} in {fastest['time_h']:.3g} h, "
        f"to the greenest, {greenest['label']} with {greenest['energy_kwh']:.3g} kWh.",
    )  # fmt: skip
