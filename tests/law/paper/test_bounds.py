"""Proposition 3.1 and theorem 3.2, by hand and as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError
from wattlaw.law.paper.bounds import (
    arithmetic_intensity,
    energy_band_j,
    least_compute_energy_j,
    least_duration_s,
    least_energy_j,
    least_memory_energy_j,
    local_slope,
    traffic_band,
)

POSITIVE = st.floats(1e-3, 1e12)


def test_by_hand():
    """10 TFLOP and 1 TB on 5 TFLOP/s and 0.25 TB/s take 4 s of memory time; at 100 W that is 400 J."""
    rates = {"peak_per_s": 5e12, "memory_rate_per_s": 0.25e12}
    assert arithmetic_intensity(compute=10e12, memory=1e12) == 10
    assert least_duration_s(compute=10e12, memory=1e12, **rates) == 4.0
    assert least_compute_energy_j(compute=10e12, peak_per_s=5e12, dynamic_power_w=100) == 200
    assert least_memory_energy_j(memory=1e12, memory_rate_per_s=0.25e12, dynamic_power_w=100) == 400
    assert least_energy_j(compute=10e12, memory=1e12, dynamic_power_w=100, **rates) == 400


@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE)
def test_time_bound_is_the_slower_of_compute_and_memory(compute, memory, peak, rate):
    """(5) is max(C / F_peak, M / tau_mem), and (6) is P_dyn times it."""
    duration_s = least_duration_s(compute=compute, memory=memory, peak_per_s=peak, memory_rate_per_s=rate)
    assert duration_s == pytest.approx(max(compute / peak, memory / rate), rel=1e-12)
    energy_j = least_energy_j(
        compute=compute, memory=memory, peak_per_s=peak, memory_rate_per_s=rate, dynamic_power_w=250.0
    )
    assert energy_j == pytest.approx(250 * duration_s, rel=1e-12)


def test_columns_are_columns():
    """A column of runs gives a column of bounds."""
    duration_s = least_duration_s(
        compute=np.array([1.0, 8.0]), memory=np.array([4.0, 1.0]), peak_per_s=2.0, memory_rate_per_s=1.0
    )
    assert duration_s.tolist() == [4.0, 4.0]


@given(POSITIVE, POSITIVE, st.floats(0, 1e9))
def test_energy_lies_in_its_band(compute, memory, fixed):
    """The additive law's energy lies between the smaller term and the sum of all."""
    low, high = energy_band_j(compute=compute, memory=memory, compute_j=2.0, memory_j=3.0, fixed_j=fixed)
    assert low == min(2 * compute, 3 * memory)
    assert low <= 2 * compute + 3 * memory + fixed <= high * (1 + 1e-12)


@given(st.floats(1, 1e6), st.floats(0.5, 0.99), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_slope_lies_between_the_exponent_and_one_without_fixed_energy(compute, exponent, compute_j, memory_j):
    """Theorem 3.2: with E0 negligible the local slope is in (b, 1); E0 takes it below."""
    memory = compute**exponent
    arguments = {"compute": compute, "memory": memory, "exponent": exponent}
    slope = local_slope(**arguments, compute_j=compute_j, memory_j=memory_j, fixed_j=0.0)
    assert exponent * (1 - 1e-12) <= slope <= 1 + 1e-12
    energy = compute_j * compute + memory_j * memory
    fixed = local_slope(**arguments, compute_j=compute_j, memory_j=memory_j, fixed_j=energy)
    assert fixed == pytest.approx(slope / 2)


def test_slope_is_the_derivative():
    """Reference: the slope is what a small change of C does to ln E."""
    compute, step, exponent = 50.0, 1e-6, 0.7

    def ln_energy(value: float) -> float:
        return float(np.log(0.3 * value + 2.0 * value**exponent + 5.0))

    slope = local_slope(
        compute=compute, memory=compute**exponent, exponent=exponent, compute_j=0.3, memory_j=2.0, fixed_j=5.0
    )
    derivative = (ln_energy(compute * np.exp(step)) - ln_energy(compute * np.exp(-step))) / (2 * step)
    assert slope == pytest.approx(derivative, rel=1e-6)


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=20, unique=True), st.floats(0.3, 1.2))
def test_traffic_band_holds_every_run(compute, exponent):
    """k1 C^b <= M <= k2 C^b for all runs; an exact power law gives its exponent and one constant back."""
    column = np.array(compute)
    assume(np.ptp(np.log(column)) > 0.1)
    band = traffic_band(compute=column, memory=5 * column**exponent)
    assert band.exponent == pytest.approx(exponent, abs=1e-6)
    assert band.lowest == pytest.approx(5, rel=1e-3)
    assert band.lowest <= band.highest
    assert band.theorem_applies == (0.5 <= band.exponent < 1)


def test_traffic_band_needs_different_work():
    """One value of compute, or one that is not above zero, is refused."""
    with pytest.raises(DataError, match="one value of compute"):
        traffic_band(compute=np.array([2.0, 2.0]), memory=np.array([1.0, 3.0]))
    with pytest.raises(ConfigError, match="above zero"):
        traffic_band(compute=np.array([2.0, 0.0]), memory=np.array([1.0, 3.0]))
