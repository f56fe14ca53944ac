"""Fits that start from a host's calibration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Anchor, MachineCalibration, Residuals
from wattlaw.law.step import StepLaw
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset

MACHINE = "h100-sxm5-80gb"


@pytest.fixture(scope="module")
def three_runs():
    """Three runs on a GPU that no fit has seen, with the times that the shipped law predicts of it."""
    specs = [
        RunSpec(
            architecture=preset("bert-base-uncased"),
            recipe=Recipe(batch_size=batch, seq_len=128, precision="bf16", steps=100),
            layout=Layout.of("single", num_devices=1),
            accelerator=accelerator(MACHINE),
        )
        for batch in (8, 16, 32)
    ]
    table = physical_columns(specs)
    estimate = StepLaw().estimate(bundled(), table)
    return table.with_columns(duration_s=estimate.duration_s, group=np.array(["a", "b", "c"]))


def anchored(*, machine: str = MACHINE, spread: float = 0.02, **values: float):
    """The shipped calibration with anchors of one machine."""
    kept = tuple(Anchor(parameter=name, value=value, spread=spread) for name, value in values.items())
    probed = MachineCalibration(parameters=bundled().parameters, residuals=Residuals(), anchors=kept)
    return replace(bundled(), machines={**bundled().machines, machine: probed})


def test_a_fit_keeps_to_what_was_measured(three_runs) -> None:
    """What the runs say nothing about stays where a probe found it; without a probe it is the common value."""
    plain = StepLaw(prior=bundled()).fit(three_runs).machines[MACHINE].parameters
    probed = StepLaw(prior=anchored(link_fraction=0.9)).fit(three_runs).machines[MACHINE].parameters
    assert plain["link_fraction"] == pytest.approx(bundled().parameter("link_fraction"), rel=0.02)
    assert probed["link_fraction"] == pytest.approx(0.9, rel=0.02)


def test_runs_outweigh_a_vague_probe(three_runs) -> None:
    """An anchor with an infinite spread is none."""
    vague = anchored(link_fraction=0.9, spread=1e9)
    plain = StepLaw(prior=bundled()).fit(three_runs)
    assert StepLaw(prior=vague).fit(three_runs).machines[MACHINE].parameters == pytest.approx(
        plain.machines[MACHINE].parameters, rel=1e-4
    )


def test_residuals_are_still_of_the_runs(three_runs) -> None:
    """Anchors add no residuals: as many held-out ones as runs."""
    fitted = StepLaw(prior=anchored(link_fraction=0.9, launch_kernel_s=2e-5)).fit(three_runs)
    assert len(fitted.machines[MACHINE].residuals.duration) == 3


def test_anchors_are_of_one_machine(three_runs) -> None:
    """Another machine's anchors hold nothing here."""
    other = StepLaw(prior=anchored(machine="l4", link_fraction=0.9)).fit(three_runs)
    assert other.machines[MACHINE].parameters["link_fraction"] == pytest.approx(
        bundled().parameter("link_fraction"), rel=0.02
    )


def test_anchors_are_kept_for_the_next_fit(three_runs) -> None:
    """A fit that started from a probe still has what the probe measured of the machine."""
    prior = anchored(link_fraction=0.9)
    assert StepLaw(prior=prior).fit(three_runs).machines[MACHINE].anchors == prior.machines[MACHINE].anchors
