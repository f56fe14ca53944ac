"""The additive law's bounds as text: what is known is said, what is not is said too."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from wattlaw.law.paper.additive_checkup import Price, additive_checkup
from wattlaw.law.paper.checkup import checkup
from wattlaw.report.additive import additive_lines, traffic_line
from wattlaw.report.checkup import diagnosis_sentences, diagnosis_tables, diagnosis_text


@pytest.fixture(scope="module")
def found(records):
    """The diagnosis of the additive law on forty runs."""
    return additive_checkup(records)


def test_a_price_on_its_bound_has_no_error(found):
    """It is said in words, never as 0."""
    price = Price(value=0.0, standard_error=None, on_bound=True)
    file = io.StringIO()
    part = diagnosis_text(replace(found, prices={**found.prices, "memory_j": price}))
    Console(file=file, width=200, highlight=False).print(part)
    text = file.getvalue()
    assert "memory_j is on its bound of zero" in text
    line = next(line for line in text.splitlines() if line.startswith("memory_j "))
    assert line.split(maxsplit=2) == ["memory_j", "0", "on its bound"]


def test_the_theorem_says_where_it_does_not_apply(found):
    """Where b lies outside of [1/2, 1), or is not known."""
    assert "does not apply" in traffic_line(replace(found.traffic, exponent=0.3))
    assert "does not apply" not in traffic_line(replace(found.traffic, exponent=0.7))
    assert "b is not known" in traffic_line(None)


def test_what_is_not_known_is_left_out(found):
    """Runs without times have no ratio of time; without b there is no slope."""
    lines = " ".join(additive_lines(replace(found, duration_over_bound=(), slope=())))
    assert "bound (6)" in lines
    assert "bound (5)" not in lines
    assert "slope" not in lines


def test_a_report_has_both_errors_and_the_likelihood_ratio(records, found):
    """Of a regression: HC3 and by family side by side, and what eta_h adds; of the additive law: the prices."""
    regression = checkup(records, law_name="paper")
    coefficients, figures = diagnosis_tables(regression)
    assert {"HC3 error", "error by family"} <= set(coefficients.columns)
    names = [row[0] for row in figures.rows]
    assert {"condition number", "likelihood ratio of eta_h", "R2 without eta_h", "RMSE without eta_h"} <= set(names)
    assert any("likelihood ratio" in sentence for sentence in diagnosis_sentences(regression))
    (prices,) = diagnosis_tables(found)
    assert len(prices.rows) == len(found.prices)
    assert any("bound (6)" in sentence for sentence in diagnosis_sentences(found))
