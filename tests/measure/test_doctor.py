"""``wattlaw doctor`` on machines with and without sensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from wattlaw.cli.doctor import command
from wattlaw.measure import diagnose
from wattlaw.report.doctor import diagnosis_table

if TYPE_CHECKING:
    from tests.measure.conftest import FakeDriver

CLI = """
    from wattlaw.cli.doctor import command
    command(sys.argv[1:] + {arguments})
"""


def powercap(root: Path) -> Path:
    """Write a powercap folder with one package that does not move."""
    zone = root / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True)
    for file, text in (("name", "package-0"), ("energy_uj", "123456789"), ("max_energy_range_uj", "262143328850")):
        (zone / file).write_text(f"{text}\n")
    return root / "powercap"


def test_missing_sensors_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without sensors every kind is told as missing, with its meaning, and the exit code is 0."""
    monkeypatch.setenv("WATTLAW_STATE", str(tmp_path))
    result = CliRunner().invoke(command, ["--json"])
    assert result.exit_code == 0
    told = json.loads(result.output)
    subjects = {finding["subject"] for finding in told["findings"]}
    assert {"NVIDIA GPUs (NVML)", "AMD GPUs (amdsmi)", "CPU and DRAM (RAPL)"} <= subjects
    assert all(finding["meaning"] for finding in told["findings"])
    assert told["versions"]["python"]


def test_table_says_that_nothing_is_measured(tmp_path: Path) -> None:
    """People are told in words that energies will be unknown, and what to do."""
    found = diagnose({}, rapl_root=tmp_path / "nowhere", notes=tmp_path, trial_s=0.0)
    if found.measurable:
        pytest.skip("this machine has sensors")
    console = Console(width=120, record=True, file=(tmp_path / "out").open("w"))
    console.print(diagnosis_table(found))
    console.file.close()
    text = console.export_text()
    assert "No energy is measured here" in text
    assert any(line.split()[:1] == ["do"] for line in text.splitlines())


def test_sensor_that_does_not_move_is_not_called_measurable(tmp_path: Path) -> None:
    """A zone that can be read but stands still gives no energy in the trial, so nothing is promised."""
    found = diagnose({}, rapl_root=powercap(tmp_path), notes=tmp_path, trial_s=0.0)
    assert "processors" not in found.measurable
    assert found.trial is not None
    kinds = [warning.kind for warning in found.trial.warnings if warning.device == f"{found.host}/intel-rapl:0"]
    assert kinds == ["counter-frozen", "not-measured"]


def test_gpus_and_their_trial_are_shown(driver: FakeDriver) -> None:
    """GPUs are listed with what their counter is checked against, the mapping of visible devices and versions."""
    driver.gpu(0)
    uuid = driver.gpu(1, "0 70 1000 70")
    told: Any = driver.run(CLI.format(arguments="['--json']"), CUDA_VISIBLE_DEVICES="1")
    assert told["measurable"] == ["accelerators"]
    assert told["trial"]["energies"][0]["mean_power_w"] == pytest.approx(70.0, rel=0.05)
    by_subject = {finding["subject"]: finding for finding in told["findings"]}
    assert by_subject[f"NVIDIA A100-SXM4-40GB {uuid}"]["state"] == "works"
    assert by_subject["CUDA_VISIBLE_DEVICES"]["detail"] == f"cuda:0 is {uuid} (driver's index 1)"
    assert told["versions"]["nvidia_driver"] == "555.42.01"
    assert told["states"][0]["temperature_c"] == 40
    assert told["restored"] == []


def test_frozen_counter_is_found_out(driver: FakeDriver) -> None:
    """A counter that answers but does not move is doubtful, and the table warns."""
    driver.gpu(0, freeze=0)
    told: Any = driver.run(CLI.format(arguments="['--json']"))
    (finding,) = [finding for finding in told["findings"] if finding["device"]]
    assert finding["state"] == "doubtful"
    assert "has not moved" in finding["detail"]


def test_table_of_a_machine_with_gpus(driver: FakeDriver) -> None:
    """The table for people shows device, method and doubt."""
    driver.gpu(0, pid=[1])
    process = driver.start(CLI.format(arguments="[]"), COLUMNS="160")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Energy of accelerators is measured here." in output
    assert "foreign-process" in output
    assert "counter" in output


def test_left_over_limits_are_told_and_restored(driver: FakeDriver) -> None:
    """A limit that a killed process left is shown with the remedy, which then gives it back."""
    driver.gpu(0, limit_w=310)
    process = driver.start(
        """
        from wattlaw.measure import power_limit
        with power_limit("GPU-0000-fake", 200):
            os.kill(os.getpid(), 9)
        """
    )
    process.communicate(timeout=30)
    shown = driver.start(CLI.format(arguments="[]"), COLUMNS="160")
    assert "wattlaw doctor --restore gives back 310 W" in shown.communicate(timeout=60)[0]
    restored = driver.start(CLI.format(arguments="['--restore']"), COLUMNS="160")
    assert "GPU-0000-fake: power limit back from 200 W to 310 W" in restored.communicate(timeout=60)[0]
    assert driver.limit_w(0) == 310
