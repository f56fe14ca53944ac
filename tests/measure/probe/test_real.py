"""A real probe of this machine's CPU, one and two ranks over gloo, and what the command makes of it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from wattlaw.cli.probe import command
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.fitting import law_with_prior
from wattlaw.measure.probe import Probe, launch, layer, matrix, strategies

pytest.importorskip("torch", reason="the optional part 'measure' is not installed")
pytest.importorskip("transformers", reason="the optional part 'measure' is not installed")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The folder of a probe that was made as short as it can be, and what it printed."""
    folder = tmp_path_factory.mktemp("host")
    result = CliRunner().invoke(
        command,
        ["-o", str(folder / "host.json"), "--seconds", "2", "--device", "cpu", "--json"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0
    return folder, json.loads(result.stdout)


def test_a_cpu_is_measured_with_one_and_with_two_ranks(host) -> None:
    """Rates, bandwidth, the host's work, collectives and divided steps are all there, and have sizes of this world."""
    probe = Probe.load(host[0] / "host.probe.json")
    expected = {
        *(f"{name}_fp32_flop_per_s" for name in matrix.NAMES),
        "copy_bytes_per_s", "add_bytes_per_s", "launch_kernel_s", "update_step_s", "enqueue_kernel_s",
        "collective_2_latency_s", "collective_2_bytes_per_s", *strategies.NAMES, *layer.NAMES,
    }  # fmt: skip
    uneven = {name for name, reason in probe.unavailable.items() if "too uneven" in reason}
    assert expected <= probe.figures.keys() | uneven
    assert uneven <= {*launch.NAMES, *layer.NAMES} - {"update_step_s", "enqueue_kernel_s"}
    assert not [warning for warning in probe.warnings if "Error" in warning]
    sizes = {
        "matrix_fp32_flop_per_s": (1e8, 1e13),
        "copy_bytes_per_s": (1e8, 1e12),
        "enqueue_kernel_s": (1e-7, 1e-3),
        "collective_2_latency_s": (1e-6, 1.0),
    }
    for name, (low, high) in sizes.items():
        assert low < probe.figures[name].value < high, name
    assert probe.environment["backend"] == "gloo"
    assert probe.environment["threads_per_rank"] == "1"


def test_the_calibration_says_what_is_measured(host) -> None:
    """It is of this machine, labelled probed, and its parameters are those that were printed."""
    folder, printed = host
    calibration = Calibration.load(folder / "host.json")
    assert calibration.provenance["state"] == "probed"
    assert "matrix_fraction" in calibration.provenance["parameters_measured"]
    assert "host_power_w" in calibration.provenance["parameters_prior"]
    own = calibration.machines["generic-cpu"].parameters
    assert own == {one["name"]: one["value"] for one in printed["parameters"]}
    assert calibration.parameters == bundled().parameters


def test_the_calibration_is_a_prior_of_a_fit(host) -> None:
    """``wattlaw fit --prior host.json`` starts from it."""
    law = law_with_prior("step", str(host[0] / "host.json"))
    assert law.prior.provenance["state"] == "probed"


def test_an_earlier_probe_is_calibrated_again(host, tmp_path) -> None:
    """--from measures nothing and comes to the same parameters; for people it is a table."""
    folder, printed = host
    result = CliRunner().invoke(
        command, ["--from", str(folder / "host.probe.json"), "-o", str(tmp_path / "again.json")], catch_exceptions=False
    )
    again = Calibration.load(tmp_path / "again.json").machines["generic-cpu"].parameters
    assert again == {one["name"]: one["value"] for one in printed["parameters"]}
    assert "launch_kernel_s" in result.output
    assert "not measured: accelerators_idle_power_w" in result.output
