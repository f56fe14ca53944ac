"""The additive law recovers itself and keeps its parameters at or above zero."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError, FitError
from wattlaw.features.table import Table
from wattlaw.law.paper import AdditiveLaw
from wattlaw.law.paper.published import published

COMPUTE_J, MEMORY_J, FIXED_J = 2e-10, 3e-7, 0.5
STRATEGY_J = {"single": 0.0, "fsdp": 0.4, "tp": 1.6}


def steps(num_runs: int, *, seed: int = 0, noise: float = 0.0) -> Table:
    """Runs whose steps follow equation (4) with one fixed energy per strategy, times 1 + noise."""
    random = np.random.default_rng(seed)
    strategy = np.resize(["single", "fsdp", "tp"], num_runs)
    per_step, memory = random.uniform(1e9, 1e10, num_runs), random.uniform(1e5, 1e7, num_runs)
    num_steps = random.integers(10, 1000, num_runs).astype(float)
    offsets = np.array([STRATEGY_J[name] for name in strategy])
    energy_j = (COMPUTE_J * per_step + MEMORY_J * memory + FIXED_J + offsets) * num_steps
    return Table({
        "compute_proxy": per_step * num_steps,
        "memory_proxy": memory,
        "num_steps": num_steps,
        "strategy": strategy,
        "energy_j": energy_j * (1 + noise * random.standard_normal(num_runs)),
    })  # fmt: skip


@pytest.mark.parametrize("weighting", ["absolute", "relative"])
def test_recovers_an_exact_law(weighting):
    """Recovery: without noise all parameters come back to eight digits, in joules per step and unit of proxy."""
    calibration = AdditiveLaw(weighting=weighting).fit(steps(30))
    expected = {"compute_j": COMPUTE_J, "memory_j": MEMORY_J, "fixed_j": FIXED_J}
    expected |= {"strategy:fsdp": 0.4, "strategy:tp": 1.6}
    assert calibration.parameters == pytest.approx(expected, rel=1e-8)
    assert calibration.diagnostics["adjusted_r2"] == pytest.approx(1.0)


def test_intervals_cover_at_about_their_level():
    """Recovery: over 150 noisy samples, two HC3 standard errors hold the true value in about 95 % of them."""
    covered = {"compute_j": 0, "memory_j": 0, "fixed_j": 0, "strategy:tp": 0}
    true = {"compute_j": COMPUTE_J, "memory_j": MEMORY_J, "fixed_j": FIXED_J, "strategy:tp": 1.6}
    for seed in range(150):
        calibration = AdditiveLaw().fit(steps(60, seed=seed, noise=0.05))
        for name, value in true.items():
            error = calibration.standard_error(name)
            covered[name] += abs(calibration.parameters[name] - value) <= 1.96 * error
    assert min(covered.values()) >= 0.88 * 150, covered
    assert max(covered.values()) <= 149, covered


def test_a_parameter_that_wants_to_be_negative_stays_at_zero():
    """Energy that falls with memory traffic puts e_mem on its bound, and the diagnostics say so."""
    table = steps(30)
    falling = table.with_columns(energy_j=table["energy_j"] * (1e7 / table["memory_proxy"]) ** 0.5)
    calibration = AdditiveLaw().fit(falling)
    assert calibration.parameters["memory_j"] == 0
    assert calibration.diagnostics["on_bound:memory_j"] == 1
    assert calibration.warnings == ("memory_j is on its bound of zero",)
    assert calibration.standard_error("memory_j") is None
    assert calibration.standard_error("compute_j") > 0


def test_inside_the_bounds_it_is_least_squares():
    """Reference: where no parameter is on its bound, the solution is numpy's unconstrained one."""
    table = steps(60, seed=3, noise=0.05)
    calibration = AdditiveLaw().fit(table)
    design = np.column_stack([
        table["compute_proxy"] / table["num_steps"] / 1e9,
        table["memory_proxy"] / 1e6,
        np.ones(60),
        table["strategy"] == "fsdp",
        table["strategy"] == "tp",
    ])  # fmt: skip
    expected = np.linalg.lstsq(design, table["energy_j"] / table["num_steps"], rcond=None)[0]
    np.testing.assert_allclose(list(calibration.parameters.values()), expected / [1e9, 1e6, 1, 1, 1], rtol=1e-7)


def test_scalings():
    """Twice the steps of the same kind take twice the energy; the terms are the four parts of equation (4)."""
    law, table = AdditiveLaw(), steps(30)
    calibration = law.fit(table)
    twice = table.with_columns(num_steps=2 * table["num_steps"], compute_proxy=2 * table["compute_proxy"])
    np.testing.assert_allclose(
        law.estimate(calibration, twice).energy_j, 2 * law.estimate(calibration, table).energy_j, rtol=1e-12
    )
    terms_j = law.estimate(calibration, table).terms_j
    np.testing.assert_allclose(terms_j["compute"], COMPUTE_J * table["compute_proxy"], rtol=1e-7)
    np.testing.assert_allclose(terms_j["fixed"], FIXED_J * table["num_steps"], rtol=1e-7)
    assert np.all(terms_j["strategy"][table["strategy"] == "single"] == 0)


def test_rescaling_energies_scales_every_parameter():
    """The law is linear: a thousand times the energy is a thousand times every parameter."""
    table = steps(60, seed=1, noise=0.05)
    before = AdditiveLaw().fit(table).parameters
    after = AdditiveLaw().fit(table.with_columns(energy_j=1000 * table["energy_j"])).parameters
    assert after == pytest.approx({name: 1000 * value for name, value in before.items()}, rel=1e-7)


def test_published_table_2_compares_and_does_not_predict():
    """Table 2 as printed, with its errors; its units and constants are not published, so predicting is refused."""
    calibration = published("paper-table2")
    assert calibration.parameter("memory_centred") == 3.0e-4
    assert calibration.standard_error("memory_centred") == 4.4e-5
    low, high = (calibration.parameter("memory_centred") + sign * 1.96 * 4.4e-5 for sign in (-1, 1))
    assert (round(low, 5), round(high, 5)) == (2.1e-4, 3.9e-4)
    with pytest.raises(DataError, match="cannot predict"):
        AdditiveLaw().estimate(calibration, steps(6))


def test_unknown_weighting_is_refused():
    """An unknown weighting lists the known ones."""
    with pytest.raises(ConfigError, match="allowed absolute, relative"):
        AdditiveLaw(weighting="log")


def test_a_solver_that_gives_up_is_reported(monkeypatch):
    """Where non-negative least squares does not converge the error says so."""

    def give_up(*_arguments):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("scipy.optimize.nnls", give_up)
    with pytest.raises(FitError, match="did not converge; given Maximum number"):
        AdditiveLaw().fit(steps(30))
