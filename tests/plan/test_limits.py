"""Limits: what is missed, by how much, and what binds where nothing keeps them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError
from wattlaw.footprint import Prices
from wattlaw.plan import Limits, plan
from wattlaw.plan.limits import Miss, excess, misses
from wattlaw.plan.points import Points


def points(**columns):
    """Two points that need what is given; each allows 10 bytes of memory."""
    return Points({name: np.array(values) for name, values in columns.items()} | {"group": np.zeros(2)})


def test_each_limit_says_by_how_much_it_is_exceeded():
    """10 s and 30 s against 20 s: half left, half too much; 8 and 12 of 10 bytes: a fifth left, a fifth too much."""
    found = excess(
        points(duration_s=[10.0, 30.0], memory_bytes=[8.0, 12.0], memory_allowed_bytes=[10.0, 10.0]),
        Limits(deadline_s=20.0),
    )
    assert found["deadline"].tolist() == [-0.5, 0.5]
    assert found["memory"].tolist() == pytest.approx([-0.2, 0.2])
    assert set(found) == {"deadline", "memory"}


def test_the_upper_end_counts_where_there_is_one():
    """A point that is expected in time and may be late is missed by what it may be late."""
    found = points(
        duration_s=[10.0, 10.0],
        duration_s_high=[15.0, 25.0],
        memory_bytes=[1.0, 1.0],
        memory_allowed_bytes=[10.0, 10.0],
    )
    limits = Limits(deadline_s=20.0, confidence=0.9)
    assert misses(found, limits, 0) == ()
    assert misses(found, limits, 1) == (Miss(limit="deadline", allowed=20.0, needed=25.0),)
    assert misses(found, limits, 1)[0].over == 5.0
    assert misses(found, limits, 1)[0].over_fraction == 0.25


@pytest.mark.parametrize(
    "limits",
    [
        {"deadline_s": 0.0},
        {"deadline_s": -1.0},
        {"max_energy_j": float("inf")},
        {"max_money": 0.0},
        {"max_carbon_g": -5.0},
        {"max_devices": 0},
        {"memory_free_fraction": 1.0},
        {"memory_free_fraction": -0.1},
        {"confidence": 0.0},
        {"confidence": 1.0},
    ],
)
def test_limits_that_nothing_can_keep_are_refused(limits):
    """Zero, negative or endless bounds, shares that are none."""
    with pytest.raises(ConfigError):
        Limits(**limits)


@pytest.mark.parametrize("limits", [{"max_money": 1.0}, {"max_carbon_g": 1.0}])
def test_what_is_not_priced_cannot_be_limited(problem, limits):
    """Unknown is not 0: money needs a price, carbon an intensity."""
    with pytest.raises(ConfigError, match="nothing says what it costs"):
        problem(limits=Limits(**limits))


def test_a_deadline_that_alone_binds_is_named_with_what_is_needed(problem, calibration):
    """The nearest point is the fastest one, and the deadline needed is its time."""
    found = plan(problem(limits=Limits(deadline_s=1e-3)), calibration)
    fastest = plan(problem(objective="time"), calibration).best
    assert found.best is None
    assert found.ranking == found.front == ()
    assert found.infeasible.nearest.spec == fastest.spec
    (miss,) = found.infeasible.misses
    assert miss == found.infeasible.alone[0]
    assert (miss.limit, miss.allowed) == ("deadline", 1e-3)
    assert miss.needed == pytest.approx(fastest.prediction.duration_s.mid, rel=1e-9)
    loosened = plan(problem(limits=Limits(deadline_s=miss.needed * (1 + 1e-9))), calibration)
    assert loosened.best.spec == fastest.spec


def test_limits_that_bind_together_are_told_apart_from_one_alone(problem, calibration):
    """Neither the fastest time nor the least energy can be had with the other: no limit alone is to blame."""
    fastest, greenest = (plan(problem(objective=goal), calibration).best.prediction for goal in ("time", "energy"))
    both = Limits(deadline_s=0.5 * fastest.duration_s.mid, max_energy_j=0.5 * greenest.energy_j.mid)
    found = plan(problem(limits=both), calibration).infeasible
    assert found.alone == ()
    assert {miss.limit for miss in found.misses} == {"deadline", "energy"}
    one = Limits(deadline_s=0.5 * fastest.duration_s.mid, max_energy_j=1e9)
    assert [miss.limit for miss in plan(problem(limits=one), calibration).infeasible.alone] == ["deadline"]


def test_where_nothing_fits_into_memory_the_leanest_is_told(problem, calibration):
    """With 99.9 % of the memory free nothing fits; the nearest is what needs least, without a prediction."""
    found = plan(problem(limits=Limits(memory_free_fraction=0.999, deadline_s=1.0)), calibration)
    assert (found.num_fitting, found.best) == (0, None)
    nearest = found.infeasible.nearest
    assert nearest.prediction is None
    (miss,) = found.infeasible.misses
    assert (miss.limit, miss.needed) == ("memory", nearest.memory_bytes)
    assert miss.over > 0


@settings(max_examples=10)
@given(data=st.data())
def test_bending_the_limit_that_binds_alone_is_enough(data, problem, calibration):
    """Where one limit alone is to blame, a plan exists once it allows what is needed."""
    bounds = {
        "deadline_s": data.draw(st.floats(1.0, 40.0)),
        "max_energy_j": data.draw(st.floats(500.0, 8000.0)),
        "max_devices": data.draw(st.integers(1, 4)),
    }
    fields = {"deadline": "deadline_s", "energy": "max_energy_j", "devices": "max_devices"}
    asked = {"strategies": ("single", "ddp", "tp"), "checkpointings": ("none",)}
    found = plan(problem(limits=Limits(**bounds), **asked), calibration)
    for miss in found.infeasible.alone if found.infeasible else ():
        bent = miss.needed if miss.limit == "devices" else miss.needed * (1 + 1e-9)
        loosened = Limits(**{**bounds, fields[miss.limit]: bent})
        assert plan(problem(limits=loosened, **asked), calibration).best is not None


def test_money_and_carbon_are_limited_by_their_prices(problem, calibration):
    """At 1 per kWh and 3600 g per kWh, money in mWh and grams in J are the energy: the same plan as limited energy."""
    prices = Prices(price_per_kwh=3.6e6, carbon_g_per_kwh=3.6e6)
    asked = {"prices": prices, "objective": "time"}
    energy_j = 0.9 * plan(problem(**asked), calibration).best.prediction.energy_j.mid
    plans = [
        plan(problem(limits=Limits(**{name: energy_j}), **asked), calibration)
        for name in ("max_energy_j", "max_money", "max_carbon_g")
    ]
    assert plans[0].best.prediction.energy_j.mid <= energy_j
    assert plans[0].best.spec == plans[1].best.spec == plans[2].best.spec
    assert plans[1].best.money.mid == pytest.approx(plans[1].best.prediction.energy_j.mid)
