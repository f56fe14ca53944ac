"""A diagnosis as text: every coefficient and run is there, and what to doubt is said."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from wattlaw.law.paper.checkup import checkup
from wattlaw.report.checkup import checkup_text
from wattlaw.report.machine import as_builtins


def shown(part, *, width=80):
    """The text in a terminal of some width."""
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(part, crop=False)
    return file.getvalue()


@pytest.fixture(scope="module")
def found(records):
    """The diagnosis of the paper's law on forty runs."""
    return checkup(records, law_name="paper")


def test_everything_is_shown_within_80_columns(found):
    """Coefficients with four digits, the runs, a line per strategy of the lemma."""
    text = shown(checkup_text(found))
    assert max(map(len, text.splitlines())) <= 80
    for name, one in found.coefficients.items():
        assert f"{name} " in text
        assert f"{one.value:.4f}" in text
    for one in found.influential:
        assert one.record_id in text
    assert "Durbin-Watson" in text
    assert all(f"{strategy}: per doubling of devices" in text for strategy in found.lemma)


def test_doubts_are_said(found):
    """A column that another nearly repeats, and a run that moves the fit."""
    name = "ln_memory_proxy"
    coefficients = {**found.coefficients, name: replace(found.coefficients[name], variance_inflation=25.0)}
    moving = replace(found.influential[0], record_id="run 7", cooks_distance=2.5)
    alike = replace(found, coefficients=coefficients, influential=(moving,), durbin_watson=0.7)
    text = shown(checkup_text(alike), width=200)
    assert "! neighbouring runs err alike (Durbin-Watson 0.70)" in text
    assert "! ln_memory_proxy is hardly told apart from the other columns (inflation 25)" in text
    assert "! run 7 moves the fit (Cook's distance 2.5)" in text


def test_as_a_mapping_it_is_what_its_fields_are(found):
    """Plain numbers by name."""
    mapping = as_builtins(found)
    assert mapping["coefficients"]["intercept"]["value"] == found.coefficients["intercept"].value
    assert len(mapping["influential"]) == 5
