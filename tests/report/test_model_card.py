"""Model cards: the fields of the Hub's metadata, read back as YAML's subset, and what is not known left out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError
from wattlaw.footprint import Prices
from wattlaw.hardware import region
from wattlaw.law.bundled import bundled
from wattlaw.law.footprint import Footprint, footprint
from wattlaw.law.prediction import predict
from wattlaw.report.model_card import TRAINING_TYPES, card_of_prediction, card_of_record, card_text, hardware_of


@pytest.fixture(scope="module")
def predicted(records):
    """A run and what is predicted of it."""
    spec = records[1].spec
    (prediction,) = predict([spec], bundled())
    return spec, prediction


def test_a_predicted_run(predicted):
    """Grams of the electricity, how they were found with their interval, and what was named."""
    spec, prediction = predicted
    costs = footprint(prediction, Prices(region=region("FR"), pue=1.5), num_devices=2)
    card = card_of_prediction(
        spec, prediction, costs, carbon_source="RTE", training_type="fine-tuning", location="Paris, France"
    )
    fields = card["co2_eq_emissions"]
    assert set(fields) == {"emissions", "source", "training_type", "geographical_location", "hardware_used"}
    assert fields["emissions"] == pytest.approx(costs.carbon_g.mid, rel=1e-3)
    assert fields["training_type"] == "fine-tuning"
    assert fields["hardware_used"] == hardware_of(spec) == "2 x NVIDIA GeForce RTX 2080 Ti"
    for words in ("predicted by wattlaw", "calibrated on such a machine", "95 % interval", "the facility", "RTE"):
        assert words in fields["source"]
    cold = card_of_prediction(spec, replace(prediction, cold=True), costs, carbon_source="RTE")["co2_eq_emissions"]
    assert "nothing measured on such a machine" in cold["source"]
    assert set(cold) == {"emissions", "source", "hardware_used"}


def test_a_run_that_was_made(records):
    """From its own energy, by the method that it was found with."""
    record = records[0]
    kwh = record.energies[0].energy_j / 3.6e6
    card = card_of_record(record, Prices(carbon_g_per_kwh=100, pue=1.2), carbon_source="my contract")
    fields = card["co2_eq_emissions"]
    assert fields["emissions"] == pytest.approx(kwh * 120, rel=1e-3)
    assert "energy integrated" in fields["source"]
    assert "my contract" in fields["source"]


def test_what_is_not_known_is_refused(predicted, records):
    """No intensity, no energy, a PUE for an energy that is not of nodes."""
    spec, prediction = predicted
    with pytest.raises(ConfigError, match="--region"):
        card_of_prediction(spec, prediction, Footprint(), carbon_source="")
    with pytest.raises(ConfigError, match="a region"):
        card_of_record(records[0], Prices(), carbon_source="")
    with pytest.raises(DataError, match="no energy"):
        card_of_record(replace(records[0], energies=()), Prices(carbon_g_per_kwh=1), carbon_source="")
    boards = replace(records[0], energies=(replace(records[0].energies[0], boundary="accelerators"),))
    with pytest.raises(ConfigError, match="energy of nodes"):
        card_of_record(boards, Prices(carbon_g_per_kwh=1, pue=1.2), carbon_source="")
    assert "electricity of the accelerators" in str(
        card_of_record(boards, Prices(carbon_g_per_kwh=1), carbon_source="")
    )


@given(
    emissions=st.floats(0, 1e12),
    source=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    kind=st.sampled_from(TRAINING_TYPES),
)
def test_the_text_holds_what_was_put_in(emissions, source, kind):
    """One line per field, each value a JSON value and so a YAML value: quotes, colons and line ends included."""
    fields = {"emissions": emissions, "source": source, "training_type": kind}
    head, *lines = card_text({"co2_eq_emissions": fields}).splitlines()
    assert head == "co2_eq_emissions:"
    assert {line.partition(": ")[0].strip(): json.loads(line.partition(": ")[2]) for line in lines} == fields
