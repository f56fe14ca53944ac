"""Factors learned from measured modules: what they recover, how far they may go, and for which machine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.explain import Correction, explain, fit_correction, learned_correction
from wattlaw.explain.correction import corrected, module_of, module_shares, part_of, part_times
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.measure.module_times import ModuleTimes, PartTime
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes

TRUE = {"attention.qkv": 0.8, "attention.core": 3.0, "mlp.up": 1.1, "norm": 1.4}


def cpu_run(hidden=64, layers=2):
    """A small BERT on the processor."""
    return RunSpec(
        architecture=from_sizes("bert", num_layers=layers, hidden_size=hidden, num_heads=4, ffn_size=4 * hidden,
                                vocab_size=500, head="mlm"),
        recipe=Recipe(batch_size=4, seq_len=32, precision="fp32", steps=10, attention_kernel="eager"),
        layout=Layout(),
        accelerator=accelerator("generic-cpu"),
    )  # fmt: skip


def pairs(noise=0.0):
    """Predicted parts of five runs, and parts that differ by known factors and noise."""
    random = np.random.default_rng(3)
    found = []
    for number in range(5):
        predicted = {name: float(random.uniform(1, 3)) for name in (*TRUE, "mlp.down", "head", "embeddings")}
        measured = {
            name: value * TRUE.get(name, 1.0) * 10.0 * float(np.exp(noise * random.standard_normal()))
            for name, value in predicted.items()
        }
        found.append((predicted, measured))
        assert len(found) == number + 1
    return found


def test_known_factors_are_recovered():
    """But for a common factor of a run, which shares do not have, corrected shares are the measured ones."""
    exact = fit_correction(pairs())
    for predicted, measured in pairs():
        expected, seen = module_shares(corrected(predicted, exact)), module_shares(measured)
        assert expected == pytest.approx(seen, rel=0.02)


def test_noise_of_measurements_is_the_spread_of_modules():
    """Each run predicted from the others is as far off as what is measured scatters."""
    found = fit_correction(pairs(noise=0.05))
    assert 0.01 < found.spread["norm"] < 0.15
    assert found.spread_at("norm", 0.95) == pytest.approx(1.96 * found.spread["norm"], rel=1e-3)
    assert found.spread_at("router", 0.95) == 0


def test_factors_of_modules_stay_within_a_tenth():
    """As in IrEne; a factor of two is one of an operation."""
    found = fit_correction(pairs(noise=0.3))
    assert all(0.9 <= factor <= 1.1 for factor in found.modules.values())
    with pytest.raises(DataError, match=r"must be near 1; given mlp = 1.2; allowed 0.9 to 1.1"):
        Correction(modules={"mlp": 1.2})
    with pytest.raises(DataError, match="a factor must be above zero"):
        Correction(operations={"mlp.up": math.inf})


def test_without_measurements_nothing_is_learned():
    """No run, or one whose parts take no time."""
    with pytest.raises(DataError, match="no measured run"):
        fit_correction([])
    with pytest.raises(DataError, match="no shares"):
        fit_correction([({"head": 1.0}, {"head": 0.0})])


def test_parts_of_a_tree_are_those_that_hooks_tell_apart():
    """Scores, softmax and values are one part; the times are of forward and backward passes alone."""
    tree = explain(cpu_run(), bundled())
    parts = part_times(tree)
    assert {"embeddings", "attention.core", "mlp.activation", "norm", "head"} <= set(parts)
    running = sum(tree.phases_s[name] for name in ("forward", "backward_input", "backward_weight", "launch"))
    assert sum(parts.values()) == pytest.approx(running, rel=1e-9)
    assert (part_of("attention", "softmax"), part_of("mlp", "router")) == ("attention.core", "mlp.router")
    assert module_of(part_of("norm", "final_norm")) == "norm"


def test_measured_modules_correct_the_tree_of_their_machine_only():
    """With twice the time in attention's core measured, the corrected tree has about that share."""
    times = []
    for hidden in (64, 96, 128):
        spec = cpu_run(hidden)
        parts = part_times(explain(spec, bundled()))
        parts["attention.core"] *= 2
        times.append(
            ModuleTimes(
                spec=spec,
                parts=tuple(PartTime(part=name, block=-1, forward_s=s, backward_s=0.0) for name, s in parts.items()),
                pass_s=sum(parts.values()),
                update_s=0.1,
                num_steps=1,
                threads=1,
            )
        )
    correction = learned_correction(times, bundled(), "generic-cpu")
    found = module_shares(part_times(explain(times[1].spec, bundled(), correction=correction)))
    assert found == pytest.approx(module_shares(times[1].by_part()), rel=0.02)
    assert correction.source == "3 configurations on generic-cpu"
    with pytest.raises(ConfigError, match="another machine; given generic-cpu; allowed l4"):
        learned_correction(times, bundled(), "l4")
