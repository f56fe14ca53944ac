"""Two real ranks over gloo: every plan, the loss check, a rank that is killed, and a whole sweep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from wattlaw.measure.sweep import Window
from wattlaw.measure.sweep.gate import TOLERANCE, gate_spec, judgement
from wattlaw.measure.sweep.pool import Pool, RankDiedError
from wattlaw.run import read_records, spec_to_mapping

GPT2 = {"family": "gpt2", "head": "lm"}
LLAMA = {"family": "llama", "head": "lm", "num_kv_heads": 2, "seq_len": 8}
TWO = [
    {"strategy": "ddp", "num_devices": 2},
    {"strategy": "fsdp", "num_devices": 2},
    {"strategy": "tp", "num_devices": 2},
]
SHORT = Window(steps=3, max_warmup_steps=3)


@pytest.fixture(scope="module")
def flaw(tmp_path_factory) -> Path:
    """A file; while it is there, the ranks' plan for GPT-2 is wrong."""
    return tmp_path_factory.mktemp("flaw") / "flaw"


@pytest.fixture(scope="module")
def pool(tmp_path_factory, flaw):
    """Two ranks with a thread each, started once for this file."""
    command = (sys.executable, str(Path(__file__).with_name("flawed_rank.py")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLAW", str(flaw))
        ranks = Pool(2, log=tmp_path_factory.mktemp("pool") / "ranks.log", command=command)
        yield ranks
        ranks.close()


def gate_question(spec) -> dict:
    """Ask for the loss check of this kind of run."""
    return {"do": "gate", "spec": spec_to_mapping(gate_spec(spec))}


def measure_question(spec, window=SHORT) -> dict:
    """Ask for a measurement."""
    return {"do": "measure", "spec": spec_to_mapping(spec), "window": asdict(window), "metered": False}


@pytest.mark.parametrize("family", [{}, GPT2, LLAMA], ids=["bert", "gpt2", "llama"])
def test_every_way_of_dividing_has_the_loss_of_one_device(pool, build_sweep, family) -> None:
    """DDP, FSDP, TP and FSDP x TP: the loss after each of five optimizer steps is that of one device.

    With accumulated gradients, recomputed activations and momentum of AdamW on the way. The tolerance is a hundredth
    of what a wrong plan makes.
    """
    product = {"strategy": "fsdp x tp", "num_devices": 2, "tensor_parallel": 2}
    accumulated = {"grad_accumulation": 2, "checkpointing": "full"}
    sweep = build_sweep({**family, "layouts": [*TWO, product]}, {**family, **accumulated, "layouts": TWO[:2]})
    for planned in sweep.runs:
        answers = pool.ask(gate_question(planned.spec), timeout_s=120)
        assert [answer["answer"] for answer in answers] == ["done", "done"], answers
        assert answers[0]["difference"] < TOLERANCE / 10, planned.spec.layout.strategy


def test_a_measurement_has_as_many_steps_as_planned(pool, build_sweep) -> None:
    """Times of all steps lie within the window that is their sum, and the ranks agree on the loss."""
    spec = build_sweep(TWO[0]).runs[0].spec
    answers = pool.ask(measure_question(spec), timeout_s=60)
    times_s = answers[0]["step_times_s"]
    assert len(times_s) == 3
    assert sum(times_s) <= answers[0]["duration_s"] <= 2 * sum(times_s)
    assert answers[0]["loss"] == answers[1]["loss"]


@pytest.mark.parametrize(("precision", "layouts"), [("bf16", TWO), ("fp16", TWO[:2])])
def test_mixed_precision_trains_in_every_way(pool, build_sweep, precision, layouts) -> None:
    """The first loss in half precision is that in fp32 to two digits, and not to seven: something was cast."""
    first = Window(steps=1, min_warmup_steps=1, max_warmup_steps=1)
    sweep = build_sweep({"layouts": [{"strategy": "single"}, *layouts]}, hardware={"gpu": "a100-sxm4-40gb"})
    for planned in sweep.runs:
        spec = planned.spec
        low = replace(spec, recipe=replace(spec.recipe, precision=precision))
        losses = [pool.ask(measure_question(one, first), timeout_s=60)[0].get("loss") for one in (spec, low)]
        assert losses[0] == pytest.approx(losses[1], rel=2e-2), spec.layout.strategy
        assert losses[0] != pytest.approx(losses[1], rel=1e-7), spec.layout.strategy


def test_what_cannot_be_built_is_an_answer(pool, build_sweep) -> None:
    """A llama with biases in one half of the attention is refused by the rank, which lives on."""
    spec = build_sweep({**LLAMA, "strategy": "single", "qkv_bias": 1}).runs[0].spec
    answers = pool.ask(measure_question(spec), timeout_s=60)
    assert answers[0]["kind"] == "refused"
    assert "biases" in answers[0]["reason"]
    assert pool.is_running


def test_a_rank_that_is_killed_is_replaced(pool, build_sweep) -> None:
    """The other rank waits in a collective; the parent notices, and a new pool measures the same configuration."""
    spec = build_sweep(TWO[0]).runs[0].spec
    pool.start()
    victim = pool.processes[1]
    threading.Timer(0.5, os.kill, (victim, signal.SIGKILL)).start()
    endless = Window(steps=10**6, max_window_s=10**6, max_warmup_steps=3)
    with pytest.raises(RankDiedError, match="rank 1 ended; given SIGKILL"):
        pool.ask(measure_question(spec, endless), timeout_s=60)
    answers = pool.ask(measure_question(spec), timeout_s=60)
    assert [answer["answer"] for answer in answers] == ["done", "done"]
    assert victim not in pool.processes


def test_a_wrong_plan_is_refused(pool, flaw, build_sweep) -> None:
    """GPT-2 divided without the order of its fused rows raises nothing, and the loss check refuses it."""
    spec = build_sweep({**GPT2, **TWO[2]}).runs[0].spec
    flaw.touch()
    try:
        answers = pool.ask(gate_question(spec), timeout_s=60)
    finally:
        flaw.unlink()
    assert [answer["answer"] for answer in answers] == ["done", "done"]
    assert answers[0]["difference"] > 10 * TOLERANCE
    assert "its loss differs from the loss on one device" in judgement(answers)
    assert judgement(pool.ask(gate_question(spec), timeout_s=60)) < TOLERANCE


def test_a_sweep_from_the_command_line(tmp_path) -> None:
    """A file with a text of tokens, started as a program: every run is recorded, and the answer is JSON alone."""
    (tmp_path / "text.txt").write_text(" ".join(str(number % 90) for number in range(500)))
    (tmp_path / "tiny.toml").write_text(
        """
        [hardware]
        gpu = "generic-cpu"
        [measuring]
        steps = 3
        max_warmup_steps = 3
        tokens = "text.txt"
        [[list]]
        family = ["bert", "gpt2"]
        head = ["classification", "lm"]
        precision = "fp32"
        num_layers = 1
        hidden_size = 32
        num_heads = 2
        ffn_size = 64
        vocab_size = 100
        seq_len = 16
        batch_size = 2
        layouts = [{ strategy = "single" }, { strategy = "fsdp", num_devices = 1 }]
        """
    )
    program = "import sys; from wattlaw.cli.measure import command; command.main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, "tiny.toml", "-o", "runs", "--json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    told = json.loads(done.stdout)
    records = read_records(tmp_path / told["folder"] / "records.jsonl")
    assert (told["num_ok"], told["failed"], told["num_left"]) == (4, {}, 0), done.stderr
    assert {(record.spec.architecture.family, record.spec.layout.strategy) for record in records} == {
        ("bert", "single"), ("bert", "fsdp"), ("gpt2", "single"), ("gpt2", "fsdp"),
    }  # fmt: skip
    assert {record.environment["data"] for record in records} == {"text.txt"}
    assert all(record.environment["torch"] for record in records)
