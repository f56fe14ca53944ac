"""``wattlaw predict``: what it says, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = EXAMPLES / "bert-base-uncased" / "config.json"
SPEC = EXAMPLES / "bert-base-sst2.toml"

SIZES = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "num_hidden_layers": 12,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
}
TOML = """
[model]
preset = "bert-base-uncased"
[recipe]
batch_size = 8
seq_len = 128
steps = 10
[hardware]
gpu = "a100-sxm4-40gb"
"""


def test_json_says_all_that_was_promised(wattlaw):
    """Energy and time with their ends, the boundary, parts that sum to the whole, where it comes from, doubts."""
    found = wattlaw(
        *("predict", "--model", "bert-base-uncased", "--gpu", "NVIDIA GeForce RTX 2080 Ti", "--num-gpus", "4"),
        *("--strategy", "fsdp", "--batch-size", "32", "--seq-len", "128", "--samples", "67349", "--epochs", "3"),
        *("--precision", "fp16", "--json"),
    )
    assert (found.code, found.err) == (0, "")
    said = json.loads(found.out)
    assert set(said["energy_j"]) == {"low", "mid", "high", "level"}
    assert {"low", "mid", "high"} <= set(said["duration_s"])
    assert said["boundary"] == "node"
    assert sum(said["terms_j"].values()) == pytest.approx(said["energy_j"]["mid"])
    assert sum(said["terms_s"].values()) == pytest.approx(said["duration_s"]["mid"])
    assert said["calibration"].startswith("step: ")
    assert said["in_domain"] is (not said["outside"])
    assert isinstance(said["warnings"], list)
    assert said["energy_j"]["low"] < said["energy_j"]["mid"] < said["energy_j"]["high"]


def test_a_config_file_and_its_folder_are_the_same_model(wattlaw):
    """The line of the README, with the file or the folder; the run is named after the folder."""
    options = [
        "--gpu",
        "a100-sxm4-40gb",
        "--num-gpus",
        "2",
        "--strategy",
        "tp",
        "--batch-size",
        "8",
        "--seq-len",
        "512",
        "--steps",
        "1000",
    ]
    by_file = wattlaw("predict", "--config", CONFIG, *options)
    assert by_file.code == 0
    assert by_file.out == wattlaw("predict", "--config", CONFIG.parent, *options).out
    assert by_file.out.startswith("bert-base-uncased, tp on 2 x NVIDIA A100")


def test_options_replace_parts_of_a_file(wattlaw):
    """The name of the file's run stays; another amount replaces the file's samples and epochs."""
    base = json.loads(wattlaw("predict", SPEC, "--json").out)
    more = json.loads(wattlaw("predict", SPEC, "--epochs", 6, "--json").out)
    other = json.loads(wattlaw("predict", SPEC, "--steps", 100, "--model", "gpt2", "--json").out)
    assert base["run"].startswith("BERT-base on SST-2, fsdp on 4 x ")
    assert more["energy_j"]["mid"] == pytest.approx(2 * base["energy_j"]["mid"], rel=0.05)
    assert other["run"].startswith("gpt2, ")
    assert other["energy_j"]["mid"] < base["energy_j"]["mid"]


def test_names_may_be_written_in_any_case_and_counts_as_1e6(wattlaw, run_options):
    """What people type is read as they mean it."""
    plain = wattlaw("predict", *run_options, "--precision", "fp16", "--json")
    other = wattlaw("predict", *run_options[:-1], "--steps", "1e2", "--precision", "FP16", "--json")
    assert plain.code == 0
    assert plain.out == other.out


def test_money_and_carbon_only_where_their_figures_are_given(wattlaw, run_options):
    """Nothing is guessed: a price makes a cost, a PUE makes the facility's energy."""
    without = json.loads(wattlaw("predict", *run_options, "--json").out)
    figures = ("--pue=1.5", "--carbon-g-per-kwh=400", "--price-per-kwh=0.3", "--price-per-gpu-hour=2")
    said = json.loads(wattlaw("predict", *run_options, *figures, "--json").out)
    names = {"facility_energy_j", "carbon_g", "electricity_cost", "device_cost"}
    assert not names & set(without)
    assert said["facility_energy_j"]["mid"] == pytest.approx(1.5 * said["energy_j"]["mid"])
    assert said["carbon_g"]["high"] == pytest.approx(said["facility_energy_j"]["high"] / 3.6e6 * 400)
    assert said["device_cost"]["mid"] == pytest.approx(said["duration_s"]["mid"] / 3600 * 2)
    text = wattlaw("predict", *run_options, *figures).out
    assert all(words in text for words in ("energy (facility)", "carbon", "cost of electricity", "cost of devices"))


