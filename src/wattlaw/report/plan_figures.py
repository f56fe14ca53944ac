"""Figures of a plan: energy against time, energy and time against the number of devices, and against a power cap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.law.prediction import Prediction
from wattlaw.plan.curves import Crossover
from wattlaw.plan.option import Option
from wattlaw.plan.planning import Plan
from wattlaw.report.figures.drawing import altair, colour_of
from wattlaw.units import JOULES_PER_KWH, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from altair import LayerChart, VConcatChart

#: Intervals that reach further than this many times the largest middle are cut at the edge of the drawing.
REACH = 2.0
#: Strategies whose curves can be told apart.
MOST_STRATEGIES = 8
FRONT, BEATEN = "on the front", "beaten, or beyond a limit"
INK, FAINT, LIMIT = "#1a1b1e", "#8a8d94", "#b00020"


def front_figure(plan: Plan, others: Sequence[Option] = ()) -> LayerChart:
    """Draw the front of energy against time with intervals, the limits as lines, and other options as faint points.

    Args:
        plan: whose front is drawn.
        others: options that are beaten, such as the best of each strategy on each number of devices.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    alt = altair()
    front = _rows(plan.front, place=FRONT)
    known = {option.spec for option in plan.front}
    beaten = _rows([option for option in (*plan.open_front, *others) if option.spec not in known], place=BEATEN)
    shown = {row["strategy"] for row in (*front, *_greenest(beaten))}
    rows = front + [row for row in beaten if row["strategy"] in shown]
    base = alt.Chart().encode(
        color=colour_of([row["strategy"] for row in rows], title="strategy", field="strategy"),
        opacity=alt.Opacity("place:N", title=None, scale=alt.Scale(domain=[FRONT, BEATEN], range=[1, 0.3])),
        tooltip=["label:N", "energy_kwh:Q", "energy_low:Q", "energy_high:Q", "time_h:Q", "time_low:Q", "time_high:Q"],
    )
    level = f"{100 * plan.level:g} % interval"
    hours, kwh = f"time, hours ({level})", f"energy, kWh ({level})"
    limits = plan.problem.limits
    time_scale = _scale(alt, rows, front, "time", limits.deadline_s and limits.deadline_s / SECONDS_PER_HOUR)
    energy_scale = _scale(alt, rows, front, "energy", limits.max_energy_j and limits.max_energy_j / JOULES_PER_KWH)
    x = alt.X("time_h:Q", title=hours, scale=time_scale)
    y = alt.Y("energy_kwh:Q", title=kwh, scale=energy_scale)
    on_front = base.transform_filter(f"datum.place == '{FRONT}'")
    layers: list[Any] = [
        on_front.mark_rule(strokeWidth=1.2, clip=True).encode(
            x=x, y=alt.Y("energy_low:Q", title=kwh, scale=energy_scale), y2="energy_high:Q"
        ),
        on_front.mark_rule(strokeWidth=1.2, clip=True).encode(
            x=alt.X("time_low:Q", title=hours, scale=time_scale), x2="time_high:Q", y=y
        ),
        base.mark_point(filled=True, size=80, clip=True).encode(
            x=x, y=y, shape=alt.Shape("accelerator:N", title="accelerator")
        ),
        *_limit_lines(plan, alt),
    ]
    if plan.best is not None:
        (best,) = _rows([plan.best], place=FRONT)
        mark = alt.Chart(alt.InlineData(values=[best])).encode(x=x, y=y)
        layers += [
            mark.mark_point(size=260, stroke=INK, strokeWidth=1.6, filled=False),
            mark.mark_text(align="left", dx=12, dy=14, fontSize=12, color=INK).encode(text="label:N"),
        ]
    chart: LayerChart = alt.LayerChart(layer=layers, data=alt.InlineData(values=rows)).properties(
        width=560, height=380, title=_title(plan, "energy against time"),
        description="Energy against time of the ways to run that nothing beats in both, with intervals and limits",
    )  # fmt: skip
    return chart


