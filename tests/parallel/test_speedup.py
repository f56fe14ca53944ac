"""Equations (7) to (12) of arXiv 2606.23546, with the paper's parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError
from wattlaw.parallel.speedup import (
    PUBLISHED,
    SpeedupParameters,
    combined_efficiency,
    data_parallel_efficiency,
    data_parallel_speedup,
    hardware_efficiency,
    speedup,
    tensor_parallel_efficiency,
    tensor_parallel_speedup,
)

DEGREES = st.integers(1, 4096)


def test_efficiencies_of_the_large_models():
    """Worked numbers, section 6: eta_DP(100) = 0.370 and eta_TP(100) = 0.098 with the published parameters."""
    assert round(data_parallel_efficiency(100, PUBLISHED), 3) == 0.370
    assert round(tensor_parallel_efficiency(100, PUBLISHED), 3) == 0.098


def test_values_by_hand():
    """(9) at 2 is 9.8 (1 - e^-1.52); (11) at 4 is 4 / (1 + 0.005 4^1.266)."""
    assert tensor_parallel_speedup(2, PUBLISHED) == pytest.approx(9.8 * (1 - math.exp(-1.52)), rel=1e-14)
    assert data_parallel_speedup(4, PUBLISHED) == pytest.approx(4 / (1 + 0.005 * math.exp(1.266 * math.log(4))))


def test_measured_speedup_and_efficiency():
    """(7): 100 s on one device and 40 s on four are a speedup of 2.5, an efficiency of 0.625."""
    assert speedup(single_device_duration_s=100.0, duration_s=40.0) == 2.5
    assert hardware_efficiency(single_device_duration_s=100.0, duration_s=40.0, num_devices=4) == 0.625


def test_one_device_has_efficiency_one():
    """Nothing is divided on one device, whatever (10) and (12) give at 1."""
    assert combined_efficiency(tensor_parallel=1, data_parallel=1, parameters=PUBLISHED) == 1.0
    assert tensor_parallel_efficiency(1, PUBLISHED) > 5  # the slip that the module's docstring tells of
    assert data_parallel_efficiency(1, PUBLISHED) == pytest.approx(1 / 1.005)


@given(DEGREES, DEGREES)
def test_combined_is_the_product_of_its_axes(tensor, data):
    """(8): phi(t, d) = eta_TP(t) eta_DP(d), an axis of degree 1 contributing 1."""
    found = combined_efficiency(tensor_parallel=tensor, data_parallel=data, parameters=PUBLISHED)
    expected = 1.0
    expected *= tensor_parallel_efficiency(tensor, PUBLISHED) if tensor > 1 else 1.0
    expected *= data_parallel_efficiency(data, PUBLISHED) if data > 1 else 1.0
    assert found == pytest.approx(expected, rel=1e-14)


@given(DEGREES)
def test_efficiency_falls_and_speedup_saturates(degree):
    """More devices are never more efficient, and tensor parallelism never passes S_max."""
    assert data_parallel_efficiency(degree + 1, PUBLISHED) < data_parallel_efficiency(degree, PUBLISHED) < 1
    assert tensor_parallel_efficiency(degree + 1, PUBLISHED) < tensor_parallel_efficiency(degree, PUBLISHED)
    assert tensor_parallel_speedup(degree, PUBLISHED) <= PUBLISHED.s_max


def test_no_overhead_is_perfect_speedup():
    """Limit: alpha = 0 gives the ideal line."""
    ideal = SpeedupParameters(alpha=0.0, beta=1.0, s_max=1.0, rate=1.0)
    assert data_parallel_speedup(7, ideal) == 7


def test_columns_and_numbers_agree():
    """A column of degrees gives what each degree gives alone."""
    tensor, data = np.array([1.0, 2.0, 1.0, 4.0]), np.array([1.0, 1.0, 8.0, 2.0])
    found = combined_efficiency(tensor_parallel=tensor, data_parallel=data, parameters=PUBLISHED)
    alone = [
        combined_efficiency(tensor_parallel=t, data_parallel=d, parameters=PUBLISHED)
        for t, d in zip(tensor.tolist(), data.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found, alone, rtol=1e-15)


@pytest.mark.parametrize("wrong", [{"alpha": -0.1}, {"s_max": 0.0}, {"rate": float("nan")}, {"beta": float("inf")}])
def test_parameters_out_of_range_are_refused(wrong):
    """A negative, vanishing or infinite parameter is refused by name."""
    values = {"alpha": 0.005, "beta": 1.266, "s_max": 9.8, "rate": 0.76} | wrong
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} of a speedup law"):
        SpeedupParameters(**values)
