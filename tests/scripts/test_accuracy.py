"""The document on accuracy: its form is the one that the script writes, and it is honest about what it lacks."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import accuracy
import pytest
from markdown_it import MarkdownIt

from wattlaw.law.evaluation import evaluate, judge, splits

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "accuracy.md"


@pytest.fixture(scope="module")
def write(records):
    """Write the document of some figures; the laws are judged on forty simulated runs."""
    verdict = judge(records, law_names=["tdp", "power"], targets=["energy", "time", "power"], num_splits=2)
    table = accuracy.record_columns(records)
    (tuned,) = evaluate(accuracy.BoostingLaw(), table, splits(table, "grouped", num_splits=1), protocol="grouped")
    compared = [(comparison, verdict) for comparison in accuracy.COMPARISONS]
    return lambda figures: accuracy.document(
        figures, compared, tuned=tuned, covered=accuracy.coverage({"some": records})
    )


def figure(name, target, measured, note=""):
    """A figure as the scripts give it."""
    return {"name": name, "target": target, "measured": measured, "unit": "%", "command": "", "note": note}


@pytest.mark.parametrize(
    ("target", "measured", "expected"),
    [
        (">= 0.998", 0.998, True),
        (">= 0.998", 0.9979, False),
        ("<= 5", 5.1, False),
        ("<= x1.12", 1.1, True),
        (">= 1e6", 2e6, True),
        ("93-97", 95.2, True),
        ("93-97 %", 97.1, False),
        ("93 to 97", 92.9, False),
        ("-10 to 10", -9.0, True),
        ("-10 to 10", -11.0, False),
        ("> 0.763", 0.763, False),
        ("0", 0.0, True),
        ("0", 1.0, False),
        ("none", 1.0, None),
        (None, 1.0, None),
        (0.937, 0.937, None),
    ],
)
def test_a_target_is_reached_or_missed(target, measured, expected):
    """Bounds, ranges and exact figures; a bare number of a peer is no target."""
    assert accuracy.reached(target, measured) is expected


def test_every_figure_is_there_with_its_verdict(write):
    """Declared or not: a hit, a miss, one without target; figures nobody computed are named and counted."""
    text = write([
        figure("accuracy.r2.pooled", ">= 0.998", 0.9984, "twenty splits | medians"),
        figure("accuracy.r2.gpt", ">= 0.998", 0.9971),
        figure("accuracy.mlperf.bert", "<= 10", 7.0),
        figure("accuracy.new_one", "none", 3.0, "of another kind"),
        figure("plan.top1", "<= 2", 1.5),
    ])  # fmt: skip
    assert "| `accuracy.r2.pooled` | >= 0.998 | 0.9984 % | reached | authors' law 0.833" in text
    assert "| `accuracy.r2.gpt` | >= 0.998 | 0.9971 % | **missed** |" in text
    assert "- `accuracy.r2.pooled`: twenty splits | medians" in text
    assert "| `accuracy.r2.bert` | >= 0.993 | not computed |" in text
    assert "| `accuracy.mlperf.bert` | <= 10 | 7 % | reached |" in text
    assert "| `accuracy.mlperf.gpt3` | -10 to 10 | not computed |" in text
    assert "### Further figures: accuracy" in text
    assert "### Further figures: plan" in text
    found = re.search(r"\*\*(\d+) figures have a target: (\d+) reach it, (\d+) miss it, (\d+) were not computed", text)
    total, reached, missed, absent = map(int, found.groups())
    assert (reached, missed) == (3, 1)
    assert total == reached + missed + absent
    assert text.count("not computed |") == absent


def test_prose_keeps_to_120_columns(write):
    """A long note stays one item with the same words, whole code and no list of its own; tables are not broken."""
    note = "a share > 3 of `one table, some rows` - 5 and 1. more; " * 12
    text = write([figure("accuracy.fit_s", "<= 2", 1.0, note.strip()), figure("accuracy.r2.bert", ">= 2", 1.0)])
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120
    assert text.count("`one table, some rows`") == 12
    parsed = MarkdownIt().enable("table").parse(text)
    (item,) = (block.content for block in parsed if block.content.startswith("`accuracy.fit_s`: "))
    assert item.split() == f"`accuracy.fit_s`: {note}".split()
    assert not [block for block in parsed if block.type in ("blockquote_open", "ordered_list_open", "code_block")]


def test_the_same_figures_give_the_same_text(write):
    """To the last character."""
    figures = [figure("accuracy.fit_s", "<= 2", 1.23456)]
    assert write(figures) == write(figures)


def skeleton(text):
    """Headings, and the heads of tables."""
    lines = text.splitlines()
    heads = [line for line, below in itertools.pairwise(lines) if below.startswith("| ---")]
    return [line for line in lines if line.startswith("#") or line in heads]


def test_the_document_has_the_form_that_the_script_writes(write):
    """Headings and tables in their order, but for further figures; every declared figure, every peer."""
    committed = DOCUMENT.read_text()
    written = skeleton(write([figure("accuracy.fit_s", "<= 2", 1.0)]))
    there = [line for line in skeleton(committed) if line in written]
    kept = [line for line in there if line.startswith("#")]
    assert kept == [line for line in written if line.startswith("#")]
    assert set(written) <= set(there)
    rows = re.findall(r"^\| `([^`]+)` \|", committed, re.MULTILINE)
    for group in accuracy.GROUPS:
        for name in group.asked:
            assert name in rows
    for peer in accuracy.PEERS:
        assert peer.source in committed
    assert "20 splits" in committed
    assert all(f"| {law} |" in committed for law in accuracy.LAWS)
