"""Everyday units are what they are in SI, and conditions hold for numbers and columns alike."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw import units
from wattlaw.units import SI_PER_UNIT, every


@pytest.mark.parametrize(
    ("unit", "number", "same"),
    [
        ("kWh", 1000, "MWh"),
        ("Wh", 1000, "kWh"),
        ("J", 1000, "kJ"),
        ("kJ", 1000, "MJ"),
        ("mJ", 1000, "J"),
        ("uJ", 1000, "mJ"),
        ("MJ", 3.6, "kWh"),
        ("us", 1000, "ms"),
        ("ms", 1000, "s"),
        ("s", 60, "min"),
        ("min", 60, "h"),
        ("h", 24, "d"),
        ("mW", 1000, "W"),
        ("W", 1000, "kW"),
        ("B", 1e9, "GB"),
        ("B", 1024**3, "GiB"),
    ],
)
def test_so_many_of_one_unit_are_one_of_the_next(unit, number, same):
    """The factors agree with each other: 60 min are an hour, 3.6 MJ a kilowatt-hour."""
    assert number * SI_PER_UNIT[unit] == pytest.approx(SI_PER_UNIT[same], rel=1e-15)


def test_base_units_are_one():
    """What is SI already is not changed."""
    assert {SI_PER_UNIT[unit] for unit in ("J", "s", "W", "B", "1")} == {1.0}


def test_named_factors_are_those_of_the_table():
    """A watt over an hour is 3,600 J; GB is 10^9, GiB 2^30 and TFLOP 10^12, never 2^40."""
    assert units.JOULES_PER_KWH == 1000 * units.SECONDS_PER_HOUR == SI_PER_UNIT["kWh"]
    assert (units.BYTES_PER_GB, units.BYTES_PER_GIB, units.FLOP_PER_TFLOP) == (10**9, 1073741824, 10**12)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (True, True),
        (False, False),
        (np.array([True, True]), True),
        (np.array([True, False]), False),
        (np.array(1) > 2, False),
    ],
)
def test_a_condition_holds_if_every_entry_does(condition, holds):
    """The result is a plain bool for numbers and for columns."""
    assert every(condition) is holds
