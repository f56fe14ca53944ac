"""The paper's figures for any records, and the diagnostic suite."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import DataError
from wattlaw.law.bundled import bundled
from wattlaw.law.fitting import fit_records, measured
from wattlaw.law.laws import law_named
from wattlaw.law.paper.options import PaperOptions
from wattlaw.report.figures.drawing import MOST_POINTS, SERIES, as_svg, thinned
from wattlaw.report.figures.records import record_figures, record_rows
from wattlaw.report.records_report import diagnostics_section, records_document, regression_sections

#: The paper's first seven figures, by what they are called here.
NAMES = [
    "speedup",
    "energy-against-parameters",
    "energy-by-devices",
    "estimated-against-measured",
    "energy-against-flop",
    "duration-and-energy",
    "energy-by-depth",
]


@pytest.fixture(scope="module")
def drawn(records):
    """The figures of the records, and what could not be drawn."""
    return record_figures(records, bundled())


def test_every_figure_of_the_paper_is_drawn_in_its_order(drawn):
    """Records with energies, durations and single-device times have all seven, each with words and a table."""
    figures, missing = drawn
    assert missing == []
    assert [figure.name for figure in figures] == [*NAMES, "estimated-against-measured-time"]
    for figure in figures:
        assert figure.alt.endswith(".")
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)


def test_what_the_records_lack_is_said(records):
    """Without durations there is no speedup and no duration, and the others are drawn all the same."""
    untimed = [replace(record, duration_s=None) for record in records]
    figures, missing = record_figures(untimed, bundled())
    assert [figure.name for figure in figures] == [n for n in NAMES if n not in ("speedup", "duration-and-energy")]
    assert len(missing) == 3
    assert missing[1].startswith("no record has a duration and an energy")
    assert missing[2].startswith("no record has a duration and an estimated time")


def test_rows_are_what_the_records_say(records):
    """Kilowatt-hours, hours and devices are the record's; failed runs are left out; the estimate is the law's."""
    rows = record_rows([*records, replace(records[0], record_id="failed", status="failed")], bundled())
    assert [row["run"] for row in rows] == [record.record_id for record in records]
    for row, record in zip(rows, records, strict=True):
        assert row["energy_kwh"] * 3.6e6 == pytest.approx(record.energies[0].energy_j)
        assert row["duration_h"] * 3600 == pytest.approx(record.duration_s)
        assert row["devices"] == record.spec.layout.num_devices
        assert abs(math.log(row["estimated_kwh"] / row["energy_kwh"])) < 0.15  # 3 % of noise
    assert all(row["estimated_kwh"] is None for row in record_rows(records))


def test_speedups_come_from_the_time_on_one_device(drawn, records):
    """The table of figure 1 has S = T(1) / T(N) of each run on several devices."""
    figure = drawn[0][0]
    columns = figure.table.columns
    found = {row[columns.index("run")]: row[columns.index("speedup")] for row in figure.table.rows}
    divided = [record for record in records if record.spec.layout.num_devices > 1]
    assert set(found) == {record.record_id for record in divided}
    for record in divided:
        expected = record.observed["single_device_duration_s"] / record.duration_s
        assert found[record.record_id] == pytest.approx(expected)


def test_a_drawing_is_one_picture_with_its_words(drawn):
    """The SVG has a title and a description, no role inside, and colours that a page's style may replace."""
    figure = drawn[0][1]
    svg = as_svg(figure)
    assert svg.count("role=") == 1
    assert f'<desc id="{figure.name}-alt">' in svg
    assert f"var(--series-1,{SERIES[0]})" in svg
    assert svg.count("<circle") >= len(figure.table.rows)


def test_the_letters_of_a_drawing_are_kept(drawn):
    """Coordinates are rounded to save space; what is written in the drawing is not."""
    vl_convert = pytest.importorskip("vl_convert")
    for figure in drawn[0][1:4]:
        plain = vl_convert.vegalite_to_svg(dict(figure.spec))
        labels = [re.findall(r">([^<>]+)</text>", svg) for svg in (plain, as_svg(figure))]
        assert labels[0] == labels[1]
        assert len(labels[0]) > 5


