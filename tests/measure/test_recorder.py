"""The recorder behind the callbacks: one record per training, and never an error."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from wattlaw.measure.description import Training
from wattlaw.measure.meters.replay import ReplayMeter
from wattlaw.measure.reading import DeviceEnergy, Reading
from wattlaw.measure.recorder import TrainingRecorder
from wattlaw.parallel.layout import Layout
from wattlaw.run import read_records

ENERGY = DeviceEnergy(
    device="GPU-0",
    name="NVIDIA A100-SXM4-40GB",
    boundary="accelerators",
    domain="gpu",
    energy_j=500.0,
    method="counter",
    source="test",
)
READING = Reading(energies=(ENERGY,), duration_s=5.0, requested_s=5.0)
CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 2,
    "n_embd": 64,
    "n_head": 2,
    "vocab_size": 200,
}


def describe(steps=10):
    """Tell a training in full, once steps were made."""
    recipe = {"batch_size": 8, "seq_len": 32, "precision": "fp16", "optimizer": "adamw"}
    return Training(
        config=CONFIG,
        recipe=recipe | ({"steps": steps} if steps else {}),
        layout=Layout(),
        device="NVIDIA A100-SXM4-40GB",
    )


def span(middle):
    """A predicted number."""
    return SimpleNamespace(low=0.8 * middle, mid=middle, high=1.25 * middle)


def recorder(store, **options):
    """A recorder whose meter tells one reading."""
    return TrainingRecorder(store, source="test", meter=ReplayMeter([READING, READING]), **options)


def test_what_was_predicted_stands_beside_what_was_measured(tmp_path, caplog):
    """The law is asked about the spec of the run that was made; both are in the record and in one line of the log."""
    caplog.set_level(logging.INFO, logger="wattlaw")
    asked = []

    def predict(spec):
        asked.append(spec)
        return SimpleNamespace(energy_j=span(400.0), duration_s=span(4.0), boundary="accelerators")

    one = recorder(tmp_path / "r.jsonl", predict=predict)
    one.begin(describe)
    one.end(epochs=1.0, tokens_seen=None)
    (record,) = read_records(tmp_path / "r.jsonl")
    assert asked == [record.spec]
    assert record.observed["predicted_energy_j"] == 400.0
    assert record.observed["predicted_duration_high_s"] == 5.0
    assert record.observed["epochs"] == 1.0
    assert "tokens_seen" not in record.observed
    assert caplog.messages[-1] == (
        f"{record.record_id}: measured 5 s, accelerators 500 J; predicted 4 s (3.2 to 5), 400 J (320 to 500)"
    )


def test_a_law_that_fails_costs_the_prediction_only(tmp_path):
    """The record is whole; the reason is in its notes."""
    one = recorder(tmp_path / "r.jsonl", predict=lambda _: 1 / 0)
    one.begin(describe)
    one.end()
    (record,) = read_records(tmp_path / "r.jsonl")
    assert record.status == "ok"
    assert record.spec is not None
    assert record.notes == "no prediction: division by zero"


@pytest.mark.parametrize("broken", ["begin", "saw", "end", "store"])
def test_nothing_that_goes_wrong_reaches_the_training(tmp_path, caplog, broken):
    """Whatever fails inside becomes one logged warning."""
    if broken == "store":
        (tmp_path / "file").write_text("")
    one = recorder(tmp_path / ("file/r.jsonl" if broken == "store" else "r.jsonl"))
    calls = []

    def flawed():
        calls.append(1)
        if broken == "begin" or (broken == "end" and len(calls) > 1):
            raise AttributeError("no such field")
        return describe()

    one.begin(flawed)
    one.saw({"input_ids": SimpleNamespace(shape=("?", "?")) if broken == "saw" else None})
    one.end()
    one.fail("again")
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "this training is not recorded" in warnings[0].getMessage()


def test_a_training_that_fails_is_recorded_with_its_reason(tmp_path):
    """What was run until then is told, and the energy was spent."""
    one = recorder(tmp_path / "r.jsonl")
    one.begin(describe)
    one.fail("RuntimeError: out of memory")
    (record,) = read_records(tmp_path / "r.jsonl")
    assert (record.status, record.notes) == ("failed", "RuntimeError: out of memory")
    assert record.energies[0].energy_j == 500.0


def test_a_training_that_never_ended_is_closed_by_the_next(tmp_path):
    """An exception came between, was caught, and training went on: two records, the first one failed."""
    one = recorder(tmp_path / "r.jsonl")
    one.begin(describe)
    one.begin(describe)
    one.end()
    first, second = read_records(tmp_path / "r.jsonl")
    assert (first.status, first.notes) == ("failed", "the training stopped before its end")
    assert second.status == "ok"


@pytest.mark.parametrize("end", ["raise RuntimeError('out of memory')", "os.kill(os.getpid(), 9)"])
def test_a_process_that_ends_in_between_loses_nothing(tmp_path, end):
    """An exception ends the process: recorded at its exit. A kill: by the next job. What was trained is told."""
    script = f"""
        import os, sys
        from wattlaw.measure.description import Training
        from wattlaw.measure.recorder import TrainingRecorder
        from wattlaw.parallel.layout import Layout
        recorder = TrainingRecorder({str(tmp_path / "r.jsonl")!r}, source="test")
        recorder.begin(lambda: Training(config={CONFIG!r}, layout=Layout(), device="generic-cpu"))
        {end}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=False)
    if end.startswith("raise"):
        (record,) = read_records(tmp_path / "r.jsonl")
        assert record.notes == "the training stopped before its end"
        assert record.duration_s > 0
    one = recorder(tmp_path / "r.jsonl")
    one.begin(describe)
    one.end()
    first, second = read_records(tmp_path / "r.jsonl")
    assert first.status == "failed"
    assert first.stated["model"]["architecture"]["family"] == "gpt2"
    assert "recipe.steps" in first.missing
    assert second.status == "ok"


def test_a_forked_child_leaves_the_training_alone(tmp_path):
    """Data loaders fork: what they inherit must not write the record at their exit."""
    script = f"""
        import os
        from wattlaw.measure.description import Training
        from wattlaw.measure.recorder import TrainingRecorder
        recorder = TrainingRecorder({str(tmp_path / "r.jsonl")!r}, source="test")
        describe = lambda: Training(config=None)
        recorder.begin(describe)
        if os.fork() == 0:
            raise SystemExit(0)
        os.wait()
        recorder.end()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [record.status for record in read_records(tmp_path / "r.jsonl")] == ["ok"]
