"""Configurations as columns: fronts, and what they beat."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.plan.points import Points, beaten, pareto_front

PAIRS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12)


def points_of(pairs):
    """Points with two columns."""
    first, second = np.array(pairs, dtype=float).T
    return Points({"needed": first, "cost": second, "group": np.zeros(len(pairs))})


@given(front=PAIRS, pairs=PAIRS)
def test_a_front_beats_what_one_of_its_points_beats(front, pairs):
    """As good in both columns and better in one, against a loop over all pairs."""
    first, second = np.array(pairs, dtype=float).T
    lead = pareto_front(points_of(front), across="needed", along="cost")
    found = beaten(lead, first, second, across="needed", along="cost")
    assert found.tolist() == [any(a <= x and b <= y and (a, b) != (x, y) for a, b in front) for x, y in pairs]


@given(front=PAIRS, pairs=PAIRS, more=st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_what_is_above_a_pair_that_is_beaten_is_beaten(front, pairs, more):
    """So that lower bounds are enough."""
    first, second = np.array(pairs, dtype=float).T
    lead = pareto_front(points_of(front), across="needed", along="cost")
    below = beaten(lead, first, second, across="needed", along="cost")
    above = beaten(lead, first + more[0], second + more[1], across="needed", along="cost")
    assert (above | ~below).all()


def test_no_front_beats_nothing():
    """Before the first point is seen."""
    assert beaten(None, np.ones(3), np.ones(3), across="needed", along="cost").tolist() == [False] * 3
