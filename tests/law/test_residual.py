"""What a law leaves, interpolated: against scikit-learn, against refits, away from the runs, and in the step law."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator
from wattlaw.law import residual
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.hierarchy import Roots
from wattlaw.law.residual import INPUTS, Hyperparameters, Leftover, kernel, left_out, process_of, search
from wattlaw.law.step import StepLaw

TARGETS = ("duration", "energy")


def known(*, amplitude=0.05, noise=0.02, length=1.5):
    """Hyperparameters of both targets, with lengths that differ by column."""
    return Hyperparameters(
        lengths=np.log(length * np.linspace(1, 2, len(INPUTS))),
        amplitudes=dict.fromkeys(TARGETS, math.log(amplitude)),
        noises=dict.fromkeys(TARGETS, math.log(noise)),
    )


def drawn(num_runs, seed, *, hyperparameters=None):
    """Residuals of runs that differ at random in six columns, drawn from the process itself."""
    random = np.random.default_rng(seed)
    hyperparameters = hyperparameters or known()
    inputs = np.zeros((num_runs, len(INPUTS)))
    inputs[:, :6] = 2 * random.standard_normal((num_runs, 6))
    scaled = inputs / np.exp(hyperparameters.lengths)
    squared = np.sum((scaled[:, None] - scaled[None]) ** 2, axis=2)
    residuals = {}
    for target in TARGETS:
        amplitude, noise = math.exp(hyperparameters.amplitudes[target]), math.exp(hyperparameters.noises[target])
        root = np.linalg.cholesky(amplitude**2 * kernel(squared) + noise**2 * np.eye(num_runs))
        residuals[target] = root @ random.standard_normal(num_runs)
    return Leftover(inputs=inputs, residuals=residuals)


def nothing_known(leftover, num_unknowns=3):
    """Roots of a law whose parameters are known exactly: runs tell nothing of one another through them."""
    zeros = np.zeros((len(leftover.inputs) * len(leftover.residuals), num_unknowns))
    return Roots(spread=zeros, leverage=zeros)


def reference(leftover, target, hyperparameters):
    """scikit-learn's regressor with the same kernel, its hyperparameters held."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    amplitude, noise = math.exp(hyperparameters.amplitudes[target]), math.exp(hyperparameters.noises[target])
    shape = ConstantKernel(amplitude**2) * Matern(np.exp(hyperparameters.lengths), nu=2.5) + WhiteKernel(noise**2)
    return GaussianProcessRegressor(shape, optimizer=None, alpha=0.0).fit(leftover.inputs, leftover.residuals[target])


def test_mean_and_spread_are_those_of_scikit_learn():
    """Another implementation of the same process says the same of new runs."""
    leftover, new = drawn(40, seed=1), drawn(15, seed=2)
    process = process_of(leftover, known())
    means = process.mean(new.inputs)
    for target in TARGETS:
        mean, spread = reference(leftover, target, known()).predict(new.inputs, return_std=True)
        np.testing.assert_allclose(means[target], mean, atol=1e-6)
        np.testing.assert_allclose(process.spread(new.inputs, target), spread, rtol=1e-4)


def test_the_cost_of_hyperparameters_is_minus_the_posterior_of_scikit_learn():
    """Marginal likelihood of both targets, and the priors; up to the constants."""
    leftover = drawn(30, seed=3)
    problem = residual._Problem((leftover,), TARGETS)  # noqa: SLF001 - the objective is what is checked
    costs = []
    for hyperparameters in (known(), known(amplitude=0.1, noise=0.01, length=0.7)):
        unknowns = np.concatenate([
            hyperparameters.lengths,
            *([hyperparameters.amplitudes[name], hyperparameters.noises[name]] for name in TARGETS),
        ])  # fmt: skip
        away = (unknowns - problem.centre()) / problem.spread()
        likelihood = sum(reference(leftover, name, hyperparameters).log_marginal_likelihood_value_ for name in TARGETS)
        costs.append((problem.cost(unknowns)[0], 0.5 * away @ away - likelihood))
    assert costs[1][0] - costs[0][0] == pytest.approx(costs[1][1] - costs[0][1], rel=1e-6)


def test_the_gradient_is_that_of_finite_differences():
    """Of two machines and two targets, at a place that is no optimum."""
    problem = residual._Problem((drawn(12, seed=4), drawn(9, seed=5)), TARGETS)  # noqa: SLF001
    unknowns = problem.centre() + 0.3 * np.random.default_rng(0).standard_normal(len(problem.centre()))
    expected = approx_fprime(unknowns, lambda values: problem.cost(values)[0], 1e-6)
    np.testing.assert_allclose(problem.cost(unknowns)[1], expected, rtol=1e-3, atol=1e-3)


