"""Traces of Zeus."""

from __future__ import annotations

import pytest

from wattlaw.errors import FileError
from wattlaw.run.importers import import_zeus

TRACE = ("dataset", "network", "batch_size", "optimizer", "power_limit", "time_per_epoch", "average_power")
EPOCH = ("squad", "bert_base_uncased", "16", "adamw", "150", "1510.09", "144.967")
LOG = ("start_time", "window_name", "elapsed_time", "gpu0_energy", "gpu1_energy")
USER = {
    "model": {"head": "question_answering"},
    "recipe": {
        "seq_len": 384, "samples": 88000, "precision": "fp32", "grad_accumulation": 1, "checkpointing": "none",
        "attention_kernel": "eager",
    },
}  # fmt: skip


def test_epoch_without_a_spec(write_csv):
    """A row of a power trace keeps what it states, and says what a run spec still needs."""
    (record,) = import_zeus(write_csv(TRACE, EPOCH), gpu="NVIDIA A40").records
    assert record.spec is None
    assert record.stated["hardware"] == {"gpu": "a40", "power_limit_w": 150}
    assert {"recipe.seq_len", "recipe.precision", "model.head"} <= set(record.missing)
    assert record.energy("accelerators").energy_j == pytest.approx(1510.09 * 144.967)
    assert record.energy("node") is None


def test_epoch_with_a_spec(write_csv):
    """What the user states completes the run, and is marked as assumed."""
    (record,) = import_zeus(write_csv(TRACE, EPOCH), gpu="NVIDIA A40", spec=USER).records
    assert record.spec.power_limit_w == 150
    assert (record.spec.recipe.batch_size, record.spec.recipe.seq_len) == (16, 384)
    assert "recipe.seq_len" in record.assumed
    assert "recipe.batch_size" not in record.assumed


def test_gpu_is_not_guessed(write_csv):
    """The trace does not name its GPU, and nor does the import."""
    (record,) = import_zeus(write_csv(TRACE, EPOCH, name="summary_power_a40.csv"), spec=USER).records
    assert record.missing == ("hardware.gpu",)


def test_networks_that_are_no_transformers(write_csv):
    """Rows of other networks are skipped with the reason."""
    other = ("imagenet", "resnet50", "128", "adadelta", "150", "6147.46", "144.26")
    found = import_zeus(write_csv(TRACE, other, EPOCH), gpu="a40")
    assert len(found.records) == 1
    assert [(one.row, "resnet50" in one.reason) for one in found.skipped] == [(2, True)]


def test_unknown_time_is_no_energy(write_csv):
    """Without the time there is no energy, and not 0."""
    (record,) = import_zeus(write_csv(TRACE, (*EPOCH[:5], "", EPOCH[6])), gpu="a40").records
    assert (record.duration_s, record.energies) == (None, ())


def test_monitor_log(write_csv):
    """A window of the monitor is the sum of its GPUs' counters, and unknown where one was not read."""
    rows = (("1.0", "steps", "10.5", "2900.0", "2700.0"), ("2.0", "steps", "10.5", "2900.0", ""))
    both, one = import_zeus(write_csv(LOG, *rows), gpu="a40").records
    assert both.energy("accelerators").energy_j == 5600.0
    assert both.stated["layout"] == {"num_devices": 2}
    assert both.environment == {"window": "steps"}
    assert one.energies == ()


def test_another_file(write_csv):
    """A file that is no trace of Zeus is an error that lists both headers."""
    with pytest.raises(FileError, match=r"not a trace of Zeus.*time_per_epoch.*elapsed_time"):
        import_zeus(write_csv(["a", "b"], ["1", "2"]))
