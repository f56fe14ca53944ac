"""Fitting the step law: known parameters are recovered, and what is wrong is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import DataError, UnknownNameError
from wattlaw.features.physical import physical_columns
from wattlaw.features.table import Table
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.interval import outside_columns
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import COLUMNS, DOMAIN_COLUMNS, PARAMETERS, terms

START = {parameter.name: parameter.start for parameter in PARAMETERS}


@pytest.fixture(scope="module")
def fitted(step_specs, measured):
    """The law fitted to 300 simulated runs on two hosts, with 3 % noise."""
    return StepLaw().fit(measured(step_specs(num_configurations=60, seed=3), noise=0.03, seed=3))


def test_predictions_of_runs_not_seen_are_recovered(fitted, step_specs, true_step):
    """New runs of the same hosts: the typical error is a third of the noise of a single measurement."""
    specs = step_specs(num_configurations=30, seed=4)
    estimate = StepLaw().estimate(fitted, physical_columns(specs))
    true = true_step(specs)
    for found, expected in ((estimate.energy_j, true.energy_j), (estimate.duration_s, true.duration_s)):
        error = np.abs(np.log(found / expected))
        assert np.median(error) < 0.01
        assert np.max(error) < 0.1


@pytest.mark.parametrize(
    ("name", "within"),
    [("matrix_fraction", 0.2), ("launch_kernel_s", 0.05), ("active_fraction", 0.1), ("tensor_collective_s", 0.15)],
)
def test_parameters_that_runs_tell_are_recovered(fitted, true_parameters, name, within):
    """Those that decide the time and energy of these runs come back, for each host."""
    for machine, found in fitted.machines.items():
        assert found.parameters[name] == pytest.approx(true_parameters(machine)[name], rel=within), machine


def test_exact_measurements_are_fitted_exactly(step_specs, measured):
    """Without noise what is left is what the priors pull: below 1 % for nearly all runs."""
    table = measured(step_specs(num_configurations=40, seed=5), noise=0.0, seed=5)
    estimate = StepLaw().estimate(StepLaw().fit(table), table)
    error = np.abs(np.log(estimate.energy_j / table["energy_j"]))
    assert np.quantile(error, 0.9) < 0.01


def test_one_target_is_enough(step_specs, measured):
    """Time alone, or energy alone, can be fitted; the residuals are of what there was."""
    table = measured(step_specs(num_configurations=4, seed=6), noise=0.03, seed=6)
    timed = StepLaw().fit(table.without("energy_j"))
    assert (len(timed.residuals.duration), len(timed.residuals.energy)) == (20, 0)
    weighed = StepLaw().fit(table.without("duration_s"))
    assert (len(weighed.residuals.duration), len(weighed.residuals.energy)) == (0, 20)
    with pytest.raises(DataError, match="nothing to fit the step law to; given no column energy_j or duration_s"):
        StepLaw().fit(table.without("energy_j", "duration_s"))


def test_one_run_moves_the_priors_and_leaves_no_more_than_it_tells(step_specs, measured):
    """A single run can be fitted: its own prediction is near what was measured."""
    table = measured(step_specs(num_configurations=2, seed=7), noise=0.0, seed=7).take([0])
    calibration = StepLaw().fit(table)
    estimate = StepLaw().estimate(calibration, table)
    assert estimate.energy_j[0] == pytest.approx(table["energy_j"][0], rel=0.05)
    assert calibration.residuals.energy != (0.0,)


def test_a_machine_without_runs_has_the_common_parameters(fitted, spec):
    """An H100 is predicted from what the hosts have in common, and every run is covered."""
    unseen = physical_columns([replace(spec, accelerator=accelerator("h100-sxm5-80gb"))])
    common = terms(fitted.parameters, {name: unseen.numbers(name) for name in COLUMNS})
    estimate = StepLaw().estimate(fitted, unseen)
    assert estimate.energy_j[0] == pytest.approx(common.energy_j[0], rel=1e-12)
    assert StepLaw().covers(fitted, unseen).tolist() == [True]


def test_kinds_of_runs_that_the_fit_did_not_have_are_named(fitted, spec):
    """The simulated runs are 16-bit, AdamW and eager; bf16 is as good as fp16, and what differs stands by its name."""
    assert fitted.kinds == {"precision": ("16-bit",), "optimizer": ("adamw",), "software": ("eager",)}
    a100 = replace(spec, accelerator=accelerator("a100-sxm4-40gb"))
    for changes, names in (
        ({"precision": "bf16"}, set()),
        ({"precision": "fp32", "optimizer": "sgd"}, {"precision", "optimizer"}),
        ({"software": "graphs"}, {"software"}),
    ):
        run = replace(a100, recipe=replace(a100.recipe, **changes))
        (outside,) = outside_columns(fitted, physical_columns([run]))
        assert set(outside) & {"precision", "optimizer", "software"} == names


def test_a_fit_says_how_sure_it_is(fitted):
    """Covariances of the common and of each machine's logarithms, noise by target, and a spread for each residual."""
    size = len(PARAMETERS)
    for covariance in (fitted.covariance, *(machine.covariance for machine in fitted.machines.values())):
        assert np.shape(covariance) == (size, size)
        np.testing.assert_allclose(covariance, np.transpose(covariance), rtol=1e-4, atol=1e-9)
        assert np.min(np.linalg.eigvalsh(covariance)) > -1e-6
    assert set(fitted.noise) == {"energy", "duration"}
    assert fitted.num_cold == 2
    for residuals in (fitted.outside, fitted.cold, *(machine.residuals for machine in fitted.machines.values())):
        assert len(residuals.energy_spread) == len(residuals.energy) > 0
    scaled = np.concatenate([machine.residuals.scaled("energy") for machine in fitted.machines.values()])
    assert np.sqrt(np.mean(scaled**2)) == pytest.approx(1, abs=0.25)