def test_hyperparameters_are_recovered():
    """From 200 runs drawn with a known amplitude and noise, these come back within a third."""
    found = search([drawn(200, seed=6)])
    assert math.exp(found.noises["energy"]) == pytest.approx(0.02, rel=0.33)
    assert math.exp(found.amplitudes["energy"]) == pytest.approx(0.05, rel=0.33)


def test_few_runs_hardly_move_the_hyperparameters():
    """Two runs with large residuals: amplitude and noise stay within their priors' usual range."""
    leftover = Leftover(inputs=np.zeros((2, len(INPUTS))), residuals={"energy": np.array([0.1, -0.1])})
    found = search([leftover])
    assert abs(found.amplitudes["energy"] - math.log(residual.AMPLITUDE)) < 2 * residual.AMPLITUDE_SPREAD
    assert abs(found.noises["energy"] - math.log(residual.NOISE)) < 2 * residual.NOISE_SPREAD


def test_left_out_residuals_are_those_of_processes_without_the_group():
    """The closed form is what a process says that never saw the group's runs, and so is its spread."""
    leftover = drawn(24, seed=7)
    groups = np.repeat(np.arange(8), 3)
    found = left_out(leftover, known(), roots=nothing_known(leftover), groups=groups)
    for group in (0, 5):
        out = groups == group
        rest = Leftover(
            inputs=leftover.inputs[~out], residuals={name: row[~out] for name, row in leftover.residuals.items()}
        )
        process = process_of(rest, known())
        for target in TARGETS:
            expected = leftover.residuals[target][out] - process.mean(leftover.inputs[out])[target]
            values, spread = found[target]
            np.testing.assert_allclose(values[out], expected, atol=1e-6)
            np.testing.assert_allclose(spread[out], process.spread(leftover.inputs[out], target), rtol=1e-4)


def test_left_out_runs_take_the_law_with_them():
    """A law of one constant, fitted by least squares with a prior: the closed form is that of fitting both again."""
    leftover, groups = drawn(15, seed=8), np.repeat(np.arange(5), 3)
    observed = np.concatenate(list(leftover.residuals.values())) + 0.1
    design, scale, spread = np.ones((30, 1)), 0.03, 0.2

    def constant(rows):
        return np.sum(observed[rows] / scale**2) / (np.sum(rows) / scale**2 + 1 / spread**2)

    everything = np.ones(30, dtype=bool)
    variance = 1 / (30 / scale**2 + 1 / spread**2)
    root = design * math.sqrt(variance)
    stacked = (observed - constant(everything)).reshape(2, 15)
    left = Leftover(inputs=leftover.inputs, residuals=dict(zip(TARGETS, stacked, strict=True)))
    found = left_out(left, known(), roots=Roots(spread=root, leverage=root / scale), groups=groups)
    out = groups == 2
    without = constant(~np.tile(out, 2))
    rest = {name: row[~out] for name, row in zip(TARGETS, (observed - without).reshape(2, 15), strict=True)}
    process = process_of(Leftover(inputs=leftover.inputs[~out], residuals=rest), known())
    for number, target in enumerate(TARGETS):
        expected = (observed - without).reshape(2, 15)[number][out] - process.mean(leftover.inputs[out])[target]
        np.testing.assert_allclose(found[target][0][out], expected, atol=1e-6)
        own = np.sqrt(process.spread(leftover.inputs[out], target) ** 2 + 1 / (24 / scale**2 + 1 / spread**2))
        np.testing.assert_allclose(found[target][1][out], own, rtol=1e-4)


@given(far=st.floats(60.0, 1e3), place=st.integers(0, len(INPUTS) - 1))
def test_away_from_all_runs_nothing_is_left_to_say(far, place):
    """Some lengths away in any one column the mean is zero, and the spread that of the process and its noise."""
    leftover = drawn(10, seed=9)
    process = process_of(leftover, known())
    new = leftover.inputs[:1].copy()
    new[0, place] += far
    assert abs(process.mean(new)["energy"][0]) < 1e-5
    assert process.spread(new, "energy")[0] == pytest.approx(math.hypot(0.05, 0.02), rel=1e-4)


