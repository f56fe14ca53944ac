"""``wattlaw evaluate``: what it says, and what it refuses."""

from __future__ import annotations

import io
import json
import sys

import pytest

from wattlaw.law.evaluation import METRICS
from wattlaw.law.laws import LAWS


def test_json_has_each_metric_with_quartiles_and_count(wattlaw, store):
    """Law, protocol and target; the first law on all rows stands at the top, every law and part in the list."""
    options = [
        "--law",
        "power",
        "--law",
        "paper",
        "--protocol",
        "grouped",
        "--splits",
        "3",
        "--by",
        "strategy",
        "--json",
    ]
    found = wattlaw("evaluate", store, *options)
    assert (found.code, found.err) == (0, "")
    said = json.loads(found.out)
    assert (said["law"], said["protocol"], said["target"]) == ("power", "grouped", "energy")
    assert (said["num_records"], said["num_left_out"], said["num_splits"]) == (40, 0, 3)
    assert set(said["metrics"]) == set(METRICS)
    assert said["metrics"] == said["evaluations"][0]["metrics"]
    for metric in said["metrics"].values():
        assert metric["lower_quartile"] <= metric["median"] <= metric["upper_quartile"]
        assert metric["count"] == 3
    parts = {(one["law"], one["part"]) for one in said["evaluations"]}
    assert parts == {(law, part) for law in ("power", "paper") for part in ("pooled", "single", "fsdp", "tp")}


def test_the_step_law_recovers_what_it_made(wattlaw, store):
    """Runs with 3 % noise are predicted to about 3 %; the table names the laws side by side."""
    said = json.loads(wattlaw("evaluate", store, "--law", "step", "--splits", 2, "--json").out)
    assert said["metrics"]["median_ape"]["median"] < 6
    text = wattlaw("evaluate", store, "--law", "power", "--law", "additive", "--splits", 2).out
    assert "40 records, 2 splits" in text
    assert all(word in text for word in ("power", "additive", "R2 ln", "covered"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--protocol", "groupd"], ["--protocol", "grouped"]),
        (["--target", "enrgy"], ["--target", "energy"]),
        (["--law", "stpe"], ["--law", "step"]),
        (["--by", "gpu"], ["--by", "machine"]),
        (["--boundary", "moon"], ["--boundary", "node"]),
        (["--boundary", "facility"], ["facility", "boundary node"]),
        (["--splits", "0"], ["--splits", ">= 1"]),
        (["--splits", "1.5"], ["--splits", "1.5"]),
        (["--splits", "1e30"], ["--splits", "<= 10000"]),
        (["--test-fraction", "0"], ["--test-fraction"]),
        (["--test-fraction", "nan"], ["--test-fraction"]),
        (["--test-fraction", "0.001"], ["too few configuration families"]),
        (["--runs", "-1"], ["--runs", ">= 0"]),
        (["--runs", "100", "--protocol", "few-runs"], ["too few runs on", "more than 100"]),
        (["--seed", "-1"], ["--seed", ">= 0"]),
        (["--level", "1"], ["--level", "< 1"]),
        (["--target", "time", "--law", "power"], ["predicts no time"]),
        (["--prior", "bundled", "--law", "power"], ["--prior"]),
        (["--markdown", "--json"], ["--markdown", "--json"]),
        (["--figure", "laws.pdf"], ["--figure", ".html, .png, .svg"]),
        (["--figure", "nowhere/laws.png"], ["nowhere", "mkdir"]),
    ],
)
def test_options_that_cannot_be_are_refused(refused, store, options, words):
    """The option as it was typed, or the store, and what is allowed."""
    refused("evaluate", store, *(["--law", "power"] if "--law" not in options else []), *options, words=words)


def test_one_gpu_model_cannot_be_left_out(refused, store_of):
    """There is nothing to learn from."""
    path = store_of(lambda record: record if record.spec.accelerator.name == "rtx-2080-ti" else None)
    for protocol in ("leave-one-gpu-out", "few-runs"):
        refused("evaluate", path, "--law", "power", "--protocol", protocol, words=[str(path), "rtx-2080-ti"])


def test_a_terminal_shows_how_far_it_is(wattlaw, store, monkeypatch):
    """A bar with the time left on standard error; nothing of it with --json."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = {}
    for options in ((), ("--json",)):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        found = wattlaw("evaluate", store, "--law", "power", "--splits", 3, *options)
        assert found.code == 0
        shown[options] = terminal.getvalue()
    assert "power" in shown[()]
    assert "0/3" in shown[()]
    assert shown["--json",] == ""


def test_all_laws_side_by_side_as_markdown(wattlaw, store):
    """Every law has its row, in the order of the list."""
    found = wattlaw("evaluate", store, "--all", "--splits", 1, "--markdown")
    assert (found.code, found.err) == (0, "")
    rows = [line.split("|")[1].strip() for line in found.out.splitlines() if line.startswith("| ")]
    assert rows == ["law", "---", *LAWS]


def test_several_targets_and_a_figure_of_the_first(wattlaw, store, tmp_path):
    """Two verdicts in JSON; the figure is drawn beside."""
    path = tmp_path / "laws.svg"
    options = ["--law", "6nd", "--target", "time", "--target", "energy", "--splits", 2, "--figure", path, "--json"]
    said = json.loads(wattlaw("evaluate", store, *options).out)
    assert [one["target"] for one in said["evaluations"]] == ["time", "energy"]
    assert "time, grouped: 40 records, held out, 2 splits" in path.read_text()


def test_cold_is_a_protocol(wattlaw, store):
    """Each machine is a split."""
    said = json.loads(wattlaw("evaluate", store, "--protocol", "cold", "--law", "step", "--law", "tdp", "--json").out)
    assert (said["protocol"], said["num_splits"]) == ("cold", 2)
    assert {"coverage", "half_width"} <= set(said["metrics"])


def test_the_protocol_of_the_paper(wattlaw, refused, store):
    """Five stratified splits; RMSE, calibration slope and intercept, and the coverage of a residual bootstrap."""
    options = ["--law", "paper", "--efficiency", "measured", "--protocol", "paper"]
    said = json.loads(wattlaw("evaluate", store, *options, "--json").out)
    assert (said["protocol"], said["num_splits"]) == ("paper", 5)
    assert {"r2_log", "rmse_log", "slope", "intercept", "coverage", "half_width"} <= set(said["metrics"])
    assert json.loads(wattlaw("evaluate", store, *options, "--splits", 3, "--json").out)["num_splits"] == 3
    text = wattlaw("evaluate", store, *options).out
    assert all(words in text for words in ("RMSE ln", "slope", "intercept", "residual bootstraps"))
    refused("evaluate", store, *options, "--target", "time", words=["--target", "energy"])
    refused("evaluate", store, *options, "--by", "strategy", words=["--by", "strategy"])
    refused("evaluate", store, "--law", "step", "--compute", "artifact", words=["--compute", "step"])
