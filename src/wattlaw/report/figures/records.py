"""The figures of arXiv 2606.23546 for any records: what was measured, by strategy, devices and size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wattlaw.errors import DataError, FitError, WattlawError
from wattlaw.features.paper import paper_columns
from wattlaw.law.laws import law_named
from wattlaw.law.paper.options import PaperOptions
from wattlaw.law.prediction import columns_of
from wattlaw.law.speedup import fit_speedup
from wattlaw.parallel.speedup import data_parallel_speedup, tensor_parallel_speedup
from wattlaw.report.document import Figure
from wattlaw.report.figures.drawing import altair, colour_of, figure, thinned
from wattlaw.run.amount import schedule
from wattlaw.units import JOULES_PER_KWH, SECONDS_PER_HOUR
from wattlaw.workload import step_cost

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration
    from wattlaw.run.record import RunRecord

Row = dict[str, Any]

WIDTH, HEIGHT = 560, 320


def record_rows(records: Sequence[RunRecord], calibration: Calibration | None = None) -> list[Row]:
    """Lay out what figures show of each record that states its run and ended well.

    Args:
        records: of any sources; those without an energy or a duration have ``None`` there.
        calibration: whose estimate stands beside what was measured; ``None`` leaves that out.
    """
    kept = [record for record in records if record.spec is not None and record.status == "ok"]
    estimates = _estimates(kept, calibration)
    return [_row(record, estimate) for record, estimate in zip(kept, estimates, strict=True)]


def _row(record: RunRecord, estimate: tuple[float | None, float | None]) -> Row:
    spec = record.require_spec()
    cost = step_cost(spec.architecture, spec.recipe, attention="full", head="counted")
    energy, amount = record.energy(), schedule(spec.recipe, spec.layout)
    return {
        "run": record.record_id,
        "machine": spec.accelerator.name,
        "model": spec.architecture.family,
        "strategy": spec.layout.strategy,
        "devices": int(spec.layout.num_devices),
        "layers": int(spec.architecture.num_layers),
        "parameters": float(cost.parameters),
        "training_flop": float((cost.flop) * amount.micro_steps * spec.layout.data_parallel),
        "energy_kwh": None if energy is None else energy.energy_j / JOULES_PER_KWH,
        "boundary": None if energy is None else energy.boundary,
        "duration_h": None if record.duration_s is None else record.duration_s / SECONDS_PER_HOUR,
        "estimated_kwh": None if estimate[0] is None else estimate[0] / JOULES_PER_KWH,
        "estimated_h": None if estimate[1] is None else estimate[1] / SECONDS_PER_HOUR,
    }


def _estimates(
    records: Sequence[RunRecord], calibration: Calibration | None
) -> list[tuple[float | None, float | None]]:
    """Joules and seconds that a law says of each record's run, ``None`` where it says nothing."""
    found: list[tuple[float | None, float | None]] = [(None, None)] * len(records)
    if calibration is None or not records:
        return found
    law = law_named(calibration.law)
    with contextlib.suppress(WattlawError):
        table = _columns(records, calibration)
        covered = np.flatnonzero(law.covers(calibration, table))
        estimate = law.estimate(calibration, table.take(covered))
        times = [None] * len(covered) if estimate.duration_s is None else estimate.duration_s.tolist()
        for position, energy, time in zip(covered.tolist(), estimate.energy_j.tolist(), times, strict=True):
            found[position] = (energy, time)
    return found


def _columns(records: Sequence[RunRecord], calibration: Calibration) -> Table:
    """The columns that the law reads: of the specs, or of the records where it was fitted to what only they know."""
    options = PaperOptions.of(calibration)
    if options.proxies == "observed" or options.efficiency == "measured":
        return paper_columns(records, compute=options.compute, proxies=options.proxies)
    return columns_of([record.require_spec() for record in records], calibration)


