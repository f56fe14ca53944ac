"""A figure in a file: of the kind that the end of the name says, and readable without a network."""

from __future__ import annotations

import sys

import altair as alt
import pytest

from wattlaw.errors import ConfigError, FileError, MissingExtraError
from wattlaw.report.figures.drawing import figure
from wattlaw.report.figures.saving import require_form, write_figure


@pytest.fixture(scope="module")
def drawn():
    """Two points."""
    rows = [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 3.0}]
    chart = alt.Chart(alt.InlineData(values=rows)).mark_point().encode(x="x:Q", y="y:Q")
    return figure("points", chart, rows, title="Two points", alt_text="Two points, the second above the first.")


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<svg"), ("a.png", b"\x89PNG"), ("a.HTML", b"<!DOCTYPE html>")])
def test_the_end_of_the_name_says_the_kind(drawn, tmp_path, name, start):
    """And nothing else is written."""
    write_figure(drawn, tmp_path / name)
    assert (tmp_path / name).read_bytes().lstrip().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_page_needs_no_network(drawn, tmp_path):
    """The drawing library is in it."""
    write_figure(drawn, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "<script src=" not in page
    assert len(page) > 100_000


def test_a_drawing_speaks_its_words(drawn, tmp_path):
    """SVG has the title and the alternative text of the figure."""
    write_figure(drawn, tmp_path / "a.svg")
    assert '<desc id="points-alt">Two points, the second above the first.</desc>' in (tmp_path / "a.svg").read_text()


def test_another_ending_or_no_folder_is_refused(drawn, tmp_path):
    """With the kinds that there are; nothing is written."""
    with pytest.raises(ConfigError, match=r"given a\.jpg; allowed .html, .png, .svg"):
        write_figure(drawn, tmp_path / "a.jpg")
    with pytest.raises(FileError, match="cannot write the figure"):
        write_figure(drawn, tmp_path / "absent" / "a.svg")
    assert not list(tmp_path.iterdir())


def test_without_the_plotting_library_nothing_is_promised(tmp_path, monkeypatch):
    """The extra that brings it is named."""
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtraError, match=r"wattlaw\[report\]"):
        require_form(tmp_path / "a.png")
