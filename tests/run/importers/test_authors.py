"""The authors' public file."""

from __future__ import annotations

import csv
import math

import pytest

from wattlaw.errors import UnknownNameError
from wattlaw.parallel.layout import Layout
from wattlaw.run.importers import import_authors, import_csv, shipped_map

HEADER = [
    "", "GPU model", "arch", "model", "framework", "gpus", "max_length", "batch_size", "seq_len_batch", "grad_accum",
    "num_layers", "hidden_size", "heads", "ff", "task", "fp16", "bf16", "power_correction", "energy_consumed_kWh",
    "duration_s", "tokens_seen", "tokens_per_sec_run", "FLOPs", "params_calc", "M_proxy", "flops_per_token_proxy",
    "eta_h_proxy", "n_runs", "median_n_epochs", "T1", "speed_up", "parallel_efficiency", "strategy", "memory",
    "compute", "log_memory",
]  # fmt: skip
GPT = {
    "": "17", "GPU model": "NVIDIA A100-SXM4-40GB", "arch": "gpt", "model": "CustomGPT(L=10,d=640,h=10,ff=2560)",
    "framework": "pytorch", "gpus": "1", "max_length": "32", "batch_size": "8", "seq_len_batch": "32",
    "grad_accum": "8", "num_layers": "10", "hidden_size": "640", "heads": "10", "ff": "2560", "task": "wikitext",
    "fp16": "True", "bf16": "False", "energy_consumed_kWh": "0.003458", "duration_s": "54.591",
    "tokens_seen": "1356096.0", "M_proxy": "1638400.0", "n_runs": "1", "median_n_epochs": "3.0", "T1": "54.591",
    "strategy": "Baseline",
}  # fmt: skip
BERT = {
    **GPT, "arch": "bert", "model": "CustomBERT(L=4,d=256,h=4,ff=1024)", "gpus": "4", "max_length": "128",
    "grad_accum": "1", "num_layers": "4", "hidden_size": "256", "heads": "4", "ff": "1024", "task": "sst2",
    "strategy": "FSDP", "batch_size": "16", "GPU model": "NVIDIA GeForce RTX 2080 Ti",
}  # fmt: skip


def _import(write_csv, *rows):
    return import_authors(write_csv(HEADER, *([row.get(name, "") for name in HEADER] for row in rows)))


def test_gpt_row(write_csv):
    """A GPT row trains on its tokens without those of the evaluation, 247,100 an epoch."""
    (record,) = _import(write_csv, GPT).records
    recipe = record.spec.recipe
    assert recipe.tokens == 1356096 - 3 * 247100
    assert recipe.evaluation_fraction * recipe.tokens == pytest.approx(3 * 247100)
    assert (recipe.precision, recipe.grad_accumulation, recipe.seq_len) == ("fp16", 8, 32)
    assert record.spec.layout == Layout()
    assert record.spec.architecture.head == "lm"
    assert record.energy("node").energy_j == pytest.approx(12448.8)
    assert record.environment["model"] == "CustomGPT(L=10,d=640,h=10,ff=2560)"


def test_bert_row(write_csv):
    """A BERT row trains on SST-2's sentences, padded to the longest of 16: 15.2 tokens and 5 per doubling."""
    (record,) = _import(write_csv, BERT).records
    recipe = record.spec.recipe
    assert (recipe.samples, recipe.epochs, recipe.padded_len) == (67349, 3, pytest.approx(35.2))
    assert record.spec.layout == Layout(data_parallel=4, zero_stage=3)
    assert record.spec.architecture.num_labels == 2


@pytest.mark.parametrize(
    ("flags", "precision"),
    [(("True", "False"), "fp16"), (("False", "True"), "bf16"), (("0", "0"), "fp32"), (("1.0", "0.0"), "fp16")],
)
def test_precision(write_csv, flags, precision):
    """The two flags say the precision, and neither of them is plain fp32."""
    (record,) = _import(write_csv, {**GPT, "fp16": flags[0], "bf16": flags[1]}).records
    assert record.spec.recipe.precision == precision


def test_rows_that_it_does_not_know(write_csv):
    """Another task, another flag and NaN are skipped with the reason, and not read as something else."""
    rows = ({**BERT, "task": "squad"}, {**GPT, "fp16": "yes"}, {**GPT, "duration_s": "nan"})
    found = _import(write_csv, *rows)
    assert found.records == ()
    first, second, third = (one.reason for one in found.skipped)
    assert "no [[records]]" in first
    assert "column fp16" in second
    assert "column duration_s" in third


def test_another_file(write_csv):
    """A file that is not the authors' is an error that names a column it lacks."""
    with pytest.raises(UnknownNameError, match="unknown column"):
        import_authors(write_csv(["a", "b"], ["1", "2"]))


#: Column of the shared table -> column of the authors' file.
AUTHORS_NAMES = {
    "gpu_model": "GPU model", "family": "arch", "num_gpus": "gpus", "max_seq_len": "max_length",
    "batch_size": "batch_size", "observed_seq_len": "seq_len_batch", "grad_accum": "grad_accum",
    "num_layers": "num_layers", "hidden_size": "hidden_size", "num_heads": "heads", "ffn_size": "ff", "task": "task",
    "energy_kwh": "energy_consumed_kWh", "duration_s": "duration_s", "tokens_seen": "tokens_seen",
    "memory_proxy": "M_proxy", "num_source_runs": "n_runs", "num_epochs": "median_n_epochs",
    "single_gpu_duration_s": "T1",
}  # fmt: skip


def as_authors_wrote(row):
    """Write a row of the shared table with the authors' names, strategies and flags."""
    found = {theirs: row[ours] for ours, theirs in AUTHORS_NAMES.items()}
    found |= {"fp16": str(row["precision"] == "fp16"), "bf16": str(row["precision"] == "bf16")}
    return found | {"strategy": {"single": "Baseline", "fsdp": "FSDP", "tp": "TP"}[row["strategy"]]}


def test_the_authors_file_gives_the_runs_of_the_shared_table(shared_data, write_csv):
    """One table under two headers: the same specs, energies and observations, row by row."""
    path = shared_data / "bert_gpt_multi_gpu.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [as_authors_wrote(row) for row in csv.DictReader(file)]
    ours, theirs = import_csv(path, columns=shipped_map("bert_gpt_multi_gpu")), _import(write_csv, *rows)
    assert len(ours.records) == len(theirs.records) == 518
    for one, other in zip(ours.records, theirs.records, strict=True):
        assert one.spec == other.spec
        assert one.energies == other.energies
        assert other.observed.items() <= one.observed.items()


@pytest.mark.parametrize("batch", [8, 24, 64, 640])
def test_any_batch_has_its_padded_length(write_csv, batch):
    """The longest sentence of a batch grows with the logarithm of its size, whether or not a row here has it."""
    (record,) = _import(write_csv, {**BERT, "batch_size": str(batch)}).records
    assert record.spec.recipe.padded_len == pytest.approx(15.2 + 5 * math.log2(batch))


@pytest.mark.parametrize(
    ("printed", "name"), [("Tesla T4", "t4"), ("NVIDIA T4", "t4"), ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb")]
)
def test_the_other_gpus_of_the_authors(write_csv, printed, name):
    """Rows of a T4 and a V100 are read by the names that their drivers print."""
    (record,) = _import(write_csv, {**GPT, "GPU model": printed}).records
    assert record.spec.accelerator.name == name
