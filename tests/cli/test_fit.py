"""``wattlaw fit``: what it writes, and what it leaves alone."""

from __future__ import annotations

import json

import pytest

from wattlaw.law.calibration import Calibration


def test_a_fitted_law_is_one_that_predicts(wattlaw, store, tmp_path):
    """The lines of the README, one after the other; warm on a machine that was in the records."""
    law = tmp_path / "law.json"
    fitted = wattlaw("fit", store, "--law", "step", "-o", law)
    assert (fitted.code, fitted.err) == (0, "")
    assert f"{law}: step law, 40 records" in fitted.out
    options = [
        "--model",
        "bert-base-uncased",
        "--gpu",
        "rtx-2080-ti",
        "--batch-size",
        "8",
        "--seq-len",
        "64",
        "--steps",
        "9",
        "--precision",
        "fp16",
    ]
    found = wattlaw("predict", *options, "--law", law, "--json")
    assert found.code == 0
    assert json.loads(found.out)["cold"] is False


def test_json_has_parameters_and_provenance(wattlaw, store, tmp_path):
    """A machine reads what was fitted, to how much, and from where."""
    found = wattlaw("fit", store, "--law", "power", "-o", tmp_path / "law.json", "--json")
    said = json.loads(found.out)
    assert (said["law"], said["num_records"], said["num_left_out"], said["boundary"]) == ("power", 40, 0, "node")
    assert set(said["parameters"]) == {"intercept", "ln_compute_proxy", "ln_memory_proxy"}
    assert said["provenance"]["state"] == "warm"


@pytest.mark.parametrize("law", ["step", "paper", "power", "additive"])
def test_runs_that_failed_or_were_not_measured_are_left_out_and_counted(wattlaw, store_of, change, law, tmp_path):
    """A record without an energy takes nothing from those that have one."""
    spoilt = {
        "run 3": {"status": "failed"},
        "run 4": {"energies": ()},
        "run 5": {"spec": None, "missing": ("recipe.steps",)},
    }
    path = store_of(lambda record: change(record, **spoilt.get(record.record_id, {})))
    found = wattlaw("fit", path, "--law", law, "-o", tmp_path / "law.json", "--json")
    assert found.code == 0, found.err
    said = json.loads(found.out)
    assert (said["num_records"], said["num_left_out"]) == (37, 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["0 records", "wattlaw import"]),
        ("\n\n", ["0 records"]),
        ("hello\n", ["line 1", "wattlaw import"]),
        ('{"a": 1}\n', ["line 1", "schema"]),
        ("[1]\n", ["line 1"]),
    ],
)
def test_what_is_no_store_is_named_with_its_line(refused, tmp_path, content, words):
    """Empty, text, another kind of JSON."""
    path = tmp_path / "records.jsonl"
    path.write_text(content)
    refused("fit", path, "-o", tmp_path / "law.json", words=[f"{path}: ", *words])
    assert not (tmp_path / "law.json").exists()


