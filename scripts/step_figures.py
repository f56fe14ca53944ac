"""Figures of the step law: how well it predicts the measured runs before they start, and how fast it is."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wattlaw.features.records import record_columns
from wattlaw.features.table import Table
from wattlaw.law.additive import AdditiveLaw
from wattlaw.law.calibration import Calibration, Estimate
from wattlaw.law.evaluation import Evaluation, Split, evaluate, splits
from wattlaw.law.paper import PaperLaw
from wattlaw.law.power import PowerLaw
from wattlaw.law.protocol import Law
from wattlaw.law.step import COLUMNS, StepLaw
from wattlaw.run.importers import import_csv, shipped_map

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "shared" / "data" / "bert_gpt_multi_gpu.csv"
COMMAND = "python scripts/step_figures.py"
PARTS = {"pooled": "pooled", "bert": "bert", "gpt2": "gpt"}
MACHINES = {"a100-sxm4-40gb": "a100", "rtx-2080-ti": "2080ti"}
SPLITS = 20


@dataclass(frozen=True, slots=True)
class Boosting:
    """scikit-learn's gradient boosting on the step law's own columns: a yardstick without physics.

    It predicts the logarithm of the energy; it keeps its trees in memory, so it is no law that could be shipped.
    """

    name: ClassVar[str] = "boosting"
    columns: ClassVar[tuple[str, ...]] = COLUMNS
    models: dict[str, Any]

    def fit(self, table: Table) -> Calibration:
        """Fit the trees."""
        from sklearn.ensemble import GradientBoostingRegressor

        model = GradientBoostingRegressor(random_state=0)
        model.fit(self._inputs(table), np.log(table.positive("energy_j")))
        self.models["last"] = model
        return Calibration(law=self.name, parameters={})

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Evaluate the trees."""
        energy_j = np.exp(self.models["last"].predict(self._inputs(table)))
        return Estimate(energy_j=energy_j, duration_s=None, terms_j={"all": energy_j})

    def covers(self, calibration: Calibration, table: Table) -> Any:
        """Trees answer anything."""
        return np.ones(len(table), dtype=bool)

    def _inputs(self, table: Table) -> Any:
        return np.stack([table.numbers(name) for name in COLUMNS], axis=1)


def figures() -> list[dict[str, Any]]:
    """Compute all figures of this script."""
    table = record_columns(import_csv(TABLE, shipped_map("bert_gpt_multi_gpu")).records)
    return [*_held_out(table), *_few_runs(table), *_flop_difference(), _cold_start(), _throughput()]


def _held_out(table: Table) -> list[dict[str, Any]]:
    """Grouped splits of all rows; every law is judged on the same ones, before the run."""
    cuts = splits(table, "grouped", num_splits=SPLITS)
    step = _by_part(StepLaw(), table, cuts)
    others: list[Law] = [PaperLaw(), AdditiveLaw(), PowerLaw(), Boosting({})]
    beside = {law.name: _by_part(law, table, cuts) for law in others}
    found = []
    for part, short in PARTS.items():
        peers = ", ".join(f"{name} {verdict[part].metrics['r2_log'].median:.3f}" for name, verdict in beside.items())
        r2, error = step[part].metrics["r2_log"], step[part].metrics["median_ape"]
        note = (
            f"median of {SPLITS} grouped 70/30 splits, quartiles {r2.lower_quartile:.4f} to {r2.upper_quartile:.4f}; "
            f"same splits: {peers}"
        )
        found.append(_figure(f"core.step.r2.{short}", ">= 0.990", r2.median, "R2 of ln(energy)", note))
        peers = ", ".join(
            f"{name} {verdict[part].metrics['median_ape'].median:.1f}" for name, verdict in beside.items()
        )
        found.append(_figure(f"core.step.median_ape.{short}", "<= 5", error.median, "%", f"same splits: {peers}"))
    return found


def _by_part(law: Law, table: Table, cuts: tuple[Split, ...]) -> dict[str, Evaluation]:
    found = evaluate(law, table, cuts, protocol="grouped", by="architecture")
    return {evaluation.part: evaluation for evaluation in found}


def _few_runs(table: Table) -> list[dict[str, Any]]:
    """A GPU model left out: but for four random runs, for sixteen, and cold."""
    found = []
    for num_runs, name, target in (
        (4, "four_runs", ">= 0.92"),
        (16, "sixteen_runs", "none"),
        (0, "cold", "none"),
    ):
        protocol = "few-runs" if num_runs else "leave-one-gpu-out"
        cuts = splits(table, protocol, num_splits=SPLITS, num_runs=num_runs)
        for machine, short in MACHINES.items():
            own = [cut for cut in cuts if cut.name.startswith(machine)]
            (verdict,) = evaluate(StepLaw(), table, own, protocol=protocol)
            r2, error = verdict.metrics["r2_log"], verdict.metrics["median_ape"]
            note = f"median of {len(own)} draws, quartiles {r2.lower_quartile:.4f} to {r2.upper_quartile:.4f}; "
            note += f"median error {error.median:.1f} %"
            found.append(_figure(f"core.step.{name}.{short}", target, r2.median, "R2 of ln(energy)", note))
    return found


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
    ratios = [_seconds(predict) / _seconds([sys.executable, "-c", "import numpy"]) for _ in range(12)][2:]
    note = "median of 10 pairs, after two to warm the disk"
    return _figure("core.cold_start.ratio", "<= 4", statistics.median(ratios), "ratio", note)


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _throughput() -> dict[str, Any]:
    """Runs per second through columns and law, every number of every run different, on one core."""
    output = subprocess.run(
        [sys.executable, str(HERE.parent / "benchmarks" / "throughput.py"), "--json"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    note = "best of 5 passes over 2^20 runs that differ in every number; columns and step law, one thread"
    rate = json.loads(output)["runs_per_second"]
    return _figure("core.throughput", ">= 1e6", rate, "runs/s", note)


def _figure(name: str, target: Any, measured: float, unit: str, note: str) -> dict[str, Any]:
    return {"name": name, "target": target, "measured": measured, "unit": unit, "command": COMMAND, "note": note}


if __name__ == "__main__":
    for figure in figures():
        print(f"{figure['name']:32} {figure['measured']:<10.6g} target {figure['target']:10} {figure['note']}")