def record_figures(
    records: Sequence[RunRecord], calibration: Calibration | None = None
) -> tuple[list[Figure], list[str]]:
    """Draw every figure that these records hold the data for.

    Returns:
        the figures, and one line for each that cannot be drawn, with the reason.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    rows = record_rows(records, calibration)
    figures: list[Figure] = []
    missing: list[str] = []
    timed_only = bool(rows) and all(row["energy_kwh"] is None for row in rows)
    if timed_only:
        missing.append("the figures of energy, as no record has one")
    for draw in DRAWN_OF_TIMES if timed_only else DRAWN:
        try:
            figures.append(draw(rows, records))
        except (DataError, FitError) as error:
            missing.append(str(error))
    return figures, list(dict.fromkeys(missing))


def speedup(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw figure 1: speedup against devices, the laws (9) and (11) fitted to it, and the ideal line."""
    alt = altair()
    measured = list(_speedups(records))
    curves = _speedup_curves(measured)
    colour = colour_of([*dict.fromkeys(row["strategy"] for row in [*measured, *curves]), "ideal"],
                       title="strategy", field="strategy")  # fmt: skip
    most = max(row["devices"] for row in measured)
    ideal = [{"devices": count, "speedup": count, "strategy": "ideal"} for count in (1, most)]
    x = alt.X("devices:Q", title="devices", scale=alt.Scale(zero=False), axis=alt.Axis(tickMinStep=1))
    y = alt.Y("speedup:Q", title="speedup over one device")
    points = _chart(thinned(measured)).mark_point(filled=True, opacity=0.5, size=30).encode(x=x, y=y, color=colour)
    lines = _chart([*curves, *ideal]).mark_line().encode(
        x=x, y=y, color=colour,
        strokeDash=alt.condition("datum.strategy === 'ideal'", alt.value([4, 4]), alt.value([1, 0])),
    )  # fmt: skip
    shown = ", ".join(f"{name} {value}" for name, value in _medians(measured, "strategy", "speedup"))
    return figure(
        "speedup", _sized(points + lines), measured, title="Speedup against the number of devices",
        alt_text=f"Speedup over one device of {len(measured)} runs on up to {most} devices, with the fitted speedup "
        f"laws and the ideal line. Medians: {shown}.",
    )  # fmt: skip


def _speedups(records: Sequence[RunRecord]) -> Iterator[Row]:
    """The runs whose time on one device is known: stated, or measured in the same configuration family."""
    timed = [record for record in records if record.spec is not None and record.status == "ok" and record.duration_s]
    if timed:
        groups = paper_columns(timed, compute="eq2").text("group")
        single = {group for group, one in zip(groups, timed, strict=True) if one.require_spec().layout.num_devices == 1}
        known = [
            record
            for group, record in zip(groups, timed, strict=True)
            if "single_device_duration_s" in record.observed or group in single
        ]
        table = paper_columns(known, compute="eq2") if known else None
        if table is not None and "efficiency" in table and (table["num_devices"] > 1).any():
            for record, count, efficiency, data, tensor in zip(
                known, table["num_devices"], table["efficiency"], table["data_parallel"], table["tensor_parallel"],
                strict=True,
            ):  # fmt: skip
                if count > 1:
                    yield {
                        "run": record.record_id,
                        "strategy": record.require_spec().layout.strategy,
                        "devices": int(count),
                        "data_parallel": int(data),
                        "tensor_parallel": int(tensor),
                        "speedup": float(efficiency * count),
                    }
            return
    raise DataError("speedup: no run on several devices has its time on one", hint="the same runs on one device")


def _speedup_curves(measured: Sequence[Row]) -> list[Row]:
    from wattlaw.features.table import Table

    columns = {name: np.array([row[name] for row in measured]) for name in ("data_parallel", "tensor_parallel")}
    fitted = fit_speedup(
        Table({**columns, "efficiency": np.array([row["speedup"] / row["devices"] for row in measured])})
    )
    laws: list[tuple[str, str, Callable[..., Any], tuple[str, str]]] = [
        ("data parallel, fitted", "data_parallel", data_parallel_speedup, ("alpha", "beta")),
        ("tensor parallel, fitted", "tensor_parallel", tensor_parallel_speedup, ("s_max", "rate")),
    ]
    return [
        {"strategy": label, "devices": degree, "speedup": float(law(degree, fitted.parameters))}
        for label, axis, law, names in laws
        if set(names) & set(fitted.fitted)
        for degree in np.linspace(1, max(row[axis] for row in measured), 25).tolist()
    ]


