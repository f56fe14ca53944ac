"""The script's figures are complete, and those with a target reach it."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import paper_figures
import pytest
from claims import FIELDS


def test_figures_are_plain_and_reach_their_targets(shared_data):
    """Every figure has the six fields and a finite number; coefficients and large models are within theirs."""
    figures = paper_figures.figures(num_splits=2)
    found = {figure["name"]: figure for figure in figures}
    assert len(found) == len(figures)
    for figure in figures:
        assert tuple(figure) == FIELDS
        assert math.isfinite(figure["measured"])
    assert json.loads(json.dumps(figures)) == figures
    assert found["core.paper.coefficients"]["measured"] == 0
    assert found["core.paper.table5_max_error"]["measured"] <= 2
    assert found["core.paper.likelihood_ratio"]["measured"] > 100
    assert {f"core.paper.before_run.{law}.pooled" for law in ("paper", "power", "additive")} <= set(found)
    assert {name for name in found if "leave_one_gpu_out" in name} == {
        f"core.paper.leave_one_gpu_out.{short}" for short in ("a100", "2080ti")
    }
    assert found["core.paper.adj_r2"]["measured"] > found["core.paper.adj_r2_without_eta"]["measured"]


def test_rows_are_read_right(paper_rows, shared_data):
    """Reference: the imported columns are those computed here straight from the file."""
    with (shared_data / "bert_gpt_multi_gpu.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(paper_rows) == len(rows) == 518
    for number, row in enumerate(rows):
        layers, hidden, ffn = (float(row[name]) for name in ("num_layers", "hidden_size", "ffn_size"))
        compute = float(row["tokens_seen"]) * layers * (12 * hidden**2 + 2 * hidden * ffn)
        efficiency = float(row["single_gpu_duration_s"]) / float(row["duration_s"]) / float(row["num_gpus"])
        assert paper_rows["compute_proxy"][number] == pytest.approx(compute, rel=1e-12)
        assert paper_rows["memory_proxy"][number] == pytest.approx(float(row["memory_proxy"]), rel=1e-12)
        assert paper_rows["efficiency"][number] == pytest.approx(efficiency, rel=1e-12)
        assert paper_rows["energy_j"][number] == pytest.approx(float(row["energy_kwh"]) * 3.6e6, rel=1e-12)
        assert paper_rows["strategy"][number] == row["strategy"]
    assert np.unique(paper_rows["group"]).size == 158


def test_the_page_of_the_law_shows_the_large_models_as_they_are(shared_data):
    """The table of section 6 is the one that the script makes; the step law's columns may lag a little behind a fit."""
    page = (Path(__file__).parents[3] / "docs" / "laws" / "paper.md").read_text().splitlines()
    head, _, *rows = paper_figures.large_models_markdown().splitlines()
    assert head in page
    assert [row.split(" | ")[0] for row in rows] == ["| GPT-3", "| GShard", "| Meena", "| Switch", "| T5"]
    for row in rows:
        (shown,) = (line for line in page if line.startswith(f"{row.split(' | ')[0]} |"))
        there, here = (line.strip("| ").split(" | ") for line in (shown, row))
        assert there[:4] == here[:4]
        for old, new in zip(there[4:], here[4:], strict=True):
            assert old == new if "-" in (old, new) else float(old) == pytest.approx(float(new), rel=0.1)
