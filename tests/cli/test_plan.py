"""``wattlaw plan``: the example as written, what it prints, and bad input of every option."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from pathlib import Path

import pytest

from wattlaw.law.calibration import Calibration

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "llama2-7b-lora.toml"
BERT = ROOT / "examples" / "bert-base-sst2.toml"


@pytest.fixture
def planned(wattlaw):
    """Plan with ``--json`` and read the answer."""

    def run(*arguments):
        found = wattlaw("plan", *arguments, "--json")
        assert found.code == 0, found.err
        return json.loads(found.out)

    return run


def test_the_example_works_as_written(wattlaw, monkeypatch):
    """The documented command plans, names a best way and prints a command that starts it."""
    monkeypatch.chdir(ROOT)
    words = "plan examples/llama2-7b-lora.toml --deadline 24h --gpus a100-sxm4-80gb:8,h100-sxm:8 --objective energy"
    found = wattlaw(*shlex.split(words))
    assert found.code == 0, found.err
    for part in ("least energy", "deadline 1.00 d", "truly the best", "one thing changed", "torchrun --standalone"):
        assert part in found.out
    (command,) = [line for line in found.out.splitlines() if line.startswith("torchrun")]
    assert shlex.split(command)[3:5] == ["examples/finetune.py", "examples/llama2-7b-lora.toml"]


def test_json_says_all_that_the_tables_say(planned):
    """Best with its spec and intervals, ranking, fronts, neighbours, chance, command."""
    found = planned(EXAMPLE, "--deadline", "24h", "--gpus", "a100-sxm4-80gb:2,h100-sxm:2")
    assert found["limits"]["deadline_s"] == 86400
    best = found["best"]
    assert best["duration_s"]["mid"] <= 86400
    assert best["energy_j"]["low"] < best["energy_j"]["mid"] < best["energy_j"]["high"]
    assert best["spec"]["hardware"]["gpu"] == best["accelerator"]
    assert found["ranking"][0]["cost"] == best["cost"] <= found["ranking"][1]["cost"]
    times = [one["duration_s"]["mid"] for one in found["front"]]
    energies = [one["energy_j"]["mid"] for one in found["front"]]
    assert times == sorted(times)
    assert energies == sorted(energies, reverse=True)
    assert 0 < found["first_place"]["chance"] <= 1
    assert {one["change"] for one in found["neighbours"]} >= {"strategy", "devices", "accelerator", "checkpointing"}
    assert found["launch"]["command"].startswith("torchrun")
    assert found["infeasible"] is None
    assert found["num_feasible"] <= found["num_fitting"] <= found["num_configurations"]


def test_the_runs_own_device_is_planned_for_where_none_is_named(planned):
    """As many as the run's layout has."""
    found = planned(BERT)
    assert {one["accelerator"] for one in found["ranking"]} == {"rtx-2080-ti"}
    assert max(one["num_devices"] for one in found["ranking"]) <= 4


def test_an_infeasible_question_is_answered(wattlaw, planned):
    """Which limit binds and what comes nearest; exit code 0, as it is an answer."""
    found = planned(BERT, "--deadline", "1s")
    assert found["best"] is None
    assert [miss["limit"] for miss in found["infeasible"]["alone"]] == ["deadline"]
    assert found["infeasible"]["misses"][0]["over"] > 0
    text = wattlaw("plan", BERT, "--deadline", "1s").out
    assert "nothing keeps all limits" in text
    assert "over the 1.00 s allowed" in text


def test_a_plan_is_written_down_to_be_started(wattlaw, tmp_path):
    """The best run's spec, the command that reads it, and a configuration of Accelerate."""
    folder = tmp_path / "plan"
    found = wattlaw("plan", BERT, "--strategies", "fsdp", "--save", folder)
    assert found.code == 0, found.err
    spec = tomllib.loads((folder / "run.toml").read_text())
    assert spec["layout"]["strategy"] == "fsdp"
    assert (folder / "launch.sh").read_text().splitlines()[-1].endswith(f"examples/finetune.py {folder / 'run.toml'}")
    assert "fsdp_version: 2" in (folder / "accelerate.yaml").read_text()