NUMBERS = ("0", "-1", "nan", "inf", "1e400", "abc", "")
COUNTS = (
    "batch-size",
    "seq-len",
    "num-gpus",
    "num-nodes",
    "tensor-parallel",
    "grad-accumulation",
    "num-labels",
    "steps",
)


@pytest.mark.parametrize("value", [*NUMBERS, "1.5", "1e-300"])
@pytest.mark.parametrize("option", COUNTS)
def test_a_count_that_is_none_is_refused(refused, run_options, option, value):
    """The line names the option as it was typed, the value, and what is allowed."""
    refused("predict", *run_options, f"--{option}={value}", words=[f"--{option}", repr(value), ">= 1"])


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e400", "abc"])
@pytest.mark.parametrize(
    "option",
    ["epochs", "padded-len", "power-limit", "level", "pue", "carbon-g-per-kwh", "price-per-kwh", "evaluation-fraction"],
)
def test_a_number_that_is_none_is_refused(refused, run_options, option, value):
    """Not finite, negative or not a number: all the same."""
    refused("predict", *run_options, f"--{option}={value}", words=[f"--{option}", repr(value), "a finite number"])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_level_is_between_0_and_1(refused, run_options, level):
    """An interval that holds all runs, or none, is no interval."""
    refused("predict", *run_options, "--level", level, words=["--level", "> 0, < 1"])


@pytest.mark.parametrize("option", ["batch-size", "seq-len", "grad-accumulation", "steps", "num-gpus"])
def test_a_number_with_thirty_digits_is_refused(refused, run_options, option):
    """Arithmetic that overflows is not reached."""
    refused("predict", *run_options, "--strategy=ddp", f"--{option}={10**30}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "brt-base"], ["--model", "'brt-base'", "bert-base-uncased"]),
        (["--gpu", "a100"], ["--gpu", "a100-sxm4-40gb"]),
        (["--gpu", "日本"], ["--gpu", "wattlaw hardware list"]),
        (["--node", "dgx"], ["--node", "dgx-a100"]),
        (["--strategy", "fdsp"], ["--strategy", "fsdp"]),
        (["--strategy", ""], ["--strategy", "fsdp"]),
        (["--precision", "fp61"], ["--precision", "fp16"]),
        (["--precision", "fp8"], ["--precision", "does not compute in fp8", "bf16"]),
        (["--optimizer", "adamm"], ["--optimizer", "adam"]),
        (["--checkpointing", "ful"], ["--checkpointing", "full"]),
        (["--attention-kernel", "flash"], ["--attention-kernel", "fused"]),
        (["--head", "clasification"], ["--head", "classification"]),
        (["--num-labels", "5"], ["--num-labels", "--head classification"]),
        (["--num-gpus", "4"], ["--strategy", "fsdp"]),
        (["--num-gpus", "5", "--strategy", "tp"], ["--num-gpus", "num_heads 12", "a divisor of 12"]),
        (["--num-gpus", "4", "--strategy", "fsdp x tp"], ["--tensor-parallel", "a divisor of 4"]),
        (["--num-gpus", "4", "--strategy", "single"], ["--strategy", "4 devices", "fsdp"]),
        (["--num-gpus", "4", "--strategy", "ddp", "--num-nodes", "3"], ["4 devices on 3 nodes"]),
        (["--num-gpus", "4", "--strategy", "ddp", "--num-nodes", "2"], ["--node dgx-a100"]),
        (["--num-gpus", "2", "--strategy", "ddp", "--node", "dgx-h100"], ["--node", "h100-sxm5-80gb"]),
        (["--seq-len", "1000"], ["--seq-len", "<= 512"]),
        (["--padded-len", "500"], ["--padded-len", "<= 128"]),
        (["--target-len", "5"], ["--target-len"]),
        (["--batch-size", "100000"], ["--batch-size", "GiB", "a100-sxm4-40gb", "--checkpointing full"]),
        (["--samples", "10"], ["--steps", "--samples", "--tokens"]),
        (["--config", "x/config.json"], ["--model", "--config"]),
        (["--law", "missing.json"], ["missing.json"]),
        (["--law", "."], [".: cannot read"]),
        (["--law", ""], ["--law", "empty path"]),
    ],
)
def test_what_cannot_be_is_refused_in_the_words_that_were_typed(refused, run_options, options, words):
    """Never a table and key that the user has not seen."""
    line = refused("predict", *run_options, *options, words=words)
    for internal in ("[recipe]", "[layout]", "[model]", "[hardware]", "batch_size", "seq_len", "num_devices"):
        assert internal not in line


