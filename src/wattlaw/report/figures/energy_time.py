"""Fastest against greenest: several ways to run the same work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wattlaw.law.prediction import Prediction
from wattlaw.report.figures.drawing import altair, colour_of
from wattlaw.report.prediction import comparison_rows
from wattlaw.run.spec import RunSpec

if TYPE_CHECKING:
    from altair import LayerChart


def energy_against_time(rows: Sequence[tuple[RunSpec, Prediction]], *, heading: str) -> LayerChart:
    """Draw the energy of several ways to run the same work against their time, with intervals.

    The fastest and the greenest carry their names: they need not be the same.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    alt = altair()
    points = comparison_rows(rows)
    greenest = min(points, key=lambda point: point["energy_kwh"])
    fastest = min(points, key=lambda point: point["time_min"])
    for point in points:
        marks = [name for name, best in (("greenest", greenest), ("fastest", fastest)) if point is best]
        point["label"] = f"{point['strategy']} x {point['devices']}" + (f": {' and '.join(marks)}" if marks else "")
    level = f"{100 * rows[0][1].energy_j.level:g} %"
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X(
            "time_min:Q",
            title="time, minutes",
            scale=alt.Scale(domain=[0, 1.15 * max(point["time_min"] for point in points)]),
        ),
        color=colour_of([point["strategy"] for point in points], title="strategy", field="strategy"),
        tooltip=["label:N", "energy_kwh:Q", "energy_kwh_low:Q", "energy_kwh_high:Q", "time_min:Q"],
    )
    intervals = base.mark_rule(strokeWidth=2).encode(
        y=alt.Y("energy_kwh_low:Q", title=f"energy, kWh ({level} interval)"), y2="energy_kwh_high:Q"
    )
    dots = base.mark_point(filled=True, size=110).encode(
        y=alt.Y("energy_kwh:Q", scale=alt.Scale(zero=True)), shape=alt.Shape("strategy:N", legend=None)
    )
    names = base.mark_text(align="left", dx=9, dy=-9, fontSize=12).encode(y="energy_kwh:Q", text="label:N")
    chart: LayerChart = alt.LayerChart(layer=[intervals, dots, names]).properties(
        width=560, height=360, title=heading, description=f"{heading}: energy against time, one point per layout"
    )
    return chart