def test_where_the_best_cannot_be_started_the_next_that_can_is_named(planned, wattlaw):
    """The script runs no pipelines in fp16: of one and FSDP, the second is told with its command."""
    words = (BERT, "--strategies", "pp,fsdp", "--devices", "2")
    found = planned(*words)
    assert found["best"]["strategy"] == "pp"
    assert found["launch"]["command"] is None
    assert found["launch_instead"]["option"]["strategy"] == "fsdp"
    assert "--strategy fsdp" in found["launch_instead"]["launch"]["command"]
    assert "the next best that it runs is" in wattlaw("plan", *words).out


def test_figures_are_drawn(wattlaw, tmp_path):
    """The front, the curves over devices and the caps, each as PNG, SVG and page."""
    pytest.importorskip("vl_convert")
    path = tmp_path / "plan.png"
    assert wattlaw("plan", BERT, "--strategies", "single,ddp", "--figure", path).code == 0
    for name in ("plan", "plan-devices", "plan-caps"):
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        assert (tmp_path / f"{name}.html").exists()


def test_every_limit_and_price_counts(planned):
    """Money and carbon of the best are told and kept."""
    found = planned(
        BERT, "--price-per-kwh", "0.3", "--device-price", "rtx-2080-ti=0.2", "--region", "DE", "--pue", "1.2",
        "--max-money", "10", "--max-carbon", "1kg", "--max-energy", "1kWh", "--max-devices", "2",
        "--memory-free", "0.2", "--objective", "weighted", "--energy-weight", "0.5", "--confidence", "0.8",
        "--cap", "60%,200W", "--deadline", "2h",
    )  # fmt: skip
    best = found["best"]
    assert found["limits"] == {
        "deadline_s": 7200, "memory_free_fraction": 0.2, "max_energy_j": 3.6e6, "max_money": 10, "max_carbon_g": 1000,
        "max_devices": 2, "confidence": 0.8,
    }  # fmt: skip
    assert found["level"] == best["energy_j"]["level"] == 0.8
    assert 0 < best["money"]["mid"] < 10
    assert 0 < best["carbon_g"]["high"] < 1000
    assert {one["power_cap_w"] for one in found["ranking"]} <= {None, 150.0, 200.0}


def test_sharded_states_and_divided_sequences_can_be_asked_for(planned):
    """BERT is trained by an eager framework, on short sequences that look both ways: neither is searched unasked."""
    names = {}
    for also in ((), ("--also", "zero1,cp")):
        found = planned(BERT, "--devices", "2", "--pipeline-parallel", "1", "--tensor-parallel", "1", *also)
        names[also] = {part for one in found["neighbours"] for part in one["option"]["strategy"].split(" x ")}
    assert not names[()] & {"zero1", "cp"}
    assert {"zero1", "cp"} <= names["--also", "zero1,cp"]
    found = planned(BERT, "--strategies", "cp", "--context-parallel", "2")
    assert {one["context_parallel"] for one in found["ranking"]} == {2}


def test_a_plan_says_what_a_later_deadline_would_save(planned, wattlaw):
    """Kept out by the deadline, each with what it needs and what it costs less."""
    slow = planned(BERT, "--devices", "1")["best"]["duration_s"]["mid"]
    words = (BERT, "--deadline", f"{0.95 * slow:.3f}s")
    found = planned(*words)
    trade = found["trades"]["deadline"]
    last = trade["options"][-1]
    assert last["needed"] > trade["allowed"] == pytest.approx(0.95 * slow, rel=1e-3)
    assert last["cost_fraction"] < 0
    assert "one limit moved, all others kept" in wattlaw("plan", *words).out


def test_the_start_within_a_window_is_told(planned, tmp_path):
    """Cheap from the third hour on: the best start of a run of minutes is then."""
    path = tmp_path / "prices.csv"
    hours = [f"2026-01-01T{hour:02}:00Z,{0.1 if hour >= 3 else 0.5}" for hour in range(24)]
    path.write_text("time,price per kWh\n" + "\n".join(hours) + "\n")
    found = planned(
        BERT, "--tariff", path, "--start", "2026-01-01T00:00Z", "--window", "12h", "--objective", "money",
        "--deadline", "2h",
    )  # fmt: skip
    assert found["timing"]["best"]["electricity"]["start"].startswith("2026-01-01T03:00")