def test_what_is_missing_is_named_at_once(refused):
    """Who gives only a model need not find out one by one."""
    refused("predict", words=["SPEC", "--gpu", "--batch-size", "--seq-len", "--model or --config", "--steps"])
    line = refused("predict", "--model", "gpt2", "--batch-size", 1, words=["--gpu", "--seq-len"])
    assert "also --gpu, --seq-len, --steps" in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["[model]"]),
        ("[model]\npreset = 'bert", ["TOML"]),
        (bytes(range(256)), ["TOML"]),
        ("[modle]\n", ["modle", "model"]),
        ("model = [1]\nrecipe = 1\nhardware = 2", ["[hardware]"]),
        (TOML.replace("batch_size", "batchsize"), ["[recipe]", "batchsize", "batch_size"]),
        (TOML.replace("= 8", "= nan"), ["[recipe]: batch_size", "nan"]),
        (TOML.replace("= 8", "= 0"), ["[recipe]: batch_size", "0", ">= 1"]),
        (TOML.replace("= 8", "= 1.5"), ["[recipe]: batch_size", "1.5"]),
        (TOML.replace("= 8", "= 1e400"), ["[recipe]: batch_size"]),
        (TOML.replace("= 8", f"= {10**30}"), ["[recipe]"]),
        (TOML.replace("= 8", "= '8'"), ["[recipe]: batch_size", "'8'"]),
        (TOML.replace("steps = 10", ""), ["steps, samples, tokens"]),
        (TOML.replace("steps = 10", "steps = 10\nsamples = 3"), ["steps, samples"]),
        (TOML.replace("a100-sxm4-40gb", "a1000"), ["[hardware]: gpu", "a1000"]),
        (TOML.replace("bert-base-uncased", "brt"), ["[model]: preset", "brt"]),
        (TOML + "[layout]\nstrategy = 'tp'\nnum_devices = 5", ["tensor_parallel", "12"]),
        (TOML + "[layout]\nstrategy = ''", ["strategy"]),
        (TOML + "[layout]\nnum_devices = 4", ["strategy"]),
    ],
)
def test_a_bad_spec_file_is_named_with_its_field(refused, tmp_path, content, words):
    """Truncated, binary, misspelt, out of range: file, table and key."""
    path = tmp_path / "run.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused("predict", path, words=[f"{path}: ", *words])


def test_an_option_over_a_file_is_named_as_the_option(refused):
    """The file is right; what was typed over it is not."""
    assert str(SPEC) not in refused("predict", SPEC, "--precision", "fp8", words=["--precision"])
    assert str(SPEC) not in refused("predict", SPEC, "--head", "nope", words=["--head"])


