"""When to start, for people and machines."""

from __future__ import annotations

import pytest

from wattlaw.footprint import BestStart, Timing
from wattlaw.law.footprint import Footprint
from wattlaw.law.interval import Interval
from wattlaw.report.timing import timing_lines, timing_mapping

T0 = 1_751_328_000.0  # 2025-07-01, midnight in UTC
CARBON = BestStart(start_s=T0 + 7200, per_kwh=100, now_per_kwh=400, worst_start_s=T0 + 14400, worst_per_kwh=500)
PRICE = BestStart(start_s=T0, per_kwh=-0.1, now_per_kwh=-0.1, worst_start_s=T0 + 3600, worst_per_kwh=0.2)
COSTS = Footprint(carbon_g=Interval(low=1000, mid=2000, high=3000, level=0.95))


def timing(**changed):
    """A run of an hour that may wait four."""
    return Timing(**{"start_s": T0, "duration_s": 3600, "window_s": 14400, "best": {"carbon": CARBON}, **changed})


def test_what_waiting_saves():
    """Three quarters of 2 kg against now, four fifths against the worst; times in UTC."""
    found = timing_mapping(timing(), COSTS)
    assert (found["start"], found["window_s"]) == ("2025-07-01T00:00Z", 14400)
    best = found["best"]["carbon"]
    assert (best["start"], best["worst_start"]) == ("2025-07-01T02:00Z", "2025-07-01T04:00Z")
    assert (best["saving"], best["saving_against_worst"], best["saved"]) == pytest.approx((0.75, 0.8, 1500))
    head, line = timing_lines(timing(), COSTS)
    assert head == "starts 2025-07-01T00:00Z"
    assert line == (
        "least carbon within 4.00 h: start 2025-07-01T02:00Z, 75% less than now (1.50 kg); "
        "80% less than the worst, 2025-07-01T04:00Z"
    )


def test_now_may_be_best_and_a_negative_price_saves_no_share():
    """Nothing is divided by a price that is none, and what is not known is not a number."""
    found = timing(best={"electricity": PRICE})
    assert "start now; 150% less than the worst" in list(timing_lines(found, Footprint()))[1]
    best = timing_mapping(found, Footprint())["best"]["electricity"]
    assert (best["saving"], best["saved"]) == (None, None)


def test_without_a_window_only_the_start_is_told():
    """And nothing without hours that matter."""
    assert list(timing_lines(timing(window_s=0), COSTS)) == ["starts 2025-07-01T00:00Z"]
    assert list(timing_lines(None, COSTS)) == []
