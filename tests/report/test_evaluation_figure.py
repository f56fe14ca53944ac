"""A verdict as a figure: a panel and a spread per law, from the numbers of the verdict."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.law.evaluation import judge
from wattlaw.report.evaluation_figure import verdict_figure


@pytest.fixture(scope="module")
def verdict(records):
    """Two laws on times."""
    return judge(records, law_names=["6nd", "tdp"], targets=["time"], num_splits=6)


@pytest.fixture(scope="module")
def drawn(verdict):
    """The figure as its description."""
    return verdict_figure(verdict, "time").spec


def values_of(drawn, layer):
    """The rows that a layer draws."""
    return drawn["datasets"][layer["data"]["name"]]


def test_each_law_has_a_panel_with_its_runs(verdict, drawn):
    """In minutes: as many points as runs were held out, as the verdict has them."""
    panels, spreads = drawn["vconcat"]
    assert [panel["title"] for panel in panels["concat"]] == ["6nd", "tdp"]
    for panel in panels["concat"]:
        values = values_of(drawn, panel["layer"][-1])
        points = [point for point in verdict.points if point.law == panel["title"]]
        assert [value["measured"] for value in values] == pytest.approx([point.measured / 60 for point in points])
        assert [value["predicted"] for value in values] == pytest.approx([point.predicted / 60 for point in points])
    assert [row["law"] for row in values_of(drawn, spreads["layer"][1])] == ["6nd", "tdp"]


def test_spreads_are_quantiles_of_the_ratios(verdict, drawn):
    """Of predicted over measured, cut at a factor ten."""
    for row in values_of(drawn, drawn["vconcat"][1]["layer"][1]):
        ratios = [one.predicted / one.measured for one in verdict.points if one.law == row["law"]]
        expected = np.clip(np.quantile(ratios, [0.05, 0.25, 0.5, 0.75, 0.95]), 0.1, 10)
        assert [row[name] for name in ("p5", "p25", "median", "p75", "p95")] == pytest.approx(expected.tolist())


def test_the_table_and_the_words_tell_the_medians(verdict):
    """A row per law, whose median is in the alternative text."""
    found = verdict_figure(verdict, "time")
    assert found.table.columns == ("law", "p5", "p25", "median", "p75", "p95")
    assert [row[0] for row in found.table.rows] == ["6nd", "tdp"]
    assert all(f"{row[0]} {row[3]:.3g}" in found.alt for row in found.table.rows)
