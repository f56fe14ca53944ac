"""``wattlaw compare``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BERT = ROOT / "examples" / "bert-base-sst2.toml"
FULL = ROOT / "examples" / "llama2-7b-fsdp.toml"
LORA = ROOT / "examples" / "llama2-7b-lora.toml"


def test_runs_stand_side_by_side(wattlaw):
    """Each with its energy and time, and below them who takes less with which chance."""
    found = wattlaw("compare", BERT, FULL, LORA, "--region", "DE")
    assert found.code == 0, found.err
    for words in ("bert-base-sst2", "llama2-7b-fsdp", "energy per token", "carbon", "less energy than the column"):
        assert words in found.out
    assert "do not train on the same number of tokens" in found.out


def test_json_has_every_prediction_and_the_chances(wattlaw):
    """The predictions are those of ``wattlaw predict``; the small run surely takes less than the large one."""
    found = json.loads(wattlaw("compare", BERT, FULL, "--level", "0.8", "--json").out)
    alone = json.loads(wattlaw("predict", BERT, "--level", "0.8", "--json").out)
    assert found["runs"][0]["energy_j"] == alone["energy_j"]
    assert found["chances"]["energy"][0][1] > 0.99
    assert found["chances"]["energy"][1][0] < 0.01


def test_files_of_one_name_are_told_apart(wattlaw, tmp_path):
    """By their number."""
    copy = tmp_path / LORA.name
    copy.write_text(LORA.read_text())
    found = wattlaw("compare", LORA, copy)
    assert "1 llama2-7b-lora" in found.out
    assert "2 llama2-7b-lora" in found.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([BERT], ["two runs"]),
        ([BERT, "nowhere.toml"], ["nowhere.toml"]),
        ([BERT, FULL, "--level", "2"], ["--level"]),
        ([BERT, FULL, "--law", "nowhere.json"], ["nowhere.json"]),
        ([BERT, FULL, "--region", "XX"], ["--region"]),
    ],
)
def test_bad_input_is_one_line(refused, arguments, words):
    """Exit code 2 and what to mend."""
    refused("compare", *arguments, words=words)


def test_of_several_runs_the_one_that_does_not_fit_is_named(refused, tmp_path):
    """Memory is refused with the file that asks for it."""
    (tmp_path / "small.toml").write_text(TOO_LARGE.replace("batch_size = 4096", "batch_size = 1"))
    (tmp_path / "large.toml").write_text(TOO_LARGE)
    words = ("large.toml: ", "batch_size", "does not fit")
    found = refused("compare", tmp_path / "small.toml", tmp_path / "large.toml", words=words)
    assert "small.toml" not in found


TOO_LARGE = """
[model]
preset = "bert-base-uncased"
[recipe]
batch_size = 4096
seq_len = 512
steps = 10
[hardware]
gpu = "a100-sxm4-40gb"
[layout]
"""
