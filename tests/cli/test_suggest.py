"""``wattlaw suggest``: what it says, the sweep that it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wattlaw.measure.sweep import read_sweep

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SWEEP = EXAMPLES / "cpu_sweep.toml"


@pytest.fixture
def sweep(tmp_path):
    """The example's sweep on a GPU that no fit has seen."""
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP.read_text().replace("generic-cpu", "l4"))
    return path


def test_the_chosen_runs_are_a_sweep_that_can_be_measured(wattlaw, sweep, tmp_path):
    """As many configurations of the sweep as asked for, on the accelerator asked for; JSON has the same ones."""
    output = tmp_path / "few.toml"
    found = wattlaw("suggest", sweep, "--gpu", "a40", "--runs", 3, "-o", output, "--json")
    assert (found.code, found.err) == (0, "")
    said = json.loads(found.out)
    assert (said["machine"], said["cold"], len(said["runs"]), said["output"]) == ("a40", True, 3, str(output))
    few, whole = read_sweep(output), read_sweep(sweep, gpu="a40")
    assert len(few.runs) == 3
    assert {run.configuration for run in few.runs} <= {run.configuration for run in whole.runs}
    assert {run.spec.accelerator.name for run in few.runs} == {"a40"}
    assert wattlaw("measure", output, "--dry-run", "--json").code == 0


def test_json_has_costs_and_what_is_expected_of_them(wattlaw, sweep):
    """Times and energies sum up; the expected error comes down with every run."""
    said = json.loads(wattlaw("suggest", sweep, "--runs", 3, "--json").out)
    for cost in ("duration_s", "energy_j"):
        assert said[cost] == pytest.approx(sum(run[cost] for run in said["runs"]))
    spreads = [said["spread_before"], *(run["spread_after"] for run in said["runs"])]
    for target in ("energy", "duration"):
        values = [spread[target] for spread in spreads]
        assert values == sorted(values, reverse=True)
    assert said["spread_after"] == spreads[-1]
    assert said["num_random_runs"] is None or said["num_random_runs"] >= 1
    assert set(said["runs"][0]["spec"]) >= {"recipe", "layout", "hardware"}


def test_the_table_names_the_runs_and_what_they_are_worth(wattlaw, sweep):
    """For people: each run, its time and energy, the error before and after, and how many random runs it replaces."""
    text = wattlaw("suggest", sweep, "--runs", 2).out
    assert all(word in text for word in ("l4", "2 of", "candidates", "expected error", "before", "random"))


def test_budgets_and_runs_to_predict_are_kept_to(wattlaw, sweep, tmp_path):
    """A small budget buys less; a run file says what is to be predicted."""
    whole = json.loads(wattlaw("suggest", sweep, "--json").out)
    most = whole["duration_s"] / 2
    some = json.loads(wattlaw("suggest", sweep, "--max-time", f"{most}s", "--max-energy", "1kWh", "--json").out)
    assert some["duration_s"] <= most
    run = tmp_path / "run.toml"
    run.write_text((EXAMPLES / "bert-base-sst2.toml").read_text().replace("NVIDIA GeForce RTX 2080 Ti", "l4").replace(
        'config = "bert-base-uncased"', f'config = "{EXAMPLES / "bert-base-uncased"}"'
    ))  # fmt: skip
    own = json.loads(wattlaw("suggest", sweep, "--for", run, "--json").out)
    assert own["spread_before"] != whole["spread_before"]


def test_what_it_has_not_written_stays(wattlaw, sweep, tmp_path):
    """The sweep itself and other files are refused; its own output is written again."""
    before = sweep.read_text()
    for path, text in ((sweep, None), (tmp_path / "notes.txt", "mine")):
        if text is not None:
            path.write_text(text)
        found = wattlaw("suggest", sweep, "-o", path)
        assert found.code == 2
        assert str(path) in found.err
    assert sweep.read_text() == before
    assert (tmp_path / "notes.txt").read_text() == "mine"
    output = tmp_path / "few.toml"
    assert [wattlaw("suggest", sweep, "--runs", 1, "-o", output).code for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--runs", "0"], ["--runs", ">= 1"]),
        (["--max-time", "30"], ["--max-time", "min"]),
        (["--max-energy", "1kg"], ["--max-energy", "kWh"]),
        (["--max-energy", "-1kWh"], ["--max-energy", "> 0"]),
        (["--max-energy", "1e-9J"], ["no candidate is within the budget"]),
        (["--gpu", "l5"], ["l5"]),
        (["--law", "missing.json"], ["missing.json"]),
        (["--for", "missing.toml"], ["missing.toml"]),
    ],
)
def test_what_cannot_be_is_one_line(wattlaw, sweep, options, words):
    """Exit code 2; the option or the file is named, with what is allowed."""
    found = wattlaw("suggest", sweep, *options)
    assert found.code == 2
    assert found.err.count("\n") == 1
    assert all(word in found.err for word in words), found.err
