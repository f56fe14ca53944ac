"""Published trainings beside what the law says of them."""

from __future__ import annotations

import csv

import pytest

from wattlaw.law.paper.published import large_models_table
from wattlaw.report.published import compared_with_published, published_runs

#: Names here -> names in the table of published trainings.
SAME = {
    "GPT-3 175B": "GPT-3 175B",
    "T5-11B": "T5-11B",
    "Meena": "Meena",
    "GShard 600B": "GShard-600B (MoE)",
    "Switch 1.5T": "Switch-1500B (MoE)",
    "LLaMA 65B": "LLaMA-65B",
    "Llama 2 7B": "Llama 2 7B",
    "Llama 2 70B": "Llama 2 70B",
    "Llama 3.1 405B": "Llama 3.1 405B",
    "OLMo 2 7B": "OLMo 2 7B",
}


def test_the_figures_are_as_published(shared_data):
    """Energies and hours agree with another reading of the same publications."""
    with (shared_data / "published_training_runs.csv").open(newline="") as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    for run in published_runs():
        if run.name in SAME:
            row = rows[SAME[run.name]]
            for own, other in ((run.energy_mwh, row["energy_mwh"]), (run.device_hours, row["accel_hours"])):
                if own is not None:
                    assert own == pytest.approx(float(other), rel=1e-3)


def test_the_paper_s_systems_are_there():
    """The five large models of the paper's table have the energies that it reports."""
    named = {"GPT-3": "GPT-3 175B", "GShard": "GShard 600B", "Meena": "Meena", "Switch": "Switch 1.5T", "T5": "T5-11B"}
    found = {run.name: run for run in published_runs()}
    for row in large_models_table().models:
        assert found[named[row.model]].energy_mwh == pytest.approx(row.reported_mwh)


def test_each_is_predicted_or_says_why_not():
    """Every run fits into memory and has an interval, and the others a reason; all are cold."""
    for one in compared_with_published():
        if one.run.not_predicted:
            assert one.energy_j is None
        else:
            assert 0 < one.energy_j.low < one.energy_j.high
            assert one.device_hours > 0
            assert one.run.source
            assert one.run.scope


@pytest.mark.parametrize(
    "one", [one for one in compared_with_published() if one.device_hours], ids=lambda one: one.run.name
)
def test_cold_predictions_are_of_the_published_order(one):
    """Nothing was fitted to any of them, and layouts are assumed: hours and measured energies are within 1.6."""
    if one.run.device_hours:
        assert 1 / 1.6 < one.device_hours / one.run.device_hours < 1.6
    if one.run.energy_j and not one.run.circular:
        assert 1 / 1.6 < one.energy_j.mid / one.run.energy_j < 1.6