def test_embodied_carbon_of_the_best_is_told_apart(planned, wattlaw):
    """Never part of the electricity's."""
    words = (BERT, "--strategies", "single", "--embodied", "150", "--device-life-hours", "30000", "--region", "DE")
    found = planned(*words)
    hours = found["best"]["duration_s"]["mid"] / 3600
    assert found["embodied_g"]["mid"] == pytest.approx(150e3 / 30000 * hours, rel=1e-6)
    assert "embodied carbon of the best" in wattlaw("plan", *words).out


def test_what_varies_can_be_named(planned):
    """Each list of choices is kept to."""
    found = planned(
        BERT, "--strategies", "fsdp x tp,tp", "--devices", "2,4", "--tensor-parallel", "2", "--pipeline-parallel", "1",
        "--micro-batches", "8,16", "--checkpointing", "none", "--attention-kernel", "eager", "--precision", "fp16,fp32",
        "--optimizer", "sgd,adamw", "--adapter-rank", "0,4", "--interleaving", "1",
    )  # fmt: skip
    for one in found["ranking"]:
        assert one["strategy"] in ("fsdp x tp", "tp")
        assert one["tensor_parallel"] == 2
        assert one["batch_size"] in (8, 16)
        assert one["attention_kernel"] == "eager"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--deadline", "24"], ["--deadline", "24h"]),
        (["--deadline", "-1h"], ["--deadline"]),
        (["--gpus", "a100-sxm4-80gb"], ["--gpus", "NAME:COUNT"]),
        (["--gpus", "a100-sxm4-80gb:0"], ["--gpus", "whole"]),
        (["--gpus", "a101:8"], ["--gpus", "a101"]),
        (["--gpus", "rtx-2080-ti:8@dgx-a100"], ["dgx-a100"]),
        (["--gpus", "rtx-2080-ti:800"], ["--gpus", "node type"]),
        (["--gpus", "rtx-2080-ti:2,rtx-2080-ti:4"], ["--gpus", "twice"]),
        (["--gpus", ""], ["--gpus"]),
        (["--objective", "speed"], ["--objective", "speed"]),
        (["--objective", "weighted"], ["--energy-weight"]),
        (["--energy-weight", "0.5"], ["--energy-weight"]),
        (["--energy-weight", "2"], ["--energy-weight"]),
        (["--objective", "money"], ["money", "price"]),
        (["--objective", "carbon"], ["carbon"]),
        (["--max-money", "5"], ["money", "price"]),
        (["--max-carbon", "5kg"], ["carbon"]),
        (["--max-carbon", "5"], ["--max-carbon", "kg"]),
        (["--max-energy", "5"], ["--max-energy", "kWh"]),
        (["--max-energy", "0kWh"], ["--max-energy"]),
        (["--max-money", "0"], ["--max-money"]),
        (["--max-devices", "0"], ["--max-devices"]),
        (["--memory-free", "100%"], ["--memory-free"]),
        (["--memory-free", "1.5"], ["--memory-free"]),
        (["--confidence", "1"], ["--confidence"]),
        (["--level", "0"], ["--level"]),
        (["--strategies", "zero4"], ["--strategies", "strategy"]),
        (["--also", "zero2"], ["--also", "zero1"]),
        (["--context-parallel", "0"], ["--context-parallel"]),
        (["--expert-parallel", "1.5"], ["--expert-parallel"]),
        (["--strategies", "fsdp,,tp"], ["--strategies", "empty"]),
        (["--devices", "0"], ["--devices"]),
        (["--devices", "two"], ["--devices"]),
        (["--tensor-parallel", "1.5"], ["--tensor-parallel"]),
        (["--pipeline-parallel", "0"], ["--pipeline-parallel"]),
        (["--interleaving", "0"], ["--interleaving"]),
        (["--micro-batches", "-2"], ["--micro-batches"]),
        (["--checkpointing", "some"], ["--checkpointing"]),
        (["--attention-kernel", "flash"], ["--attention-kernel"]),
        (["--precision", "fp64"], ["--precision"]),
        (["--precision", "bf16"], ["precision", "rtx-2080-ti"]),
        (["--optimizer", "lion"], ["--optimizer"]),
        (["--adapter-rank", "-1"], ["--adapter-rank"]),
        (["--cap", "120%"], ["--cap"]),
        (["--cap", "900W"], ["--cap", "250"]),
        (["--cap", "0"], ["--cap"]),
        (["--device-price", "rtx-2080-ti"], ["--device-price", "NAME=PRICE"]),
        (["--device-price", "rtx-2080-ti=-1"], ["--device-price"]),
        (["--device-price", "h100-sxm=2"], ["--device-price", "rtx-2080-ti"]),
        (["--device-price", "rtx-2080-ti=1", "--price-per-device-hour", "2"], ["--device-price"]),
        (["--pue", "0.5"], ["--pue"]),
        (["--region", "XX"], ["--region"]),
        (["--window", "4h"], ["--window"]),
        (["--law", "nowhere.json"], ["nowhere.json"]),
        (["--figure", "nowhere/plan.png"], ["nowhere"]),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(refused, arguments, words):
    """Exit code 2 and no traceback."""
    refused("plan", BERT, *arguments, words=words)


