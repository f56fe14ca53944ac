"""Machines fitted together: closed forms of the linear case, refits, derivatives, shrinkage and odd runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import pseudo_huber

from wattlaw.errors import FitError
from wattlaw.law import hierarchy, step
from wattlaw.law.hierarchy import ROBUST_SCALES, SCALE, Machine, Prior, soften
from wattlaw.law.step import StepLaw, _residuals_of

#: Deviations of this size are far below the bend of the loss, so that least squares are plain.
SMALL = 1e-4


def prior(size, *, spread=SMALL, between=2 * SMALL, upper=np.inf):
    """A prior around nothing."""
    return Prior(
        centre=np.zeros(size),
        spread=np.full(size, spread),
        between=between**2 * np.eye(size),
        upper=np.full(size, upper),
    )


def linear_machine(design, observed, *, name="machine", groups=None):
    """A machine whose logarithms are linear in the parameters."""
    return Machine(
        name=name,
        residuals=lambda values: design @ values - observed,
        groups=np.arange(len(observed)) if groups is None else groups,
    )


def linear_problem(seed, sizes=(30, 8)):
    """Designs and observations of machines with three parameters of their own."""
    random = np.random.default_rng(seed)
    designs = [random.standard_normal((size, 3)) for size in sizes]
    return [
        (design, design @ (SMALL * random.standard_normal(3)) + SMALL * random.standard_normal(len(design)))
        for design in designs
    ]


def closed_form(problem, known):
    """Solve the normal equations of the whole problem at once: common parameters, then each machine's."""
    size, count = 3, len(problem)
    rows, target = [], []

    def add(block, values, **places):
        row = np.zeros((len(values), size * (count + 1)))
        for place, part in places.items():
            at = size * int(place.removeprefix("at"))
            row[:, at : at + size] = part
        rows.append(row * block)
        target.append(values * block)

    add(1 / known.spread[0], known.centre, at0=np.eye(size))
    for number, (design, observed) in enumerate(problem, start=1):
        add(1 / SCALE, observed, **{f"at{number}": design})
        root = np.linalg.cholesky(np.linalg.inv(known.between)).T
        add(1.0, np.zeros(size), at0=-root, **{f"at{number}": root})
    matrix, right = np.concatenate(rows), np.concatenate(target)
    found = np.linalg.solve(matrix.T @ matrix, matrix.T @ right).reshape(count + 1, size)
    return found[0], found[1:]


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_problem_has_its_closed_form(seed):
    """The most probable values are the solution of the normal equations."""
    problem, known = linear_problem(seed), prior(3)
    found = hierarchy.fit([linear_machine(*part) for part in problem], known)
    common, machines = closed_form(problem, known)
    np.testing.assert_allclose(found.common, common, rtol=1e-4, atol=1e-4 * SMALL)
    np.testing.assert_allclose(found.machines, machines, rtol=1e-4, atol=1e-4 * SMALL)


def test_parameters_that_vary_together_have_their_closed_form():
    """What a machine tells of one parameter moves those that are correlated with it, as the normal equations say."""
    problem, plain = linear_problem(7, sizes=(30, 4)), prior(3)
    together = SMALL**2 * (np.eye(3) + 4 * np.ones((3, 3)))
    known = Prior(centre=plain.centre, spread=plain.spread, between=together, upper=plain.upper)
    found = hierarchy.fit([linear_machine(*part) for part in problem], known)
    common, machines = closed_form(problem, known)
    np.testing.assert_allclose(found.common, common, rtol=1e-4, atol=1e-4 * SMALL)
    np.testing.assert_allclose(found.machines, machines, rtol=1e-4, atol=1e-4 * SMALL)


def test_a_parameter_follows_one_that_it_varies_with():
    """Told of the first only, a machine's second parameter goes with it as far as the two are correlated."""
    machine = Machine(
        name="half told",
        residuals=lambda values: values[:1] - np.full(9, 0.005),
        groups=np.arange(9),
    )
    for correlation in (0.0, 0.5, 0.9):
        between = SCALE**2 * np.array([[1.0, correlation], [correlation, 1.0]])
        known = Prior(centre=np.zeros(2), spread=np.full(2, 1e-6), between=between, upper=np.full(2, np.inf))
        first, second = hierarchy.fit([machine], known).machines[0]
        assert second / first == pytest.approx(correlation, abs=1e-3)


