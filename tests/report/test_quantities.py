"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.law.interval import Interval
from wattlaw.report import quantities


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (quantities.energy, 3599, "3,599 J"),
        (quantities.energy, 3600, "1.00 Wh"),
        (quantities.energy, 3.6e6, "1.00 kWh"),
        (quantities.energy, 3.6e12, "1,000 MWh"),
        (quantities.duration, 0.0123, "12.3 ms"),
        (quantities.duration, 59, "59.0 s"),
        (quantities.duration, 86400, "1.00 d"),
        (quantities.power, 999, "999 W"),
        (quantities.power, 1234, "1.23 kW"),
        (quantities.mass, 2.5e6, "2.50 t"),
        (quantities.digits, 0, "0"),
        (quantities.digits, 0.5, "0.500"),
        (quantities.digits, -12.34, "-12.3"),
        (quantities.digits, 1e-5, "1.00e-05"),
    ],
)
def test_worked_numbers(write, value, text):
    """Three digits, in the largest unit of which there is one."""
    assert write(value) == text


def test_a_unit_that_both_ends_share_is_written_once():
    """The middle's, unless an end would be a hundredth of it or ten thousand of them: then each has its own."""
    assert quantities.interval(Interval(low=36, mid=40, high=59, level=0.9), quantities.duration) == "36.0 to 59.0 s"
    assert quantities.interval(Interval(low=36, mid=40, high=72, level=0.9), quantities.duration) == "36.0 to 72.0 s"
    assert (
        quantities.interval(Interval(low=36, mid=9e3, high=18e3, level=0.9), quantities.duration) == "0.0100 to 5.00 h"
    )
    assert (
        quantities.interval(Interval(low=35, mid=9e3, high=18e3, level=0.9), quantities.duration) == "35.0 s to 5.00 h"
    )


@given(st.floats(min_value=1e-12, max_value=1e18))
def test_three_digits_tell_the_number_to_half_a_percent(value):
    """Whatever its size."""
    assert math.isclose(float(quantities.digits(value).replace(",", "")), value, rel_tol=5.1e-3)
