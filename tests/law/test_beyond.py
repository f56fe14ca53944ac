"""Steps larger than any that a machine was measured on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.features.physical import physical_columns
from wattlaw.features.table import Table
from wattlaw.hardware import accelerator
from wattlaw.law.beyond import toward_common
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Anchor, Calibration, MachineCalibration, Residuals
from wattlaw.law.step import StepLaw
from wattlaw.parallel import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset

BOARD = "l4"
COMMON = 0.6
KNOWN = Calibration(
    law="step",
    parameters={"matrix_fraction": COMMON},
    domain={"block_flop": (1e8, 1e12), "block_kernels": (10.0, 1000.0)},
)


def fraction(own: float, flop: float, kernels: float = 500.0, calibration: Calibration = KNOWN) -> float:
    """Share of the peak of one step."""
    return float(toward_common(own, calibration, BOARD, {"block_flop": flop, "block_kernels": kernels}))


def test_within_the_fit_a_machine_keeps_its_own() -> None:
    """Up to the largest step that was measured nothing changes, to the last bit, whatever company a run has."""
    assert fraction(0.2, 1e12) == 0.2
    together = toward_common(
        np.full(2, 0.2), KNOWN, BOARD, {"block_flop": np.array([1e11, 1e15]), "block_kernels": 500.0}
    )
    assert together[0] == 0.2
    assert together[1] == fraction(0.2, 1e15)


def test_a_step_twice_as_large_has_half_of_each() -> None:
    """Half of its operations take what was measured, 1 / 0.2, and half what is common, 1 / 0.6: 2 / (5 + 1.667)."""
    assert fraction(0.2, 2e12) == pytest.approx(0.3)


def test_large_steps_approach_the_common_value() -> None:
    """The share rises with the step, towards the common one and never beyond; the time rises too."""
    flop = np.logspace(10, 18, 81)
    shares = np.array([fraction(0.2, value) for value in flop])
    assert np.all(np.diff(shares) >= 0)
    assert np.all(np.diff(flop / shares) > 0)
    assert shares[-1] == pytest.approx(COMMON, rel=1e-4)
    assert np.all(shares <= COMMON)


def test_more_kernels_of_the_same_size_are_no_larger_products() -> None:
    """A model ten times as deep as any in the fit has as small products, and is as slow for each."""
    assert fraction(0.2, 1e13, kernels=1e4) == 0.2


@pytest.mark.parametrize("own", [COMMON, 0.61, 1.0])
def test_a_fast_machine_stays_fast(own: float) -> None:
    """Products get no slower by being large, and what is common already stays to the last bit."""
    assert fraction(own, 1e18) == own


@pytest.mark.parametrize("calibration", [replace(KNOWN, domain={}), replace(KNOWN, parameters={})])
def test_without_a_range_or_a_common_value_nothing_is_known(calibration: Calibration) -> None:
    """A calibration that does not say what it saw, or what is common, leaves a machine its own."""
    assert fraction(0.2, 1e18, calibration=calibration) == 0.2


def test_what_a_probe_measured_stays() -> None:
    """A probe multiplies large matrices: its rate is not that of small ones."""
    anchor = Anchor(parameter="matrix_fraction", value=0.2, spread=0.1)
    probed = MachineCalibration(parameters={"matrix_fraction": 0.2}, residuals=Residuals(), anchors=(anchor,))
    assert fraction(0.2, 1e18, calibration=replace(KNOWN, machines={BOARD: probed})) == 0.2
    assert fraction(0.2, 1e18, calibration=replace(KNOWN, machines={"other": probed})) > 0.5


def test_a_board_that_small_models_were_measured_on_is_no_slower_than_its_twin() -> None:
    """Two A100s that differ in memory train Llama-2-7B within 15 %, though small models were measured on one only."""
    recipe = Recipe(batch_size=2, seq_len=4096, checkpointing="full", steps=10)
    layout = Layout(data_parallel=8, zero_stage=3)
    table = physical_columns(
        [
            RunSpec(architecture=preset("llama-2-7b"), recipe=recipe, layout=layout, accelerator=accelerator(name))
            for name in ("a100-sxm4-40gb", "a100-sxm4-80gb")
        ]
    )
    small, large = _seconds(bundled(), table)
    assert small == pytest.approx(large, rel=0.15)
    assert _seconds(replace(bundled(), domain={}), table)[0] > 1.5 * small


def _seconds(calibration: Calibration, table: Table) -> list[float]:
    found = StepLaw().estimate(calibration, table).duration_s
    assert found is not None
    return [float(value) for value in found]
