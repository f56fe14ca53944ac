"""The diagnostic suite of a fit: figure 8 of arXiv 2606.23546, and leverage, inflation and coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wattlaw.law.paper.scaling import prepared
from wattlaw.report.document import Figure
from wattlaw.report.figures.drawing import SERIES, altair, colour_of, figure, thinned
from wattlaw.units import JOULES_PER_KWH

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.fit_diagnostics import FitDiagnostics

Row = dict[str, Any]

WIDTH, HEIGHT = 560, 260
#: Columns that residuals are drawn against, where the runs differ in them, and what they are.
REGRESSORS = {
    "compute_proxy": "compute C",
    "memory_proxy": "memory proxy M",
    "efficiency": "hardware efficiency eta_h",
    "num_devices": "devices",
    "num_layers": "layers",
    "block_kernels": "kernels per step",
}
#: Parameters whose inflation is drawn; the table has all of them.
MOST_INFLATED = 15


def fit_figures(calibration: Calibration, table: Table, found: FitDiagnostics, names: Sequence[str]) -> list[Figure]:
    """Draw every diagnostic of a fit.

    Args:
        calibration: of the law.
        table: the runs that it is diagnosed on.
        found: the diagnostics.
        names: of the runs.
    """
    rows = diagnostic_rows(table, found, names)
    figures = [
        _against(rows, "estimated_kwh", "estimated energy, kWh", name="residuals-against-estimate", smooth=True),
        *_against_regressors(rows, prepared(calibration, table) if calibration.law == "paper" else table),
        _by_level(rows),
        _quantiles(found.residuals, "residual-quantiles", "Residuals against normal ones", "of these runs"),
        *_held_out(calibration),
        _influence(rows),
        _inflation(found.variance_inflation),
    ]
    return [*figures, _coverage(found.coverage)] if found.coverage else figures


def diagnostic_rows(table: Table, found: FitDiagnostics, names: Sequence[str]) -> list[Row]:
    """Lay out what is said of each run."""
    columns = {
        "run": list(names),
        "machine": table.text("machine").tolist(),
        "strategy": table.text("strategy").tolist(),
        "estimated_kwh": (found.estimated_j / JOULES_PER_KWH).tolist(),
        "residual": found.residuals.tolist(),
        "leverage": found.leverage.tolist(),
        "cooks_distance": found.cooks_distance.tolist(),
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _against(rows: Sequence[Row], field: str, label: str, *, name: str, smooth: bool) -> Figure:
    alt = altair()
    logarithmic = all(row[field] > 0 for row in rows)
    x = alt.X(f"{field}:Q", title=label, scale=alt.Scale(type="log" if logarithmic else "linear", zero=False))
    y = alt.Y("residual:Q", title="ln(measured / estimated)")
    chart = _chart(thinned(rows)).mark_point(filled=True, opacity=0.6, size=28).encode(
        x=x, y=y, color=colour_of([row["strategy"] for row in rows], title="strategy", field="strategy")
    ) + _chart([{"zero": 0}]).mark_rule(strokeDash=[4, 4]).encode(y="zero:Q")  # fmt: skip
    trend = _trend(rows, field) if smooth else []
    if trend:
        chart += _chart(trend).mark_line().encode(x=x, y=y)
    spread = float(np.std([row["residual"] for row in rows]))
    return figure(
        name, _sized(chart), [{key: row[key] for key in ("run", "strategy", field, "residual")} for row in rows],
        title=f"Residuals against {label.partition(',')[0]}",
        alt_text=f"Residuals of {len(rows)} runs around zero, standard deviation {spread:.3f} in ln(energy)"
        + (", with a smooth curve through them (LOWESS)." if trend else "."),
    )  # fmt: skip


def _trend(rows: Sequence[Row], field: str) -> list[Row]:
    """A smooth curve through the residuals, where the library that draws it is installed."""
    try:
        from statsmodels.nonparametric.smoothers_lowess import lowess
    except ImportError:
        return []
    if len({row[field] for row in rows}) < 8:
        return []
    curve = lowess([row["residual"] for row in rows], np.log([row[field] for row in rows]), frac=2 / 3)
    shown = curve[:: max(1, len(curve) // 60)]
    return [{field: float(np.exp(x)), "residual": float(y)} for x, y in shown]


def _against_regressors(rows: Sequence[Row], table: Table) -> list[Figure]:
    figures = []
    for column, label in REGRESSORS.items():
        if column in table and np.ptp(table[column]) > 0:
            values = table[column].tolist()
            with_column = [{**row, column: value} for row, value in zip(rows, values, strict=True)]
            name = f"residuals-against-{column.replace('_', '-')}"
            figures.append(_against(with_column, column, label, name=name, smooth=False))
    return figures


def _by_level(rows: Sequence[Row]) -> Figure:
    alt = altair()
    levels = sorted({(row["machine"], row["strategy"]) for row in rows})
    table = []
    for machine, strategy in levels:
        values = [row["residual"] for row in rows if (row["machine"], row["strategy"]) == (machine, strategy)]
        low, mid, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
        table.append(
            {"machine": machine, "strategy": strategy, "runs": len(values), "quartile": low, "median": mid,
             "upper quartile": high}
        )  # fmt: skip
    chart = _chart([{key: row[key] for key in ("machine", "strategy", "residual")} for row in rows])
    drawn = chart.mark_boxplot(size=16).encode(
        x=alt.X("strategy:N", title=None, axis=alt.Axis(labelAngle=0)),
        xOffset="machine:N",
        y=alt.Y("residual:Q", title="ln(measured / estimated)"),
        color=colour_of(sorted({row["machine"] for row in rows}), title="machine", field="machine"),
    )
    worst = max(table, key=lambda row: abs(row["median"]))
    return figure(
        "residuals-by-strategy", _sized(drawn), table, title="Residuals by strategy and machine",
        alt_text=f"Boxes of residuals. The median farthest from zero is {worst['median']:+.3f}, of "
        f"{worst['strategy']} on {worst['machine']}.",
    )  # fmt: skip


def _quantiles(residuals: Any, name: str, title: str, whose: str) -> Figure:
    alt = altair()
    from scipy.special import ndtri

    ordered = np.sort(np.asarray(residuals))
    scaled = (ordered - ordered.mean()) / (ordered.std() or 1.0)
    positions = (np.arange(1, len(ordered) + 1) - 0.375) / (len(ordered) + 0.25)  # Blom 1958
    rows = [{"normal": x, "observed": y} for x, y in zip(ndtri(positions).tolist(), scaled.tolist(), strict=True)]
    ends = [{"normal": end, "observed": end} for end in (rows[0]["normal"], rows[-1]["normal"])]
    x, y = alt.X("normal:Q", title="quantile of a normal"), alt.Y("observed:Q", title="quantile of residuals")
    chart = _chart(thinned(rows)).mark_point(filled=True, size=24, color=SERIES[0]).encode(x=x, y=y)
    chart += _chart(ends).mark_line(strokeDash=[4, 4]).encode(x=x, y=y)
    kurtosis = float(np.mean(scaled**4)) - 3
    return figure(
        name, _sized(chart), rows, title=title,
        alt_text=f"Quantiles of {len(rows)} residuals {whose} against a normal's; points beyond the line at the ends "
        f"are heavy tails. Excess kurtosis {kurtosis:.2f}.",
    )  # fmt: skip


def _held_out(calibration: Calibration) -> list[Figure]:
    """The residuals that intervals are made of: of runs as if the fit had not seen them."""
    kept = calibration.residuals.energy
    if len(kept) < 4:
        return []
    title = "Held-out residuals against normal ones"
    return [_quantiles(kept, "held-out-quantiles", title, "of runs as if the fit had not seen them")]


def _influence(rows: Sequence[Row]) -> Figure:
    alt = altair()
    chart = _chart(thinned(rows)).mark_point(filled=True, opacity=0.6).encode(
        x=alt.X("leverage:Q", title="leverage"),
        y=alt.Y("residual:Q", title="ln(measured / estimated)"),
        size=alt.Size("cooks_distance:Q", title="Cook's distance", scale=alt.Scale(range=[15, 250])),
        color=colour_of([row["strategy"] for row in rows], title="strategy", field="strategy"),
    )  # fmt: skip
    most = max(rows, key=lambda row: row["cooks_distance"])
    chosen = ("run", "machine", "strategy", "leverage", "residual", "cooks_distance")
    ordered = sorted(rows, key=lambda row: -row["cooks_distance"])
    return figure(
        "leverage", _sized(chart), [{key: row[key] for key in chosen} for row in ordered],
        title="Leverage and residuals",
        alt_text=f"Residuals against leverage, sized by Cook's distance. The most influential run is {most['run']} "
        f"with Cook's distance {most['cooks_distance']:.3f}; the highest leverage is "
        f"{max(row['leverage'] for row in rows):.2f}.",
    )  # fmt: skip


def _inflation(inflation: Mapping[str, float]) -> Figure:
    alt = altair()
    rows: list[Row] = [{"parameter": name, "inflation": value} for name, value in inflation.items()]
    rows.sort(key=lambda row: -row["inflation"])
    chart = _chart(rows[:MOST_INFLATED]).mark_bar(color=SERIES[0]).encode(
        x=alt.X("inflation:Q", title="variance inflation", scale=alt.Scale(type="symlog")),
        y=alt.Y("parameter:N", title=None, sort=None, axis=alt.Axis(labelLimit=300)),
    )  # fmt: skip
    return figure(
        "variance-inflation", chart.properties(width=340), rows, title="Variance inflation of the parameters",
        alt_text=f"Bars of the {min(len(rows), MOST_INFLATED)} most inflated of {len(rows)} parameters. The runs tell "
        f"{rows[0]['parameter']} least apart from the others: inflation {rows[0]['inflation']:.1f}.",
    )  # fmt: skip


def _coverage(coverage: Mapping[float, float]) -> Figure:
    alt = altair()
    rows = [{"level": 100 * level, "covered": 100 * share} for level, share in coverage.items()]
    x, y = alt.X("level:Q", title="level of the interval, %"), alt.Y("covered:Q", title="runs within, %")
    chart = _chart(rows).mark_line(point=True, color=SERIES[0]).encode(x=x, y=y)
    chart += _chart([{"level": end, "covered": end} for end in (50, 100)]).mark_line(strokeDash=[4, 4]).encode(x=x, y=y)
    shown = ", ".join(f"{row['covered']:.0f} % at {row['level']:g} %" for row in rows)
    return figure(
        "coverage", _sized(chart), rows, title="Coverage of the intervals",
        alt_text=f"Share of these runs within their interval, against its level: {shown}.",
    )  # fmt: skip


def _chart(rows: Sequence[Row]) -> Any:
    alt = altair()
    return alt.Chart(alt.InlineData(values=list(rows)))


def _sized(chart: Any) -> Any:
    return chart.properties(width=WIDTH, height=HEIGHT)