def energy_against_parameters(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw figure 2: energy against the parameters of the model, by strategy, for each device count."""
    return _scatter(rows, "energy-against-parameters", "parameters", "parameters", facet=True)


def energy_by_devices(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw figure 3: how energies spread, by device count and strategy."""
    return _boxes(rows, "energy-by-devices", ("energy_kwh",), "Energy by number of devices and strategy")


def estimated_against_measured(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw figure 4: what the law says against what was measured, with the line where they agree."""
    return _agreement(rows, "estimated-against-measured", "energy", "kWh", ("energy_kwh", "estimated_kwh"))


def estimated_against_measured_time(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw the same of time."""
    return _agreement(rows, "estimated-against-measured-time", "time", "h", ("duration_h", "estimated_h"))


def energy_against_flop(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw figure 5: energy against the FLOP of the training."""
    return _scatter(rows, "energy-against-flop", "training_flop", "FLOP of the training", facet=False)


def duration_and_energy(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw figure 6: duration by strategy and device count, beside energy."""
    return _boxes(rows, "duration-and-energy", ("duration_h", "energy_kwh"), "Duration beside energy")


def duration_by_devices(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw how durations spread, by device count and strategy, where no energy stands beside them."""
    return _boxes(rows, "duration-by-devices", ("duration_h",), "Duration by number of devices and strategy")


def energy_by_depth(rows: Sequence[Row], records: Sequence[RunRecord]) -> Figure:
    """Draw figure 7: energy by the number of layers, by strategy."""
    alt = altair()
    known = _known(rows, "energy_kwh")
    medians = [
        {"layers": layers, "series": f"{strategy} x {devices}", "energy_kwh": value, "runs": count}
        for (layers, strategy, devices), value, count in _grouped(
            known, ("layers", "strategy", "devices"), "energy_kwh"
        )
    ]
    if len({row["layers"] for row in medians}) < 2:
        raise DataError("energy by depth: all runs have the same number of layers")
    chart = _chart(medians).mark_line(point=True).encode(
        x=alt.X("layers:Q", title="layers", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=False)),
        y=alt.Y("energy_kwh:Q", title="median energy, kWh", scale=alt.Scale(type="log")),
        color=colour_of(sorted({row["series"] for row in medians}), title="strategy x devices", field="series"),
    )  # fmt: skip
    return figure(
        "energy-by-depth", _sized(chart), medians, title="Energy by depth",
        alt_text=f"Median energy of runs with {min(r['layers'] for r in medians)} to "
        f"{max(r['layers'] for r in medians)} layers, one line for each strategy and device count.",
    )  # fmt: skip


#: The paper's figures in its order; the eighth is the diagnostic suite of a fit.
#: What a field is, where no record has it.
WORDS = {
    "energy_kwh": "an energy",
    "estimated_kwh": "an estimated energy",
    "duration_h": "a duration",
    "estimated_h": "an estimated time",
}
#: Of records with energies: the paper's, in its order, and one more.
DRAWN = (
    speedup,
    energy_against_parameters,
    energy_by_devices,
    estimated_against_measured,
    energy_against_flop,
    duration_and_energy,
    energy_by_depth,
    estimated_against_measured_time,
)
#: Of records that have times alone, such as those of a machine without a sensor.
DRAWN_OF_TIMES = (speedup, estimated_against_measured_time, duration_by_devices)


def _agreement(rows: Sequence[Row], name: str, what: str, unit: str, fields: tuple[str, str]) -> Figure:
    alt = altair()
    measured, estimated = fields
    known = _known(rows, measured, estimated)
    ends = [f(row[field] for row in known for field in fields) for f in (min, max)]
    x = alt.X(f"{measured}:Q", title=f"measured {what}, {unit}", scale=alt.Scale(type="log"))
    y = alt.Y(f"{estimated}:Q", title=f"estimated {what}, {unit}", scale=alt.Scale(type="log"))
    points = _chart(thinned(known)).mark_point(filled=True, opacity=0.6, size=30).encode(
        x=x, y=y, color=colour_of([row["strategy"] for row in known], title="strategy", field="strategy")
    )  # fmt: skip
    line = _chart([dict.fromkeys(fields, end) for end in ends]).mark_line(strokeDash=[4, 4])
    errors = [abs(row[estimated] / row[measured] - 1) for row in known]
    chosen = ("run", "machine", "strategy", "devices", *fields)
    return figure(
        name, _sized(points + line.encode(x=x, y=y)),
        [{field: row[field] for field in chosen} for row in known], title=f"Estimated against measured {what}",
        alt_text=f"{len(known)} runs on logarithmic axes around the line of agreement; the median error is "
        f"{100 * float(np.median(errors)):.1f} %.",
    )  # fmt: skip


def _scatter(rows: Sequence[Row], name: str, field: str, label: str, *, facet: bool) -> Figure:
    alt = altair()
    known = _known(rows, "energy_kwh")
    chart = _chart(thinned(known)).mark_point(filled=True, opacity=0.6, size=30).encode(
        x=alt.X(f"{field}:Q", title=label, scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", labelOverlap=True)),
        y=alt.Y("energy_kwh:Q", title="energy, kWh", scale=alt.Scale(type="log")),
        color=colour_of([row["strategy"] for row in known], title="strategy", field="strategy"),
    )  # fmt: skip
    counts = len({row["devices"] for row in known})
    drawn: Any = _sized(chart)
    if facet and counts > 1:
        small = chart.properties(width=230, height=190)
        drawn = small.facet(facet=alt.Facet("devices:O", title="devices"), columns=2)
    medians = ", ".join(f"{series} {value}" for series, value in _medians(known, "strategy", "energy_kwh"))
    chosen = ("run", "machine", "strategy", "devices", field, "energy_kwh")
    return figure(
        name, drawn, [{key: row[key] for key in chosen} for row in known], title=f"Energy against {label}",
        alt_text=f"Energy of {len(known)} runs against {label}, both logarithmic. Median kWh: {medians}.",
    )  # fmt: skip


def _boxes(rows: Sequence[Row], name: str, fields: Sequence[str], title: str) -> Figure:
    alt = altair()
    labels = {"energy_kwh": "energy, kWh", "duration_h": "duration, h"}
    known = _known(rows, *fields)
    charts = [
        _chart([{key: row[key] for key in ("devices", "strategy", field)} for row in known])
        .mark_boxplot(size=14)
        .encode(
            x=alt.X("devices:O", title="devices", axis=alt.Axis(labelAngle=0)),
            xOffset="strategy:N",
            y=alt.Y(f"{field}:Q", title=labels[field], scale=alt.Scale(type="log")),
            color=colour_of(sorted({row["strategy"] for row in known}), title="strategy", field="strategy"),
        )
        .properties(width=WIDTH if len(fields) == 1 else 240, height=HEIGHT)
        for field in fields
    ]
    table = []
    for keys, _, count in _grouped(known, ("devices", "strategy"), fields[0]):
        row: Row = {"devices": keys[0], "strategy": keys[1], "runs": count}
        for field in fields:
            values = [one[field] for one in known if (one["devices"], one["strategy"]) == keys]
            low, mid, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
            row |= {f"{field} quartile": low, f"{field} median": mid, f"{field} upper quartile": high}
        table.append(row)
    least = min(table, key=lambda row: row[f"{fields[-1]} median"])
    return figure(
        name, charts[0] if len(charts) == 1 else alt.hconcat(*charts), table, title=title,
        alt_text=f"Boxes of {len(known)} runs by device count and strategy, on logarithmic axes. The lowest median "
        f"energy is that of {least['strategy']} on {least['devices']} device{'s' if least['devices'] > 1 else ''}.",
    )  # fmt: skip


def _chart(rows: Sequence[Row]) -> Any:
    alt = altair()
    return alt.Chart(alt.InlineData(values=list(rows)))


def _sized(chart: Any) -> Any:
    return chart.properties(width=WIDTH, height=HEIGHT)


def _known(rows: Sequence[Row], *fields: str) -> list[Row]:
    found = [row for row in rows if all(row[field] is not None for field in fields)]
    if not found:
        raise DataError(f"no record has {' and '.join(WORDS[field] for field in fields)}", given=f"{len(rows)} records")
    return found


def _grouped(rows: Sequence[Row], keys: Sequence[str], field: str) -> list[tuple[tuple[Any, ...], float, int]]:
    """Median and count of a field for each combination of the keys, in order."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row[field])
    return [(key, float(np.median(values)), len(values)) for key, values in sorted(groups.items())]


def _medians(rows: Sequence[Row], key: str, field: str) -> list[tuple[str, str]]:
    from wattlaw.report.quantities import digits

    return [(str(name[0]), digits(value)) for name, value, _ in _grouped(rows, (key,), field)]
