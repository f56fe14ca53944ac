"""The rules of thumb are the arithmetic that people do on paper, and the fitted one recovers its two shares."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import DataError
from wattlaw.features.table import Table
from wattlaw.law.baselines import FlopCountLaw, RatedPowerLaw
from wattlaw.law.baselines.thumb import flop_by_rule


def rows(count=6, **columns):
    """Runs of 1e9 weights on 8 devices of 1e15 flop/s and 700 W."""
    random = np.random.default_rng(0)
    return Table({
        "active_parameters": np.full(count, 1e9),
        "trained_tokens": 10 ** random.uniform(8, 10, count),
        "num_devices": np.full(count, 8.0),
        "peak_flop_per_s": np.full(count, 1e15),
        "power_limit_w": np.full(count, 700.0),
        **columns,
    })  # fmt: skip


def made(*, utilisation, power_fraction, noise=0.0):
    """The runs with what they take at these shares, but for noise in the logarithms."""
    table = rows(40)
    random = np.random.default_rng(1)
    duration_s = 6 * 1e9 * table["trained_tokens"] / (8e15 * utilisation)
    energy_j = duration_s * 8 * 700 * power_fraction
    slower, dearer = np.exp(noise * random.standard_normal((2, 40)))
    return table.with_columns(duration_s=duration_s * slower, energy_j=energy_j * slower * dearer)


def test_operations_of_gpt3():
    """Worked number: 6 x 175e9 x 300e9 is the 3.15e23 of table D.1 of Brown et al. 2020 (arXiv 2005.14165), to 1 %."""
    found = flop_by_rule(parameters=np.array([174.6e9]), tokens=np.array([300e9]))
    assert found[0] == pytest.approx(3.14e23, rel=0.01)


def test_rated_power_by_hand():
    """1e9 weights, 1e9 tokens on 8 devices of 1e15 flop/s at 30 %: 2.5 ms of 1e18 flop; 6e18 take 2500 s, 14 MJ."""
    table = rows(1, trained_tokens=np.array([1e9]))
    law = RatedPowerLaw()
    calibration = law.fit(table.with_columns(duration_s=[5000.0], energy_j=[7e6]))
    estimate = law.estimate(calibration, table)
    assert estimate.duration_s[0] == pytest.approx(6e18 / (8e15 * 0.3))
    assert estimate.energy_j[0] == pytest.approx(2500 * 8 * 700)
    assert calibration.residuals.duration == pytest.approx((np.log(2),))
    assert calibration.residuals.energy == pytest.approx((np.log(0.5),))


def test_rated_power_learns_nothing():
    """Other measurements change how far off it is, never what it says."""
    law = RatedPowerLaw()
    first, second = (law.fit(made(utilisation=share, power_fraction=0.5)) for share in (0.1, 0.6))
    assert first.parameters == second.parameters == {"utilisation": 0.3, "power_fraction": 1.0}
    assert first.residuals != second.residuals


@pytest.mark.parametrize("utilisation", [0.05, 0.45])
def test_both_shares_are_recovered(utilisation):
    """Recovery: exactly without noise, and to its standard error with it."""
    exact = FlopCountLaw().fit(made(utilisation=utilisation, power_fraction=0.7))
    assert exact.parameters == pytest.approx({"utilisation": utilisation, "power_fraction": 0.7})
    assert np.abs(exact.residuals.energy).max() < 1e-9
    noisy = FlopCountLaw().fit(made(utilisation=utilisation, power_fraction=0.7, noise=0.1)).parameters
    assert abs(np.log(noisy["utilisation"] / utilisation)) < 3 * 0.1 / np.sqrt(40)
    assert abs(np.log(noisy["power_fraction"] / 0.7)) < 3 * 0.1 / np.sqrt(40)


def test_residuals_are_those_of_rows_left_out():
    """Reference by another route: fit without the row, and predict it."""
    table, law = made(utilisation=0.3, power_fraction=0.5, noise=0.2), FlopCountLaw()
    found = law.fit(table).residuals
    for row in (0, 17):
        rest = law.fit(table.take(np.arange(40) != row))
        estimate = law.estimate(rest, table.take([row]))
        assert found.energy[row] == pytest.approx(np.log(table["energy_j"][row] / estimate.energy_j[0]))
        assert found.duration[row] == pytest.approx(np.log(table["duration_s"][row] / estimate.duration_s[0]))


def test_what_was_not_measured_is_assumed_and_said():
    """Times alone give the rate, energies alone the product; the other share is the assumed one."""
    table = made(utilisation=0.1, power_fraction=0.5)
    timed = FlopCountLaw().fit(table.without("energy_j"))
    assert timed.parameters == pytest.approx({"utilisation": 0.1, "power_fraction": 1.0})
    assert timed.warnings == ("no energies: the rated power is assumed",)
    metered = FlopCountLaw().fit(table.without("duration_s"))
    assert metered.parameters == pytest.approx({"utilisation": 0.3, "power_fraction": 1.5})
    assert metered.warnings == (
        "no durations: a utilisation of 0.3 is assumed",
        "power_fraction is above 1",
    )
    with pytest.raises(DataError, match="no column energy_j or duration_s"):
        RatedPowerLaw().fit(rows())
