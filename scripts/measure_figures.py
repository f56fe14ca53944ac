"""The figures of measuring: speed of sweeps, what kill -9 costs them, what a meter costs, how well times are explained.

``python scripts/measure_figures.py`` prints them; run it on a machine that does nothing else.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from claims import claims_of, show

from wattlaw.features.records import record_columns, usable
from wattlaw.law.step import StepLaw
from wattlaw.measure.sweep import Sweep, read_sweep, run_sweep, sweep_from_mapping
from wattlaw.run import RunRecord, read_records

ROOT = Path(__file__).resolve().parents[1]
_figure = claims_of("python scripts/measure_figures.py")
FAKE_RANK = (sys.executable, str(ROOT / "tests" / "measure" / "sweep" / "fake_rank.py"))

#: The sweep of our own that is shipped, and how it is split into configurations learnt from and predicted.
SAMPLE = ROOT / "examples" / "cpu_sample" / "records.jsonl"
NUM_SPLITS = 20
TEST_FRACTION = 0.3

WINDOW_S = 180.0
#: Kills of sweeps whose ranks only pretend to train, and of sweeps that do.
KILLS = {"fake": 194, "real": 6}
#: A kill falls within the first time after the start, or within the second after the first record of the start.
SECONDS = {"fake": (0.5, 0.3), "real": (12.0, 3.0)}
#: A pretended configuration takes this long, so that kills fall on every part of the parent's work.
FAKE_RUN_S = 0.004
NUM_RUNS = {"fake": 40, "real": 24}
SEED = 9

#: What the parent under test runs: it says the id of each record once ``append_record`` has returned.
PARENT = """
import json, sys
from measure_figures import swept
sweep, command = swept(json.loads(sys.argv[2]))
from wattlaw.measure.sweep import run_sweep
def watch(progress):
    if progress.record is not None:
        print(progress.record.record_id, flush=True)
run_sweep(sweep, sys.argv[1], resume=True, watch=watch, **command)
"""


def figures() -> list[dict[str, Any]]:
    """Return the figures: name, target, measured, unit, command, note."""
    return [cpu_time(), *metering(), configs_in_180_s(), kill9_lost()]


def cpu_time() -> dict[str, Any]:
    """Refit the step law to times of the shipped sweep and predict the configurations that were left out."""
    records, _ = usable(read_records(SAMPLE))
    sample = [record for record in records if record.environment["role"] == "sample"]
    table = record_columns(sample)
    strategies = np.array([record.require_spec().layout.strategy for record in sample])
    names, group = np.unique(table.text("group"), return_inverse=True)
    rng = np.random.default_rng(SEED)
    medians: dict[str, list[float]] = {"all": []}
    for _ in range(NUM_SPLITS):
        out = np.isin(group, rng.permutation(len(names))[: round(TEST_FRACTION * len(names))])
        law, held_out = StepLaw(), table.take(out)
        predicted_s = law.estimate(law.fit(table.take(~out)), held_out).duration_s
        assert predicted_s is not None
        error_percent = 100 * np.abs(predicted_s / held_out.positive("duration_s") - 1)
        medians["all"].append(float(np.median(error_percent)))
        for name in np.unique(strategies):
            medians.setdefault(name, []).append(float(np.median(error_percent[strategies[out] == name])))
    parts = ", ".join(f"{name} {np.median(values):.1f} %" for name, values in medians.items() if name != "all")
    note = (
        f"median error of ln-fitted times on held-out configurations of examples/cpu_sample ({len(sample)} runs of "
        f"{len(names)} configurations, all four strategies of one on the same side), median of {NUM_SPLITS} splits, "
        f"{min(medians['all']):.1f} to {max(medians['all']):.1f} %; {parts}"
    )
    return _figure("measure.cpu_time.median_ape", 8, float(np.median(medians["all"])), "%", note)


def metering() -> list[dict[str, Any]]:
    """Measure what a meter takes of the loop that it meters, and how soon it runs."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    told = importlib.import_module("metering_overhead").measure()
    note = (
        f"CPU time that the process spends beside a loop of {1e3 * told['step_s']:.1f} ms steps, metered less bare, "
        f"over the loop's, on one core, two GPUs of a fake driver through the real nvidia-ml-py; whole difference of "
        f"paired blocks is {told['process_percent']:.2f} +- {told['process_error_percent']:.2f} % by CPU time and "
        f"{told['clock_percent']:.2f} +- {told['clock_error_percent']:.2f} % by the clock"
    )
    start_note = "from asking for this machine's meter to the open window, in a new process; median of several"
    return [
        _figure("measure.overhead_percent", 0.5, told["overhead_percent"], "%", note),
        _figure("measure.start_s", 0.1, told["start_s"], "s", start_note),
    ]


def configs_in_180_s() -> dict[str, Any]:
    """Run the sample's sweep for three minutes, the start of the ranks included, and count what was measured."""
    sweep = read_sweep(ROOT / "examples" / "cpu_sample.toml")
    with tempfile.TemporaryDirectory() as folder:
        result = run_sweep(sweep, folder, max_duration_s=WINDOW_S)
        records = read_records(result.folder / "records.jsonl")
    measured = [record for record in records if record.status == "ok"]
    distinct = {record.environment["configuration"] for record in measured if record.environment["role"] == "sample"}
    spread = statistics.median(record.observed["step_mad_s"] / record.observed["step_s"] for record in measured)
    load = statistics.median(record.observed["load_average"] for record in measured)
    note = (
        f"distinct configurations of examples/cpu_sample.toml (BERT and GPT-2; single, DDP, FSDP and TP on two ranks "
        f"of one thread), beside {len(measured) - len(distinct)} control runs, in {result.duration_s:.0f} s with the "
        f"start of the ranks; {sum(result.failed.values())} failed; median over the runs of the steps' median absolute "
        f"deviation {100 * spread:.1f} % of the step; median load average {load:.1f}, {os.cpu_count()} CPUs"
    )
    return _figure("measure.configs_in_180_s", 150, len(distinct), "configurations", note)


