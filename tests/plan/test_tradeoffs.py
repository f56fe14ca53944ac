"""What limits cost, and what would make a plan possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wattlaw.footprint import Prices
from wattlaw.plan import Limits, plan
from wattlaw.plan.tradeoffs import beyond, more_devices, spread


def by_limit(found):
    """The trades of a plan."""
    return {trade.limit: trade for trade in found.trades}


@settings(max_examples=10)
@given(deadline_s=st.floats(31.0, 60.0), place=st.integers(0, 100), goal=st.sampled_from(["energy", "money"]))
def test_a_limit_moved_to_what_an_option_needs_makes_it_the_best(problem, calibration, deadline_s, place, goal):
    """Planning again with that deadline finds a plan that costs what the trade said, and none cheaper."""
    asked = {"objective": goal, "prices": Prices(price_per_kwh=0.3, price_per_device_hour=0.05)}
    limits = Limits(deadline_s=deadline_s, max_devices=3)
    found = plan(problem(limits=limits, **asked), calibration)
    assume(found.best is not None)
    trade = by_limit(found)["deadline"]
    assert list(trade.needed) == sorted(trade.needed)
    costs = [option.cost for option in trade.options]
    assert costs == sorted(costs, reverse=True)
    within = [cost for need, cost in zip(trade.needed, costs, strict=True) if need <= deadline_s]
    assert min(within) >= found.best.cost * (1 - 1e-9)
    at = place % len(costs)
    moved = replace(limits, deadline_s=trade.needed[at] * (1 + 1e-9))
    assert plan(problem(limits=moved, **asked), calibration).best.cost == pytest.approx(costs[at], rel=1e-9)


def test_fewer_devices_are_traded_without_a_limit_on_them(problem, calibration):
    """The fewest that keep the deadline stand first, and cost what planning with no more of them costs."""
    asked = problem(objective="time")
    trade = by_limit(plan(asked, calibration))["devices"]
    assert trade.allowed is None
    assert trade.needed[0] == 1
    for need, option in zip(trade.needed, trade.options, strict=True):
        fewer = plan(problem(objective="time", limits=Limits(max_devices=int(need))), calibration)
        assert fewer.best.cost == pytest.approx(option.cost, rel=1e-9)


@pytest.mark.parametrize(("goal", "limit"), [("time", "deadline"), ("energy", "energy"), ("money", "money")])
def test_what_is_made_small_is_not_traded(problem, calibration, goal, limit):
    """The least time for each time is that time."""
    limits = Limits(deadline_s=1e6, max_energy_j=1e9, max_money=1e6)
    asked = problem(objective=goal, limits=limits, prices=Prices(price_per_kwh=0.3), strategies=("single", "ddp"))
    traded = set(by_limit(plan(asked, calibration)))
    assert traded == {"deadline", "energy", "money", "devices"} - {limit}


def with_memory(offer, memory_bytes):
    """An offer of devices with another memory."""
    return replace(offer, accelerator=replace(offer.accelerator, memory_bytes=memory_bytes))


def test_memory_that_is_missing_is_just_enough(problem, offer, calibration):
    """Devices with that much find a plan that keeps the deadline, devices with a little less do not."""
    tight = offer(count=2)
    fastest = plan(problem(objective="time", offers=(tight,)), calibration).best
    limits = Limits(deadline_s=fastest.prediction.duration_s.mid * (1 + 1e-9), memory_free_fraction=0.1)
    asked = problem(offers=(with_memory(tight, 0.9 * fastest.memory_bytes),), limits=limits)
    found = plan(asked, calibration)
    (miss,) = [one for one in found.infeasible.alone if one.limit == "memory"]
    assert miss.allowed == pytest.approx(0.9 * 0.9 * fastest.memory_bytes)
    for share, feasible in ((1 + 1e-9, True), (1 - 1e-6, False)):
        given = with_memory(tight, share * miss.needed / 0.9)
        assert (plan(problem(offers=(given,), limits=limits), calibration).best is not None) == feasible


def test_no_memory_helps_where_another_limit_is_missed_anyway(problem, calibration):
    """A model that fits, and a deadline that nothing keeps: memory is not to blame."""
    found = plan(problem(limits=Limits(deadline_s=0.01)), calibration).infeasible
    assert [miss.limit for miss in found.alone] == ["deadline"]


def test_more_devices_are_the_fewest_that_do(problem, offer, calibration):
    """Offered as many, there is a plan; offered one less, there is none."""
    many = plan(problem(objective="time", offers=(offer(count=8),)), calibration).best
    limits = Limits(deadline_s=1.1 * many.prediction.duration_s.mid)
    found = plan(problem(offers=(offer(count=1),), limits=limits), calibration)
    (option,) = found.infeasible.more_devices
    assert option.prediction.duration_s.mid <= limits.deadline_s
    count = int(option.spec.layout.num_devices)
    assert 1 < count <= 8
    for offered, feasible in ((count, True), (count - 1, False)):
        asked = problem(offers=(offer(count=offered),), limits=limits)
        assert (plan(asked, calibration).best is not None) == feasible


def test_more_devices_are_not_looked_for_where_the_user_says_how_many(problem, offer, calibration):
    """Nor more than stand in one machine, where nothing says how machines are joined."""
    limits = Limits(deadline_s=0.01, max_devices=2)
    for asked in (problem(limits=limits), problem(device_counts=(1, 2)), problem(offers=(offer(count=16),))):
        assert more_devices(asked, calibration, level=0.9) == ()


def test_options_beyond_a_limit_start_with_the_nearest(problem, calibration):
    """And end with the cheapest; within the limit there are none of them."""
    single = plan(problem(device_counts=(1,)), calibration).best.prediction.duration_s.mid
    asked = problem(limits=Limits(deadline_s=0.9 * single), checkpointings=("none",), objective="energy")
    trade = by_limit(plan(asked, calibration))["deadline"]
    places = beyond(trade, 3)
    assert places[-1] == len(trade.needed) - 1
    assert trade.needed[places[0]] > trade.allowed >= trade.needed[places[0] - 1]
    assert beyond(replace(trade, allowed=None), 3) == []


@given(length=st.integers(0, 50), count=st.integers(2, 10))
def test_a_spread_has_both_ends_and_nothing_twice(length, count):
    """Places in order, no more than asked for."""
    found = list(spread(length, count))
    assert found == sorted(set(found))
    assert len(found) == min(length, count)
    assert not length or (found[0], found[-1]) == (0, length - 1)