def test_binary_files_do_not_reach_the_terminal(refused, tmp_path):
    """A character that a terminal would obey is shown as a mark."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"\x00\x1b[31m\xff\n")
    assert refused("fit", path, "-o", tmp_path / "law.json").strip().isprintable()


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ('"duration_s":', '"duration_s":NaN,"x":', ["line 1", "duration_s", "nan"]),
        ('"duration_s":', '"duration_s":1e400,"x":', ["line 1", "duration_s", "inf"]),
        ('"duration_s":', '"duration_s":-1,"x":', ["line 1", "duration_s", "-1"]),
        ('"energy_j":', '"energy_j":0,"x":', ["line 1", "energy_j", "0"]),
        ('"schema":1', '"schema":9', ["line 1", "schema", "9"]),
    ],
)
def test_a_number_that_cannot_be_measured_is_named_with_its_field(refused, store, tmp_path, was, becomes, words):
    """NaN is not taken for a record that was cut short."""
    lines = store.read_text().splitlines()
    assert was in lines[0]
    head, tail = lines[0].split(was, 1)
    tail = tail.split(",", 1)[1] if becomes.endswith('"x":') else tail
    lines[0] = head + becomes.removesuffix('"x":').rstrip(",") + ("," if becomes.endswith('"x":') else "") + tail
    store.write_text("\n".join(lines) + "\n")
    refused("fit", store, "-o", tmp_path / "law.json", words=words)


def test_too_few_rows_and_collinear_columns_are_refused(refused, store_of, tmp_path):
    """The store is named; a law that was there before stays as it is."""
    law = tmp_path / "law.json"
    Calibration(law="power", parameters={"intercept": 1.0}).save(law)
    before = law.read_bytes()
    few = store_of(lambda record: record if record.record_id in ("run 0", "run 6") else None, "few.jsonl")
    refused("fit", few, "--law", "power", "-o", law, words=[f"{few}: ", "too few rows"])
    same = store_of(lambda record: record if record.record_id in ("run 0", "run 4") else None, "same.jsonl")
    same.write_text(
        "".join(same.read_text().replace("run 0", f"run {n}").splitlines(keepends=True)[0] for n in range(9))
    )
    refused("fit", same, "--law", "power", "-o", law, words=[f"{same}: ", "compute_proxy"])
    refused("fit", same, "--law", "additive", "-o", law, words=[f"{same}: ", "repeat each other"])
    refused("fit", same, "--law", "paper", "-o", law, words=[f"{same}: "])
    assert law.read_bytes() == before


def test_energies_that_include_different_things_are_not_mixed(refused, store_of, change, tmp_path):
    """A boundary that nobody measured names those that were."""
    path = store_of(
        lambda record: change(
            record,
            energies=(change(record.energies[0], boundary="facility" if record.record_id > "run 3" else "node"),),
        )
    )
    refused("fit", path, "-o", tmp_path / "law.json", words=["different boundaries"])
    refused(
        *("fit", path, "-o", tmp_path / "law.json", "--boundary", "accelerators"),
        words=["accelerators", "facility", "node"],
    )


def test_only_a_law_is_written_over(refused, wattlaw, store, tmp_path):
    """Measurements, or any other file, are not lost to a slip in -o."""
    before = store.read_bytes()
    refused("fit", store, "--law", "power", "-o", store, words=["no fitted law"])
    assert store.read_bytes() == before
    law = tmp_path / "law.json"
    for _ in range(2):
        assert wattlaw("fit", store, "--law", "power", "-o", law).code == 0


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("nowhere/law.json", ["the folder is not there", "mkdir"]),
        (".", ["a folder, not a file"]),
        ("", ["--output", "empty path"]),
        ("/dev/null", ["a device, not a file"]),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_the_work(refused, tmp_path, monkeypatch, output, words):
    """Even before the records are read: they are not there."""
    monkeypatch.chdir(tmp_path)
    refused("fit", "missing.jsonl", "-o", output, words=words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--law", "stpe"], ["--law", "step"]),
        (["--boundary", "moon"], ["--boundary", "facility"]),
        (["--prior", "missing.json"], ["missing.json"]),
        (["--prior", "bundled", "--law", "power"], ["--prior", "--law power"]),
    ],
)
def test_options_that_cannot_be_are_refused(refused, store, tmp_path, options, words):
    """The option and what is allowed."""
    refused("fit", store, "-o", tmp_path / "law.json", *options, words=words)


def test_a_store_that_is_not_there_is_named(refused, tmp_path):
    """A missing file, a device that never ends, a folder without records."""
    law = tmp_path / "law.json"
    refused("fit", tmp_path / "missing.jsonl", "-o", law, words=["missing.jsonl", "No such file"])
    refused("fit", "/dev/null", "-o", law, words=["a device"])
    refused("fit", tmp_path, "-o", law, words=["no records in this folder"])


def test_a_regression_is_diagnosed_on_request(wattlaw, store, tmp_path):
    """Errors, inflation and influential runs, as text and as JSON; the law is written all the same."""
    law = tmp_path / "paper.json"
    found = wattlaw("fit", store, "--law", "paper", "--diagnose", "-o", law)
    assert (found.code, found.err) == (0, "")
    assert all(words in found.out for words in ("paper law, 40 records", "HC3 error", "inflation", "Cook's distance"))
    said = json.loads(wattlaw("fit", store, "--law", "power", "--diagnose", "-o", law, "--json").out)
    assert said["diagnosis"]["coefficients"]["intercept"]["standard_error"] > 0
    assert Calibration.load(law).law == "power"


def test_only_a_regression_has_a_diagnosis(refused, store, tmp_path):
    """Before anything is fitted."""
    law = tmp_path / "law.json"
    refused(
        "fit", store, "--law", "step", "--diagnose", "-o", law, words=["--diagnose", "step", "paper, power, additive"]
    )
    assert not law.exists()


def test_the_choices_of_the_paper_are_options(wattlaw, store, tmp_path):
    """How C is counted, where eta_h comes from, which errors, which effects: kept with the law."""
    law = tmp_path / "paper.json"
    choices = ["--compute=artifact", "--efficiency=none", "--covariance=hc3", "--effect=strategy", "--effect=machine"]
    said = json.loads(wattlaw("fit", store, "--law", "paper", *choices, "-o", law, "--json").out)
    kept = {name: said["options"][name] for name in ("compute", "efficiency", "covariance", "effects", "proxies")}
    assert kept == {"compute": "artifact", "efficiency": "none", "covariance": "HC3", "effects": "strategy machine",
                    "proxies": "spec"}  # fmt: skip
    assert "machine:rtx-2080-ti" in said["parameters"]
    assert said["standard_errors"]["intercept"] > 0
    usual = json.loads(wattlaw("fit", store, "--law", "paper", "-o", law, "--json").out)
    assert (usual["options"]["compute"], usual["options"]["efficiency"]) == ("eq2", "speedup")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--law", "step", "--efficiency", "none"], ["--efficiency", "step", "--law paper"]),
        (["--law", "power", "--effect", "strategy"], ["--effect", "power", "--law paper"]),
        (["--law", "paper", "--weighting", "relative"], ["--weighting", "--law additive"]),
        (["--law", "paper", "--compute", "eq3"], ["--compute", "eq2", "artifact"]),
    ],
)
def test_a_choice_that_a_law_does_not_have_is_refused(refused, store, tmp_path, options, words):
    """Not taken in silence."""
    refused("fit", store, *options, "-o", tmp_path / "law.json", words=words)


def test_an_additive_law_is_diagnosed(wattlaw, store, tmp_path):
    """Prices with errors, or that they lean on their bound; b, k1, k2, the band, and the bounds (5) and (6)."""
    law = tmp_path / "additive.json"
    found = wattlaw("fit", store, "--law", "additive", "--diagnose", "-o", law)
    assert (found.code, found.err) == (0, "")
    assert all(words in found.out for words in ("standard error", "local slope", "band", "bound (5)", "bound (6)"))
    said = json.loads(wattlaw("fit", store, "--law", "additive", "--diagnose", "-o", law, "--json").out)
    for name, price in said["diagnosis"]["prices"].items():
        assert (price["standard_error"] is None) == price["on_bound"], name
        assert said["standard_errors"][name] == price["standard_error"]
    assert 0 < said["diagnosis"]["traffic"]["lowest"] <= said["diagnosis"]["traffic"]["highest"]


def test_a_published_law_is_given_its_level(wattlaw, store_of, tmp_path):
    """The exponents are those of table 3, whatever the records are; every verb takes the file."""
    law = tmp_path / "anchored.json"
    single = store_of(lambda record: record if record.spec.layout.num_devices == 1 else None)
    said = json.loads(wattlaw("fit", single, "--law", "paper-table3", "-o", law, "--json").out)
    assert said["parameters"]["ln_compute_proxy"] == 0.1955
    assert (said["num_records"], said["boundary"]) == (8, "node")
    run = ["--model=bert-base-uncased", "--gpu=rtx-2080-ti", "--batch-size=8", "--seq-len=64", "--steps=9"]
    assert wattlaw("predict", *run, "--precision=fp16", "--law", law).code == 0


def test_a_law_to_be_passed_on_can_leave_its_runs_out(wattlaw, store, tmp_path):
    """Without the residual the file keeps no inputs of runs; the parameters are the same."""
    whole, plain = tmp_path / "whole.json", tmp_path / "plain.json"
    said = json.loads(wattlaw("fit", store, "-o", whole, "--json").out)
    bare = json.loads(wattlaw("fit", store, "--no-residual", "-o", plain, "--json").out)
    assert sum(said["num_interpolated"].values()) == said["num_records"] == 40
    assert bare["num_interpolated"] == {}
    assert bare["machines"] == said["machines"]
    assert "inputs" not in plain.read_text()
    text = wattlaw("fit", store, "-o", whole).out
    assert "unexplained" in text
    assert "interpolated between" in text
