"""A prediction as a table for people and as a mapping for machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.law.footprint import Footprint
from wattlaw.law.interval import Interval
from wattlaw.law.prediction import Prediction
from wattlaw.report import quantities
from wattlaw.report.machine import as_builtins
from wattlaw.report.timing import timing_lines, timing_mapping
from wattlaw.run.spec import RunSpec
from wattlaw.units import JOULES_PER_KWH

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from wattlaw.footprint import Timing

#: A term of no larger share is none.
NOTHING = 1e-6

#: What the terms of the step law are, for people.
TERMS = {
    "compute": "matrix products",
    "memory": "memory traffic",
    "communication": "communication",
    "launch": "waiting for kernel launches",
    "pipeline": "waiting for the pipeline",
    "update": "optimizer",
    "evaluation": "evaluation",
    "setup": "set-up",
    "active": "devices being on",
    "host": "host",
}

#: What the columns are that a warning names, for people.
COLUMNS = {
    "block_flop": "FLOP of the blocks",
    "head_flop": "FLOP of embeddings and head",
    "block_traffic_bytes": "memory traffic of the blocks",
    "block_kernels": "kernels per step",
    "optimizer_traffic_bytes": "traffic of the optimizer",
    "stage_bytes": "bytes that PP moves",
    "shard_bytes": "bytes that FSDP moves",
    "gradient_bytes": "bytes of gradients that DDP moves",
    "tensor_bytes": "bytes that TP moves",
    "context_bytes": "bytes that CP moves",
    "expert_collectives": "exchanges with experts",
    "cap_share": "power cap",
    "num_devices": "devices",
    "num_nodes": "nodes",
    "compute_proxy": "FLOP",
    "memory_proxy": "memory traffic",
    "num_steps": "steps",
}


def prediction_mapping(
    spec: RunSpec,
    prediction: Prediction,
    footprint: Footprint,
    *,
    assumed: Mapping[str, Any] | None = None,
    timing: Timing | None = None,
    sources: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Lay a prediction out for ``--json``: energy, time, power, terms, where they come from, and doubts.

    Args:
        spec: of the run.
        prediction: of it.
        footprint: its money and carbon; what is not known is left out.
        assumed: choices that nobody made, with what they got.
        timing: of the start, where prices change with time.
        sources: of the figures behind money and carbon.
    """
    mapping: dict[str, Any] = as_builtins(prediction)
    found = {"run": title(spec), **mapping}
    found |= {name: value for name, value in as_builtins(footprint).items() if value is not None}
    if timing is not None:
        found["warnings"] = [*mapping["warnings"], *timing.warnings]
        found["timing"] = timing_mapping(timing, footprint)
    if sources:
        found["sources"] = dict(sources)
    return found if assumed is None else {**found, "assumed": dict(assumed)}


def title(spec: RunSpec) -> str:
    """Name a run in a line."""
    layout = spec.layout
    model = spec.name or spec.architecture.name or spec.architecture.family
    devices = f"{int(layout.num_devices)} x {spec.accelerator.full_name}"
    nodes = f" on {int(layout.num_nodes)} nodes" if layout.num_nodes > 1 else ""
    return f"{model}, {layout.strategy} on {devices}{nodes}, {spec.recipe.precision}"


