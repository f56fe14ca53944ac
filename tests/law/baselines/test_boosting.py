"""Boosted trees: the ones of scikit-learn, kept as text, with residuals of families that they had not seen."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from wattlaw.errors import MissingExtraError
from wattlaw.law.baselines import BoostingLaw
from wattlaw.law.step_terms import COLUMNS


@pytest.fixture(scope="module")
def table(step_specs, measured):
    """Thirty runs on two machines."""
    return measured(step_specs(num_configurations=6, seed=3), noise=0.05, seed=3)


@pytest.fixture(scope="module")
def fitted(table):
    """The law fitted to them."""
    return BoostingLaw().fit(table)


@pytest.mark.parametrize(("target", "field"), [("energy_j", "energy_j"), ("duration_s", "duration_s")])
def test_trees_say_what_scikit_learn_says(table, fitted, target, field):
    """Reference by another route: the library's own fit and prediction, on runs seen and not seen."""
    from sklearn.ensemble import GradientBoostingRegressor

    inputs = np.stack([table[name] for name in COLUMNS], axis=1)
    order = np.lexsort((np.log(table[target]), *inputs.astype(np.float32).T))
    model = GradientBoostingRegressor(random_state=0)
    model.fit(inputs[order], np.log(table[target])[order])
    found = np.log(getattr(BoostingLaw().estimate(fitted, table), field))
    np.testing.assert_allclose(found, model.predict(inputs), rtol=1e-9)


def test_only_a_fit_needs_the_library(table, fitted, monkeypatch):
    """Predicting with a calibration does not; fitting names what to install."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert BoostingLaw().estimate(fitted, table).energy_j.shape == (len(table),)
    with pytest.raises(MissingExtraError, match="gradient boosting needs an optional part"):
        BoostingLaw().fit(table)


def test_residuals_are_of_families_left_out(table, fitted):
    """They are several times those of the rows that the trees have seen."""
    seen = np.log(table["energy_j"] / BoostingLaw().estimate(fitted, table).energy_j)
    assert np.median(np.abs(fitted.residuals.energy)) > 3 * np.median(np.abs(seen))
    assert len(fitted.residuals.duration) == len(table)


def test_times_alone_are_enough_and_the_rated_power_is_said(table):
    """Without energies the power is the rated one of the devices, and a warning says so."""
    calibration = BoostingLaw().fit(table.without("energy_j"))
    assert calibration.warnings == ("no energies: the rated power is assumed",)
    estimate = BoostingLaw().estimate(calibration, table)
    np.testing.assert_allclose(
        estimate.energy_j, estimate.duration_s * table["num_devices"] * table["power_limit_w"], rtol=1e-12
    )
    untimed = BoostingLaw().fit(table.without("duration_s"))
    assert BoostingLaw().estimate(untimed, table).duration_s is None


def test_trees_know_nothing_beyond_what_they_saw(table, fitted):
    """A hundred times the steps of the longest run cost as much as ten times: both fall into the last leaf."""
    longest = table.take([int(np.argmax(table["micro_steps"]))])
    ten, hundred = (
        BoostingLaw().estimate(fitted, longest.with_columns(micro_steps=factor * longest["micro_steps"])).energy_j
        for factor in (10, 100)
    )
    assert ten == hundred


def test_the_calibration_holds_plain_numbers(fitted):
    """A hundred trees for each target, as JSON text: no code that a file could run."""
    trees = json.loads(fitted.options["trees_energy_j"])
    assert len(trees) == 100
    assert fitted.diagnostics["num_trees"] == 200
    for feature, threshold, left, right, value in trees:
        assert len(feature) == len(threshold) == len(left) == len(right) == len(value) <= 15
        assert max(feature) < len(COLUMNS)
