"""A probe for people and for machines: its figures, and what they make of the law's parameters."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Group
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from wattlaw.report.progress import bar
from wattlaw.report.quantities import digits, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wattlaw.law.probed import HostCalibration
    from wattlaw.measure.probe import Figure, Probe, Progress

_STYLES = {"measured": "green", "moved along": "yellow", "prior": "dim"}
#: Factors that make a number of this unit readable.
_READABLE = {"flop/s": (1e9, "Gflop/s"), "B/s": (1e9, "GB/s"), "W": (1.0, "W"), "1": (1.0, "")}


def probe_document(probe: Probe, host: HostCalibration, *, output: Path, figures: Path) -> dict[str, Any]:
    """Lay a probe out for ``--json``."""
    return {
        "output": str(output),
        "figures": str(figures),
        "probe": msgspec.to_builtins(probe),
        "parameters": msgspec.to_builtins(host.parameters),
        "warnings": list(host.calibration.warnings),
        "provenance": dict(host.calibration.provenance),
    }


def probe_text(probe: Probe, host: HostCalibration, *, output: Path, figures: Path) -> Group:
    """Show what was measured, what was not and why, and what the law makes of it."""
    heading = f"{probe.accelerator} ({probe.device}), probed in {duration(probe.duration_s)}"
    known = [(name, figure) for name, figure in probe.measured.items() if figure is not None]
    return Group(
        Text(heading, style="bold"),
        _figures(known),
        *(Text(line, style="dim") for line in _unavailable(probe)),
        Text(""),
        _parameters(host),
        *(Text(f"! {warning}", style="yellow") for warning in host.calibration.warnings),
        Text(f"calibration in {output}, figures in {figures}"),
    )


def _figures(known: list[tuple[str, Figure]]) -> Table:
    table = Table("figure", box=None, pad_edge=False, header_style="dim")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("spread", justify="right")
    table.add_column("samples", justify="right")
    for name, figure in known:
        value, unit = _readable(figure)
        table.add_row(name, value, unit, f"{figure.spread:.0%}", str(figure.num_samples))
    return table


def _readable(figure: Figure) -> tuple[str, str]:
    if figure.unit == "s":
        value, _, unit = (
            f"{digits(figure.value * 1e6)} us" if figure.value < 1e-3 else duration(figure.value)
        ).partition(" ")
        return value, unit
    factor, unit = _READABLE.get(figure.unit, (1.0, figure.unit))
    return digits(figure.value / factor), unit


def _unavailable(probe: Probe) -> Iterator[str]:
    """Say once per reason what was not measured."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in probe.unavailable.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        shown = ", ".join(names) if len(names) <= 4 else f"{names[0]} and {len(names) - 1} more"
        yield f"not measured: {shown}: {reason}"


def _parameters(host: HostCalibration) -> Table:
    table = Table("parameter", box=None, pad_edge=False, header_style="dim")
    for heading in ("before", "now", "spread"):
        table.add_column(heading, justify="right")
    table.add_column("from")
    for one in host.parameters:
        origin = f"{one.origin}: {', '.join(one.told_by)}" if one.told_by else one.origin
        row = (digits(one.before), digits(one.value), f"{one.spread:.0%}")
        table.add_row(one.name, *row, Text(origin, style=_STYLES[one.origin]))
    return table


@contextmanager
def probe_progress(*, shown: bool) -> Iterator[Callable[[Progress], None]]:
    """Show which part is measured and how far it all is."""
    with bar(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), shown=shown) as drawn:
        if drawn is None:
            yield lambda _: None
            return
        task = drawn.add_task("starting", total=1.0)

        def watch(progress: Progress) -> None:
            drawn.update(task, description=progress.part, completed=progress.done_fraction)

        yield watch
