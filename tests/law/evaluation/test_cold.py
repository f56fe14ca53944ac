"""Cold predictions rest on priors and data sheets: no run changes them, on any machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.law.bundled import bundled
from wattlaw.law.evaluation import evaluate, splits
from wattlaw.law.evaluation.cold import cold
from wattlaw.law.paper import PowerLaw
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
    np.testing.assert_allclose(np.subtract(again.residuals.energy, found.residuals.energy), np.log(2), rtol=1e-9)
    assert again.residuals.duration == found.residuals.duration


def test_with_a_prior_it_has_what_that_has_in_common(table):
    """And none of the machines that the prior saw."""
    found = cold(replace(StepLaw(), prior=bundled()), table)
    assert found.parameters == bundled().parameters
    assert not found.machines


def test_other_laws_are_fitted_to_the_other_machines(table):
    """They have no priors: cold is what leaving a machine out is."""
    assert cold(PowerLaw(), table) == PowerLaw().fit(table)


def test_intervals_of_cold_predictions_are_of_the_errors_on_other_machines(table):
    """The half width is that of the other machine's errors, and each machine is a split."""
    cuts = splits(table, "cold")
    assert [cut.name for cut in cuts] == sorted(set(table["machine"]))
    (verdict,) = evaluate(StepLaw(), table, cuts[:1], protocol="cold", level=0.8)
    other = np.array(cold(StepLaw(), table.take(cuts[0].train)).residuals.energy)
    low, high = np.sort(other)[[int(0.1 * len(other)) - 1, -int(0.1 * len(other))]]
    assert verdict.metrics["half_width"].median == pytest.approx(np.exp((max(high, 0) - min(low, 0)) / 2), rel=0.15)