def devices_figure(plan: Plan, curve: Sequence[Option], crossovers: Sequence[Crossover]) -> VConcatChart:
    """Draw energy and time of each strategy's best option against the number of devices, crossovers marked.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    alt = altair()
    rows = _greenest(_rows(curve, place=FRONT))
    marks = [
        {"accelerator": one.accelerator, "devices": one.num_devices, "label": f"{one.after} from {one.num_devices}"}
        for one in crossovers
    ]
    strategies = [row["strategy"] for row in rows]
    counts = sorted({row["devices"] for row in rows})
    x = alt.X(
        "devices:Q", title="devices", scale=alt.Scale(type="log", base=2, nice=False), axis=alt.Axis(values=counts)
    )
    parts = []
    for field, low, high, name in (
        ("energy_kwh", "energy_low", "energy_high", "energy, kWh"),
        ("time_h", "time_low", "time_high", "time, hours"),
    ):
        base = alt.Chart().encode(
            x=x,
            color=colour_of(strategies, title="strategy", field="strategy"),
            tooltip=["label:N", f"{field}:Q", f"{low}:Q", f"{high}:Q"],
        )
        y = alt.Y(f"{field}:Q", title=name, scale=alt.Scale(type="log", nice=False, domain=_around(rows, field)))
        layers: list[Any] = [
            base.mark_line(strokeWidth=1.5).encode(y=y),
            base.mark_point(filled=True, size=55).encode(y=y),
        ]
        if marks and field == "energy_kwh":
            crossed = alt.Chart().transform_filter("datum.mark == 1").encode(x=x)
            layers += [
                crossed.mark_rule(strokeDash=[4, 3], color=FAINT),
                crossed.mark_text(align="right", dx=-4, color=INK, fontSize=11).encode(text="label:N", y=alt.value(10)),
            ]
        data = [{**row, "mark": 0} for row in rows] + [{**mark, "mark": 1} for mark in marks]
        parts.append(
            alt.layer(*layers, data=alt.InlineData(values=data))
            .properties(width=300, height=230)
            .facet(column=alt.Column("accelerator:N", title=None))
        )
    chart: VConcatChart = alt.VConcatChart(vconcat=parts).properties(
        title=_title(plan, "energy and time against devices"),
        description="Energy and time of each strategy against the number of devices; dashes where another is greenest",
    )
    return chart


def caps_figure(plan: Plan, curve: Sequence[tuple[float, Prediction]], *, board_limit_w: float) -> VConcatChart:
    """Draw energy and time of the best option against the power cap of its devices.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    alt = altair()
    whole = curve[-1][1]
    assert whole.duration_s is not None
    rows = []
    for cap_w, prediction in curve:
        assert prediction.duration_s is not None
        energy, time = prediction.energy_j, prediction.duration_s
        rows.append(
            {
                "cap_w": cap_w,
                "energy_kwh": energy.mid / JOULES_PER_KWH,
                "time_h": time.mid / SECONDS_PER_HOUR,
                "energy_saved": 1 - energy.mid / whole.energy_j.mid,
                "time_added": time.mid / whole.duration_s.mid - 1,
            }
        )
    least = min(rows, key=lambda row: row["energy_kwh"])
    parts = []
    for field, name in (("energy_kwh", "energy, kWh"), ("time_h", "time, hours")):
        base = alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X("cap_w:Q", title="power cap of each device, W", scale=alt.Scale(zero=False)),
            y=alt.Y(f"{field}:Q", title=name, scale=alt.Scale(zero=False)),
            tooltip=["cap_w:Q", f"{field}:Q", "energy_saved:Q", "time_added:Q"],
        )
        at_least = (
            alt.Chart(alt.InlineData(values=[least])).mark_rule(strokeDash=[4, 3], color=FAINT).encode(x="cap_w:Q")
        )
        parts.append((base.mark_line(color="#0072b2") + base.mark_point(filled=True, color="#0072b2") + at_least)
                     .properties(width=480, height=170))  # fmt: skip
    saved, added = 100 * least["energy_saved"], 100 * least["time_added"]
    where = f"least energy at {least['cap_w']:.0f} of {board_limit_w:.0f} W"
    subtitle = f"{where}: {saved:.1f} % less energy, {added:.1f} % longer"
    title = _title(plan, "energy and time against the power cap")
    chart: VConcatChart = alt.VConcatChart(vconcat=parts).properties(
        title=alt.TitleParams(title, subtitle=subtitle),
        description="Energy and time of the best option against the power cap of its devices",
    )
    return chart


