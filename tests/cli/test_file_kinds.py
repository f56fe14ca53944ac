"""Who hands over a file of another kind is told which it is and what takes it."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.cli.file_kinds import TAKEN_BY, kind_of
from wattlaw.run.importers import shipped_maps

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FILES = {
    "a run spec": EXAMPLES / "bert-base-sst2.toml",
    "a sweep": EXAMPLES / "cpu_sweep.toml",
    "records": EXAMPLES / "cpu_sample" / "records.jsonl",
    "a fitted law": ROOT / "src" / "wattlaw" / "law" / "data" / "bundled" / "step.json",
    "a model's config.json": EXAMPLES / "bert-base-uncased" / "config.json",
    "a tariff": EXAMPLES / "tariff.toml",
    "a column map": ROOT / "src" / "wattlaw" / "run" / "importers" / "maps" / f"{shipped_maps()[0]}.toml",
}


@pytest.mark.parametrize(("kind", "path"), FILES.items())
def test_each_kind_is_known(kind, path, tmp_path):
    """From the files that are shipped, with and without a mark of the byte order."""
    assert kind_of(path) == kind
    (tmp_path / "marked").write_bytes(BOM_UTF8 + path.read_bytes())
    assert kind_of(tmp_path / "marked") == kind


def test_every_example_is_known():
    """No TOML file that users are shown is of no kind, or taken for another."""
    found = {path.name: kind_of(path) for path in EXAMPLES.glob("*.toml")}
    assert found.pop("tariff.toml") == "a tariff"
    assert {kind for name, kind in found.items() if "sweep" in name or "sample" in name} == {"a sweep"}
    assert {kind for name, kind in found.items() if "sweep" not in name and "sample" not in name} == {"a run spec"}


def test_a_plan_is_known(wattlaw, tmp_path):
    """What ``plan --json`` prints."""
    (tmp_path / "plan.json").write_text(wattlaw("plan", FILES["a run spec"], "--json").out)
    assert kind_of(tmp_path / "plan.json") == "a plan"


@given(content=st.binary(max_size=300))
def test_what_is_of_no_kind_is_left_to_its_reader(tmp_path_factory, content):
    """Any bytes are some kind or none, and a folder or a file that is not there is none."""
    path = tmp_path_factory.mktemp("file") / "x"
    path.write_bytes(content)
    assert kind_of(path) in {*TAKEN_BY, None}
    assert kind_of(path.parent) is kind_of(path.parent / "absent") is None


@pytest.mark.parametrize(
    ("verb", "wanted", "options"),
    [
        ("predict", "a run spec", ()),
        ("explain", "a run spec", ()),
        ("compare", "a run spec", ()),
        ("plan", "a run spec", ()),
        ("suggest", "a sweep", ()),
        ("measure", "a sweep", ("-o", "runs")),
        ("fit", "records", ("-o", "law.json")),
        ("evaluate", "records", ()),
    ],
)
def test_a_verb_names_the_kind_that_it_was_given(refused, tmp_path, monkeypatch, verb, wanted, options):
    """In one line: the file, what it is, what was wanted, what takes it; nothing is written."""
    monkeypatch.chdir(tmp_path)
    for kind, path in FILES.items():
        if kind != wanted:
            words = (str(path), "another kind of file", f"given {kind}", f"allowed {wanted}", TAKEN_BY[kind])
            refused(verb, path, *options, words=words)
    assert list(tmp_path.iterdir()) == []


def test_an_option_names_it_too(refused):
    """A law, a configuration and a tariff are looked at as well."""
    spec, records = FILES["a run spec"], FILES["records"]
    refused("predict", spec, "--law", records, words=("given records", "allowed a fitted law"))
    refused("predict", "--config", spec, "--gpu", "t4", words=("given a run spec", "allowed a model's config.json"))
    refused("predict", spec, "--tariff", FILES["a sweep"], words=("given a sweep", "allowed a tariff"))
