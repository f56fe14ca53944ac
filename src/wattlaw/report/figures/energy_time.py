"""Fastest against greenest: several ways to run the same work, as PNG, SVG and a page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wattlaw.errors import FileError, MissingExtraError
from wattlaw.law.prediction import Prediction
from wattlaw.report.prediction import comparison_rows
from wattlaw.run.spec import RunSpec

if TYPE_CHECKING:
    import altair as alt

#: Colours that people with any colour vision tell apart (Okabe and Ito 2008), by strategy.
COLOURS = {"single": "#000000", "ddp": "#56B4E9", "fsdp": "#0072B2", "fsdp-grad-op": "#009E73", "tp": "#D55E00"}


def energy_against_time(rows: Sequence[tuple[RunSpec, Prediction]], *, heading: str) -> alt.LayerChart:
    """Draw the energy of several ways to run the same work against their time, with intervals.

    The fastest and the greenest carry their names: they need not be the same.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    try:
        import altair as alt
    except ImportError:
        raise MissingExtraError.of("report", "drawing figures") from None
    points = comparison_rows(rows)
    greenest = min(points, key=lambda point: point["energy_kwh"])
    fastest = min(points, key=lambda point: point["time_min"])
    for point in points:
        marks = [name for name, best in (("greenest", greenest), ("fastest", fastest)) if point is best]
        point["label"] = f"{point['strategy']} x {point['devices']}" + (f": {' and '.join(marks)}" if marks else "")
    strategies = list(dict.fromkeys(point["strategy"] for point in points))
    colour = alt.Color(
        "strategy:N",
        title="strategy",
        scale=alt.Scale(domain=strategies, range=[COLOURS.get(name, "#777777") for name in strategies]),
    )
    level = f"{100 * rows[0][1].energy_j.level:g} %"
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X(
            "time_min:Q",
            title="time, minutes",
            scale=alt.Scale(domain=[0, 1.15 * max(point["time_min"] for point in points)]),
        ),
        color=colour,
        tooltip=["label:N", "energy_kwh:Q", "energy_kwh_low:Q", "energy_kwh_high:Q", "time_min:Q"],
    )
    intervals = base.mark_rule(strokeWidth=2).encode(
        y=alt.Y("energy_kwh_low:Q", title=f"energy, kWh ({level} interval)"), y2="energy_kwh_high:Q"
    )
    dots = base.mark_point(filled=True, size=110).encode(
        y=alt.Y("energy_kwh:Q", scale=alt.Scale(zero=True)), shape=alt.Shape("strategy:N", legend=None)
    )
    names = base.mark_text(align="left", dx=9, dy=-9, fontSize=12).encode(y="energy_kwh:Q", text="label:N")
    return alt.LayerChart(layer=[intervals, dots, names]).properties(
        width=560, height=360, title=heading, description=f"{heading}: energy against time, one point per layout"
    )


def save(chart: alt.LayerChart | alt.VConcatChart, path: Path) -> None:
    """Write a figure as PNG at ``path``, and beside it as SVG and as a page that opens without a network.

    Raises:
        FileError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        chart.save(path.with_suffix(".png"), scale_factor=2)
        chart.save(path.with_suffix(".svg"))
        chart.save(path.with_suffix(".html"), inline=True)
    except OSError as error:
        raise FileError("cannot write the figure", given=error.strerror).at(path) from error
