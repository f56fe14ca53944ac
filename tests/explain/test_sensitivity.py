"""What a tenth more of an input does: signs, limits, and the law evaluated beside."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from wattlaw.explain import sensitivities
from wattlaw.hardware import node_type
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout


def by_name(spec):
    """Sensitivities by input."""
    return {one.input: one for one in sensitivities(spec, bundled())}


def test_twice_the_steps_are_twice_the_energy(run_of):
    """The amount of a run without epochs has elasticity 1 in energy, and a tenth more is a tenth more."""
    found = by_name(run_of("gpt2", Layout()))["steps"]
    assert found.energy_elasticity == pytest.approx(1, abs=0.02)
    assert found.energy_change == pytest.approx(0.1, abs=0.002)


def test_an_elasticity_is_the_slope_of_two_predictions(single_run):
    """The logarithm of the ratio of energies over that of the ratio of bandwidths."""
    found = by_name(single_run)["bandwidth"]
    faster = replace(single_run, accelerator=replace(single_run.accelerator, bandwidth_bytes_per_s=found.tried))
    before, after = predict([single_run, faster], bundled())
    slope = math.log(after.energy_j.mid / before.energy_j.mid) / math.log(found.tried / found.value)
    assert found.energy_elasticity == pytest.approx(slope, rel=1e-9)
    assert found.energy_change == pytest.approx(1.1**slope - 1)


def test_signs_are_those_of_physics(run_of):
    """More work costs, faster hardware saves time; the order is by effect."""
    spec = replace(run_of("gpt2-xl", Layout.of("fsdp", num_devices=16, num_nodes=2), batch_size=4))
    found = sensitivities(spec, bundled())
    effects = [abs(one.energy_elasticity) for one in found]
    assert effects == sorted(effects, reverse=True)
    change = {one.input: one.duration_change for one in found}
    assert min(change[name] for name in ("width", "layers", "seq_len", "batch_size", "vocab_size", "steps")) > 0
    assert max(change[name] for name in ("peak rate", "bandwidth", "link", "network")) <= 0
    assert change["host pace"] >= 0


def test_only_what_a_run_has_is_moved(single_run, bert_run):
    """One device has no link, one node no network; epochs and evaluation where there are any."""
    alone = by_name(single_run)
    assert not {"link", "network", "evaluation_fraction", "steps"} & set(alone)
    assert {"epochs", "samples", "devices", "power cap"} <= set(alone)
    assert "link" in by_name(bert_run)


def test_what_cannot_grow_is_moved_the_other_way(run_of):
    """A full node with no other is halved, a board's limit is capped below, positions grow with their sequences."""
    layout = Layout.of("tp", num_devices=8)
    spec = replace(run_of("bert-base-uncased", layout, seq_len=512), node=node_type("dgx-h100"))
    found = by_name(spec)
    assert found["power cap"].tried < found["power cap"].value == 700
    assert found["seq_len"].tried == pytest.approx(1.1 * 512)
    assert (found["devices"].value, found["devices"].tried) == (8, 4)  # twelve heads do not go into sixteen


def test_memory_is_not_asked_for_a_slope(run_of):
    """A batch that just fits has a slope although a tenth more of it does not fit."""
    assert "batch_size" in by_name(run_of("llama-2-7b", batch_size=24, seq_len=4096, checkpointing="full"))
