"""Several runs side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import ConfigError
from wattlaw.hardware import node_type
from wattlaw.law.prediction import predict
from wattlaw.plan.compare import chances, compare


def test_chances_count_who_takes_less():
    """Of three draws the first takes less in two and as much in one: 2/3 + 1/6."""
    found = chances(np.array([[1.0, 2.0], [1.0, 1.0], [3.0, 4.0]]))
    assert found[0][1] == pytest.approx(5 / 6)
    assert found[1][0] == pytest.approx(1 / 6)
    assert found[0][0] == found[1][1] == 0.5


def test_a_run_is_even_with_itself_and_chances_are_complements(run, calibration):
    """Twice the same run is a draw; who wins in one direction loses in the other."""
    longer = replace(run, recipe=replace(run.recipe, steps=1100))
    found = compare([run, longer, run], calibration)
    for table in (found.energy, found.duration):
        for row in range(3):
            for column in range(3):
                assert table[row][column] + table[column][row] == pytest.approx(1.0)
    assert found.predictions == predict([run, longer, run], calibration)


def test_what_two_runs_share_does_not_blur_their_order(run, calibration):
    """A tenth more steps of the same run is surely more, however wide the intervals are."""
    cold = replace(run, accelerator=replace(run.accelerator, name="unheard-of"))
    longer = replace(cold, recipe=replace(cold.recipe, steps=1100))
    found = compare([cold, longer], calibration)
    assert found.predictions[0].energy_j.high > found.predictions[1].energy_j.low
    assert found.energy[0][1] > 0.9
    assert not found.same_amount
    assert found.energy_per_token[0][1] == pytest.approx(0.5, abs=0.1)


def test_one_run_is_no_comparison(run, calibration):
    """Two at least."""
    with pytest.raises(ConfigError, match="two runs"):
        compare([run], calibration)


def test_different_hosts_are_said(run, calibration):
    """A named node brings its own host and an unnamed one does not: their energies are not of the same kind."""
    named = replace(run, node=node_type("pcie-box"))
    assert compare([run, run], calibration).warnings == compare([named, named], calibration).warnings == ()
    (warning,) = compare([run, named], calibration).warnings
    assert "not of the same kind" in warning