def test_many_runs_go_through_in_blocks(monkeypatch):
    """Memory is bounded by blocks, and they change nothing."""
    leftover, new = drawn(10, seed=10), drawn(23, seed=11)
    process = process_of(leftover, known())
    whole = process.mean(new.inputs)["energy"], process.spread(new.inputs, "energy")
    monkeypatch.setattr(residual, "BLOCK", 40)
    np.testing.assert_allclose(process.mean(new.inputs)["energy"], whole[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(process.spread(new.inputs, "energy"), whole[1], rtol=1e-9)


@given(groups=st.lists(st.integers(0, 9), min_size=1, max_size=60), most=st.integers(1, 60))
def test_of_very_many_runs_whole_groups_are_kept(groups, most):
    """No more runs than asked for, unless one group has more; a group is kept whole or not at all."""
    member = np.array(groups)
    kept = residual.thinned(member, most=most)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert len(kept) <= most or len(np.unique(member[kept])) == 1
    assert set(member[kept]).isdisjoint(np.delete(member, kept))
    assert len(kept) == len(member) or len(member) > most


# In the step law


@pytest.fixture(scope="module")
def bent(step_specs, measured):
    """Runs whose host is slower than the law says, the more so the larger the model: up to 20 % and back."""
    table = measured(step_specs(num_configurations=50, seed=30, machines=("rtx-2080-ti",)), noise=0.01, seed=30)
    bend = np.exp(0.15 * np.sin(np.log(table["optimizer_traffic_bytes"])))
    return table.with_columns(energy_j=table["energy_j"] * bend, duration_s=table["duration_s"] * bend)


@pytest.fixture(scope="module")
def fitted(bent):
    """The step law with its residual, fitted to the runs of every other configuration."""
    return StepLaw().fit(bent.take(seen(bent)))


def seen(table):
    """Every other configuration."""
    return np.unique(table.text("group"), return_inverse=True)[1] % 2 == 0


def error(calibration, table):
    """Root mean square of ln(observed / predicted)."""
    found = StepLaw().estimate(calibration, table)
    return math.sqrt(np.mean(np.log(table["energy_j"] / found.energy_j) ** 2))


def test_what_the_law_leaves_is_found_between_the_runs(bent, fitted):
    """Configurations that were not in the fit are predicted with less than two thirds of the law's own error."""
    new = bent.take(~seen(bent))
    alone = StepLaw(residual=False).fit(bent.take(seen(bent)))
    assert alone.machines["rtx-2080-ti"].process is None
    assert error(fitted, new) < 0.67 * error(alone, new)


def test_terms_still_sum_to_the_totals(bent, fitted):
    """Energy and time are multiplied, and so is each of their parts."""
    found, alone = (StepLaw().estimate(one, bent) for one in (fitted, fitted.without_residual()))
    np.testing.assert_allclose(sum(found.terms_j.values()), found.energy_j, rtol=1e-12)
    np.testing.assert_allclose(sum(found.terms_s.values()), found.duration_s, rtol=1e-12)
    assert np.max(np.abs(np.log(found.energy_j / alone.energy_j))) > 0.02
    shares = [one.terms_j["active"] / one.energy_j for one in (found, alone)]
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-12)


def test_without_its_residual_the_law_is_that_of_its_parameters(bent, fitted):
    """The parameters do not depend on whether the residual is interpolated."""
    plain = StepLaw(residual=False).fit(bent.take(seen(bent)))
    first, second = (StepLaw().estimate(one, bent) for one in (fitted.without_residual(), plain))
    assert first.energy_j.tolist() == second.energy_j.tolist()


def test_other_machines_keep_the_law_alone(fitted, step_specs):
    """What one host leaves says nothing of another."""
    specs = [replace(spec, accelerator=accelerator("l4")) for spec in step_specs(num_configurations=3, seed=31)]
    found, alone = (StepLaw().estimate(one, physical_columns(specs)) for one in (fitted, fitted.without_residual()))
    assert found.energy_j.tolist() == alone.energy_j.tolist()
    assert found.duration_s.tolist() == alone.duration_s.tolist()


def test_the_file_keeps_the_residual(bent, fitted, tmp_path):
    """Saved and loaded, it predicts the same to the last bit."""
    fitted.save(tmp_path / "law.json")
    loaded = Calibration.load(tmp_path / "law.json")
    assert loaded == fitted
    first, second = (StepLaw().estimate(one, bent) for one in (fitted, loaded))
    assert first.energy_j.tolist() == second.energy_j.tolist()


def test_a_process_of_some_of_the_runs_is_near_that_of_all(bent, fitted, monkeypatch):
    """With a third of the groups kept, as many residuals are, and predictions stay better than the law's alone."""
    monkeypatch.setattr(residual, "MOST_KEPT", len(bent) // 6)
    rows = bent.take(seen(bent))
    some = StepLaw().fit(rows)
    own = some.machines["rtx-2080-ti"]
    assert len(own.process.inputs) == len(own.residuals.energy) <= len(bent) // 6
    new = bent.take(~seen(bent))
    assert error(some, new) < error(fitted.without_residual(), new)


def test_measured_runs_are_not_shipped():
    """The process keeps the inputs of its runs, so the shipped calibration has none."""
    assert all(machine.process is None for machine in bundled().machines.values())