def test_choices_that_leave_nothing_are_refused(refused):
    """Tensor parallelism over five devices divides no model of twelve heads."""
    refused("plan", BERT, "--strategies", "tp", "--devices", "5", words=["no configuration"])


def test_a_law_without_layouts_is_refused(refused, tmp_path):
    """The paper's power law knows nothing of strategies; this one is not even whole."""
    law = tmp_path / "law.json"
    Calibration(law="power", parameters={}).save(law)
    refused("plan", BERT, "--law", law, words=["law.json"])


def test_a_missing_spec_is_one_line(refused):
    """As of every verb."""
    refused("plan", "nowhere.toml", words=["nowhere.toml"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--deadline", "1ms"),
        ("--deadline", "1e308d"),
        ("--max-energy", "1e308MWh"),
        ("--memory-free", "100%"),
        ("--cap", "101%"),
        ("--cap", "-5W"),
    ],
)
def test_a_quantity_out_of_range_is_shown_as_it_was_typed(refused, option, value):
    """Unit and all, also where it is too large only after the unit is counted."""
    refused("plan", BERT, option, value, words=(option, f"given '{value}'"))


def test_a_cap_that_no_board_can_be_set_to_is_refused(refused):
    """10 W of a board of 250 W is not a plan that anybody can start."""
    refused("plan", BERT, "--cap", "10W", words=("--cap", "rtx-2080-ti", "given 10 W", "62.5 to 250 W"))


def test_a_figure_of_another_form_is_refused_before_the_search(refused, tmp_path):
    """The name of the file says its form, and nothing is written under other names."""
    pytest.importorskip("vl_convert")
    refused("plan", BERT, "--figure", tmp_path / "front.txt", words=("--figure", "front.txt", ".png"))
    assert not list(tmp_path.iterdir())


def test_a_saved_plan_replaces_no_file_that_says_something_else(refused, wattlaw, tmp_path):
    """The same plan may be saved again; a run spec of the same name, such as the one planned, stays as it is."""
    choice = ("plan", BERT, "--strategies", "single")
    assert [wattlaw(*choice, "--save", tmp_path / "plan").code for _ in range(2)] == [0, 0]
    mine = tmp_path / "run.toml"
    mine.write_text("mine")
    refused(*choice, "--save", tmp_path, words=("run.toml", "there already"))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["run.toml"]
    assert mine.read_text() == "mine"
    refused(*choice, "--save", "", words=("--save", "empty path"))
    refused(*choice, "--save", mine, words=("a file, not a folder",))


def test_a_folder_whose_name_is_no_text_can_hold_a_plan(wattlaw, tmp_path):
    """Linux allows any bytes in a name; the command names the run spec by the same bytes."""
    folder = tmp_path / os.fsdecode(b"plan-\xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system wants names in UTF-8")
    assert wattlaw("plan", BERT, "--strategies", "single", "--save", folder).code == 0
    assert b"plan-\xff" in (folder / "launch.sh").read_bytes()
