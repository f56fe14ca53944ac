"""Tables for people: what is in them, and that 80 columns hold them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from wattlaw.hardware import accelerator, accelerators, node_type, node_types, region, regions
from wattlaw.law.bundled import bundled
from wattlaw.law.evaluation import judge
from wattlaw.law.fitting import fit_records
from wattlaw.law.footprint import Footprint, Prices, footprint
from wattlaw.law.prediction import predict
from wattlaw.report.evaluation import evaluation_mapping, evaluation_text
from wattlaw.report.fit import fit_mapping, fit_text
from wattlaw.report.hardware import list_text, show_mapping, show_text
from wattlaw.report.prediction import (
    comparison_rows,
    prediction_mapping,
    prediction_text,
    title,
)


def shown(part, *, width=80):
    """The text of a table in a terminal of some width."""
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(part, crop=False)
    return file.getvalue()


@pytest.fixture(scope="module")
def predicted(records):
    """Eight runs and what is predicted of them."""
    specs = [record.spec for record in records[:8]]
    return list(zip(specs, predict(specs, bundled()), strict=True))


@pytest.mark.parametrize("width", [80, 120])
def test_tables_hold_in_a_terminal(records, predicted, width):
    """No line is cut or folded in the middle of a number; nothing is wider than the terminal."""
    prices = Prices(pue=1.5, carbon_g_per_kwh=300, price_per_kwh=0.3, price_per_device_hour=2)
    costs = footprint(predicted[0][1], prices, num_devices=2)
    parts = [
        prediction_text(*predicted[0], costs),
        list_text(accelerators(), node_types(), regions()),
        show_text(region("US-CA")),
        show_text(accelerator("a100-sxm4-40gb")),
        show_text(node_type("dgx-a100")),
        evaluation_text(judge(records, law_names=["power", "paper"], num_splits=2, by="strategy")),
        fit_text(fit_records(records, law_name="step"), Path("law.json")),
    ]
    for part in parts:
        text = shown(part, width=width)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text


def test_a_prediction_shows_each_term_and_doubt(predicted):
    """Shares of the terms are percentages of the whole; warnings name columns in words."""
    spec, prediction = predicted[1]
    doubtful = replace(prediction, warnings=("outside of the range: block_flop, num_nodes",), cold=True)
    text = shown(prediction_text(spec, doubtful, Footprint()), width=120)
    assert text.startswith(title(spec))
    assert "energy (node)" in text
    assert "! outside of the range: FLOP of the blocks, nodes" in text
    assert "cold; modelled by the step law, fitted to " in text
    for name, joules in prediction.terms_j.items():
        if joules:
            assert f"{joules / prediction.energy_j.mid:.0%}" in text, name
    untimed = replace(prediction, duration_s=None, power_w=None, terms_s={})
    assert "mean power" not in shown(prediction_text(spec, untimed, Footprint()))


def test_a_prediction_as_a_mapping_leaves_out_what_was_not_asked_for(predicted):
    """Costs are there where their figures were given; the numbers are those of the prediction."""
    spec, prediction = predicted[0]
    plain = prediction_mapping(spec, prediction, Footprint())
    priced = prediction_mapping(spec, prediction, footprint(prediction, Prices(price_per_kwh=1), num_devices=1))
    assert set(priced) - set(plain) == {"electricity_cost", "money", "counted_boundary"}
    assert plain["energy_j"]["mid"] == prediction.energy_j.mid
    assert plain["terms_j"] == dict(prediction.terms_j)


def test_rows_for_a_figure_are_the_runs(predicted):
    """All of them, in kilowatt-hours."""
    rows = comparison_rows(predicted)
    greenest = min(rows, key=lambda row: row["energy_kwh"])
    assert greenest["energy_kwh"] == pytest.approx(min(one.energy_j.mid for _, one in predicted) / 3.6e6)
    assert len(rows) == len(predicted)


def test_an_evaluation_says_what_was_not_scored(records):
    """Splits that failed and test rows that a law knows nothing of are said below the table."""
    verdict = judge(records, law_names=["power"], num_splits=2)
    doubtful = replace(
        verdict,
        num_left_out=3,
        evaluations=(replace(verdict.evaluations[0], num_failed=1, failure="split 0: too few", num_uncovered=2),),
    )
    text = shown(evaluation_text(doubtful), width=120)
    assert "40 records, 3 left out, 2 splits" in text
    assert "! power: 1 splits could not be fitted: split 0: too few" in text
    assert "! power: 2 test rows" in text
    assert evaluation_mapping(verdict)["evaluations"][0]["metrics"]["bias"]["count"] == 2


def test_a_fit_shows_parameters_and_machines(records):
    """The parameters in common, those of each machine beside them, and what leans on a bound."""
    fitted = fit_records(records, law_name="step")
    warned = replace(fitted, calibration=replace(fitted.calibration, warnings=("matrix_fraction is on its bound",)))
    text = shown(fit_text(warned, Path("law.json")), width=120)
    assert "law.json: step law, 40 records" in text
    assert all(word in text for word in ("in common", "a100-sxm4-40gb", "rtx-2080-ti", "host_power_w"))
    assert "! matrix_fraction is on its bound" in text
    assert set(fit_mapping(fitted, Path("law.json"))["machines"]) == {"a100-sxm4-40gb", "rtx-2080-ti"}


@pytest.mark.parametrize("found", [accelerator("rtx-2080-ti"), node_type("pcie-box")])
def test_every_figure_of_hardware_has_its_source(found):
    """In the mapping and in the table."""
    mapping = show_mapping(found)
    text = shown(show_text(found), width=200)
    for field, _ in found.cited:
        assert field in mapping["sources"]
        assert field in text
