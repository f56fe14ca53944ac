"""Why the ways next to the best one were rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.plan import Limits, plan


def changed(found, change):
    """The neighbours with one kind of change, by their value."""
    return {one.value: one for one in found.neighbours if one.change == change}


def test_each_neighbour_differs_in_one_thing(problem, offer, calibration):
    """But for the micro-batch, and what a strategy's degrees follow from."""
    asked = problem(offers=(offer(power_caps_w=(150.0,)), offer("a100-sxm4-40gb")), precisions=("fp16", "fp32"))
    found = plan(asked, calibration)
    best = found.best.spec
    assert {one.change for one in found.neighbours} == {
        "strategy", "devices", "accelerator", "micro-batch", "checkpointing", "power cap", "precision",
    }  # fmt: skip
    for one in found.neighbours:
        spec = one.option.spec
        differs = {
            "strategy": spec.layout.strategy != best.layout.strategy,
            "devices": spec.layout.num_devices != best.layout.num_devices,
            "accelerator": spec.accelerator != best.accelerator,
            "checkpointing": spec.recipe.checkpointing != best.recipe.checkpointing,
            "precision": spec.recipe.precision != best.recipe.precision,
        }
        linked = {"strategy", "devices"}  # one device has one strategy
        allowed = {one.change} | (linked if one.change in linked else set())
        assert {name for name, unlike in differs.items() if unlike} <= allowed
        assert spec != best


def test_what_keeps_the_limits_costs_more(problem, calibration):
    """No neighbour without a miss is better than the best, and its share says by how much it is worse."""
    found = plan(problem(), calibration)
    costs = [one.cost_fraction for one in found.neighbours if not one.misses]
    assert costs
    assert min(costs) >= 0


def test_a_neighbour_beyond_a_limit_says_by_how_much(problem, calibration):
    """Under a deadline that two devices just keep, one device misses it by its time less the deadline."""
    limits = Limits(max_devices=4)
    asked = problem(limits=limits, strategies=("single", "ddp"), checkpointings=("none",), device_counts=(1, 2))
    slow = plan(replace(asked, space=replace(asked.space, device_counts=(1,))), calibration).best
    quick = plan(replace(asked, space=replace(asked.space, device_counts=(2,))), calibration).best
    deadline_s = (slow.prediction.duration_s.mid + quick.prediction.duration_s.mid) / 2
    found = plan(replace(asked, limits=Limits(deadline_s=deadline_s)), calibration)
    alone = changed(found, "devices")["1"]
    (miss,) = alone.misses
    assert miss.limit == "deadline"
    assert miss.over == pytest.approx(alone.option.prediction.duration_s.mid - deadline_s, rel=1e-9)


def test_a_neighbour_that_does_not_fit_says_how_much_memory_it_needs(problem, calibration, run):
    """The next larger micro-batch needs more than the device allows, by the difference of the two."""
    large = replace(run, recipe=replace(run.recipe, batch_size=1536, grad_accumulation=1))
    asked = problem(model=large, strategies=("single",), checkpointings=("none",))
    found = plan(asked, calibration)
    best = found.best
    beyond = changed(found, "micro-batch")[max(changed(found, "micro-batch"), key=int)]
    assert beyond.option.spec.recipe.batch_size > best.spec.recipe.batch_size
    (miss,) = beyond.misses
    assert miss.limit == "memory"
    assert miss.over == pytest.approx(beyond.option.memory_bytes - best.memory_allowed_bytes, rel=1e-12)
    assert beyond.option.prediction is None
    assert beyond.cost_fraction is None
