"""The parts of ``gpu_check.sh`` that are no commands of wattlaw: the GPU's name, counter and power, the summary."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from probe_check import check

from wattlaw.errors import MeterError, WattlawError
from wattlaw.hardware import accelerator
from wattlaw.law.calibration import Calibration
from wattlaw.measure import Reading, SampledMeter
from wattlaw.measure.meters import nvml, replay
from wattlaw.measure.probe.load import LOADS
from wattlaw.measure.probe.runner import RANK_COMMAND
from wattlaw.measure.sweep.metering import first_devices
from wattlaw.measure.sweep.pool import Pool
from wattlaw.run import RunRecord, read_records

#: Between two reads of power; short, since what is compared is power integrated from these reads.
SAMPLE_INTERVAL_S = 0.02
#: Beyond this a difference is more than the sensor's own error (Yang et al. 2023, arXiv 2312.02741).
TOLERATED_FRACTION = 0.05
#: Records with energy that a check must bring home.
FEWEST_RECORDS = 120


def show_gpu(_: argparse.Namespace) -> int:
    """Print the driver's name of the first visible GPU, or of the CPU's stand-in."""
    sensors = nvml.discover(first_devices(os.environ, 1)).sensors
    print(sensors[0].info.name if sensors else "generic-cpu")
    return 0


def compare_counter(options: argparse.Namespace) -> int:
    """Hold the energy counter against integrated power, idle and under three loads; each reading is kept at once."""
    sensors = nvml.discover(first_devices(os.environ, 1)).sensors
    if not sensors:
        print("no NVIDIA GPU: nothing to compare")
        return 0
    window_s = options.seconds / (options.repeats * (1 + len(LOADS)) * 1.3)
    meter = SampledMeter(sensors, short_window="widen", sample_interval_s=SAMPLE_INTERVAL_S)
    with tempfile.TemporaryDirectory() as folder:
        pool = Pool(1, device=options.device, log=Path(folder) / "ranks.log", command=RANK_COMMAND)
        with closing(pool):
            pool.start()
            for _ in range(options.repeats):
                for state in ("idle", *LOADS):
                    _keep(options.output, state, _metered(meter, pool, state, options.precision, window_s))
    return 0


def _metered(meter: SampledMeter, pool: Pool, state: str, precision: str, window_s: float) -> Reading:
    """Meter one window; the pool's rank says when the load begins and ends."""
    if state == "idle":
        time.sleep(1.0)  # power falls for a while after a load
        meter.start()
        time.sleep(window_s)
        return meter.stop()
    readings: list[Reading] = []
    load = {"do": "load", "kind": state, "precision": precision, "warmup_s": 0.3 * window_s, "duration_s": window_s}
    try:
        pool.ask(load, timeout_s=60 + 3 * window_s, midway=meter.start, after=lambda: readings.append(meter.stop()))
    finally:
        meter.cancel()
    if not readings:
        raise MeterError("the load did not run", given=state)
    return readings[0]


def _keep(path: Path, state: str, reading: Reading) -> None:
    replay.append(path, reading)
    entry = reading.energies[0]
    difference = entry.cross_check.relative_difference if entry.cross_check else None
    shown = "no counter beside the power" if difference is None else f"integrated over counter {difference:+.2%}"
    power = "unknown" if entry.mean_power_w is None else f"{entry.mean_power_w:.1f} W"
    print(f"{state}: {power} over {reading.duration_s:.2f} s, {shown}", flush=True)