def test_too_many_points_are_thinned_evenly():
    """No drawing has more marks than the most, and the first row is kept."""
    rows = [{"at": number} for number in range(10 * MOST_POINTS + 1)]
    kept = thinned(rows)
    assert len(kept) <= MOST_POINTS
    assert kept[0] == {"at": 0}
    assert np.ptp(np.diff([row["at"] for row in kept])) == 0
    assert thinned(rows[:5]) == rows[:5]


@pytest.mark.parametrize("law", ["step", "paper"])
def test_the_diagnostics_of_a_law_are_drawn(records, law):
    """Residuals, leverage, inflation and coverage have their figures; figure 8 has its condition of normality."""
    pytest.importorskip("statsmodels")
    fitted = law_named(law)
    calibration = bundled()
    if law != "step":
        calibration = fitted.fit(measured(records, laws=[fitted], boundary=None).table)
    section = diagnostics_section(records, calibration)
    names = {getattr(block, "name", "") for block in section.blocks}
    assert {"residuals-against-estimate", "residuals-by-strategy", "residual-quantiles", "leverage",
            "variance-inflation", "coverage", "residuals-against-efficiency"} <= names  # fmt: skip
    if law == "paper":
        assert "condition number of the law's own fit" in {row[0] for row in section.blocks[0].rows}


def test_the_choices_of_a_law_hold_for_its_report(records):
    """A law that was fitted to measured efficiencies and observed proxies is drawn and diagnosed by them."""
    pytest.importorskip("statsmodels")
    options = PaperOptions(compute="artifact", proxies="observed", efficiency="measured")
    calibration = fit_records(records, law_name="paper", options=options).calibration
    drawn, _ = record_figures(records, calibration)
    assert "estimated-against-measured" in {one.name for one in drawn}
    (section,) = regression_sections(records, calibration)
    assert any("likelihood ratio" in sentence for sentence in section.sentences)
    assert not any("Not diagnosed" in sentence for sentence in section.sentences)
    assert regression_sections(records, bundled()) == ()


def test_a_report_of_records_is_whole(records):
    """A document of records counts them all, and a fit's has the parameters first."""
    alone = [record for record in records[:20] if record.spec.layout.num_devices == 1]
    untold = [replace(record, energies=(), observed={}, duration_s=None) for record in alone]
    with pytest.raises(DataError, match="nothing to draw from these records"):
        records_document(untold, bundled(), fitted=False)
    document = records_document(records[:20], bundled(), fitted=False)
    assert document.title == "20 records"
    assert [section.heading for section in document.sections] == ["What was measured", "Diagnostics of the law"]
    fit = records_document(records[:20], bundled(), fitted=True)
    assert fit.sections[0].heading == "The law"
    counts = document.sections[0].blocks[0]
    assert sum(row[counts.columns.index("runs")] for row in counts.rows) == 20


def test_times_alone_are_drawn_and_the_energies_said_to_be_missing(records):
    """What a machine without a sensor gives: speedups, durations, and the law's times beside them."""
    timed = [replace(record, energies=()) for record in records]
    figures, missing = record_figures(timed, bundled())
    assert [one.name for one in figures] == ["speedup", "estimated-against-measured-time", "duration-by-devices"]
    assert missing == ["the figures of energy, as no record has one"]
    columns = figures[1].table.columns
    for row in figures[1].table.rows:
        measured, estimated = (row[columns.index(name)] for name in ("duration_h", "estimated_h"))
        assert abs(math.log(estimated / measured)) < 0.15  # 3 % of noise
    document = records_document(timed, bundled(), fitted=False)
    assert "Not drawn: the figures of energy, as no record has one." in document.sections[0].sentences
