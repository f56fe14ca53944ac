"""A comparison of runs as tables for people and as a mapping for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.plan.compare import Chances, Comparison
from wattlaw.report import quantities
from wattlaw.report.machine import as_builtins
from wattlaw.report.prediction import for_people, prediction_mapping, title

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from wattlaw.law.footprint import Footprint


def comparison_mapping(comparison: Comparison, footprints: Sequence[Footprint]) -> dict[str, Any]:
    """Lay a comparison out for ``--json``: the prediction of each run, and the chances, row less than column."""
    runs = [
        {
            **prediction_mapping(spec, prediction, footprint),
            "trained_tokens": tokens,
            "energy_j_per_token": prediction.energy_j.mid / tokens,
        }
        for spec, prediction, footprint, tokens in zip(
            comparison.specs, comparison.predictions, footprints, comparison.trained_tokens, strict=True
        )
    ]
    names = ("energy", "duration", "energy_per_token", "assumption")
    chances = {name: as_builtins(getattr(comparison, name)) for name in names}
    return {"runs": runs, "chances": chances, "warnings": list(comparison.warnings)}


def comparison_text(comparison: Comparison, footprints: Sequence[Footprint], labels: Sequence[str]) -> Group:
    """Show runs side by side, then how sure it is which of two takes less."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [
        Text(f"{label}  {title(spec)}", style="bold") for label, spec in zip(labels, comparison.specs, strict=True)
    ]
    parts += [Text(""), _side_by_side(comparison, footprints, labels)]
    for name, found in (
        ("energy", comparison.energy),
        ("time", comparison.duration),
        *([] if comparison.same_amount else [("energy per token", comparison.energy_per_token)]),
    ):
        if found is not None:
            parts += [Text(f"\nchance that the row takes less {name} than the column", style="bold")]
            parts.append(_matrix(found, labels))
    if not comparison.same_amount:
        parts.append(Text("\n! these runs do not train on the same number of tokens", style="yellow"))
    parts.append(Text(f"\n({comparison.assumption})", style="dim"))
    own = (warning for one in comparison.predictions for warning in one.warnings)
    warnings = dict.fromkeys([*comparison.warnings, *own])
    parts += [Text(f"! {for_people(warning)}", style="yellow") for warning in warnings]
    return Group(*parts)


def _side_by_side(comparison: Comparison, footprints: Sequence[Footprint], labels: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table("", *labels, box=None, pad_edge=False, header_style="dim")
    predictions = comparison.predictions
    level = f"{100 * predictions[0].energy_j.level:g} % interval"
    table.add_row("energy", *(quantities.energy(one.energy_j.mid) for one in predictions))
    table.add_row(level, *(quantities.interval(one.energy_j, quantities.energy) for one in predictions), style="dim")
    times = [one.duration_s for one in predictions]
    table.add_row("time", *("-" if one is None else quantities.duration(one.mid) for one in times))
    table.add_row(
        level, *("-" if one is None else quantities.interval(one, quantities.duration) for one in times), style="dim"
    )
    powers = [one.power_w for one in predictions]
    table.add_row("mean power", *("-" if one is None else quantities.power(one) for one in powers))
    per_token = [one.energy_j.mid / tokens for one, tokens in zip(predictions, comparison.trained_tokens, strict=True)]
    table.add_row("energy per token", *(f"{quantities.digits(1e3 * one)} mJ" for one in per_token))
    for name, field, write in (
        ("carbon", "carbon_g", quantities.mass),
        ("embodied carbon", "embodied_g", quantities.mass),
        ("money", "money", quantities.digits),
    ):
        found = [getattr(one, field) for one in footprints]
        if any(one is not None for one in found):
            table.add_row(name, *("-" if one is None else write(one.mid) for one in found))
    return table


def _matrix(found: Chances, labels: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table("", *labels, box=None, pad_edge=False, header_style="dim")
    for row, (label, values) in enumerate(zip(labels, found, strict=True)):
        table.add_row(label, *("" if row == place else f"{value:.0%}" for place, value in enumerate(values)))
    return table
