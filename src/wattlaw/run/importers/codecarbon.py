"""CodeCarbon's ``emissions.csv``: what it measured of runs that the user describes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from wattlaw.errors import DataError, UnknownNameError, WattlawError
from wattlaw.hardware import accelerator
from wattlaw.run.importers.result import Import, Skipped
from wattlaw.run.importers.rows import Row, Rows, read_rows
from wattlaw.run.record import Energy, RunRecord
from wattlaw.units import JOULES_PER_KWH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wattlaw.run.spec import RunSpec

#: Columns that every version of CodeCarbon since 2.0 writes and that a record needs.
NEEDED = ("run_id", "duration", "cpu_energy", "gpu_energy", "ram_energy", "energy_consumed")

#: Columns that say where and with what a run was measured.
ENVIRONMENT = (
    "timestamp",
    "project_name",
    "codecarbon_version",
    "python_version",
    "os",
    "cpu_model",
    "gpu_count",
    "gpu_model",
    "tracking_mode",
    "country_iso_code",
    "region",
    "cloud_provider",
    "pue",
)

#: Sums of the components may differ from the total by this part before they count as different.
ROUNDING = 1e-3


def import_codecarbon(path: str | Path, *, spec: RunSpec) -> Import:
    """Turn an ``emissions.csv`` into records.

    CodeCarbon does not know what was trained, so the user's spec says it, for every row. The energy of the GPUs,
    read from their counters, has the boundary ``accelerators``; GPUs, CPU and RAM together, of which the last two are
    models, have the boundary ``node``. Where a PUE was set, every energy of the file holds it (mlco2/codecarbon issue
    1320): what devices and node drew is that much less, and the total has the boundary ``facility``. A component that
    is 0 was not measured and is unknown, and so is a node without it.

    Args:
        path: the file.
        spec: what was run. A row that measured other or more GPUs than the spec has is skipped: CodeCarbon counts
            every GPU of the machine where it is not told which.

    Raises:
        FileError: the file cannot be read.
        UnknownNameError: it is not of CodeCarbon: a column is missing.
    """
    rows = read_rows(path)
    rows.require_columns(*NEEDED)
    last = {row.text("run_id"): row.line for row in rows.rows}
    records, skipped = [], list(rows.skipped)
    for row in rows.rows:
        try:
            if last[row.text("run_id")] != row.line:
                raise DataError("an earlier reading of a run that a later row completes", given=row.text("run_id"))
            records.append(_record(row, rows, spec))
        except WattlawError as error:
            skipped.append(Skipped(row=row.line, reason=str(error)))
    return Import(records=tuple(records), skipped=tuple(sorted(skipped, key=lambda one: one.row)))


def _record(row: Row, rows: Rows, spec: RunSpec) -> RunRecord:
    _check_devices(spec, row, rows)
    pue = _pue(row, rows)
    written = {name: _joules(row, f"{name}_energy") for name in ("gpu", "cpu", "ram")}
    parts = {name: None if energy_j is None else energy_j / pue for name, energy_j in written.items()}
    total_j = _joules(row, "energy_consumed")
    _check_sum(written, total_j)
    observed = {**{f"{name}_energy_j": energy_j for name, energy_j in parts.items()}, "total_energy_j": total_j}
    return RunRecord(
        record_id=row.text("run_id") or f"{rows.path.stem}:{row.line}",
        spec=spec,
        duration_s=row.number("duration"),
        energies=tuple(_energies(parts, total_j, pue)),
        observed={name: value for name, value in observed.items() if value is not None},
        source="CodeCarbon emissions.csv",
        environment={name: text for name in ENVIRONMENT if name in rows.columns and (text := row.text(name))},
    )


def _energies(parts: Mapping[str, float | None], total_j: float | None, pue: float) -> Iterator[Energy]:
    if parts["gpu"] is not None:
        yield Energy(energy_j=parts["gpu"], boundary="accelerators", method="counter", source="CodeCarbon, from NVML")
    known = [energy_j for energy_j in parts.values() if energy_j is not None]
    if len(known) < len(parts):
        return
    yield Energy(
        energy_j=sum(known),
        boundary="node",
        method="mixed",
        source="CodeCarbon: GPUs read from NVML, CPU and RAM modelled",
    )
    if total_j is not None and pue != 1:
        yield Energy(energy_j=total_j, boundary="facility", method="mixed", source=f"CodeCarbon, with PUE {pue:g}")


def _pue(row: Row, rows: Rows) -> float:
    """Return what the row's energies were multiplied by; 1 where the version knew no PUE."""
    pue = _optional(row, rows, "pue")
    if pue is None:
        return 1.0
    if pue < 1:
        raise DataError("a facility takes no less than its machines", given=pue, allowed=">= 1").at("column pue")
    return pue


def _check_sum(parts: Mapping[str, float | None], total_j: float | None) -> None:
    """Refuse a row whose total is not that of its parts: what it includes is then unknown."""
    known = [energy_j for energy_j in parts.values() if energy_j is not None]
    if total_j is None or len(known) < len(parts) or math.isclose(total_j, sum(known), rel_tol=ROUNDING):
        return
    raise DataError("not the sum of its parts", given=f"{total_j:.6g} J", allowed=f"{sum(known):.6g} J").at(
        "column energy_consumed"
    )


def _check_devices(spec: RunSpec, row: Row, rows: Rows) -> None:
    """Refuse a row that measured other devices than the spec has; what the row does not name is not checked."""
    count = _optional(row, rows, "gpu_count")
    if count is not None and count != spec.layout.num_devices:
        raise DataError("the row and the spec disagree", given=count, allowed=spec.layout.num_devices).at(
            "column gpu_count"
        )
    model = re.sub(r"^\d+ x ", "", (row.text("gpu_model") or "") if "gpu_model" in rows.columns else "")
    try:
        found = accelerator(model).name if model else spec.accelerator.name
    except UnknownNameError:
        return
    if found != spec.accelerator.name:
        raise DataError("the row and the spec disagree", given=model, allowed=spec.accelerator.name).at(
            "column gpu_model"
        )


def _joules(row: Row, column: str) -> float | None:
    energy_kwh = row.number(column)
    # CodeCarbon writes 0 for a component that it could not read.
    return energy_kwh * JOULES_PER_KWH if energy_kwh else None


def _optional(row: Row, rows: Rows, column: str) -> float | None:
    return row.number(column) if column in rows.columns else None