def test_a_prior_is_kept_where_new_runs_say_nothing(fitted, step_specs, measured):
    """Hosts of the prior stay, its residuals of machines left out too, and few runs of a new host move it little."""
    specs = step_specs(num_configurations=2, seed=8, machines=("v100-sxm2-32gb",))
    law = StepLaw(prior=fitted)
    calibration = law.fit(measured(specs, noise=0.03, seed=8).take([0, 1, 2, 3]))
    assert set(calibration.machines) == {"a100-sxm4-40gb", "rtx-2080-ti", "v100-sxm2-32gb"}
    assert calibration.machines["rtx-2080-ti"] == fitted.machines["rtx-2080-ti"]
    assert calibration.cold == fitted.cold
    assert calibration.outside == fitted.outside
    for name in DOMAIN_COLUMNS:
        assert calibration.domain[name][0] <= fitted.domain[name][0]
        assert calibration.domain[name][1] >= fitted.domain[name][1]


def test_four_runs_and_a_prior_tell_a_new_host(fitted, step_specs, measured, true_step):
    """A host three times as slow to launch: four of its runs more than halve the error of the cold prediction."""
    specs = step_specs(num_configurations=20, seed=9, machines=("v100-sxm2-32gb",))
    true = true_step(specs, launch_kernel_s=2.5e-4, launch_step_s=8e-3, host_power_w=90.0)
    noisy = np.exp(0.03 * np.random.default_rng(9).standard_normal((2, len(specs))))
    table = measured(specs, noise=0.0, seed=9).with_columns(
        energy_j=true.energy_j * noisy[0], duration_s=true.duration_s * noisy[1]
    )
    seen = [0, 21, 42, 63]
    warm = StepLaw(prior=fitted).estimate(StepLaw(prior=fitted).fit(table.take(seen)), table)
    cold = StepLaw().estimate(fitted, table)

    def error(estimate):
        return np.median(np.abs(np.log(estimate.energy_j / true.energy_j)))

    assert error(warm) < 0.5 * error(cold)
    assert error(warm) < 0.15


def test_a_parameter_on_its_bound_is_a_warning(step_specs, measured, true_step):
    """Runs faster than the peak rate allows press the share of the peak against 1, and the fit says so."""
    specs = step_specs(num_configurations=8, seed=10, machines=("rtx-2080-ti",))
    heavy = [replace(spec, recipe=replace(spec.recipe, batch_size=512)) for spec in specs]
    fast = true_step(heavy, matrix_fraction=3.0, traffic_factor=0.1, launch_kernel_s=1e-7, launch_step_s=1e-5)
    table = measured(heavy, noise=0.0, seed=10).with_columns(energy_j=fast.energy_j, duration_s=fast.duration_s)
    warnings = StepLaw().fit(table).warnings
    assert any("matrix_fraction of rtx-2080-ti leans on its bound 1" in warning for warning in warnings)


def test_energies_of_different_boundaries_are_not_fitted_together(step_specs, measured):
    """Joules of nodes and of devices are different quantities."""
    table = measured(step_specs(num_configurations=2, seed=11), noise=0.0, seed=11)
    mixed = np.where(np.arange(len(table)) < 3, "node", "accelerators")
    with pytest.raises(DataError, match="different boundaries cannot be fitted together; given accelerators, node"):
        StepLaw().fit(table.with_columns(boundary=mixed))
    assert StepLaw().fit(table.without("boundary")).boundary == ""


def test_a_wrong_number_is_named_by_its_row_in_the_table(step_specs, measured):
    """Rows are counted in the reader's table, not within a machine."""
    table = measured(step_specs(num_configurations=4, seed=12), noise=0.0, seed=12)
    duration_s = table["duration_s"].copy()
    duration_s[13] = 0.0
    with pytest.raises(DataError, match="duration_s must be above zero; given 0 in row 13"):
        StepLaw().fit(table.with_columns(duration_s=duration_s))


def test_a_calibration_that_lacks_a_parameter_is_refused_by_name(spec):
    """A file of another version of the law does not predict with a guess."""
    parameters = {name: value for name, value in START.items() if name != "talk_fraction"}
    old = Calibration(law="step", parameters=parameters | {"talk_share": 0.1})
    with pytest.raises(UnknownNameError, match=r"parameter of the step law's calibration; given 'talk_fraction'"):
        StepLaw().estimate(old, physical_columns([spec]))


def test_a_missing_column_is_refused_by_name(spec):
    """The law names the column that it cannot do without."""
    with pytest.raises(DataError, match="a column is missing; given head_traffic_bytes"):
        StepLaw().estimate(bundled(), physical_columns([spec]).without("head_traffic_bytes"))


def test_an_empty_table_is_an_empty_estimate():
    """No runs take no time; the shapes are right."""
    columns = {name: np.zeros(0) for name in COLUMNS}
    estimate = StepLaw().estimate(bundled(), Table({**columns, "machine": np.zeros(0, dtype=np.str_)}))
    assert estimate.energy_j.shape == (0,)
