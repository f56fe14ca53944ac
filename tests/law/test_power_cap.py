"""What a power cap leaves of clock, time and power: limits, the solver by another route, and the law under caps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator
from wattlaw.law.power_cap import LOWEST_CLOCK, capped_clock, drawn_w, voltage
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, terms
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset

START = {parameter.name: parameter.start for parameter in PARAMETERS}


@pytest.fixture
def spec():
    """BERT-base in fp32 on a V100 of 250 W, whose products take nearly all of the time."""
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(batch_size=32, seq_len=384, precision="fp32", steps=100, attention_kernel="eager"),
        layout=Layout(),
        accelerator=accelerator("v100-pcie-16gb"),
    )


def under(spec, caps, parameters=START):
    """Evaluate the law for one run under several caps; ``None`` is the board's own limit."""
    table = physical_columns([replace(spec, power_limit_w=cap) for cap in caps])
    return terms(parameters, {name: table.numbers(name) for name in COLUMNS})


def device_w(found):
    """Mean power of the device alone."""
    return (found.energy_j - found.terms_j["host"]) / found.duration_s


def test_voltage_follows_the_clock_down_to_its_floor():
    """About 0.7 V of 1.05 V is the least that a device runs at."""
    np.testing.assert_array_equal(voltage(np.array([0.2, 0.68, 0.9, 1.0]), 0.68), [0.68, 0.68, 0.9, 1.0])


@given(natural=st.floats(50, 400), limit=st.floats(100, 500), share=st.floats(0.1, 1))
def test_a_capped_run_draws_no_more_than_its_cap_and_its_nature(natural, limit, share):
    """The soft minimum is below both, and at the board's own limit exactly the natural draw."""
    drawn = drawn_w(np.array([share * limit]), np.array([limit]), np.array([natural]))[0]
    assert drawn <= natural
    assert drawn <= share * limit * (1 + 1e-12) or natural > limit
    assert drawn_w(np.array([limit]), np.array([limit]), np.array([natural]))[0] == natural


@settings(max_examples=40)
@given(cap=st.floats(60, 249), fixed=st.floats(10, 80), matrix=st.floats(20, 300), other_s=st.floats(0, 5))
def test_the_clock_is_that_of_another_solver(cap, fixed, matrix, other_s):
    """Brent's method finds the same clock for a device with a second of products and some of other work."""

    def power_w(clock):
        volts = np.maximum(0.68, clock)
        return fixed * volts + matrix * volts**2 / (1 / clock + other_s)

    found = capped_clock(power_w, np.array([cap]), np.array([250.0]))[0]
    wanted = drawn_w(np.array([cap]), np.array([250.0]), power_w(np.ones(1)))[0]
    if power_w(LOWEST_CLOCK) >= wanted:
        assert found == LOWEST_CLOCK
    else:
        expected = brentq(lambda clock: float(power_w(np.array(clock)) - wanted), LOWEST_CLOCK, 1.0, xtol=1e-14)
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("cap", [None, 250.0, 300.0])
def test_no_cap_below_the_limit_changes_nothing(spec, cap):
    """A cap at or above the board's own limit is none, to the last bit."""
    free, found = under(spec, [None]), under(spec, [cap])
    assert (found.duration_s[0], found.energy_j[0]) == (free.duration_s[0], free.energy_j[0])


def test_the_law_is_continuous_where_the_cap_begins(spec):
    """A cap a millionth below the limit changes time and energy by less than a hundred-thousandth."""
    free, found = under(spec, [None]), under(spec, [250 * (1 - 1e-6)])
    assert found.duration_s == pytest.approx(free.duration_s, rel=1e-5)
    assert found.energy_j == pytest.approx(free.energy_j, rel=1e-5)


def test_a_tighter_cap_takes_longer_at_less_power(spec):
    """Time never falls and power never rises as the cap falls; both change much on a device that only multiplies."""
    found = under(spec, [250.0, 225.0, 200.0, 175.0, 150.0, 125.0])
    assert np.all(np.diff(found.duration_s) >= 0)
    assert np.all(np.diff(device_w(found)) <= 0)
    assert found.duration_s[-1] > 1.2 * found.duration_s[0]


def test_power_keeps_to_a_cap_that_can_be_kept(spec):
    """Below the natural draw and above that of the lowest clock, the mean power is the cap's, a little less."""
    found = under(spec, [125.0, 150.0, 175.0])
    assert np.all(device_w(found) <= [125.0, 150.0, 175.0])
    assert np.all(device_w(found) >= 0.95 * np.array([125.0, 150.0, 175.0]))


def test_some_cap_takes_less_energy_than_none(spec):
    """Voltage falls with the clock: the least energy is at neither end, as on every measured curve."""
    found = under(spec, np.linspace(100, 250, 31).tolist())
    assert 0 < np.argmin(found.energy_j) < 30


def test_time_that_waits_for_memory_or_the_host_does_not_follow_the_clock(spec):
    """Without products a capped run takes as long as a free one."""
    table = physical_columns([replace(spec, power_limit_w=cap) for cap in (None, 120.0)])
    columns = {name: table.numbers(name) for name in COLUMNS} | {"block_flop": np.zeros(2), "head_flop": np.zeros(2)}
    found = terms(START, columns)
    assert found.duration_s[0] == found.duration_s[1]


def test_only_capped_runs_are_solved(spec):
    """A free run beside capped ones is what it is alone, whatever the shape of the parameters."""
    together = under(spec, [None, 150.0, 200.0, None])
    alone = [under(spec, [cap]) for cap in (None, 150.0, 200.0, None)]
    np.testing.assert_array_equal(together.energy_j, [one.energy_j[0] for one in alone])
    rows = {name: np.array([[value], [0.9 * value]]) for name, value in START.items()}
    table = physical_columns([replace(spec, power_limit_w=cap) for cap in (None, 150.0)])
    both = terms(rows, {name: table.numbers(name) for name in COLUMNS})
    assert both.energy_j.shape == (2, 2)
    np.testing.assert_allclose(both.energy_j[0], together.energy_j[:2], rtol=1e-12)


def test_a_cap_of_next_to_nothing_draws_next_to_nothing():
    """However small the cap, its powers stay finite, and what is drawn never rises as it falls."""
    caps = np.array([1e-300, 1e-12, 1e-6, 1.0, 100.0])
    found = drawn_w(caps, np.full(5, 300.0), np.full(5, 250.0))
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert found[:3].max() < 1e-3
