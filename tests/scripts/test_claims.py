"""Figures that are claimed: one form, written as they come; the measured tables behind them."""

from __future__ import annotations

import json
import sys

import claims
import figures
import measured_tables
import numpy as np
import pytest

from wattlaw.errors import DataError


def test_a_figure_is_plain(capsys):
    """Whatever computed it, what was measured is a plain number, and the whole is JSON; it prints as one line."""
    claim = claims.claims_of("python scripts/some_figures.py")("some.share", "<= 5", np.float32(2.5), "%", "of three")
    assert tuple(claim) == claims.FIELDS
    assert type(claim["measured"]) is float
    assert json.loads(json.dumps(claim)) == claim
    claims.show([claim])
    assert capsys.readouterr().out.split() == ["some.share", "2.5", "%", "target", "<=", "5", "of", "three"]


def test_what_was_computed_before_a_failure_is_in_the_file(tmp_path, monkeypatch):
    """The second script fails; the file has the figures of the first, and only the scripts asked for have run."""
    text = "from claims import claims_of\ndef figures(): return [claims_of('')('{name}', 'none', {value}, '1', '')]\n"
    for name, value in (("aa", "1"), ("ab", "1 / 0"), ("b", "2")):
        (tmp_path / f"rehearsed_{name}_figures.py").write_text(text.format(name=name, value=value))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(figures, "HERE", tmp_path)
    monkeypatch.setattr(figures, "TARGET", tmp_path / "build" / "figures.json")
    with pytest.raises(ZeroDivisionError):
        figures.collect(["rehearsed_a"])
    assert [figure["name"] for figure in json.loads(figures.TARGET.read_text())] == ["aa"]
    assert "rehearsed_b_figures" not in sys.modules


def test_figures_of_other_scripts_stay(tmp_path, monkeypatch):
    """Running one script replaces its own figures in the file and no others; running all replaces the file."""
    for name, value in (("x", "1"), ("y", "2")):
        text = (
            f"from claims import claims_of\ndef figures(): return [claims_of('')('{name}', 'none', {value}, '1', '')]\n"
        )
        (tmp_path / f"kept_{name}_figures.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(figures, "HERE", tmp_path)
    monkeypatch.setattr(figures, "TARGET", tmp_path / "figures.json")
    stale = {"name": "x", "target": "none", "measured": 9.0, "unit": "1", "command": "", "note": ""}
    figures.TARGET.write_text(json.dumps([stale, {**stale, "name": "z"}]))
    figures.collect(["kept_x"])
    assert {one["name"]: one["measured"] for one in json.loads(figures.TARGET.read_text())} == {"z": 9.0, "x": 1.0}
    figures.collect([])
    assert {one["name"]: one["measured"] for one in json.loads(figures.TARGET.read_text())} == {"x": 1.0, "y": 2.0}


def test_a_table_that_is_not_here_is_named(tmp_path, monkeypatch):
    """The tables are beside the repository, not in it."""
    monkeypatch.setattr(measured_tables, "FOLDER", tmp_path)
    with pytest.raises(DataError, match=r"step_times\.csv"):
        measured_tables.read_table(measured_tables.STEP_TIMES)


def test_only_whole_and_timed_runs_are_timed(shared_data):
    """Of published step times no run lacks its spec or its time; some rows of the table do."""
    every, timed = (read(measured_tables.STEP_TIMES) for read in (measured_tables.read_table, measured_tables.timed))
    assert 0 < len(timed) <= len(every)
    assert all(record.spec is not None and record.duration_s for record in timed)
