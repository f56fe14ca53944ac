"""Traces of Zeus: the power traces of its paper, and the logs that its monitor writes.

Neither says what was trained in enough detail, so the user's spec fills in what they know; without one, the records
keep what the trace states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.errors import DataError, FileError, WattlawError
from wattlaw.run.importers.build import build_record, check_filled
from wattlaw.run.importers.result import Import, Skipped
from wattlaw.run.importers.rows import Row, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wattlaw.run.record import RunRecord

#: Header of the power traces: one row is an epoch of one network at a batch size and a power limit.
#: You et al. 2023, NSDI'23, repository ml-energy/zeus, examples/research_reproducibility/zeus_nsdi23/trace.
POWER_TRACE = (
    "dataset",
    "network",
    "batch_size",
    "optimizer",
    "power_limit",
    "time_per_epoch",
    "average_power",
)
#: Header of a monitor's log, before one column of energy per GPU: one row is a measured window.
MONITOR_LOG = ("start_time", "window_name", "elapsed_time")

#: Networks of the traces that are Transformers, by the names that wattlaw has for them.
PRESETS = {"bert_base_uncased": "bert-base-uncased"}


def import_zeus(path: str | Path, *, gpu: str | None = None, spec: Mapping[str, Any] | None = None) -> Import:
    """Turn a trace of Zeus into records.

    Args:
        path: a power trace of the paper, or the log of a ``ZeusMonitor``.
        gpu: the accelerator, which the file does not name; it may be in ``spec`` instead.
        spec: tables of a run spec with what the file does not state: the length of the sequences, their number in
            an epoch, the precision. A row that states something else is skipped.

    Raises:
        FileError: the file is none of the two kinds.
    """
    rows = read_rows(path)
    if set(POWER_TRACE) <= set(rows.columns):
        build = _epoch
    elif set(MONITOR_LOG) <= set(rows.columns):
        build = _window
    else:
        allowed = f"{','.join(POWER_TRACE)} | {','.join(MONITOR_LOG)},gpu0_energy"
        raise FileError("not a trace of Zeus", given=",".join(rows.columns), allowed=allowed).at(rows.path)
    filled = check_filled(spec or {})
    hardware = {} if gpu is None else {"gpu": gpu}
    records, skipped = [], list(rows.skipped)
    for row in rows.rows:
        try:
            records.append(build(row, f"{rows.path.stem}:{row.line}", hardware, filled))
        except WattlawError as error:
            skipped.append(Skipped(row=row.line, reason=str(error)))
    return Import(records=tuple(records), skipped=tuple(sorted(skipped, key=lambda one: one.row)))


def _epoch(row: Row, record_id: str, hardware: Mapping[str, Any], spec: Mapping[str, Any]) -> RunRecord:
    network = row.text("network") or ""
    if network not in PRESETS:
        raise DataError("not a Transformer", given=repr(network), allowed=", ".join(PRESETS)).at("column network")
    duration_s, power_w = row.number("time_per_epoch"), row.number("average_power")
    energy_j = None if duration_s is None or power_w is None else duration_s * power_w
    recipe = {"batch_size": row.number("batch_size"), "optimizer": row.text("optimizer"), "epochs": 1}
    return build_record(
        tables={
            "model": {"preset": PRESETS[network]},
            "recipe": _known(recipe),
            "hardware": _known({**hardware, "power_limit_w": row.number("power_limit")}),
            # The traces are of one GPU.
            "layout": {"strategy": "single", "num_devices": 1, "num_nodes": 1},
        },
        filled=spec,
        record_id=record_id,
        duration_s=duration_s,
        energies=[_energy(energy_j, "integrated", "mean board power times time, from NVML")],
        observed=_known({"power_w": power_w}),
        source="Zeus power trace",
        environment=_known({"dataset": row.text("dataset")}),
    )


def _window(row: Row, record_id: str, hardware: Mapping[str, Any], spec: Mapping[str, Any]) -> RunRecord:
    columns = [name for name in row.cells if name.startswith("gpu") and name.endswith("_energy")]
    energies_j = [row.number(column) for column in columns]
    known = [one for one in energies_j if one is not None]
    return build_record(
        tables={"hardware": hardware, "layout": {"num_devices": len(columns)} if columns else {}},
        filled=spec,
        record_id=record_id,
        duration_s=row.number("elapsed_time"),
        # One GPU that is not known makes the sum unknown.
        energies=[_energy(sum(known) if len(known) == len(columns) else None, "counter", "Zeus monitor, from NVML")],
        source="Zeus monitor log",
        environment=_known({"window": row.text("window_name")}),
    )


def _energy(energy_j: float | None, method: str, source: str) -> dict[str, Any]:
    # A sensor that was not read says 0: unknown, and no measurement.
    return {"energy_j": energy_j or None, "boundary": "accelerators", "method": method, "source": source}


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
