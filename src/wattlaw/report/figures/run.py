"""Where one run's energy and time go, how ways to run it compare, and where its operations lie under the roof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.explain.tree import merged
from wattlaw.report.document import Figure
from wattlaw.report.figures.drawing import altair, colour_of, figure
from wattlaw.report.prediction import TERMS, comparison_rows

if TYPE_CHECKING:
    from wattlaw.explain import Node
    from wattlaw.law.prediction import Prediction
    from wattlaw.run.spec import RunSpec

Row = dict[str, Any]

WIDTH = 460


def terms_figure(prediction: Prediction) -> Figure:
    """Draw the shares of energy and time by term, which sum to the whole."""
    alt = altair()
    parts = [("energy", prediction.terms_j, prediction.energy_j.mid)]
    if prediction.duration_s is not None:
        parts.append(("time", prediction.terms_s, prediction.duration_s.mid))
    rows = [
        {"term": TERMS.get(name, name.replace("_", " ")), "of": what, "share": 100 * value / whole,
         "value": value, "unit": "J" if what == "energy" else "s"}
        for what, terms, whole in parts
        for name, value in terms.items()
        if value
    ]  # fmt: skip
    chart = alt.Chart(alt.InlineData(values=rows)).mark_bar(size=9).encode(
        x=alt.X("share:Q", title="share, %"),
        y=alt.Y("term:N", title=None, sort=None, axis=alt.Axis(labelLimit=220)),
        yOffset=alt.YOffset("of:N", sort=["energy", "time"]),
        color=colour_of([what for what, _, _ in parts], title=None, field="of"),  # type: ignore[arg-type]
        tooltip=["term:N", "of:N", "share:Q"],
    )  # fmt: skip
    largest = {what: max((r for r in rows if r["of"] == what), key=lambda r: r["share"]) for what, _, _ in parts}
    said = "; ".join(f"most of the {what} is {row['term']}, {row['share']:.0f} %" for what, row in largest.items())
    return figure(
        "terms", chart.properties(width=WIDTH, height=alt.Step(24)), rows, title="Where energy and time go",
        alt_text=f"Bars of each term's share of the energy and of the time; {said}.",
    )  # fmt: skip


def comparison_figure(rows: Sequence[tuple[RunSpec, Prediction]]) -> Figure:
    """Draw the energy of ways to run the same work against their time, with intervals."""
    alt = altair()
    points = comparison_rows(rows)
    greenest = min(points, key=lambda point: point["energy_kwh"])
    fastest = min(points, key=lambda point: point["time_min"])
    for point in points:
        marks = [name for name, best in (("greenest", greenest), ("fastest", fastest)) if point is best]
        point["label"] = f"{point['strategy']} x {point['devices']}" + (f": {' and '.join(marks)}" if marks else "")
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("time_min:Q", title="time, minutes", scale=alt.Scale(type="log", nice=True, padding=30)),
        color=colour_of([point["strategy"] for point in points], title="strategy", field="strategy"),
        tooltip=["label:N", "energy_kwh:Q", "energy_kwh_low:Q", "energy_kwh_high:Q", "time_min:Q"],
    )
    y = alt.Y("energy_kwh_low:Q", title="energy, kWh", scale=alt.Scale(zero=False))
    chart = (
        base.mark_rule(strokeWidth=2).encode(y=y, y2="energy_kwh_high:Q")
        + base.mark_point(filled=True, size=90).encode(y="energy_kwh:Q")
        + base.transform_filter("indexof(datum.label, ':') > 0").mark_text(align="left", dx=8, dy=-8).encode(
            y="energy_kwh:Q", text="label:N"
        )
    )  # fmt: skip
    level = f"{100 * rows[0][1].energy_j.level:g} %"
    return figure(
        "comparison", chart.properties(width=WIDTH + 100, height=320), points, title="Energy against time",
        alt_text=f"{len(points)} ways to do the same work, each with its {level} interval. Greenest is "
        f"{greenest['label']} with {greenest['energy_kwh']:.3g} kWh, fastest {fastest['label']} with "
        f"{fastest['time_min']:.3g} minutes.",
    )  # fmt: skip


def roofline_figure(spec: RunSpec, tree: Node) -> Figure:
    """Draw the run's operations under the roof of the accelerator's data sheet.

    Args:
        spec: the run.
        tree: its energy tree.
    """
    alt = altair()
    rows = list(_operations(merged(tree), float(spec.layout.num_devices)))
    peak = spec.accelerator.peak_flop_per_s(spec.recipe.precision)
    bandwidth = spec.accelerator.bandwidth_bytes_per_s
    ridge = spec.accelerator.ridge_flop_per_byte(spec.recipe.precision)
    lowest = min([row["intensity"] for row in rows] + [ridge]) / 2
    highest = max([row["intensity"] for row in rows] + [ridge]) * 2
    roof = [{"intensity": at, "rate": min(peak, bandwidth * at)} for at in sorted((lowest, ridge, highest))]
    x = alt.X("intensity:Q", title="FLOP per byte of traffic", scale=alt.Scale(type="log"))
    y = alt.Y("rate:Q", title="FLOP/s of a device", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s"))
    chart = alt.Chart(alt.InlineData(values=roof)).mark_line(strokeWidth=2).encode(x=x, y=y)
    chart += alt.Chart(alt.InlineData(values=rows)).mark_point(filled=True, opacity=0.75).encode(
        x=x, y=y,
        size=alt.Size("time_share:Q", title="share of time, %", scale=alt.Scale(range=[25, 450])),
        color=colour_of([row["bottleneck"] for row in rows], title="bound by", field="bottleneck"),
        tooltip=["operation:N", "intensity:Q", "rate:Q", "time_share:Q"],
    )  # fmt: skip
    longest = max(rows, key=lambda row: row["time_share"])
    return figure(
        "roofline", chart.properties(width=WIDTH + 60, height=320), rows, title="The run's operations under the roof",
        alt_text=f"{len(rows)} operations by FLOP per byte and rate, below the roof of {peak / 1e12:.3g} TFLOP/s and "
        f"{bandwidth / 1e9:.4g} GB/s that meet at {ridge:.0f} FLOP per byte. {longest['operation']} takes most time, "
        f"{longest['time_share']:.0f} %, bound by {longest['bottleneck']}.",
    )  # fmt: skip


def _operations(tree: Node, num_devices: float) -> Iterator[Row]:
    """What one device computes, moves and reaches in each operation, all phases together."""
    for name, node in _ends(tree, ""):
        if node.flop and node.traffic_bytes and node.time_s:
            yield {
                "operation": name,
                "intensity": node.flop / node.traffic_bytes,
                "rate": node.flop / num_devices / node.time_s,
                "time_share": 100 * node.time_share,
                "bottleneck": node.bottleneck,
            }


def _ends(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """Operations, with the modules that they are in."""
    below = [child for child in node.children if child.kind != "phase"]
    if not below:
        yield path or node.name, node
    for child in below:
        yield from _ends(child, f"{path} / {child.name}" if path else child.name)
