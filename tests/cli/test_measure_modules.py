"""``wattlaw measure --modules``."""

from __future__ import annotations

import json

import pytest

from wattlaw.measure.module_times import read_module_times

SWEEP = """
[hardware]
gpu = "generic-cpu"

[defaults]
precision = "fp32"
vocab_size = 100
num_heads = 2
ffn_size = 64

[[list]]
family = "gpt2"
num_layers = 1
hidden_size = 32
seq_len = 16
batch_size = 2
layouts = [{layout}]
"""


def test_one_device_configurations_are_timed_and_written(wattlaw, tmp_path):
    """The parts of the model go to a file beside the sweep's records and to standard output."""
    pytest.importorskip("torch")
    sweep = tmp_path / "tiny.toml"
    sweep.write_text(SWEEP.format(layout='{strategy = "single"}, {strategy = "ddp", num_devices = 2}'))
    found = wattlaw("measure", sweep, "--modules", "-o", tmp_path / "runs", "--json")
    assert found.code == 0, found.err
    document = json.loads(found.out)
    (times,) = read_module_times(tmp_path / "runs" / "tiny" / "modules.jsonl")
    (shown,) = document["configurations"]
    assert document["output"] == str(tmp_path / "runs" / "tiny" / "modules.jsonl")
    assert {one["part"] for one in shown["parts"]} == {one.part for one in times.parts}
    assert times.spec.layout.num_devices == 1


def test_a_sweep_without_one_device_is_refused(refused, tmp_path):
    """Modules of several devices are not timed."""
    sweep = tmp_path / "two.toml"
    sweep.write_text(SWEEP.format(layout='{strategy = "ddp", num_devices = 2}'))
    refused("measure", sweep, "--modules", words=("one device", "strategy single"))
