"""Suggested runs as text, as a mapping and as the comment of their sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattlaw.law.design import MOST_RANDOM
from wattlaw.law.suggestion import Suggestion
from wattlaw.report import quantities
from wattlaw.run.spec_file import spec_to_mapping

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from wattlaw.run.spec import RunSpec

#: First words of a file of suggested runs, by which it is known as such.
WRITTEN_BY = "Chosen by wattlaw suggest from"


def suggestion_mapping(found: Suggestion, output: Path | None) -> dict[str, Any]:
    """Lay a suggestion out for ``--json``."""
    return {
        "machine": found.machine,
        "cold": found.cold,
        "num_candidates": found.num_candidates,
        "num_too_large": found.num_too_large,
        "num_too_dear": found.num_too_dear,
        "runs": [
            {
                "spec": spec_to_mapping(run.spec),
                "duration_s": run.duration_s,
                "energy_j": run.energy_j,
                "spread_after": dict(run.spread_after),
            }
            for run in found.runs
        ],
        "duration_s": found.duration_s,
        "energy_j": found.energy_j,
        "spread_before": dict(found.spread_before),
        "spread_after": dict(found.spread_after),
        "noise": dict(found.noise),
        "num_random_runs": found.num_random,
        "output": None if output is None else str(output),
    }


def suggestion_text(found: Suggestion, output: Path | None) -> Group:
    """Show the runs in the order of what they teach, what they cost and what is then known."""
    from rich.console import Group
    from rich.text import Text

    known = "nothing measured on it yet" if found.cold else "some runs measured on it"
    heading = f"{found.machine} ({known}): {len(found.runs)} of {quantities.counted(found.num_candidates, 'candidate')}"
    lines = [Text(line) for line in suggestion_notes(found)]
    if found.num_too_large:
        large = quantities.counted(found.num_too_large, "candidate")
        lines.append(Text(f"{large} left out: more memory than a device has", style="dim"))
    if found.num_too_dear:
        lines.append(
            Text(f"{quantities.counted(found.num_too_dear, 'candidate')} alone would exceed the budget", style="dim")
        )
    if output is not None:
        lines.append(Text(f"sweep in {output}: wattlaw measure {output} -o runs/"))
    return Group(Text(heading, style="bold", no_wrap=True, overflow="ignore"), _runs(found), *lines)


def suggestion_notes(found: Suggestion) -> tuple[str, ...]:
    """Say in plain lines what the runs cost together and what they are worth."""
    total = (
        f"about {quantities.duration(found.duration_s)} and {quantities.energy(found.energy_j)} in all, as predicted"
    )
    before, after = (_factors(each) for each in (found.spread_before, found.spread_after))
    noise = f"the law's own error, {_factors(found.noise)}, comes on top"
    if found.num_random is None:
        alike = f"more than {MOST_RANDOM} random runs would be needed for the same, or all there are"
    else:
        alike = f"random choice needs {quantities.counted(found.num_random, 'run')} for the same"
    return (total, f"expected error of what is to be predicted: {before} before, {after} after; {noise}", alike)


def _runs(found: Suggestion) -> Table:
    from rich.table import Table

    table = Table("run", box=None, pad_edge=False, header_style="dim")
    for heading in ("time", "energy", "expected error after it"):
        table.add_column(heading, justify="right")
    for run in found.runs:
        error = _factors(run.spread_after)
        table.add_row(_said(run.spec), quantities.duration(run.duration_s), quantities.energy(run.energy_j), error)
    return table


def _factors(spread: Mapping[str, float]) -> str:
    shown = {"energy": "energy", "duration": "time"}
    return ", ".join(f"x{math.exp(spread[name]):.2f} {word}" for name, word in shown.items() if name in spread)


def _said(spec: RunSpec) -> str:
    model, recipe, layout = spec.architecture, spec.recipe, spec.layout
    stack = f"{model.family} {model.num_layers:g} x {model.hidden_size:g}"
    batch = f"batch {recipe.batch_size:g}, length {recipe.seq_len:g}"
    more = f", accumulation {recipe.grad_accumulation:g}" if recipe.grad_accumulation != 1 else ""
    devices = f" on {layout.num_devices:g}" if layout.num_devices != 1 else ""
    return f"{stack}, {batch}{more}, {recipe.precision}, {layout.strategy}{devices}"