@pytest.mark.parametrize("path", ["missing.toml", ".", "ünï.toml", "a\nb.toml", "", "/dev/null"])
def test_a_spec_that_is_no_file_is_refused(refused, path):
    """Missing, a folder, a device, an empty name."""
    refused("predict", path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", []),
        (bytes(range(256)), []),
        (b'{"model_type": "bert", ', ["truncated"]),
        (b"[1, 2]", ["list"]),
        (b"null", []),
        (b"[" * 10_000, []),
        (b'{"model_type": "mamba"}', ["model_type", "mamba"]),
        (b'{"model_type": "bert", "hidden_size": NaN}', []),
        (SIZES | {"num_hidden_layers": 0}, ["num_hidden_layers", "0"]),
        (SIZES | {"num_hidden_layers": -3}, ["num_hidden_layers", "-3"]),
        (SIZES | {"num_hidden_layers": 10**30}, ["num_hidden_layers"]),
        (SIZES | {"hidden_size": "768"}, ["hidden_size", "'768'"]),
        (SIZES | {"hidden_size": 76.8}, ["hidden_size", "76.8"]),
        (SIZES | {"num_attention_heads": 7}, ["7"]),
        ({key: SIZES[key] for key in SIZES if key != "vocab_size"}, ["vocab_size"]),
        ({key: SIZES[key] for key in SIZES if key != "architectures"}, ["architectures", "--head"]),
    ],
)
def test_a_bad_config_is_named_with_its_field(refused, tmp_path, content, words):
    """The path as it was typed, and the field."""
    path = tmp_path / "config.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    options = ["--gpu", "a100-sxm4-40gb", "--batch-size", "8", "--seq-len", "128", "--steps", "10"]
    line = refused("predict", "--config", path, *options, words=words)
    assert line.startswith(f"wattlaw: {path}: ")
    assert "[model]" not in line


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    option=st.sampled_from(
        [
            *(
                "model",
                "gpu",
                "node",
                "strategy",
                "batch-size",
                "seq-len",
                "steps",
                "epochs",
                "head",
                "precision",
                "law",
            ),
            *("region", "tariff", "carbon-series", "start", "window", "embodied", "pue", "training-type"),
        ]
    ),
    value=st.text(max_size=20) | st.integers().map(str) | st.floats().map(str),
)
def test_no_text_crashes_it(wattlaw, run_options, option, value):
    """Whatever is typed is an answer or one line."""
    found = wattlaw("predict", *run_options, f"--{option}={value}")
    assert found.code in (0, 2)
    assert found.err.count("\n") == (1 if found.code else 0)


PAPER_RUN = ("--model=bert-base-uncased", "--gpu=rtx-2080-ti", "--batch-size=8", "--seq-len=64", "--steps=9",
             "--precision=fp16")  # fmt: skip


def test_a_published_law_by_its_name_needs_an_anchor(wattlaw, refused, store):
    """Without one it says what is not published, and what to type; the additive one predicts nothing."""
    said = refused("predict", *PAPER_RUN, "--law", "paper-table3", words=["ratios", "--anchor records.jsonl"])
    assert "ln_efficiency" in said
    refused("predict", *PAPER_RUN, "--law", "paper-table2", words=["paper-table2", "not published"])
    refused("predict", *PAPER_RUN, "--law", "paper-table4", words=["paper-table4"])
    refused("predict", *PAPER_RUN, "--anchor", store, words=["--anchor", "step"])
    refused("predict", *PAPER_RUN, "--law", "paper-table3", "--anchor", "no.jsonl", words=["no.jsonl"])
    found = wattlaw("predict", *PAPER_RUN, "--law", "paper-table3", "--anchor", store, "--json")
    assert found.code == 0, found.err
    energy = json.loads(found.out)["energy_j"]
    assert energy["low"] < energy["mid"] < energy["high"]


def test_an_additive_law_says_its_bounds(wattlaw, store, tmp_path):
    """What the run cannot go below, the theorem's band and the local slope; other laws say none of it."""
    law = tmp_path / "additive.json"
    assert wattlaw("fit", store, "--law", "additive", "-o", law).code == 0
    said = json.loads(wattlaw("predict", *PAPER_RUN, "--law", law, "--json").out)
    assert 0 < said["bounds"]["least_energy_j"] < said["energy_j"]["mid"]
    assert said["bounds"]["band_j"]["high"] == pytest.approx(said["energy_j"]["mid"])
    assert set(said["bounds"]["traffic"]) == {"exponent", "lowest", "highest", "theorem_applies"}
    text = wattlaw("predict", *PAPER_RUN, "--law", law).out
    assert all(words in text for words in ("bounds: at least", "theorem 3.2", "C^b"))
    assert "bounds" not in json.loads(wattlaw("predict", *PAPER_RUN, "--json").out)
