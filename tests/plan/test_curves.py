"""Energy and time against the number of devices, and against a power cap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.law.interval import Interval
from wattlaw.parallel.layout import Layout
from wattlaw.plan import Objective, plan
from wattlaw.plan.curves import by_device_count, by_power_cap, crossovers


def test_each_point_of_a_curve_is_the_plan_of_its_strategy_and_count(problem, calibration):
    """With everything else free, as if nothing else had been asked for."""
    asked = problem(strategies=("single", "ddp", "fsdp", "tp"))
    curve = by_device_count(asked, calibration, level=0.9)
    assert [(one.spec.layout.strategy, one.spec.layout.num_devices) for one in curve] == [
        ("ddp", 2), ("ddp", 3), ("ddp", 4), ("fsdp", 2), ("fsdp", 3), ("fsdp", 4), ("single", 1), ("tp", 2), ("tp", 4),
    ]  # fmt: skip
    for one in curve[::3]:
        layout = one.spec.layout
        space = replace(asked.space, strategies=(layout.strategy,), device_counts=(int(layout.num_devices),))
        assert plan(replace(asked, space=space), calibration).best.spec == one.spec
        assert one.prediction.energy_j.level == 0.9


def test_many_devices_are_shown_in_powers_of_two(problem, offer, calibration):
    """Of 24 devices: 1, 2, 4, 8, 16."""
    asked = problem(offers=(offer(count=24, node="pcie-box"),), strategies=("single", "ddp"), checkpointings=("none",))
    counts = {one.spec.layout.num_devices for one in by_device_count(asked, calibration, level=0.9)}
    assert counts == {1, 2, 4, 8}  # 16 does not divide the batch of 24


def test_a_crossover_is_where_another_strategy_becomes_the_greenest(problem, calibration):
    """Made up: DDP needs least with two devices, FSDP with four; one device has no choice."""
    asked = problem(strategies=("single", "ddp", "fsdp"), objective="energy", checkpointings=("none",))
    assert asked.objective == Objective()
    (option,) = by_device_count(problem(strategies=("single",), checkpointings=("none",)), calibration, level=0.9)

    def made_up(strategy, count, joules):
        energy = Interval(low=joules, mid=joules, high=joules, level=0.9)
        layout = Layout.of(strategy, num_devices=count)
        return replace(
            option, spec=replace(option.spec, layout=layout), prediction=replace(option.prediction, energy_j=energy)
        )

    curve = [made_up("single", 1, 1.0), made_up("ddp", 2, 2.0), made_up("fsdp", 2, 3.0), made_up("ddp", 4, 5.0)]
    assert crossovers(curve) == ()
    (found,) = crossovers([*curve, made_up("fsdp", 4, 4.0)])
    assert (found.num_devices, found.before, found.after) == (4, "ddp", "fsdp")


def test_a_power_cap_never_makes_a_run_faster(run, calibration):
    """The lower the cap, the longer the run or as long; at the board's own limit it is the uncapped run."""
    curve = by_power_cap(run, calibration, level=0.9)
    times = [prediction.duration_s.mid for _, prediction in curve]
    assert times == sorted(times, reverse=True)
    assert curve[-1][0] == run.accelerator.power_limit_w
    from wattlaw.law.prediction import predict

    (uncapped,) = predict([run], calibration, level=0.9)
    assert curve[-1][1].energy_j.mid == pytest.approx(uncapped.energy_j.mid, rel=1e-9)
