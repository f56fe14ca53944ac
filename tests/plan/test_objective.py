"""Objectives: what each makes small."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.footprint import Prices
from wattlaw.plan import Objective, plan
from wattlaw.plan.objective import weighted_cost


def test_the_weighted_cost_is_that_of_zeus():
    """0.3 of 100 J and 0.7 of 50 W for 4 s: 30 + 140 (arXiv 2208.06102, equation 2)."""
    assert weighted_cost(np.array(100.0), np.array(4.0), np.array(50.0), energy_weight=0.3) == pytest.approx(170.0)


def test_the_ends_of_the_weight_are_energy_and_time_on_the_board(problem, calibration):
    """With weight 1 the plan is the greenest; with weight 0 it occupies least power for least time."""
    greenest = plan(problem(), calibration).best
    assert plan(problem(objective="weighted", energy_weight=1.0), calibration).best.spec == greenest.spec
    occupied = plan(problem(objective="weighted", energy_weight=0.0), calibration).best
    board_w = occupied.spec.accelerator.power_limit_w * occupied.spec.layout.num_devices
    assert occupied.cost == pytest.approx(board_w * occupied.prediction.duration_s.mid, rel=1e-9)


def test_each_goal_is_least_at_its_own_best(problem, calibration):
    """No other goal's best has less energy than the greenest, or less time than the fastest."""
    goals = {"energy": None, "time": None, "weighted": 0.5}
    best = {goal: plan(problem(objective=goal, energy_weight=w), calibration).best for goal, w in goals.items()}
    assert min(best.values(), key=lambda one: one.prediction.energy_j.mid) is best["energy"]
    assert min(best.values(), key=lambda one: one.prediction.duration_s.mid) is best["time"]


def test_rent_makes_cheap_devices_worth_their_time(problem, offer, calibration):
    """A device that costs a hundred times as much is not chosen for money; without rent, electricity alone decides."""
    offers = (offer(), offer("a100-sxm4-40gb"))
    cheap = Prices(price_per_device_hour={"rtx-2080-ti": 0.1, "a100-sxm4-40gb": 100.0})
    chosen = plan(problem(objective="money", offers=offers, prices=cheap), calibration).best
    assert chosen.spec.accelerator.name == "rtx-2080-ti"
    hours = chosen.prediction.duration_s.mid * chosen.spec.layout.num_devices / 3600
    assert chosen.money.mid == pytest.approx(0.1 * hours, rel=1e-9)
    greenest = plan(problem(offers=offers), calibration).best
    powered = plan(problem(objective="money", offers=offers, prices=Prices(price_per_kwh=0.3)), calibration).best
    assert powered.spec == greenest.spec


def test_carbon_under_one_intensity_is_energy(problem, calibration):
    """The plan with least carbon is the greenest, with grams to tell."""
    found = plan(problem(objective="carbon", prices=Prices(carbon_g_per_kwh=400.0, pue=1.2)), calibration).best
    assert found.spec == plan(problem(), calibration).best.spec
    assert found.carbon_g.mid == pytest.approx(found.prediction.energy_j.mid * 1.2 / 3.6e6 * 400, rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"goal": "speed"}, UnknownNameError),
        ({"goal": "weighted"}, ConfigError),
        ({"goal": "weighted", "energy_weight": 1.5}, ConfigError),
        ({"goal": "energy", "energy_weight": 0.5}, ConfigError),
    ],
)
def test_goals_that_cannot_be_are_refused(changes, error):
    """Unknown ones, weights that are missing, out of range or without use."""
    with pytest.raises(error):
        Objective(**changes)


@pytest.mark.parametrize("goal", ["money", "carbon"])
def test_a_goal_without_a_price_is_refused(problem, goal):
    """Nothing is guessed."""
    with pytest.raises(ConfigError, match=goal):
        problem(objective=goal)
