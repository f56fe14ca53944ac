"""Utilisation, tokens and joules per token, against the figures that they are made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.explain import efficiency, explain
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout


def merit_of(spec):
    """The figures of a run predicted with the shipped law, and the prediction."""
    (prediction,) = predict([spec], bundled())
    return efficiency(spec, prediction), prediction


def test_figures_follow_from_their_definitions(run_of):
    """Tokens over time, energy over tokens, kWh per 10^9 tokens, MFU = flop / (time devices peak)."""
    spec = run_of("gpt2", Layout.of("ddp", num_devices=4), evaluation_fraction=0.0)
    merit, prediction = merit_of(spec)
    tokens = 100 * 2 * 256 * 4
    assert merit.tokens == tokens
    assert merit.tokens_per_s == pytest.approx(tokens / prediction.duration_s.mid)
    assert merit.tokens_per_device_s == pytest.approx(merit.tokens_per_s / 4)
    assert merit.energy_per_token_j == pytest.approx(prediction.energy_j.mid / tokens)
    assert merit.kwh_per_billion_tokens == pytest.approx(merit.energy_per_token_j * 1e9 / 3.6e6)
    peak = 4 * 989.4e12
    assert merit.mfu_fraction == pytest.approx(merit.model_flop / (prediction.duration_s.mid * peak), rel=1e-9)
    assert 0 < merit.mfu_fraction < 1


def test_about_six_operations_per_token_and_parameter(run_of):
    """6 N of a large model, a little more for attention: Kaplan et al. 2020, arXiv 2001.08361, section 2.1."""
    merit, _ = merit_of(run_of("llama-2-7b"))
    assert 6 < merit.model_flop / merit.tokens / 6.607e9 < 6.3  # the embedding's table multiplies nothing


def test_recomputing_is_hardware_utilisation_only(run_of):
    """Checkpointing executes a third more, which no model needs; layouts repeat what MFU does not count."""
    plain, _ = merit_of(run_of("gpt2"))
    again, _ = merit_of(run_of("gpt2", checkpointing="full"))
    assert again.model_flop == plain.model_flop
    assert 1.2 < again.hfu_fraction / again.mfu_fraction < 1.4
    divided = run_of("gpt2", Layout.of("tp", num_devices=4))
    merit, _ = merit_of(divided)
    assert merit.model_flop < explain(divided, bundled()).flop


def test_evaluation_and_set_up_are_no_training_time(bert_run):
    """MFU is of the training; tokens per second are of the run."""
    without, _ = merit_of(bert_run)
    evaluated, _ = merit_of(replace(bert_run, recipe=replace(bert_run.recipe, evaluation_fraction=0.5)))
    assert evaluated.mfu_fraction == pytest.approx(without.mfu_fraction, rel=0.03)
    assert evaluated.tokens_per_s < without.tokens_per_s