def prediction_text(
    spec: RunSpec,
    prediction: Prediction,
    footprint: Footprint,
    *,
    assumed: Mapping[str, Any] | None = None,
    timing: Timing | None = None,
    sources: Mapping[str, str] | None = None,
) -> Group:
    """Show one prediction: what it takes, where that goes, what was taken for granted, and what to doubt."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text(title(spec), style="bold"), _totals(prediction, footprint)]
    parts.append(_terms(prediction))
    parts += [Text(line) for line in timing_lines(timing, footprint)]
    dim = [provenance(prediction), *(f"{name}: {source}" for name, source in (sources or {}).items())]
    if assumed:
        dim.append(f"assumed: {', '.join(_choices(assumed))}")
    parts += [Text(line, style="dim") for line in dim]
    warnings = [*prediction.warnings, *(timing.warnings if timing else ())]
    parts += [Text(f"! {for_people(warning)}", style="yellow") for warning in warnings]
    return Group(*parts)


def _choices(assumed: Mapping[str, Any]) -> list[str]:
    """Name what was chosen for the user, without the numbers that mean that nothing of it is done."""
    neutral = {"grad_accumulation", "predicted_fraction", "packed_sequences", "adapter_rank", "evaluation_fraction"}
    return [f"{name.replace('_', ' ')} {value}" for name, value in assumed.items() if name not in neutral]


def _totals(prediction: Prediction, footprint: Footprint) -> Table:
    from rich.table import Table

    level = f"{100 * prediction.energy_j.level:g} % interval"
    table = Table("", "expected", level, box=None, pad_edge=False, header_style="dim")
    energy = prediction.energy_j
    table.add_row(
        f"energy ({prediction.boundary or 'boundary unknown'})",
        quantities.energy(energy.mid),
        quantities.interval(energy, quantities.energy),
    )
    if prediction.duration_s is not None:
        time = prediction.duration_s
        table.add_row("time", quantities.duration(time.mid), quantities.interval(time, quantities.duration))
    if prediction.power_w is not None:
        table.add_row("mean power", quantities.power(prediction.power_w), "")
    counted = footprint.counted_boundary or "boundary unknown"
    rows: tuple[tuple[str, Interval | None, Callable[[float], str]], ...] = (
        ("energy (facility)", footprint.facility_energy_j, quantities.energy),
        (f"carbon ({counted})", footprint.carbon_g, quantities.mass),
        ("embodied carbon", footprint.embodied_g, quantities.mass),
        (f"cost of electricity ({counted})", footprint.electricity_cost, quantities.digits),
        ("cost of devices", footprint.device_cost, quantities.digits),
    )
    for name, found, write in rows:
        if found is not None:
            table.add_row(name, write(found.mid), quantities.interval(found, write))
    if footprint.money is not None and None not in (footprint.electricity_cost, footprint.device_cost):
        total = footprint.money
        table.add_row("cost in all", quantities.digits(total.mid), quantities.interval(total, quantities.digits))
    return table


def _terms(prediction: Prediction) -> Table:
    from rich.table import Table

    table = Table("where it goes", "energy", "share", "time", "share", box=None, pad_edge=False, header_style="dim")
    energy, time = prediction.terms_j, prediction.terms_s
    for name in dict.fromkeys([*energy, *time]):
        joules, seconds = energy.get(name), time.get(name)
        if abs(joules or 0) <= NOTHING * sum(energy.values()) and (seconds or 0) <= NOTHING * sum(time.values()):
            continue
        table.add_row(
            TERMS.get(name, name.replace("_", " ")),
            "" if joules is None else quantities.energy(joules),
            "" if joules is None else f"{joules / prediction.energy_j.mid:.0%}",
            "" if seconds is None else quantities.duration(seconds),
            "" if seconds is None or prediction.duration_s is None else f"{seconds / prediction.duration_s.mid:.0%}",
        )
    return table


def provenance(prediction: Prediction) -> str:
    """Say in a line what was measured on such a machine, and what the law was fitted to; ``--json`` has all of it."""
    law, _, source = prediction.calibration.partition(": ")
    brief = source.partition("; ")[0].partition(", from ")[0]
    return f"{_known(prediction)}; modelled by the {law} law, fitted to {brief}"


def _known(prediction: Prediction) -> str:
    if prediction.cold:
        return "cold"
    state = "time warm, energy cold" if prediction.energy_cold else "warm"
    runs = sum(prediction.num_runs.values())
    return f"{state}, from {quantities.counted(runs, 'run')} on such accelerators" if runs else state


def for_people(warning: str) -> str:
    """Name the columns in a warning by what they are."""
    return re.sub(r"\b\w+\b", lambda word: COLUMNS.get(word[0], word[0]) if "_" in word[0] else word[0], warning)


def comparison_rows(rows: Sequence[tuple[RunSpec, Prediction]]) -> list[dict[str, Any]]:
    """Lay the runs out for a figure: kilowatt-hours and minutes, as people read them."""
    return [
        {
            "strategy": spec.layout.strategy,
            "devices": int(spec.layout.num_devices),
            "energy_kwh": prediction.energy_j.mid / JOULES_PER_KWH,
            "energy_kwh_low": prediction.energy_j.low / JOULES_PER_KWH,
            "energy_kwh_high": prediction.energy_j.high / JOULES_PER_KWH,
            "time_min": prediction.duration_s.mid / 60,
        }
        for spec, prediction in rows
        if prediction.duration_s is not None
    ]
