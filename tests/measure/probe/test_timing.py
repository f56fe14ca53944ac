"""Timing on a scripted clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.measure.probe.timing import FEWEST_SAMPLES, SHORTEST_SAMPLE_S, line, repeats_for, sample_times


class Device:
    """Work that is handed over at once and done when somebody waits; the first calls are slower."""

    def __init__(self, call_s: float, wait_s: float = 0.0, slow_calls: int = 0) -> None:
        self.now_s = 0.0
        self.num_calls = 0
        self.pending_s = 0.0
        self._call_s, self._wait_s, self._slow_calls = call_s, wait_s, slow_calls

    def call(self) -> None:
        """Hand work over."""
        self.num_calls += 1
        self.pending_s += self._call_s * (10 if self.num_calls <= self._slow_calls else 1)

    def wait(self) -> None:
        """Wait until it is done."""
        self.now_s += self.pending_s + self._wait_s
        self.pending_s = 0.0


def test_work_that_is_handed_over_is_waited_for() -> None:
    """A call that returns at once still takes its time; the slow first calls are not in it."""
    device = Device(call_s=0.01, slow_calls=3)
    times_s = sample_times(device.call, wait=device.wait, budget_s=1.0, clock=lambda: device.now_s)
    assert times_s == pytest.approx([0.01] * 100)


def test_short_calls_share_one_wait() -> None:
    """Of calls of 10 us with a wait of 20 us at the end, 67 in a row hide all but a thirtieth of the wait."""
    device = Device(call_s=1e-5, wait_s=2e-5)
    times_s = sample_times(device.call, wait=device.wait, budget_s=0.1, clock=lambda: device.now_s)
    assert max(times_s) < 1.04e-5


@given(st.floats(1e-7, 10), st.floats(0, 100))
def test_samples_are_long_and_many_enough(call_s: float, budget_s: float) -> None:
    """However short the call and small the budget: samples that the clock can tell, and five of them."""
    calls, samples = repeats_for(call_s, budget_s)
    assert calls * call_s >= SHORTEST_SAMPLE_S * (1 - 1e-6)
    assert samples >= FEWEST_SAMPLES
    assert samples == FEWEST_SAMPLES or samples * calls * call_s <= budget_s * (1 + 1e-6) + 1e-9


@given(st.floats(-5, 5), st.floats(-5, 5), st.lists(st.floats(0, 100), min_size=2, max_size=6, unique=True))
def test_a_line_is_found_from_its_points(slope: float, intercept: float, places: list[float]) -> None:
    """Points on a line give that line, wherever they are."""
    if max(places) - min(places) < 1:
        places = [*places, max(places) + 1]
    found = line([(x, slope * x + intercept) for x in places])
    assert found == pytest.approx((slope, intercept), abs=1e-6)
