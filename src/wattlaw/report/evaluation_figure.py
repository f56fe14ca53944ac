"""A verdict on laws as a figure: what each predicted against what was measured, and how its errors are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wattlaw.law.evaluation import Point, Verdict
from wattlaw.report.figures.drawing import INK, SERIES, altair, figure
from wattlaw.report.quantities import counted
from wattlaw.units import JOULES_PER_KWH

if TYPE_CHECKING:
    from wattlaw.report.document import Figure

#: Target -> everyday unit and what one of it is in SI.
UNITS = {"energy": ("kWh", JOULES_PER_KWH), "time": ("minutes", 60.0), "power": ("W", 1.0)}
#: Ends that the axis of ratios may have; what is farther than the last stands at its end.
ENDS = (1.1, 1.25, 1.5, 2.0, 5.0, 10.0)
PANEL = 190


def verdict_figure(verdict: Verdict, target: str) -> Figure:
    """Draw the laws side by side on one target, with the plotting library (the ``report`` extra).

    Above, predicted against measured on logarithmic axes, a panel per law; the line is where they are equal, the
    dashed ones a factor 1.5 off. Below, predicted over measured, with the median, the middle half and the runs from
    the 5th to the 95th percentile.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    alt = altair()
    points = [point for point in verdict.points if point.target == target]
    laws = list(dict.fromkeys(point.law for point in points))
    protocol = verdict.evaluations[0].protocol
    cuts = counted(verdict.num_splits, "split")
    heading = f"{target}, {protocol}: {counted(verdict.num_records, 'record')}, held out, {cuts}"
    rows = _ratios(points, laws)
    chart = alt.VConcatChart(
        vconcat=[_panels(points, laws, target), _spreads(rows, laws)],
        title=alt.TitleParams(text=heading, anchor="start", offset=12),
        spacing=24,
    )
    said = ", ".join(f"{row['law']} {row['median']:.3g}" for row in rows)
    return figure(
        "laws", chart, rows, title=heading,
        alt_text=f"Predicted against measured, a panel per law. Median of predicted over measured: {said}.",
    )  # fmt: skip


def _panels(points: list[Point], laws: list[str], target: str) -> Any:
    alt = altair()
    unit, size = UNITS[target]
    shown = [value / size for point in points for value in (point.measured, point.predicted)]
    scale = alt.Scale(type="log", domain=[min(shown) / 1.2, max(shown) * 1.2], nice=False)
    machines = sorted({point.machine for point in points})
    colour = alt.Color(
        "machine:N",
        title="measured on",
        scale=alt.Scale(domain=machines, range=[SERIES[place % len(SERIES)] for place in range(len(machines))]),
        legend=alt.Legend(orient="top"),
    )
    axis: dict[str, Any] = {"format": "~g", "tickCount": 4, "grid": False}
    panels = []
    for place, law in enumerate(laws):
        values = [
            {"measured": point.measured / size, "predicted": point.predicted / size, "machine": point.machine}
            for point in points
            if point.law == law
        ]
        title = f"predicted, {unit}" if place == 0 else None
        dots = (
            alt.Chart(alt.InlineData(values=values))
            .mark_circle(size=14, opacity=0.55)
            .encode(
                x=alt.X("measured:Q", scale=scale, axis=alt.Axis(title=f"measured, {unit}", **axis)),
                y=alt.Y("predicted:Q", scale=scale, axis=alt.Axis(title=title, **axis)),
                color=colour,
                tooltip=["machine:N", "measured:Q", "predicted:Q"],
            )
        )
        lines = [_line(factor, min(shown) / 1.2, max(shown) * 1.2) for factor in (1.0, 1.5, 1 / 1.5)]
        panels.append(alt.layer(*lines, dots).properties(width=PANEL, height=PANEL, title=law))
    return alt.ConcatChart(concat=panels, columns=4)


def _line(factor: float, low: float, high: float) -> Any:
    """A line of constant ratio, cut where it would leave the panel."""
    alt = altair()
    start, end = max(low, low / factor), min(high, high / factor)
    values = [{"measured": at, "predicted": at * factor} for at in (start, end)]
    dash = [] if factor == 1 else [3, 3]
    line = alt.Chart(alt.InlineData(values=values)).mark_line(color="#888888", strokeWidth=1, strokeDash=dash)
    return line.encode(x="measured:Q", y="predicted:Q")


def _ratios(points: list[Point], laws: list[str]) -> list[dict[str, Any]]:
    """Quantiles of predicted over measured, a row per law; what is beyond the last end of the axis stands at it."""
    rows = []
    for law in laws:
        ratios = np.array([point.predicted / point.measured for point in points if point.law == law])
        lowest, low, middle, high, highest = np.clip(
            np.quantile(ratios, [0.05, 0.25, 0.5, 0.75, 0.95]), 1 / ENDS[-1], ENDS[-1]
        ).tolist()
        rows.append({"law": law, "p5": lowest, "p25": low, "median": middle, "p75": high, "p95": highest})
    return rows


def _spreads(rows: list[dict[str, Any]], laws: list[str]) -> Any:
    alt = altair()
    widest = max(max(row["p95"], 1 / row["p5"]) for row in rows)
    end = next(end for end in ENDS if end >= widest or end == ENDS[-1])
    scale = alt.Scale(type="log", domain=[1 / end, end], nice=False)
    ticks = sorted(tick for one in (1.0, *ENDS) for tick in {one, 1 / one} if 1 / end <= tick <= end)
    x = alt.X("p5:Q", scale=scale, axis=alt.Axis(title="predicted / measured", values=ticks, format=".3~g"))
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=alt.Y("law:N", sort=laws, title=None))
    whiskers = base.mark_rule(color=SERIES[0]).encode(x=x, x2="p95:Q")
    boxes = base.mark_bar(height=12, color=SERIES[4]).encode(x=alt.X("p25:Q", scale=scale), x2="p75:Q")
    medians = base.mark_tick(color=INK, thickness=2, height=16).encode(
        x=alt.X("median:Q", scale=scale), tooltip=["law:N", "p5:Q", "p25:Q", "median:Q", "p75:Q", "p95:Q"]
    )
    one = alt.Chart(alt.InlineData(values=[{"one": 1}])).mark_rule(color="#888888", strokeDash=[3, 3]).encode(x="one:Q")
    return alt.LayerChart(layer=[one, whiskers, boxes, medians]).properties(
        width=min(4, len(laws)) * (PANEL + 30),
        height=26 * len(laws),
        title="median, middle half, 5 % to 95 % of the runs",
    )
