"""``wattlaw measure``, as far as it starts no ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from wattlaw.cli.measure import command
from wattlaw.errors import ConfigError, FileError
from wattlaw.measure.sweep import Progress, SweepResult
from wattlaw.report.sweep import progress_bar, result_lines

EXAMPLE = str(Path(__file__).resolve().parents[3] / "examples" / "cpu_sweep.toml")


def run(*arguments: str):
    """Run the command without catching its errors, which the command line's door turns into one line."""
    return CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)


def test_a_dry_run_shows_the_plan_and_writes_nothing(tmp_path) -> None:
    """The plan as JSON has every run once; no folder is made."""
    told = json.loads(run(EXAMPLE, "-o", str(tmp_path / "runs"), "--dry-run", "--json").stdout)
    assert len(told["runs"]) == sum(told["counts"].values()) == len({run["record_id"] for run in told["runs"]})
    assert told["num_ranks"] == 2
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_for_people_says_what_is_left_out(tmp_path) -> None:
    """A grid with combinations that cannot run counts them in the table."""
    path = tmp_path / "odd.toml"
    path.write_text(
        """
        [hardware]
        gpu = "generic-cpu"
        [[grid]]
        family = "bert"
        head = "classification"
        precision = "fp32"
        num_layers = 1
        hidden_size = 48
        num_heads = [3, 4]
        ffn_size = 64
        vocab_size = 100
        seq_len = 16
        batch_size = 2
        strategy = "tp"
        num_devices = 2
        """
    )
    shown = run(str(path), "--dry-run").stdout
    assert "bert tp x2" in shown
    assert "left out" in shown
    assert "num_heads does not divide" in shown


def test_another_accelerator_than_the_file_s() -> None:
    """``--gpu`` replaces the file's name, and an unknown one lists the nearest."""
    told = json.loads(run(EXAMPLE, "--dry-run", "--json", "--gpu", "NVIDIA A100-SXM4-40GB").stdout)
    assert told["device"] == "cuda"
    with pytest.raises(Exception, match="unknown accelerator"):
        run(EXAMPLE, "--dry-run", "--gpu", "a100-sxm9")


@pytest.mark.parametrize("power", ["much", "-3W", "0", "inf"])
def test_a_declared_power_is_watts(power) -> None:
    """Anything but watts above zero is refused before a rank is started."""
    with pytest.raises(ConfigError, match="--declare-power: not a "):
        run(EXAMPLE, "--declare-power", power)


def test_a_file_that_is_not_there() -> None:
    """The error names the file."""
    with pytest.raises(FileError, match=r"nowhere\.toml: cannot read"):
        run("nowhere.toml")


def test_the_outcome_in_words(tmp_path) -> None:
    """Measured, failed by reason, and left: each is told, and they add up to the plan."""
    result = SweepResult(folder=tmp_path, num_total=10, num_before=3, num_ok=2, failed={"out of memory": 1},
                         stopped=True, duration_s=90.0)  # fmt: skip
    lines = result_lines(result)
    assert lines[0] == "2 of 10 runs measured in 1.50 min, 3 were recorded before"
    assert "1 failed: out of memory" in lines
    assert any(line.startswith("4 left") for line in lines)


def test_no_bar_where_there_is_no_terminal(capsys) -> None:
    """Into a file or a pipe no bar is drawn, whether it is wanted or not."""
    for shown in (True, False):
        with progress_bar(shown=shown) as watch:
            watch(Progress(num_done=0, num_total=2))
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