def summarise(options: argparse.Namespace) -> int:
    """Gather what the stages brought home; a stage that left nothing is null, and the check then fails."""
    records = [record for path in options.folder.glob("runs/*/records.jsonl") for record in read_records(path)]
    host = options.folder / "host.json"
    counter = options.folder / "readings.jsonl"
    summary: dict[str, Any] = {
        "rehearsal": options.rehearsal,
        "stages": _stages(options.folder / "stages.txt"),
        "sweep": _sweep(records) if records else None,
        "probe": _probe(options.folder / "host.probe.json"),
        "counter": _counter(replay.load(counter)) if counter.exists() else None,
        "predicted": _predicted(host, records) if host.exists() and records else None,
    }
    summary["missing"] = _missing(summary, rehearsal=options.rehearsal)
    text = json.dumps(summary, indent=2)
    (options.folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if summary["missing"] else 0


def _stages(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _sweep(records: list[RunRecord]) -> dict[str, Any]:
    whole = [record for record in records if record.status == "ok"]
    metered = [record for record in whole if record.energies]
    methods = sorted({energy.method for record in metered for energy in record.energies})
    powers = [record.energies[0].energy_j / record.duration_s for record in metered if record.duration_s]
    failed: dict[str, int] = {}
    for record in records:
        if record.status != "ok":
            reason = record.notes[:80]
            failed[reason] = failed.get(reason, 0) + 1
    checks = [record.observed["counter_against_power_fraction"] for record in whole
              if "counter_against_power_fraction" in record.observed]  # fmt: skip
    return {
        "num_records": len(records),
        "num_ok": len(whole),
        "num_with_energy": len(metered),
        "methods": methods,
        "failed": failed,
        "median_power_w": statistics.median(powers) if powers else None,
        "counter_against_power_fraction": _quartiles(checks),
        "median_step_spread": statistics.median([record.observed["step_spread"] for record in whole])
        if whole
        else None,
    }


def _probe(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    document = msgspec.json.decode(path.read_bytes())
    values = {name: figure["value"] for name, figure in document["measured"].items() if figure is not None}
    return {
        "accelerator": document["accelerator"],
        "duration_s": document["duration_s"],
        "values": values,
        "shares_of_the_data_sheet": _shares(document["accelerator"], values),
        "num_unavailable": len(document["unavailable"]),
        "warnings": document["warnings"],
    }


def _shares(name: str, values: dict[str, float]) -> dict[str, float]:
    """Measured over stated rates; a share above 1 is a fault of the data sheet or of the probe."""
    device = accelerator(name)
    stated = {f"{stem}_{one}_flop_per_s": device.peak_flop_per_s(one)
              for one in device.precisions for stem in ("matrix", "square_matrix", "head_matrix")}  # fmt: skip
    stated["copy_bytes_per_s"] = stated["add_bytes_per_s"] = device.bandwidth_bytes_per_s
    return {figure: round(values[figure] / rate, 4) for figure, rate in stated.items() if figure in values}


def _counter(readings: list[Reading]) -> dict[str, Any]:
    checks = [entry.cross_check for reading in readings for entry in reading.energies if entry.cross_check is not None]
    differences = [one.relative_difference for one in checks if one.relative_difference is not None]
    periods = [entry.counter_period_s for reading in readings for entry in reading.energies if entry.counter_period_s]
    return {
        "num_windows": len(readings),
        "num_compared": len(differences),
        "integrated_over_counter_difference": _quartiles(differences),
        "num_beyond_tolerance": sum(abs(difference) > TOLERATED_FRACTION for difference in differences),
        "tolerance_fraction": TOLERATED_FRACTION,
        "counter_period_s": statistics.median(periods) if periods else None,
        "warnings": sorted({str(warning) for reading in readings for warning in reading.warnings}),
    }


def _quartiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return {"low": low, "median": middle, "high": high, "largest": max(values, key=abs)}


def _predicted(host: Path, records: list[RunRecord]) -> dict[str, Any] | None:
    """Say how well the probe alone predicts the sweep; what goes wrong here must not cost the rest of the summary."""
    try:
        return check(Calibration.load(host), records)
    except WattlawError as error:
        return {"error": str(error)}


def _missing(summary: dict[str, Any], *, rehearsal: bool) -> list[str]:
    """Name what the check was to bring home and did not."""
    sweep, counter = summary["sweep"] or {}, summary["counter"] or {}
    missing = []
    if summary["probe"] is None:
        missing.append("the probe")
    if rehearsal:
        if not sweep.get("num_ok"):
            missing.append("a record of the sweep")
    elif sweep.get("num_with_energy", 0) < FEWEST_RECORDS:
        missing.append(f"{FEWEST_RECORDS} records with energy, of which there are {sweep.get('num_with_energy', 0)}")
    if not rehearsal and not counter.get("num_compared"):
        missing.append("a comparison of counter and power")
    shares = (summary["probe"] or {}).get("shares_of_the_data_sheet", {})
    missing += [f"a plausible {name}: {share:g} of the data sheet" for name, share in shares.items()
                if not (math.isfinite(share) and share <= 1.05) and not rehearsal]  # fmt: skip
    return missing


def main() -> int:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(required=True)
    parts.add_parser("gpu").set_defaults(run=show_gpu)
    counter = parts.add_parser("counter")
    counter.add_argument("output", type=Path)
    counter.add_argument("--seconds", type=float, default=30.0)
    counter.add_argument("--repeats", type=int, default=2)
    counter.add_argument("--device", default="auto")
    counter.add_argument("--precision", default="fp16")
    counter.set_defaults(run=compare_counter)
    summary = parts.add_parser("summary")
    summary.add_argument("folder", type=Path)
    summary.add_argument("--rehearsal", action="store_true")
    summary.set_defaults(run=summarise)
    options = parser.parse_args()
    try:
        return int(options.run(options))
    except WattlawError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
