"""Published trainings as examples: what was published, what the law says, and the run to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.report.machine import as_builtins
from wattlaw.report.published import compared_with_published

if TYPE_CHECKING:
    from wattlaw.report.published import Comparison, PublishedRun


def examples() -> dict[str, Any]:
    """Lay out the published trainings beside their predictions."""
    return {"rows": [_row(one) for one in compared_with_published()]}


def _row(one: Comparison) -> dict[str, Any]:
    run = one.run
    return {
        "name": run.name,
        "source": run.source,
        "basis": "; ".join(
            part for part in (run.scope, run.assumed and f"assumed: {run.assumed}", run.not_predicted) if part
        ),
        "devices": _devices(run),
        "published_j": run.energy_j,
        "published_device_hours": run.device_hours,
        "circular": run.circular,
        "energy_j": as_builtins(one.energy_j),
        "predicted_device_hours": one.device_hours,
        "run": None if run.not_predicted else {"name": run.name, **run.tables},
        "prices": {} if run.pue is None else {"pue": run.pue},
    }


def _devices(run: PublishedRun) -> str:
    if run.not_predicted:
        return ""
    return f"{run.tables['layout']['num_devices']:,} x {run.tables['hardware']['gpu']}"
