"""Measured times of modules as tables for people and as a mapping for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattlaw.report import quantities
from wattlaw.report.machine import as_builtins
from wattlaw.report.prediction import title

if TYPE_CHECKING:
    from rich.table import Table

    from wattlaw.measure.module_times import ModuleTimes


def modules_document(times: Sequence[ModuleTimes], path: Path) -> dict[str, Any]:
    """Lay the times out for ``--json``."""
    runs = [
        {
            "run": title(one.spec),
            "pass_s": one.pass_s,
            "update_s": one.update_s,
            "num_steps": one.num_steps,
            "parts": as_builtins(one.parts),
        }
        for one in times
    ]
    return {"output": str(path), "configurations": runs}


def modules_tables(times: Sequence[ModuleTimes]) -> Iterator[Table]:
    """Show the time of each part, blocks together: one table per configuration."""
    from rich.table import Table

    for one in times:
        heading = f"{title(one.spec)}: forward and backward pass {quantities.duration(one.pass_s)} without hooks"
        table = Table("part", title=heading, title_justify="left", box=None, pad_edge=False, header_style="dim")
        for name in ("forward", "backward", "share"):
            table.add_column(name, justify="right")
        whole = sum(one.by_part().values())
        for part in one.by_part():
            own = [each for each in one.parts if each.part == part]
            forward_s, backward_s = sum(each.forward_s for each in own), sum(each.backward_s for each in own)
            share = f"{(forward_s + backward_s) / whole:.1%}"
            table.add_row(part, quantities.duration(forward_s), quantities.duration(backward_s), share)
        yield table
