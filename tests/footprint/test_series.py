"""The best start: against a loop over minutes, against worked numbers, and what does not change it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError
from wattlaw.footprint import Series, best_start

HOUR = 3600.0
T0 = 1.7e9


def series(values, *, step_s=HOUR, start_s=T0):
    """A series of some values."""
    return Series(start_s=start_s, step_s=step_s, per_kwh=np.array(values, dtype=float))


def naive_mean(found, start_s, duration_s):
    """The mean over a run, minute by minute."""
    minutes = start_s + 60 * (np.arange(int(duration_s / 60)) + 0.5)
    return np.mean([found.per_kwh[int((minute - found.start_s) // found.step_s)] for minute in minutes])


@st.composite
def problems(draw):
    """A series, a run and a window in whole minutes, all covered."""
    values = draw(st.lists(st.floats(0, 900), min_size=4, max_size=12))
    step_min = draw(st.sampled_from([15, 60]))
    total = step_min * len(values)
    start = draw(st.integers(0, total - 2))
    window = draw(st.integers(0, total - start - 1))
    duration = draw(st.integers(1, total - start - window))
    return series(values, step_s=60.0 * step_min), T0 + 60 * start, 60.0 * window, 60.0 * duration


@given(problems())
def test_it_is_the_best_of_all_minutes(problem):
    """A loop over every minute of the window and of the run finds nothing better, nor worse than the worst."""
    found, start_s, window_s, duration_s = problem
    best = best_start(found, duration_s=duration_s, start_s=start_s, window_s=window_s)
    tried = [naive_mean(found, start_s + 60 * wait, duration_s) for wait in range(int(window_s / 60) + 1)]
    assert best.per_kwh == pytest.approx(min(tried), abs=1e-6)
    assert best.worst_per_kwh == pytest.approx(max(tried), abs=1e-6)
    assert best.now_per_kwh == pytest.approx(tried[0], abs=1e-6)
    assert start_s <= best.start_s <= start_s + window_s
    assert naive_mean(found, best.start_s, duration_s) == pytest.approx(best.per_kwh, abs=1e-6)
    assert naive_mean(found, best.worst_start_s, duration_s) == pytest.approx(best.worst_per_kwh, abs=1e-6)


@given(problems(), st.floats(0.1, 10), st.floats(0, 100))
def test_units_and_charges_do_not_change_when(problem, factor, charge):
    """Another currency, or a charge on every kWh, moves no start that is clearly best."""
    found, start_s, window_s, duration_s = problem
    best = best_start(found, duration_s=duration_s, start_s=start_s, window_s=window_s)
    other = Series(start_s=found.start_s, step_s=found.step_s, per_kwh=found.per_kwh * factor + charge)
    moved = best_start(other, duration_s=duration_s, start_s=start_s, window_s=window_s)
    assert moved.per_kwh == pytest.approx(best.per_kwh * factor + charge, rel=1e-9, abs=1e-6)
    assert found.mean_per_kwh(moved.start_s, duration_s) == pytest.approx(best.per_kwh, rel=1e-6, abs=1e-5)


@given(problems())
def test_a_longer_window_is_never_worse(problem):
    """What could be chosen before can be chosen still."""
    found, start_s, window_s, duration_s = problem
    long = best_start(found, duration_s=duration_s, start_s=start_s, window_s=window_s)
    short = best_start(found, duration_s=duration_s, start_s=start_s, window_s=window_s / 2)
    assert long.per_kwh <= short.per_kwh + 1e-9
    assert long.worst_per_kwh >= short.worst_per_kwh - 1e-9


def test_worked_numbers():
    """A run of 90 minutes in 400, 300, 100 and 200 g/kWh, an hour each: from 2:00, at 133 and not at 367.

    From 1:30 on it would have half an hour at 300 and an hour at 100, 167 on average.
    """
    best = best_start(series([400, 300, 100, 200]), duration_s=1.5 * HOUR, start_s=T0, window_s=2.5 * HOUR)
    assert best.start_s == T0 + 2 * HOUR
    assert best.per_kwh == pytest.approx((100 + 0.5 * 200) / 1.5)
    assert best.now_per_kwh == pytest.approx((400 + 0.5 * 300) / 1.5)
    assert best.saving == pytest.approx(1 - 200 / 550)
    assert (best.worst_start_s, best.saving_against_worst) == (T0, best.saving)


def test_the_first_of_equals_is_taken():
    """Who can start now does."""
    assert best_start(series([5, 5, 5]), duration_s=HOUR, start_s=T0, window_s=HOUR).start_s == T0
    best = best_start(series([5, 1, 1, 1]), duration_s=HOUR, start_s=T0, window_s=3 * HOUR)
    assert best.start_s == T0 + HOUR


def test_a_price_of_nothing_saves_no_share():
    """Prices may be 0 or negative; a share of that says nothing."""
    best = best_start(series([0, -1, 2]), duration_s=HOUR, start_s=T0, window_s=HOUR)
    assert (best.start_s, best.per_kwh, best.saving) == (T0 + HOUR, -1, None)
    assert best.saving_against_worst is None
    later = best_start(series([0, -1, 2]), duration_s=HOUR, start_s=T0, window_s=2 * HOUR)
    assert later.saving_against_worst == 1.5


@pytest.mark.parametrize(("start_h", "duration_h", "window_h"), [(-1, 1, 0), (0, 5, 0), (0, 1, 4), (3.5, 1, 0)])
def test_a_series_that_does_not_reach_is_refused(start_h, duration_h, window_h):
    """With what it covers."""
    with pytest.raises(DataError, match="2023-11-14T22:13Z to 2023-11-15T02:13Z"):
        best_start(
            series([1, 2, 3, 4]), duration_s=duration_h * HOUR, start_s=T0 + start_h * HOUR, window_s=window_h * HOUR
        )


def test_a_gap_matters_only_where_it_is_needed():
    """Within the run or the window it is refused with its time; elsewhere it does not matter."""
    gap = series([1, 2, np.nan, 4, 5, 6])
    with pytest.raises(DataError, match=r"has 1 gaps.*2023-11-15T00:13Z"):
        best_start(gap, duration_s=HOUR, start_s=T0, window_s=2 * HOUR)
    assert best_start(gap, duration_s=HOUR, start_s=T0, window_s=HOUR).per_kwh == 1
    assert gap.mean_per_kwh(T0 + 3.5 * HOUR, 2 * HOUR) == pytest.approx((2 + 5 + 3) / 2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"duration_s": 0}, "duration_s"), ({"duration_s": float("nan")}, "duration_s"), ({"window_s": -1}, "window_s")],
)
def test_times_that_cannot_be_are_refused(changed, words):
    """A run that takes no time, a window that closes before it opens."""
    with pytest.raises(ConfigError, match=words):
        best_start(series([1, 2, 3]), **{"duration_s": HOUR, "start_s": T0, "window_s": HOUR, **changed})


@pytest.mark.parametrize(("values", "step_s", "error"), [([], HOUR, DataError), ([1], 0, ConfigError)])
def test_a_series_has_steps(values, step_s, error):
    """At least one, and it takes time."""
    with pytest.raises(error):
        series(values, step_s=step_s)
