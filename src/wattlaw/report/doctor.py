"""The diagnosis of a machine's meters, for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wattlaw.measure.doctor import Diagnosis
from wattlaw.measure.reading import DeviceEnergy, Reading

_STYLES = {"works": "green", "doubtful": "yellow", "denied": "red", "absent": "dim", "not installed": "dim"}


def diagnosis_table(diagnosis: Diagnosis) -> RenderableType:
    """Lay out a diagnosis: sensors, a trial reading, doubts, versions."""
    parts: list[RenderableType] = [_sensors(diagnosis), _verdict(diagnosis)]
    if diagnosis.trial is not None:
        parts.append(_trial(diagnosis.trial))
        parts += [Text(f"{warning.kind}: {warning}", style="yellow") for warning in diagnosis.trial.warnings]
    parts += [
        Text(
            f"{entry.device}: limit {entry.set_w:g} W was left behind by process {entry.process}; "
            f"wattlaw doctor --restore gives back {entry.previous_w:g} W",
            style="red",
        )
        for entry in diagnosis.left_over
    ]
    parts.append(Text(", ".join(f"{name} {version}" for name, version in diagnosis.versions.items()), style="dim"))
    return Group(*parts)


def _sensors(diagnosis: Diagnosis) -> Group:
    lines: list[RenderableType] = [Text(f"What can be measured on {diagnosis.place}", style="bold")]
    for finding in diagnosis.findings:
        state = Text(f"  {finding.state}", style=_STYLES[finding.state])
        lines.append(Text.assemble(finding.subject, state))
        told = [("there", finding.detail), ("means", finding.meaning), ("do", finding.remedy)]
        grid = Table.grid(padding=(0, 1))
        grid.add_column(min_width=7, justify="right", style="dim")
        grid.add_column(overflow="fold")
        for word, text in told:
            if text:
                grid.add_row(word, Text(text))
        lines.append(grid)
    return Group(*lines)


def _verdict(diagnosis: Diagnosis) -> Text:
    if diagnosis.measurable:
        return Text(f"Energy of {', '.join(diagnosis.measurable)} is measured here.")
    return Text("No energy is measured here: runs are recorded with their time, and their energy as unknown.")


def _trial(reading: Reading) -> Table:
    table = Table(
        title=f"Trial of {reading.duration_s:.2g} s, nothing asked of the devices",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("device", overflow="fold")
    table.add_column("boundary")
    table.add_column("method")
    for heading in ("mean power", "error at most", "counter period", "power vs counter"):
        table.add_column(heading, justify="right")
    for entry in reading.energies:
        table.add_row(
            Text(f"{entry.name} {entry.device}"), entry.boundary, entry.method or "not measured", *_cells(entry)
        )
    return table


def _cells(entry: DeviceEnergy) -> tuple[str, str, str, str]:
    difference = entry.cross_check.relative_difference if entry.cross_check else None
    return (
        _shown(entry.mean_power_w, "W"),
        _shown(entry.uncertainty_j, "J"),
        _shown(entry.counter_period_s, "s"),
        "" if difference is None else f"{difference:+.1%}",
    )


def _shown(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:.3g} {unit}"
