"""Cold predictions rest on priors and data sheets: no run changes them, on any machine."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from wattlaw.law.bundled import bundled
from wattlaw.law.evaluation import evaluate, splits
from wattlaw.law.evaluation.cold import cold
from wattlaw.law.interval import ends_of_runs, student
from wattlaw.law.paper import PowerLaw
from wattlaw.law.spread import spreads
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import PARAMETERS


@pytest.fixture(scope="module")
def table(step_specs, measured):
    """Runs on two machines."""
    return measured(step_specs(num_configurations=8, seed=5), noise=0.05, seed=5)


def test_the_step_law_has_the_medians_of_its_priors(table):
    """Without a prior the round figures; twice the energy of every run changes nothing but the residuals."""
    found = cold(StepLaw(), table)
    again = cold(StepLaw(), table.with_columns(energy_j=2 * table["energy_j"]))
    assert found.parameters == again.parameters == {one.name: one.start for one in PARAMETERS}
    assert not found.machines
    np.testing.assert_allclose(np.subtract(again.cold.energy, found.cold.energy), np.log(2), rtol=1e-9)
    assert again.cold.duration == found.cold.duration


def test_with_a_prior_it_has_what_that_has_in_common(table):
    """And none of the machines that the prior saw."""
    found = cold(replace(StepLaw(), prior=bundled()), table)
    assert found.parameters == bundled().parameters
    assert not found.machines


def test_other_laws_are_fitted_to_the_other_machines(table):
    """They have no priors: cold is what leaving a machine out is."""
    assert cold(PowerLaw(), table) == PowerLaw().fit(table)


def test_intervals_of_cold_predictions_are_those_of_a_machine_that_no_fit_saw(table):
    """From one other machine the spread of the priors and of machines; of two their errors in units of it, Student's t.

    They are wider than the errors of the other machine alone, whose runs err together.
    """
    cuts = splits(table, "cold")
    assert [cut.name for cut in cuts] == sorted(set(table["machine"]))
    (verdict,) = evaluate(StepLaw(), table, cuts[:1], protocol="cold", level=0.8)
    found = cold(StepLaw(), table.take(cuts[0].train))
    assert found.num_cold == 1
    test = table.take(cuts[0].test)
    half = NormalDist().inv_cdf(0.9) * spreads(found, test, "energy")
    assert verdict.metrics["half_width"].median == pytest.approx(np.exp(np.median(half)))
    assert verdict.metrics["half_width"].median > np.exp(np.quantile(np.abs(found.cold.energy), 0.8))
    both = cold(StepLaw(), table)
    low, high = ends_of_runs(both, table.with_columns(machine=["another"] * len(table)), target="energy", level=0.8)
    scale = np.sqrt(np.mean(both.cold.scaled("energy") ** 2))
    half = student(0.8, 2) * scale * spreads(both, table, "energy")
    np.testing.assert_allclose((-low, high), (half, half))


def test_what_machines_differ_by_is_no_noise(table):
    """A machine on which every run takes twice the energy is one error, not one per run: the noise stays."""
    factor = np.where(table.text("machine") == table.text("machine")[0], 2.0, 1.0)
    again = cold(StepLaw(), table.with_columns(energy_j=table["energy_j"] * factor))
    assert again.noise["energy"] == pytest.approx(cold(StepLaw(), table).noise["energy"])
