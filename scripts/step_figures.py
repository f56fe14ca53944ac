"""Figures of the step law: how well it predicts the measured runs before they start, and how fast it is."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from claims import claims_of, show, start_ratios
from measured_tables import FINE_TUNING, read_table

from wattlaw.features.records import record_columns
from wattlaw.features.table import Table
from wattlaw.law.baselines import BoostingLaw
from wattlaw.law.calibration import Calibration
from wattlaw.law.evaluation import Evaluation, Split, evaluate, splits
from wattlaw.law.paper import AdditiveLaw, PaperLaw, PowerLaw
from wattlaw.law.prediction import predict
from wattlaw.law.protocol import Law
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import PARAMETERS

HERE = Path(__file__).resolve().parent
_figure = claims_of("python scripts/step_figures.py")
PARTS = {"pooled": "pooled", "bert": "bert", "gpt2": "gpt"}
MACHINES = {"a100-sxm4-40gb": "a100", "rtx-2080-ti": "2080ti"}
SPLITS = 20
#: How often the four runs are chosen, with other draws of what the machine may be like.
SUGGESTIONS = 5


def figures() -> list[dict[str, Any]]:
    """Compute all figures of this script."""
    table = record_columns(read_table(FINE_TUNING))
    return [
        *_held_out(table), *_few_runs(table), *_suggested(table), *_priors_alone(table),
        _fit_time(), _predict_time(table), *_flop_difference(), _cold_start(), _throughput(),
    ]  # fmt: skip


def _held_out(table: Table) -> list[dict[str, Any]]:
    """Grouped splits of all rows; every law is judged on the same ones, before the run."""
    cuts = splits(table, "grouped", num_splits=SPLITS)
    step = _by_part(StepLaw(), table, cuts)
    alone = _by_part(StepLaw(residual=False), table, cuts)
    others: list[Law] = [PaperLaw(), AdditiveLaw(), PowerLaw(), BoostingLaw()]
    beside = {law.name: _by_part(law, table, cuts) for law in others}
    found = []
    for part, short in PARTS.items():
        r2, error = step[part].metrics["r2_log"], step[part].metrics["median_ape"]
        own = f"without its residual's process {alone[part].metrics['r2_log'].median:.4f}"
        note = (
            f"median of {SPLITS} grouped 70/30 splits, quartiles {r2.lower_quartile:.4f} to {r2.upper_quartile:.4f}; "
            f"{own}; same splits: {_peers(beside, part, 'r2_log', '.3f')}"
        )
        asked = {"pooled": ">= 0.998", "bert": ">= 0.993", "gpt": ">= 0.998"}[short]
        unit = "R2 of ln(energy)"
        found.append(_figure(f"core.step.r2.{short}", ">= 0.990", r2.median, unit, note))
        found.append(_figure(f"accuracy.r2.{short}", asked, r2.median, unit, note))
        peers = _peers(beside, part, "median_ape", ".1f")
        found.append(_figure(f"core.step.median_ape.{short}", "<= 5", error.median, "%", f"same splits: {peers}"))
    return [*found, *_intervals(step["pooled"], "energy"), *_intervals(_timed(table, cuts), "time")]


def _by_part(law: Law, table: Table, cuts: tuple[Split, ...]) -> dict[str, Evaluation]:
    found = evaluate(law, table, cuts, protocol="grouped", by="architecture")
    return {evaluation.part: evaluation for evaluation in found}


def _peers(beside: dict[str, dict[str, Evaluation]], part: str, metric: str, form: str) -> str:
    return ", ".join(f"{name} {verdict[part].metrics[metric].median:{form}}" for name, verdict in beside.items())


def _timed(table: Table, cuts: tuple[Split, ...]) -> Evaluation:
    return evaluate(StepLaw(), table, cuts, protocol="grouped", target="time")[0]


def _intervals(verdict: Evaluation, target: str) -> list[dict[str, Any]]:
    """How often intervals at 95 % hold, and how wide they are."""
    coverage, width = verdict.metrics["coverage"], verdict.metrics["half_width"]
    ending = "" if target == "energy" else f".{target}"
    note = f"of {target}, median of {SPLITS} grouped splits, quartiles {coverage.lower_quartile:.1f} to "
    note += f"{coverage.upper_quartile:.1f} %"
    wide = f"of {target}; factor from the middle of the median interval to its end; authors x1.93"
    return [
        _figure(f"accuracy.coverage{ending}", "93-97", coverage.median, "%", note),
        _figure(f"accuracy.half_width{ending}", "<= 1.12", width.median, "x", wide),
    ]


def _few_runs(table: Table) -> list[dict[str, Any]]:
    """A GPU model left out: but for four random runs, for sixteen, and for none."""
    found = []
    for num_runs, names in (
        (4, {"core.step.four_runs": ">= 0.92", "accuracy.random_four": "none"}),
        (16, {"core.step.sixteen_runs": "none", "accuracy.sixteen": ">= 0.98"}),
        (0, {"core.step.cold": "none", "accuracy.leave_one": "none"}),
    ):
        protocol = "few-runs" if num_runs else "leave-one-gpu-out"
        cuts = splits(table, protocol, num_splits=SPLITS, num_runs=num_runs)
        for machine, short in MACHINES.items():
            own = [cut for cut in cuts if cut.name.startswith(machine)]
            value, note = _left_out(table, own, protocol)
            found += [
                _figure(f"{name}.{short}", target, value, "R2 of ln(energy)", note) for name, target in names.items()
            ]
    return found


def _suggested(table: Table) -> list[dict[str, Any]]:
    """A GPU model left out but for the four runs that ``wattlaw suggest`` chooses, unseen, from all of its runs."""
    drawn = [splits(table, "suggested", num_runs=4, seed=seed) for seed in range(SUGGESTIONS)]
    found = []
    for machine, short in MACHINES.items():
        own = [cut for cuts in drawn for cut in cuts if cut.name.startswith(machine)]
        value, note = _left_out(table, own, "suggested")
        found.append(_figure(f"accuracy.suggested_four.{short}", ">= 0.97", value, "R2 of ln(energy)", note))
    return found


def _left_out(table: Table, cuts: list[Split], protocol: str) -> tuple[float, str]:
    (verdict,) = evaluate(StepLaw(), table, cuts, protocol=protocol)
    r2, error, coverage = (verdict.metrics[name] for name in ("r2_log", "median_ape", "coverage"))
    width = verdict.metrics["half_width"].median
    note = f"median of {len(cuts)} draws, quartiles {r2.lower_quartile:.4f} to {r2.upper_quartile:.4f}; median error "
    note += f"{error.median:.1f} %; 95 % intervals cover {coverage.median:.1f} % at x{width:.2f}"
    return r2.median, note


def _priors_alone(table: Table) -> list[dict[str, Any]]:
    """Each GPU model from its data sheet and the medians of the priors: no run of any machine."""
    calibration = Calibration(law="step", parameters={one.name: one.start for one in PARAMETERS})
    found = []
    for machine, short in MACHINES.items():
        rows = table.take(table.text("machine") == machine)
        measured = np.log(rows.positive("energy_j"))
        error = measured - np.log(StepLaw().estimate(calibration, rows).energy_j)
        r2 = 1 - np.sum(error**2) / np.sum((measured - measured.mean()) ** 2)
        note = f"{len(rows)} rows, median error {100 * np.median(np.abs(np.expm1(-error))):.1f} %; no run seen at all"
        asked = {"a100": ">= 0.763", "2080ti": ">= 0.862"}[short]
        found.append(_figure(f"accuracy.cold.{short}", asked, float(r2), "R2 of ln(energy)", note))
    return found


FIT = """
import time
from step_figures import FINE_TUNING, StepLaw, read_table, record_columns
table = record_columns(read_table(FINE_TUNING))
start = time.perf_counter()
StepLaw().fit(table)
print(time.perf_counter() - start)
"""


def _fit_time() -> dict[str, Any]:
    """The first fit of a process, with its residuals left out, its process and the libraries that it imports."""
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", FIT], check=True, capture_output=True, text=True, cwd=HERE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            ).stdout
        )
        for _ in range(5)
    ]  # fmt: skip
    note = (
        "518 rows, first fit in a fresh process with one thread of linear algebra, as the command sets it; median of 5 "
        f"processes ({min(times):.2f} to {max(times):.2f} s)"
    )
    return _figure("accuracy.fit_s", "<= 2", statistics.median(times), "s", note)


def _predict_time(table: Table) -> dict[str, Any]:
    """One prediction with intervals, once the program has started."""
    spec = read_table(FINE_TUNING)[-1].require_spec()
    calibration = StepLaw().fit(table)
    times = []
    for _ in range(30):
        start = time.perf_counter()
        predict([spec], calibration)
        times.append(1e3 * (time.perf_counter() - start))
    note = (
        f"one run, energy and time with intervals, law with its residual's process; median of 30, first {times[0]:.0f}"
    )
    return _figure("accuracy.predict_ms", "<= 50", statistics.median(times), "ms", note)


def _flop_difference() -> list[dict[str, Any]]:
    """Forward and backward operations against torch's own counter on the meta device."""
    import flop_difference

    found = flop_difference.differences()
    largest = max(abs(entry["difference"]) for entry in found.values())
    note = f"largest absolute difference over {len(found)} models: {', '.join(found)}"
    return [_figure("core.flop.max_difference", "0", largest, "flop", note)]


def _cold_start() -> dict[str, Any]:
    """Wall time of a prediction from the shell over that of importing numpy, in pairs."""
    wattlaw = Path(sys.executable).with_name("wattlaw")
    predict = [
        str(wattlaw), "predict", "--model", "bert-base-uncased", "--gpu", "NVIDIA GeForce RTX 2080 Ti",
        "--num-gpus", "4", "--strategy", "fsdp", "--batch-size", "32", "--seq-len", "128",
        "--samples", "67349", "--epochs", "3", "--precision", "fp16", "--json",
    ]  # fmt: skip
    note = "median of 10 pairs, after two to warm the disk"
    return _figure("core.cold_start.ratio", "<= 4", statistics.median(start_ratios(predict)), "ratio", note)


def _throughput() -> dict[str, Any]:
    """Runs per second through columns and law, every number of every run different, on one core."""
    output = subprocess.run(
        [sys.executable, str(HERE.parent / "benchmarks" / "throughput.py"), "--json"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    note = "best of 5 passes over 2^20 runs that differ in every number; columns and step law, one thread"
    rate = json.loads(output)["runs_per_second"]
    return _figure("core.throughput", ">= 1e6", rate, "runs/s", note)


if __name__ == "__main__":
    show(figures())
