"""Some configurations of a sweep as a sweep of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattlaw.measure.sweep import read_sweep
from wattlaw.measure.sweep.subset import subset_text

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.parametrize("name", ["cpu_sweep.toml", "cpu_sample.toml", "gpu_sweep.toml"])
def test_the_chosen_runs_come_back_and_no_others(tmp_path, name) -> None:
    """Every run of an example, written by itself and read again, is the same configuration, measured alike."""
    whole = read_sweep(EXAMPLES / name)
    chosen = [run for run in whole.runs if run.role == "sample" and run.repeat == 0][::7]
    path = tmp_path / "few.toml"
    path.write_text(subset_text(EXAMPLES / name, chosen, name="few", notes=("Two words.",)))
    found = read_sweep(path)
    assert {run.record_id for run in found.runs} == {run.record_id for run in chosen}
    assert len(found.runs) == len(chosen)
    assert (found.name, found.measuring, found.left_out) == ("few", whole.measuring, {})
    assert path.read_text().startswith("# Two words.\n")


def test_each_run_is_written_once_on_another_accelerator(tmp_path) -> None:
    """Repeats and controls are left behind; paths of the file are found from anywhere."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "text.npy").write_bytes(b"")
    sweep = tmp_path / "there" / "sweep.toml"
    sweep.write_text(
        """
        repeats = 3
        [hardware]
        gpu = "l4"
        [measuring]
        tokens = "text.npy"
        [control]
        family = "bert"
        precision = "bf16"
        num_layers = 1
        hidden_size = 64
        num_heads = 2
        ffn_size = 64
        vocab_size = 100
        seq_len = 16
        batch_size = 2
        strategy = "single"
        [[grid]]
        family = "bert"
        precision = "bf16"
        num_layers = [1, 2]
        hidden_size = 64
        num_heads = 2
        ffn_size = 64
        vocab_size = 100
        seq_len = 16
        batch_size = 2
        strategy = "single"
        """
    )
    samples = [run for run in read_sweep(sweep).runs if run.role == "sample" and run.repeat == 0]
    path = tmp_path / "few.toml"
    path.write_text(subset_text(sweep, samples, name="few", gpu="a40"))
    found = read_sweep(path)
    assert [run.role for run in found.runs] == ["sample", "sample"]
    assert {run.spec.accelerator.name for run in found.runs} == {"a40"}
    assert found.measuring.tokens == (tmp_path / "there" / "text.npy").resolve()
