"""Warm-up, number of steps, spread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.measure.sweep.steadiness import (
    FEWEST_STEPS,
    Window,
    describe_steps,
    is_steady,
    num_measured_steps,
)

times = st.floats(min_value=1e-4, max_value=10.0)


def test_warm_up_goes_on_while_steps_get_faster() -> None:
    """Steps that get a tenth faster each time are never steady; the first that does not ends the warm-up."""
    falling = [0.9**number for number in range(8)]
    assert not is_steady(falling, Window())
    assert is_steady([*falling, falling[-1]], Window())


def test_one_step_is_never_steady() -> None:
    """A single step has nothing to be compared with, whatever the least number of warm-up steps."""
    assert not is_steady([0.1], Window(min_warmup_steps=1))


def test_an_outlier_does_not_prolong_the_warm_up() -> None:
    """A slow step after a fast one is no sign of still getting faster."""
    assert is_steady([0.5, 0.1, 0.3], Window())


@given(st.lists(times, min_size=2, max_size=5), st.integers(1, 50), st.floats(0.0, 5.0), st.floats(5.0, 60.0))
def test_the_window_keeps_its_bounds(warmup, steps, low_s, high_s) -> None:
    """No window is longer than its bound unless three steps are, nor has fewer steps than asked for that fit."""
    window = Window(steps=steps, min_window_s=low_s, max_window_s=high_s)
    count = num_measured_steps(warmup, window)
    step_s = (warmup[-1] + warmup[-2]) / 2
    assert count >= min(steps, FEWEST_STEPS)
    assert count <= FEWEST_STEPS or count * step_s <= high_s * (1 + 1e-6)
    if steps * step_s < high_s * 0.99:
        assert count >= steps


def test_spread_is_of_the_tenths() -> None:
    """Of the steps 1 to 11 the middle is 6, the tenths are 2 and 10, and half of the deviations are at most 3."""
    described = describe_steps([float(number) for number in range(1, 12)])
    assert described == {
        "step_s": 6.0,
        "step_p10_s": 2.0,
        "step_p90_s": 10.0,
        "step_spread": pytest.approx(8 / 6),
        "step_mad_s": 3.0,
    }


def test_one_step_has_no_spread() -> None:
    """A single step is its own median."""
    assert describe_steps([0.2])["step_spread"] == 0.0
