"""A verdict as text and as Markdown: the same numbers, a table per target, and what was not judged."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from wattlaw.law.evaluation import METRICS, judge
from wattlaw.report.evaluation import evaluation_mapping, evaluation_markdown, evaluation_text, markdown_table


@pytest.fixture(scope="module")
def verdict(records):
    """Three laws on two targets, of which one law knows one only."""
    return judge(records, law_names=["6nd", "power", "tdp"], targets=["energy", "time"], num_splits=3)


def test_markdown_has_a_row_per_law_and_a_table_per_target(verdict):
    """As many cells in every row as in the head, and the medians of the verdict."""
    text = evaluation_markdown(verdict)
    assert text.count("| law |") == 2
    assert "**energy, grouped: 40 records, 3 splits**" in text
    lines = markdown_table(verdict, "energy").splitlines()
    assert [line.split("|")[1].strip() for line in lines] == ["law", "---", "6nd", "power", "tdp"]
    assert {line.count("|") for line in lines} == {len(METRICS) + 2}
    first = next(one for one in verdict.evaluations if one.law == "6nd" and one.target == "energy")
    assert f"| {first.metrics['median_ape'].median:.1f} % |" in lines[2]


def test_parts_stand_beside_the_law(records):
    """With ``by`` a column names the rows that were scored."""
    table = markdown_table(judge(records, law_names=["tdp"], num_splits=2, by="machine"), "energy")
    assert table.startswith("| law | part | R2 ln |")
    assert "| tdp | rtx-2080-ti |" in table


def test_a_law_that_is_not_judged_is_said_with_its_reason(verdict):
    """In every form: text, Markdown and JSON."""
    words = "power is not judged on time: the power law predicts no time"
    file = io.StringIO()
    Console(file=file, width=200).print(evaluation_text(verdict))
    assert words in file.getvalue()
    assert f"- {words}" in evaluation_markdown(verdict)
    (said,) = evaluation_mapping(verdict)["unjudged"]
    assert (said["law"], said["target"]) == ("power", "time")


def test_text_has_a_table_per_target(verdict):
    """Each under its heading."""
    file = io.StringIO()
    Console(file=file, width=80).print(evaluation_text(verdict))
    text = file.getvalue()
    assert text.index("energy, grouped") < text.index("time, grouped")
    assert max(map(len, text.splitlines())) <= 80
