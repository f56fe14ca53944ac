"""Weights and tokens are those of the model and the amount."""

from __future__ import annotations

import pytest

from wattlaw.features.counts import count_columns
from wattlaw.hardware import accelerator
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes, preset


def spec(architecture, **recipe):
    """A run on four devices, two of them data-parallel."""
    return RunSpec(
        architecture=architecture,
        recipe=Recipe(**{"batch_size": 4, "seq_len": 64, "precision": "fp16", **recipe}),
        layout=Layout(data_parallel=2, tensor_parallel=2),
        accelerator=accelerator("a100-sxm4-40gb"),
    )


def test_weights_and_tokens_of_bert():
    """BERT-base has 110 million weights (Devlin et al. 2019, section 3); 10 steps of 2 ranks x 4 sequences of 64."""
    found = count_columns([spec(preset("bert-base-uncased", head="classification"), steps=10, grad_accumulation=3)])
    assert found["active_parameters"][0] == pytest.approx(110e6, rel=0.01)
    assert found["trained_tokens"].tolist() == [10 * 3 * 2 * 4 * 64]


def test_runs_of_several_kinds_stay_in_their_order():
    """One row per run, each as it is alone."""
    models = [
        from_sizes("gpt2", num_layers=layers, num_heads=4, hidden_size=256, ffn_size=1024, vocab_size=50257)
        for layers in (2, 6)
    ]
    specs = [spec(models[0], tokens=1e6), spec(preset("bert-base-uncased"), steps=5), spec(models[1], tokens=3e6)]
    found = count_columns(specs)
    for row, one in enumerate(specs):
        alone = count_columns([one])
        for name in ("active_parameters", "trained_tokens"):
            assert found[name][row] == alone[name][0]
    assert found["trained_tokens"].tolist() == [1e6, 5 * 2 * 4 * 64, 3e6]


def test_of_experts_those_count_that_a_token_meets():
    """Mixtral 8x7B has 46.7 billion weights, of which a token meets 12.9 (Jiang et al. 2024, arXiv 2401.04088)."""
    found = count_columns([spec(preset("mixtral-8x7b"), steps=1)])
    assert found["active_parameters"][0] == pytest.approx(12.9e9, rel=0.01)
