"""Plans as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.hardware import accelerator
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.plan import Limits, plan
from wattlaw.workload import preset


def test_options_are_predictions_of_their_specs(problem, calibration):
    """Energy and time of each, at the plan's level, are what predicting its spec says."""
    found = plan(problem(limits=Limits(confidence=0.8)), calibration)
    assert found.level == 0.8
    chosen = [*found.ranking[:3], *found.front[:3]]
    for option, prediction in zip(chosen, predict([one.spec for one in chosen], calibration, level=0.8), strict=True):
        assert option.prediction == prediction


def test_the_ranking_starts_with_the_best_and_never_costs_less(problem, calibration):
    """The best has least of what is asked for, and stands on the front."""
    for goal, field in (("energy", "energy_j"), ("time", "duration_s")):
        found = plan(problem(objective=goal), calibration)
        costs = [getattr(one.prediction, field).mid for one in found.ranking]
        assert costs == sorted(costs)
        assert found.best.cost == pytest.approx(costs[0], rel=1e-9)
        assert found.best in found.front


def test_without_limits_both_fronts_are_the_same(problem, calibration):
    """A deadline leaves of the front what keeps it: whatever beats a point in time keeps the deadline as well."""
    free = plan(problem(), calibration)
    assert free.front == free.open_front
    times = [one.prediction.duration_s.mid for one in free.front]
    deadline_s = (times[0] + times[-1]) / 2
    bound = plan(problem(limits=Limits(deadline_s=deadline_s)), calibration)
    assert bound.open_front == free.open_front
    assert bound.front == tuple(one for one, time in zip(free.front, times, strict=True) if time <= deadline_s)
    assert 0 < len(bound.front) < len(free.front)


def test_a_law_that_knows_no_layouts_is_refused(problem, calibration):
    """With what to use instead."""
    with pytest.raises(DataError, match="step law"):
        plan(problem(), replace(calibration, law="power"))


def test_choices_that_leave_nothing_are_refused(problem, calibration):
    """Five devices divide neither the batch of 24 nor four heads."""
    with pytest.raises(ConfigError, match="no configuration"):
        plan(problem(device_counts=(5,)), calibration)


def test_a_large_model_on_a_thousand_devices_is_searched_whole(problem, offer, calibration, run):
    """GPT-3's blocks, heads and batch on 1,024 devices: tens of thousands of ways, and the best fits and keeps all."""
    large = replace(
        run,
        architecture=preset("gpt3-175b"),
        recipe=replace(run.recipe, batch_size=1, grad_accumulation=1, seq_len=2048, precision="bf16", steps=1000),
        layout=Layout(data_parallel=1536, sequence_parallel=1, vocabulary_parallel=1),
        accelerator=accelerator("a100-sxm4-80gb"),
    )
    offers = (offer("a100-sxm4-80gb", 1024, "dgx-a100"),)
    asked = problem(model=large, offers=offers, objective="time", limits=Limits(deadline_s=90 * 86400.0))
    found = plan(asked, calibration)
    assert found.num_configurations > 50_000
    best = found.best
    assert best.memory_bytes <= best.memory_allowed_bytes
    assert best.spec.layout.num_devices <= 1024
    assert best.prediction.duration_s.mid <= 90 * 86400


def test_offers_with_different_hosts_are_said(problem, offer, calibration):
    """The same boards with and without their node type: the bare ones look greener, which is said."""
    bare, boxed = offer(), offer(node="pcie-box")
    choices = ((bare,), (boxed,), (bare, boxed))
    found = [plan(problem(offers=offers), calibration).warnings for offers in choices]
    assert found[0] == found[1] == ()
    assert "not of the same kind" in found[2][0]
