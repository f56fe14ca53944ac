"""``wattlaw explain``: the tree, slopes and changes for people and machines, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wattlaw.explain.correction import part_times
from wattlaw.explain.tree import explain
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration, Residuals
from wattlaw.measure.module_times import ModuleTimes, PartTime, write_module_times
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes

EXAMPLE = Path(__file__).parents[2] / "examples" / "bert-base-sst2.toml"


def test_the_tree_holds_what_predict_says(wattlaw, run_options):
    """The root's energy and time are the prediction's, its children sum, and depth cuts the tree and not the sums."""
    explained = json.loads(wattlaw("explain", *run_options, "--json").out)
    predicted = json.loads(wattlaw("predict", *run_options, "--json").out)
    tree = explained["tree"]
    assert tree["energy_j"] == pytest.approx(predicted["energy_j"]["mid"], rel=1e-9)
    assert tree["time_s"] == pytest.approx(predicted["duration_s"]["mid"], rel=1e-9)
    assert sum(child["energy_j"] for child in tree["children"]) == pytest.approx(tree["energy_j"], rel=1e-9)
    assert explained["energy_j"] == predicted["energy_j"]
    assert {"efficiency", "sensitivities", "what_if", "terms_j", "warnings"} <= set(explained)
    short = json.loads(wattlaw("explain", *run_options, "--json", "--depth", "1").out)["tree"]
    assert [child["name"] for child in short["children"]] == [child["name"] for child in tree["children"]]
    assert all(child["children"] == [] for child in short["children"])


def test_people_see_modules_slopes_and_changes(wattlaw):
    """Names of parts, twelve blocks in one line, what a tenth more does, and what could be changed."""
    found = wattlaw("explain", EXAMPLE)
    assert found.code == 0
    parts = ("where it goes", "12 blocks", "attention", "embeddings")
    merit = ("MFU", "tokens/s", "per token", "kWh per billion tokens")
    changes = ("+10 % of", "what if", "LoRA, rank 8", "half the sequence length")
    for words in (*parts, *merit, *changes):
        assert words in found.out, words
    assert max(len(line) for line in found.out.splitlines()) <= 80


def test_by_phase_the_tree_begins_with_phases(wattlaw):
    """Forward, both backward passes, the optimizer, messages, waiting and the host."""
    tree = json.loads(wattlaw("explain", EXAMPLE, "--by", "phase", "--json", "--depth=1").out)["tree"]
    names = [child["name"] for child in tree["children"]]
    assert names[:3] == ["forward", "backward_input", "backward_weight"]
    assert {"optimizer", "communication", "host"} <= set(names)
    assert "backward, for inputs" in wattlaw("explain", EXAMPLE, "--by", "phase").out


def test_a_change_is_a_run_of_its_own(wattlaw):
    """--what-if replaces options of a file, several at once too; one that cannot run says why."""
    found = wattlaw(
        "explain", EXAMPLE, "--json", "--what-if", "batch-size=16, strategy=ddp", "--what-if", "batch_size=8192"
    )
    first, second = json.loads(found.out)["what_if"]
    changed = wattlaw("predict", EXAMPLE, "--batch-size=16", "--strategy=ddp", "--json")
    assert first["name"] == "batch_size = 16, strategy = ddp"
    assert first["energy_j"] == json.loads(changed.out)["energy_j"]
    assert "memory" in second["refused"]
    assert "energy_j" not in second
    shown = wattlaw("explain", EXAMPLE, "--what-if=batch_size=8192").out
    assert "cannot run" in shown
    assert "memory" in shown


def test_a_change_of_the_amount_or_the_model_replaces_the_other(wattlaw, run_options):
    """Tokens instead of steps, another model instead of this one: neither is given twice."""
    found = wattlaw("explain", *run_options, "--json", "--what-if=tokens=1e6", "--what-if=model=gpt2")
    assert [one.get("refused") for one in json.loads(found.out)["what_if"]] == [None, None]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--what-if", "seq_len"), ("--what-if", "a change has a name and a value", "such as seq_len=256")),
        (("--what-if", "sequence=3"), ("--what-if", "unknown input", "seq_len")),
        (("--what-if", "batch_size=none"), ("--what-if", "--batch-size", "whole number")),
        (("--figure", "tree.pdf"), ("page, PNG or SVG", "tree.pdf", ".html")),
        (("--modules", "absent.jsonl"), ("absent.jsonl", "cannot read")),
        (("--batch-size", "100000"), ("--batch-size", "memory")),
    ],
)
def test_what_is_wrong_is_told_in_a_line(refused, run_options, arguments, words, tmp_path, monkeypatch):
    """Where, what, and what would be right."""
    monkeypatch.chdir(tmp_path)
    refused("explain", *run_options, *arguments, words=words)


def test_a_law_without_a_step_is_refused(refused, run_options, tmp_path):
    """The file is named, and the law that could be explained."""
    path = tmp_path / "law.json"
    Calibration(
        law="power",
        parameters={"log_scale": 1.0, "compute_exponent": 0.2, "memory_exponent": 0.1},
        residuals=Residuals(energy=(0.1, -0.1, 0.0, 0.2)),
        options={"compute": "eq2"},
        provenance={"source": "a test"},
    ).save(path)
    message = refused("explain", *run_options, "--law", path)
    assert str(path) in message


def test_explaining_from_the_shell_loads_nothing_heavy():
    """Arithmetic only: no torch, no plotting, no scipy."""
    call = (
        f"import sys\nsys.argv = ['wattlaw', 'explain', {str(EXAMPLE)!r}, '--json']\nfrom wattlaw.cli import main\n"
        "try:\n    main()\nexcept SystemExit as leaving:\n    assert leaving.code == 0\n"
        "print('modules', *sorted({name.split('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    assert not set(found.stdout.splitlines()[-1].split()) & {"torch", "transformers", "scipy", "altair", "rich"}


@pytest.mark.parametrize("form", ["html", "png", "svg"])
def test_the_tree_is_drawn(wattlaw, tmp_path, form):
    """A page without a network, a picture, or a drawing."""
    pytest.importorskip("vl_convert")
    path = tmp_path / f"tree.{form}"
    assert wattlaw("explain", EXAMPLE, "--figure", path, "--json").code == 0
    content = path.read_bytes()
    assert content.startswith({"html": b"<!", "png": b"\x89PNG", "svg": b"<svg"}[form])
    assert form == "png" or b"embeddings" in content


def test_measured_modules_correct_the_tree(wattlaw, refused, tmp_path, run_options):
    """Factors from this machine's modules move the shares; another machine's are refused."""
    spec = RunSpec(
        architecture=from_sizes("bert", head="classification", num_layers=2, hidden_size=64, num_heads=4,
                                ffn_size=256, vocab_size=500),
        recipe=Recipe(batch_size=4, seq_len=32, precision="fp32", steps=10),
        layout=Layout(),
        accelerator=accelerator("generic-cpu"),
    )  # fmt: skip
    parts = part_times(explain(spec, bundled()))
    parts["norm"] *= 3
    path = tmp_path / "modules.jsonl"
    rows = tuple(PartTime(part=name, block=-1, forward_s=value, backward_s=0.0) for name, value in parts.items())
    write_module_times(path, [ModuleTimes(spec=spec, parts=rows, pass_s=1.0, update_s=0.1, num_steps=3, threads=1)])
    options = ("--model=bert-base-uncased", "--gpu=generic-cpu", "--batch-size=4", "--seq-len=32", "--steps=10",
               "--precision=fp32", "--by=phase", "--json", "--depth=2")  # fmt: skip

    def norm_share(*more):
        tree = json.loads(wattlaw("explain", *options, *more).out)["tree"]
        forward = next(child for child in tree["children"] if child["name"] == "forward")
        return next(child for child in forward["children"] if child["name"] == "norm")["time_share"]

    assert norm_share(f"--modules={path}") > 1.5 * norm_share()
    refused("explain", *run_options, "--modules", path, words=(str(path), "another machine", "generic-cpu"))