def normal_matrix(problem, known):
    """The inverse covariance of all unknowns of a linear problem."""
    size, count = 3, len(problem)
    matrix = np.zeros((size * (count + 1), size * (count + 1)))
    matrix[:size, :size] = np.diag(1 / known.spread**2)
    tie = np.linalg.inv(known.between)
    for number, (design, _) in enumerate(problem, start=1):
        own = slice(size * number, size * (number + 1))
        matrix[own, own] += design.T @ design / SCALE**2 + tie
        matrix[:size, :size] += tie
        matrix[own, :size] -= tie
        matrix[:size, own] -= tie
    return matrix


@pytest.mark.parametrize("seed", range(3))
def test_the_covariance_is_the_inverse_of_the_normal_matrix(seed):
    """Of all unknowns, of each set of parameters, and of the predictions."""
    problem, known = linear_problem(seed), prior(3)
    found = hierarchy.fit([linear_machine(*part) for part in problem], known)
    expected = np.linalg.inv(normal_matrix(problem, known))
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-3, atol=1e-3 * SMALL**2)
    for number, (design, _) in enumerate(problem, start=1):
        own = expected[3 * number : 3 * number + 3, 3 * number : 3 * number + 3]
        np.testing.assert_allclose(found.covariance_of(number), own, rtol=1e-3, atol=1e-3 * SMALL**2)
        spread = found.roots[number - 1].spread
        np.testing.assert_allclose(spread @ spread.T, design @ own @ design.T, rtol=1e-2, atol=1e-2 * SMALL**2)


def test_leaving_runs_out_makes_their_predictions_less_sure():
    """By exactly what the fit without them says."""
    problem, known = linear_problem(5), prior(3)
    found = hierarchy.fit([linear_machine(*part) for part in problem], known)
    design, observed = problem[1]
    out = np.arange(len(observed)) < 3
    rest = [problem[0], (design[~out], observed[~out])]
    without = np.linalg.inv(normal_matrix(rest, known))[6:, 6:]
    _, variance = found.roots[1].without(found.residuals[1], out)
    np.testing.assert_allclose(variance, np.diag(design[out] @ without @ design[out].T), rtol=1e-2)


@pytest.mark.parametrize("seed", range(3))
def test_left_out_residuals_are_those_of_fits_without_the_group(seed):
    """On a linear problem the step to the fit without a group is exact: the same as fitting again."""
    random = np.random.default_rng(seed)
    problem, known = linear_problem(seed), prior(3)
    groups = [random.integers(0, 4, len(observed)) for _, observed in problem]
    machines = [linear_machine(*part, groups=group) for part, group in zip(problem, groups, strict=True)]
    found = hierarchy.fit(machines, known)
    for number, (design, observed) in enumerate(problem):
        for group in np.unique(groups[number]):
            out = groups[number] == group
            rest = list(problem)
            rest[number] = (design[~out], observed[~out])
            without = closed_form(rest, known)[1][number]
            expected = design[out] @ without - observed[out]
            np.testing.assert_allclose(found.held_out[number][out], expected, rtol=1e-3, atol=1e-3 * SMALL)


def test_left_out_residuals_of_the_step_law_are_near_those_of_refits(step_specs, measured, monkeypatch):
    """Where the law is not linear one step comes near: errors of left-out groups, within a fifth of the noise."""
    monkeypatch.setattr(step, "ENOUGH_RUNS", math.inf)  # the fits of halves are not looked at
    table = measured(step_specs(num_configurations=12, seed=1, machines=("rtx-2080-ti",)), noise=0.03, seed=1)
    found = np.array(StepLaw().fit(table).residuals.energy)
    for group in np.unique(table.text("group"))[:4]:
        out = table.text("group") == group
        estimate = StepLaw().estimate(StepLaw().fit(table.take(~out)), table.take(out))
        refitted = np.log(table["energy_j"][out] / estimate.energy_j)
        np.testing.assert_allclose(found[out], refitted, atol=0.006)


def test_the_derivatives_are_those_of_finite_differences(step_specs, measured):
    """The assembled Jacobian of the step law on two machines against scipy's differences of the whole problem."""
    table = measured(step_specs(num_configurations=4, seed=2), noise=0.03, seed=2)
    law = StepLaw()
    known = law._hyperprior()  # noqa: SLF001 - the problem that the law sets is what is checked
    machines = [
        Machine(
            name=str(name),
            residuals=_residuals_of(table.take(table.text("machine") == name)),
            groups=np.zeros(0, dtype=np.intp),
        )
        for name in np.unique(table.text("machine"))
    ]
    problem = hierarchy._Problem(tuple(machines), known)  # noqa: SLF001
    unknowns = np.tile(known.centre, 3) + 0.1 * np.random.default_rng(0).standard_normal(3 * len(known.centre))
    expected = approx_fprime(unknowns, problem.residuals, 1e-7)
    found = problem.jacobian(unknowns)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize(("num_runs", "share"), [(1, 0.5), (3, 0.75), (9, 0.9), (99, 0.99)])
