"""The figure: fastest against greenest."""

from __future__ import annotations

import pytest

from wattlaw.errors import FileError
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict

altair = pytest.importorskip("altair")

from wattlaw.report.figures import energy_against_time, save  # noqa: E402


@pytest.fixture(scope="module")
def chart(records):
    """Eight runs."""
    specs = [record.spec for record in records[:8]]
    return energy_against_time(list(zip(specs, predict(specs, bundled()), strict=True)), heading="eight runs")


def test_the_figure_says_what_its_axes_are(chart):
    """Quantities with units, the level of the intervals, and who is fastest and greenest."""
    text = chart.to_json()
    assert "time, minutes" in text
    assert "energy, kWh (95 % interval)" in text
    assert text.count(": greenest") + text.count("greenest and") >= 1
    assert "fastest" in text


def test_the_figure_is_written_in_three_forms_without_a_network(chart, tmp_path):
    """A picture, a drawing, and a page that holds its own scripts."""
    save(chart, tmp_path / "deep" / "figure.png")
    assert (tmp_path / "deep" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "deep" / "figure.svg").read_text()
    assert 'src="http' not in (tmp_path / "deep" / "figure.html").read_text()


def test_a_folder_that_cannot_be_written_is_named(chart, tmp_path):
    """As every file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"file/figure\.png"):
        save(chart, tmp_path / "file" / "figure.png")