def _greenest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave the strategies that need least energy on some number of devices, as many as can be told apart."""
    least: dict[str, float] = {}
    for row in rows:
        least[row["strategy"]] = min(row["energy_kwh"], least.get(row["strategy"], row["energy_kwh"]))
    shown = sorted(least, key=lambda name: (least[name], name))[:MOST_STRATEGIES]
    return [row for row in rows if row["strategy"] in shown]


def _around(rows: Sequence[dict[str, Any]], field: str) -> list[float]:
    values = [row[field] for row in rows]
    return [min(values) / 1.15, max(values) * 1.15]


def _title(plan: Plan, what: str) -> str:
    run = plan.problem.run
    return f"{run.name or run.architecture.name or run.architecture.family}: {what}"


def _rows(options: Sequence[Option], *, place: str) -> list[dict[str, Any]]:
    rows = []
    for option in options:
        prediction = option.prediction
        if prediction is None or prediction.duration_s is None:
            continue
        energy, time, layout = prediction.energy_j, prediction.duration_s, option.spec.layout
        rows.append(
            {
                "strategy": layout.strategy,
                "accelerator": option.spec.accelerator.name,
                "devices": int(layout.num_devices),
                "label": f"{layout.strategy} on {int(layout.num_devices)} {option.spec.accelerator.name}",
                "place": place,
                "energy_kwh": energy.mid / JOULES_PER_KWH,
                "energy_low": energy.low / JOULES_PER_KWH,
                "energy_high": energy.high / JOULES_PER_KWH,
                "time_h": time.mid / SECONDS_PER_HOUR,
                "time_low": time.low / SECONDS_PER_HOUR,
                "time_high": time.high / SECONDS_PER_HOUR,
            }
        )
    return rows


def _scale(
    alt: Any, rows: Sequence[dict[str, Any]], front: Sequence[dict[str, Any]], name: str, bound: float | None
) -> Any:
    """An axis over all middles and as much of the front's intervals, and of a limit, as leaves the points apart."""
    field = {"time": "time_h", "energy": "energy_kwh"}[name]
    middles = [row[field] for row in rows] or [1.0]
    least, most = min(middles), max(middles)
    low = min([least, *(max(row[f"{name}_low"], least / REACH) for row in front)])
    high = max([most, *(min(row[f"{name}_high"], most * REACH) for row in front)])
    if bound is not None and most / REACH <= bound <= most * 2 * REACH:
        low, high = min(low, bound), max(high, bound)
    return alt.Scale(type="log", domain=[low / 1.1, high * 1.1], nice=False)


def _limit_lines(plan: Plan, alt: Any) -> list[Any]:
    """Lines where the deadline and the energy limit stand."""
    limits = plan.problem.limits
    lines = []
    for bound, field, text in (
        (limits.deadline_s and limits.deadline_s / SECONDS_PER_HOUR, "x", "deadline"),
        (limits.max_energy_j and limits.max_energy_j / JOULES_PER_KWH, "y", "energy limit"),
    ):
        if bound is None:
            continue
        data = alt.Chart(alt.InlineData(values=[{"bound": bound, "label": text}]))
        channel = {field: alt.X("bound:Q") if field == "x" else alt.Y("bound:Q")}
        lines.append(data.mark_rule(strokeDash=[6, 4], color=LIMIT, clip=True).encode(**channel))
        place = {"y": alt.value(12)} if field == "x" else {"x": alt.value(6)}
        dx, dy = (-4, 0) if field == "x" else (0, -6)
        lines.append(
            data.mark_text(align="right" if field == "x" else "left", dx=dx, dy=dy, color=LIMIT, clip=True).encode(
                text="label:N", **channel, **place
            )
        )
    return lines