def kill9_lost() -> dict[str, Any]:
    """Kill sweeps at random moments; count records that were announced and are not there, or are not whole."""
    chance = random.Random(SEED)  # noqa: S311 - moments, not secrets
    outcomes = {kind: _kill_sweeps(kind, kills, chance) for kind, kills in KILLS.items()}
    lost = sum(outcome.lost for outcome in outcomes.values())
    unequal = sum(outcome.unequal for outcome in outcomes.values())
    note = (
        f"{outcomes['fake'].kills} kills of sweeps whose ranks only pretend to train (parent and store are the real "
        f"ones), {outcomes['fake'].midway} of them while records were being written, and {outcomes['real'].kills} of "
        f"sweeps that train BERT on two gloo ranks ({outcomes['real'].midway}); lost = records announced after their "
        f"fsync and absent or broken afterwards, {lost}, and sweeps that --resume did not complete to exactly the "
        f"planned set, each run once, {unequal}; the process is killed, not the machine's power"
    )
    return _figure("measure.kill9.lost", 0, lost + unequal, "records", note)


@dataclass(slots=True)
class Outcome:
    """What came of killing the sweeps of one kind.

    Attributes:
        kills: how many.
        midway: kills of sweeps that had announced a record since their start.
        lost: records that had been announced and are not whole in the file.
        unequal: sweeps that did not become complete, or did something twice.
    """

    kills: int = 0
    midway: int = 0
    lost: int = 0
    unequal: int = 0


def swept(kind: str) -> tuple[Sweep, dict[str, Any]]:
    """Return the sweep of one kind, and how its ranks are started."""
    fake = kind == "fake"
    layouts = [{"strategy": "single"}, {"strategy": "ddp", "num_devices": 2}]
    mapping = {
        "name": kind,
        "hardware": {"gpu": "generic-cpu"},
        "measuring": {"steps": 3, "max_warmup_steps": 3},
        "grid": [
            {
                "family": "bert", "head": "classification", "precision": "fp32", "hidden_size": 64, "num_heads": 2,
                "ffn_size": 128, "vocab_size": 100, "seq_len": 16, "layouts": layouts,
                "batch_size": list(range(1, 1 + NUM_RUNS[kind] // 2)), "num_layers": 1,
            }
        ],
    }  # fmt: skip
    return sweep_from_mapping(mapping), {"rank_command": FAKE_RANK} if fake else {}


def _kill_sweeps(kind: str, kills: int, chance: random.Random) -> Outcome:
    outcome = Outcome()
    while outcome.kills < kills:
        with tempfile.TemporaryDirectory() as folder:
            _kill_until_done(folder, kind, kills, chance, outcome)
    return outcome


def _kill_until_done(folder: str, kind: str, kills: int, chance: random.Random, outcome: Outcome) -> None:
    """Start one sweep again and again and kill it, until a start comes to the end before its kill.

    One kill in four comes at any moment of a start, the others after the first record of this start.
    """
    path = Path(folder) / kind / "records.jsonl"
    planned = sorted(run.record_id for run in swept(kind)[0].runs)
    announced: set[str] = set()
    while True:
        start = Start(folder, kind)
        if outcome.kills < kills:
            if chance.random() < 0.25:
                start.kill_after(chance.uniform(0.0, SECONDS[kind][0]))
            else:
                start.first.wait()
                start.kill_after(chance.uniform(0.0, SECONDS[kind][1]))
        ended = start.wait()
        announced |= start.announced
        outcome.kills += not ended
        outcome.midway += not ended and bool(start.announced)
        whole = [record.record_id for record in _whole_records(path)]
        outcome.lost += len(announced.difference(whole))
        announced.intersection_update(whole)
        if ended:
            outcome.unequal += sorted(whole) != planned
            return


class Start:
    """One start of the parent under test.

    Args:
        folder: of the sweeps.
        kind: ``fake`` or ``real``.
    """

    def __init__(self, folder: str, kind: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "scripts")]),
            "FAKE_RANK_S": str(FAKE_RUN_S),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", PARENT, folder, json.dumps(kind)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.announced: set[str] = set()
        #: Set by the first record, and by the end of a start that had none.
        self.first = threading.Event()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def kill_after(self, delay_s: float) -> None:
        """Wait, then kill the parent if it is still there."""
        try:
            self._process.wait(timeout=delay_s)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def wait(self) -> bool:
        """Wait for the end; return whether it came by itself."""
        code = self._process.wait()
        self._reader.join()
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"the sweep ended with exit code {code}")
        return code == 0

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):
                    self.announced.add(line.strip())
                    self.first.set()
        self.first.set()


def _whole_records(path: Path) -> tuple[RunRecord, ...]:
    if not path.exists():
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_records(path)


if __name__ == "__main__":
    show(figures())
