"""The main job on real input, as ``make demo`` runs it."""

from __future__ import annotations

from pathlib import Path

import demo
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_demo_prints_its_tables_and_draws_its_figure(tmp_path, monkeypatch, capsys):
    """Five ways of running it, with energy, interval, time, power and terms; one figure in three formats."""
    pytest.importorskip("altair")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.setattr(demo, "HERE", tmp_path / "scripts")
    demo.main()
    out = capsys.readouterr().out
    assert all(word in out for word in ("single", "fsdp", "tp", "greenest", "fastest", "Wh", "min", "95 % interval"))
    figures = sorted((tmp_path / "build" / "demo").iterdir())
    assert [figure.suffix for figure in figures] == [".html", ".png", ".svg"]
    assert all(figure.stat().st_size > 1000 for figure in figures)
    assert "http" not in (tmp_path / "build" / "demo" / figures[2].name).read_text().replace("http://www.w3.org", "")