def test_few_runs_stay_near_the_common_values_and_many_find_their_own(num_runs, share):
    """With as much spread between machines as noise, n runs at y move the machine by n / (n + 1) of y."""
    observed = np.full(num_runs, 0.005)
    machine = linear_machine(np.ones((num_runs, 1)), observed)
    known = Prior(
        centre=np.zeros(1), spread=np.full(1, 1e-6), between=np.full((1, 1), SCALE**2), upper=np.full(1, np.inf)
    )
    found = hierarchy.fit([machine], known)
    assert found.machines[0, 0] == pytest.approx(share * 0.005, rel=2e-3)
    assert found.common[0] == pytest.approx(0, abs=1e-6)


def test_a_machine_without_runs_has_the_common_values():
    """Its parameters are where those of the others agree."""
    told = linear_machine(np.ones((200, 1)), np.full(200, 0.01), name="told")
    silent = linear_machine(np.zeros((0, 1)), np.zeros(0), name="silent")
    found = hierarchy.fit([told, silent], prior(1, spread=10.0, between=SMALL))
    assert found.machines[1, 0] == pytest.approx(found.common[0], abs=1e-9)
    assert found.common[0] == pytest.approx(0.01, rel=1e-2)
    assert found.held_out[1].size == 0


def test_common_values_lie_between_machines_that_disagree():
    """Two machines with as many runs pull alike."""
    machines = [linear_machine(np.ones((50, 1)), np.full(50, value)) for value in (0.0, 0.02)]
    found = hierarchy.fit(machines, prior(1, spread=10.0, between=SCALE))
    assert found.common[0] == pytest.approx(0.01, rel=1e-2)
    assert 0 <= found.machines[0, 0] < found.common[0] < found.machines[1, 0] <= 0.02


def test_one_odd_run_does_not_bend_the_fit():
    """A run that is off by a factor of e moves the estimate by less than a tenth of what the mean would move."""
    observed = np.append(0.01 * np.random.default_rng(0).standard_normal(50), 1.0)
    found = hierarchy.fit([linear_machine(np.ones((51, 1)), observed)], prior(1, spread=10.0, between=10.0))
    assert abs(found.machines[0, 0] - np.median(observed[:-1])) < 0.1 * observed.mean()


def test_bounds_hold_and_a_fit_may_lean_on_them():
    """A value that data would put above its bound stays at it."""
    machine = linear_machine(np.ones((50, 1)), np.full(50, 0.5))
    found = hierarchy.fit([machine], prior(1, spread=1.0, between=1.0, upper=0.1))
    assert found.machines[0, 0] == pytest.approx(0.1, abs=1e-3)
    assert found.machines[0, 0] <= 0.1


def test_a_fit_that_does_not_converge_carries_what_it_reached(monkeypatch):
    """The error has the parameters after the last step, for whoever wants to look."""
    monkeypatch.setattr(hierarchy, "_MAX_EVALUATIONS", 1)
    with pytest.raises(FitError, match=r"the fit did not converge.*try more runs") as caught:
        hierarchy.fit([linear_machine(np.ones((5, 1)), np.full(5, 0.5))], prior(1, spread=1.0, between=1.0))
    assert caught.value.partial.machines.shape == (1, 1)


@given(residuals=st.lists(st.floats(-100, 100), min_size=1, max_size=20))
def test_the_loss_is_the_pseudo_huber_loss(residuals):
    """Half the square of a softened residual is scipy's pseudo-Huber loss; its sign is kept."""
    values = np.array(residuals)
    softened = soften(values)
    expected = pseudo_huber(ROBUST_SCALES, values / SCALE)
    np.testing.assert_allclose(softened**2 / 2, expected, rtol=1e-6, atol=1e-12)
    assert np.all(softened * values >= 0)
    assert np.all(soften(values + 1e-3) > softened)


def test_small_residuals_count_by_their_square_and_large_ones_by_their_size():
    """A hundredth of a scale is itself; four times a large residual counts four times as much."""
    assert soften(np.array([0.01 * SCALE]))[0] == pytest.approx(0.01, rel=1e-4)
    large = soften(np.array([1000 * SCALE, 4000 * SCALE])) ** 2
    assert large[1] / large[0] == pytest.approx(4, rel=0.01)
