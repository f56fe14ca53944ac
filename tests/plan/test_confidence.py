"""How sure the first place is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.features.physical import physical_columns
from wattlaw.law.bundled import bundled
from wattlaw.law.interval import ends_of_runs
from wattlaw.parallel.layout import Layout
from wattlaw.plan import plan
from wattlaw.plan.confidence import ONE_SIGMA, assumption, draw_errors, judge


def test_draws_are_judged_by_who_costs_least():
    """Of four draws the first costs least in two, 1 % more in one and twice as much in one."""
    costs = np.array([[1.0, 2.0], [1.0, 1.5], [1.01, 1.0], [2.0, 1.0]])
    found = judge(costs, assumption="none")
    assert (found.chance, found.close_chance, found.num_contenders) == (0.5, 0.75, 2)
    assert found.typical_regret == pytest.approx(np.median([0, 0, 0.01, 1.0]))


@pytest.fixture
def layouts(run):
    """The small run on three layouts of one machine."""
    strategies = ("single", 1), ("ddp", 2), ("fsdp", 4)
    return [replace(run, layout=Layout.of(name, num_devices=count)) for name, count in strategies]


def test_errors_are_as_wide_as_the_intervals(layouts, calibration):
    """Within the domain, the standard deviation of the draws is about half of the interval that holds 68 %."""
    table = physical_columns(layouts[:1])
    low, high = ends_of_runs(calibration, table, target="duration", level=ONE_SIGMA)
    errors = draw_errors(calibration, table, draws=20_000)["duration"]
    assert errors.std() == pytest.approx((high[0] - low[0]) / 2, rel=0.03)
    assert abs(errors.mean()) < 0.03 * errors.std()


def test_what_rests_on_the_same_parameters_errs_together(layouts):
    """On a machine without measurements, the errors of two micro-batches are closer than those of two strategies."""
    cold = [replace(spec, accelerator=spec.accelerator.__class__(**fields(spec.accelerator))) for spec in layouts]
    wide = replace(cold[0], recipe=replace(cold[0].recipe, batch_size=12, grad_accumulation=1))
    errors = draw_errors(bundled(), physical_columns([cold[0], wide, cold[2]]))["duration"]
    together = np.corrcoef(errors.T)
    assert together[0, 1] > 0.9
    assert together[0, 1] > together[0, 2]


def fields(device):
    """The fields of an accelerator, under a name that no calibration knows."""
    return {name: getattr(device, name) for name in device.__dataclass_fields__} | {"name": "unheard-of"}


def test_the_same_question_gets_the_same_answer(problem, calibration):
    """The draws have a seed."""
    assert plan(problem(), calibration).first_place == plan(problem(), calibration).first_place


def test_a_single_contender_is_certain(problem, calibration):
    """Where nothing else keeps the limits there is nothing to be wrong about."""
    only = problem(strategies=("single",), micro_batches=(24,), checkpointings=("none",))
    found = plan(only, calibration).first_place
    assert (found.chance, found.num_contenders, found.typical_regret) == (1.0, 1, 0.0)


def test_a_clear_winner_is_surer_than_one_of_equals(problem, offer, calibration):
    """Against recomputation alone the chance is near 1; against micro-batches of its own kind it is less."""
    clear = problem(strategies=("single",), micro_batches=(24,))
    equals = problem(strategies=("single", "ddp"), checkpointings=("none",))
    chances = [plan(one, calibration).first_place.chance for one in (clear, equals)]
    assert chances[0] > 0.99
    assert chances[1] < chances[0]


def test_a_calibration_that_knows_no_covariance_says_what_is_assumed(layouts):
    """Half of the variance is then common, which the answer states."""
    shipped = bundled()
    machines = {name: replace(each, covariance=None) for name, each in shipped.machines.items()}
    blind = replace(shipped, covariance=None, noise={}, machines=machines)
    assert "50%" in assumption(blind).replace(" ", "")
    assert assumption(blind) != assumption(shipped)
    errors = draw_errors(blind, physical_columns(layouts), draws=20_000)["energy"]
    assert np.corrcoef(errors.T)[0, 1] == pytest.approx(0.5, abs=0.03)
