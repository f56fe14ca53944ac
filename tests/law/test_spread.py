"""How far a run may be from its prediction: derivatives, where it is wide, and that it is of the right size."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator
from wattlaw.law import spread
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.spread import covariance_on, slopes, spreads
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, between_machines, terms
from wattlaw.parallel.layout import Layout

START = {parameter.name: parameter.start for parameter in PARAMETERS}


@pytest.fixture(scope="module")
def runs(step_specs):
    """Twenty runs on the two hosts of the shipped calibration."""
    return physical_columns(step_specs(num_configurations=4, seed=40))


def test_slopes_are_the_derivatives_of_the_law(runs):
    """Central differences over a larger step come to the same."""
    columns = {name: runs.numbers(name) for name in COLUMNS}
    found = slopes(START, columns)
    for place, parameter in enumerate(PARAMETERS):
        ends = [terms(START | {parameter.name: parameter.start * math.exp(move)}, columns) for move in (-1e-4, 1e-4)]
        for target, values in (
            ("energy", [end.energy_j for end in ends]),
            ("duration", [end.duration_s for end in ends]),
        ):
            expected = (np.log(values[1]) - np.log(values[0])) / 2e-4
            np.testing.assert_allclose(found[target][:, place], expected, atol=2e-3)


def test_all_times_longer_is_all_of_the_time(runs):
    """Twice every time constant and half of every rate is twice the time: these slopes sum to one."""
    columns = {name: runs.numbers(name) for name in COLUMNS}
    found = slopes(START, columns)["duration"]
    signs = {"_s": 1.0, "matrix_fraction": -1.0, "link_fraction": -1.0, "network_fraction": -1.0, "traffic_factor": 1.0}
    weights = np.array([
        next((sign for ending, sign in signs.items() if parameter.name.endswith(ending)), 0.0)
        for parameter in PARAMETERS
    ])  # fmt: skip
    # The optimizer's traffic has no factor of its own, so that updates bound by memory fall short of it.
    total = found @ weights
    assert np.all(total <= 1 + 1e-3)
    assert np.median(total) > 0.95


def test_a_machine_of_the_fit_is_surer_than_one_that_nothing_was_measured_on(step_specs):
    """The same runs on a host of the fit and on an L4; the L4's may be off by what machines differ."""
    own = [
        replace(spec, accelerator=accelerator("a100-sxm4-40gb")) for spec in step_specs(num_configurations=4, seed=41)
    ]
    other = [replace(spec, accelerator=accelerator("l4")) for spec in own]
    for target in ("energy", "duration"):
        known, unknown = (spreads(bundled(), physical_columns(specs), target) for specs in (own, other))
        assert np.all(unknown > 2 * known)
        assert np.all(known >= bundled().noise[target])


def test_what_a_machine_was_not_measured_on_is_unsure(step_specs):
    """Tensor parallelism was not measured on the A100: its runs there may be off by more than those on one GPU."""
    single = [
        replace(spec, accelerator=accelerator("a100-sxm4-40gb"), layout=Layout())
        for spec in step_specs(num_configurations=4, seed=42)
    ]
    divided = [replace(spec, layout=Layout.of("tp", num_devices=4)) for spec in single]
    found = [np.median(spreads(bundled(), physical_columns(specs), "duration")) for specs in (single, divided)]
    assert found[1] > 2 * found[0]


def test_the_covariance_of_an_unknown_machine_is_that_of_the_common_values_and_between():
    """Law of total variance."""
    expected = np.array(bundled().covariance) + between_machines()
    np.testing.assert_allclose(covariance_on(bundled(), "l4"), expected)
    own = covariance_on(bundled(), "rtx-2080-ti")
    assert np.all(np.diag(own) <= np.diag(expected) + 1e-9)


def test_far_from_its_runs_a_machine_is_as_unsure_as_any(runs):
    """The variance between machines comes on top, in the share that the distance says, on machines of the fit only."""
    machine = runs.text("machine")[0]
    own = runs.take(runs.text("machine") == machine)
    near, far = spreads(bundled(), own, "energy"), spreads(bundled(), own, "energy", np.full(len(own), 3.0))
    columns = {name: own.numbers(name) for name in COLUMNS}
    derivatives = slopes(bundled().machines[machine].parameters, columns)["energy"]
    between = np.diag(derivatives @ between_machines() @ derivatives.T)
    np.testing.assert_allclose(far**2, near**2 + between / 2, rtol=1e-6)
    other = own.with_columns(machine=np.full(len(own), "l4"))
    unknown = [spreads(bundled(), other, "energy", distance).tolist() for distance in (0.0, 3.0)]
    assert unknown[0] == unknown[1]


def test_errors_on_new_hosts_are_as_large_as_their_spread(step_specs, measured, true_step):
    """Hosts drawn from the prior, predicted cold: over them, errors in units of the spread have a size of one."""
    calibration = replace(bundled(), machines={})
    covariance = covariance_on(calibration, "any")
    random = np.random.default_rng(43)
    table = physical_columns(step_specs(num_configurations=8, seed=43))
    columns = {name: table.numbers(name) for name in COLUMNS}
    centre = np.log([calibration.parameters[one.name] for one in PARAMETERS])
    found = StepLaw().estimate(calibration, table)
    expected = spreads(calibration, table, "duration")
    errors = []
    for move in random.multivariate_normal(np.zeros(len(centre)), covariance, size=60, check_valid="ignore"):
        values = {one.name: float(value) for one, value in zip(PARAMETERS, np.exp(centre + 0.5 * move), strict=True)}
        errors.append(np.log(terms(values, columns).duration_s / found.duration_s))
    size = np.sqrt(np.mean(np.square(errors), axis=0)) / (0.5 * expected)
    assert np.all((size > 0.6) & (size < 1.4))


def test_a_calibration_that_does_not_know_has_ones(runs):
    """Dividing by them changes nothing."""
    plain = Calibration(law="step", parameters=START)
    assert spreads(plain, runs, "energy").tolist() == [1.0] * len(runs)
    assert covariance_on(plain, "l4") is None


def test_many_runs_go_through_in_blocks(runs, monkeypatch):
    """Memory is bounded by blocks, and they change nothing."""
    whole = spreads(bundled(), runs, "energy")
    monkeypatch.setattr(spread, "BLOCK", 3 * len(PARAMETERS))
    np.testing.assert_allclose(spreads(bundled(), runs, "energy"), whole, rtol=1e-9)
