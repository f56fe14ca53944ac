"""The measured tables, through the maps that are shipped for them."""

from __future__ import annotations

from collections import Counter

import pytest

from wattlaw.run import append_records, read_records, schedule
from wattlaw.run.importers import import_csv, shipped_map


def _import(shared_data, name):
    return import_csv(shared_data / f"{name}.csv", shipped_map(name))


@pytest.mark.parametrize(
    ("name", "whole", "in_parts", "skipped"),
    [
        ("bert_gpt_multi_gpu", 518, 0, 0),
        ("bert_power_limit", 0, 202, 0),
        ("mlperf_training_power", 23, 0, 0),
        ("published_training_runs", 0, 47, 0),
        ("step_times", 34, 10, 2),
        ("step_times_megatron_a100", 1466, 0, 0),
    ],
)
def test_counts(shared_data, name, whole, in_parts, skipped):
    """Every row of every table is a record of a whole run, a record in parts, or skipped with a reason."""
    found = _import(shared_data, name)
    specs = Counter(record.spec is not None for record in found.records)
    assert (specs[True], specs[False], len(found.skipped)) == (whole, in_parts, skipped)
    assert all(one.reason for one in found.skipped)
    assert len({record.record_id for record in found.records}) == len(found.records)


def test_store_keeps_a_table(shared_data, tmp_path):
    """A whole table written to a store is read back equal."""
    records = _import(shared_data, "bert_gpt_multi_gpu").records
    append_records(tmp_path / "records.jsonl", records)
    assert read_records(tmp_path / "records.jsonl") == records


def test_gpt_micro_steps(shared_data):
    """A GPT epoch is 800 micro-steps per rank until the data runs out, so the tokens are read right."""
    records = _import(shared_data, "bert_gpt_multi_gpu").records
    gpt = [record for record in records if record.spec.architecture.family == "gpt2"]
    per_epoch = [
        schedule(record.spec.recipe, record.spec.layout).micro_steps / record.observed["num_epochs"] for record in gpt
    ]
    assert len(gpt) == 402
    assert max(per_epoch) == pytest.approx(800, abs=1)
    assert Counter(round(steps) >= 799 for steps in per_epoch)[True] > 250


def test_bert_padded_length(shared_data):
    """With its evaluation, a BERT row's computed tokens are the measured ones wherever every rank sees every batch."""
    records = _import(shared_data, "bert_gpt_multi_gpu").records
    seen = [
        record
        for record in records
        if record.spec.architecture.family == "bert" and record.spec.layout.data_parallel == 1
    ]
    assert len(seen) > 50
    for record in seen:
        recipe = record.spec.recipe
        per_sentence = record.observed["tokens_seen"] / (recipe.samples * recipe.epochs)
        assert recipe.padded_len * (1 + recipe.evaluation_fraction) == pytest.approx(per_sentence, rel=0.005)


def test_energies_worked(shared_data):
    """Two rows by hand: 0.003458 kWh of a node, and a metered run whose training part is 1,777,733 J in 260.33 s."""
    first = _import(shared_data, "bert_gpt_multi_gpu").records[0]
    assert first.energy("node").energy_j == pytest.approx(0.003458 * 3.6e6)
    metered = _import(shared_data, "mlperf_training_power").records[0]
    assert (metered.energy("node").energy_j, metered.duration_s) == (1777733, 260.33)
    assert metered.observed["whole_energy_j"] == 1882575
