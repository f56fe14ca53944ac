"""Law files that were edited by hand, cut short, or are something else."""

from __future__ import annotations

import json

import pytest

from wattlaw.law.bundled import bundled


@pytest.fixture
def law_file(tmp_path):
    """Write the shipped law with some fields changed."""
    bundled().save(tmp_path / "whole.json")
    whole = json.loads((tmp_path / "whole.json").read_text())

    def write(**fields):
        path = tmp_path / "law.json"
        path.write_text(json.dumps({**whole, **fields}))
        return path

    return write


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"law": "stpe"}, ["law", "step"]),
        ({"format": "recipe"}, ["not a calibration"]),
        ({"format_version": 99}, ["99"]),
        ({"parameters": {}, "covariance": None}, ["parameters.matrix_fraction", "nothing"]),
        ({"parameters": {"matrix_fraction": "a"}}, ["parameters"]),
        ({"parameters": {"matrix_fraction": -1}, "covariance": None}, ["parameters.matrix_fraction", "-1", "<= 1"]),
        ({"parameters": {"matrix_fraction": 1e308}, "covariance": None}, ["parameters.matrix_fraction", "<= 1"]),
        ({"machines": {"x": {"parameters": {}, "residuals": {}}}}, ["machines.x.parameters.matrix_fraction"]),
        ({"residuals": None}, ["residuals"]),
        ({"covariance": [[1.0]]}, ["covariance", "1 rows"]),
        ({"covariance": [[1.0, 2.0]]}, ["covariance must be square"]),
        ({"noise": {"energy": "a"}}, ["noise"]),
        ({"kinds": {"precision": "fp16"}}, ["kinds"]),
        ({"domain": {"nope": [1, 2]}}, ["nope"]),
        ({"domain": {"block_flop": [2, 1]}}, ["domain.block_flop"]),
        ({"boundary": "moon"}, ["boundary", "node"]),
        ({"law": "paper", "domain": {}}, ["paper law"]),
        ({"law": "power", "domain": {}}, ["power law"]),
        ({"law": "additive", "domain": {}}, ["additive law"]),
    ],
)
def test_a_law_that_cannot_be_used_is_named_with_its_field(refused, run_options, law_file, fields, words):
    """Found before the prediction, at the file, and not in the middle of the arithmetic."""
    path = law_file(**fields)
    refused("predict", *run_options, "--law", path, words=[f"{path}: ", *words])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", bytes(range(256)), b"[" * 10_000])
def test_what_is_no_law_is_refused(refused, run_options, tmp_path, content):
    """Empty, truncated, another kind of JSON, binary."""
    path = tmp_path / "law.json"
    path.write_bytes(content)
    refused("predict", *run_options, "--law", path, words=[f"{path}: "])


def test_a_broken_prior_is_refused_as_well(refused, store, law_file, tmp_path):
    """A fit does not start from what cannot be."""
    path = law_file(parameters={"matrix_fraction": -1})
    refused("fit", store, "-o", tmp_path / "new.json", "--prior", path, words=[f"{path}: "])
