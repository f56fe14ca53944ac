"""Optimizer states, work and launches."""

from __future__ import annotations

from typing import get_args

import pytest

from wattlaw.workload import Recipe, preset, step_cost
from wattlaw.workload.optimizer import UPDATES, launches
from wattlaw.workload.recipe import Optimizer


def cost(optimizer, precision="bf16"):
    """Step cost of a GPT-2 with this optimizer."""
    recipe = Recipe(batch_size=1, seq_len=64, steps=1, optimizer=optimizer, precision=precision)
    return step_cost(preset("gpt2"), recipe, attention="full", head="counted")


def test_every_optimizer_of_a_recipe_has_an_update():
    """No recipe can name an optimizer whose cost is unknown."""
    assert set(UPDATES) == set(get_args(Optimizer))


def test_adamw_in_mixed_precision_takes_sixteen_bytes_per_parameter():
    """Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1: 2 + 2 + K with K = 12."""
    model = cost("adamw")
    held = model.weights_bytes + model.master_weights_bytes + model.gradients_bytes + model.optimizer_states_bytes
    assert held == 16 * model.parameters
    assert model.master_weights_bytes + model.optimizer_states_bytes == 12 * model.parameters


def test_fp32_keeps_no_master_copy():
    """With fp32 weights AdamW also takes 16 bytes: 4 + 4 + 8."""
    model = cost("adamw", precision="fp32")
    assert model.master_weights_bytes == 0
    assert model.weights_bytes + model.gradients_bytes + model.optimizer_states_bytes == 16 * model.parameters


def test_states_shrink_from_adam_over_eight_bits_to_none():
    """Two fp32 moments, two 8-bit moments, rows and columns, nothing."""
    states = [cost(name).optimizer_states_bytes for name in ("adam", "momentum", "adamw-8bit", "adafactor", "sgd")]
    assert states == sorted(states, reverse=True)
    assert states[-1] == 0 < states[-2] < 0.05 * states[0]


def test_adafactor_keeps_rows_and_columns():
    """Of one 768 x 3072 matrix 3840 numbers of 4 bytes; a whole GPT-2 block's matrices and vectors by hand."""
    block = (768 + 2304) + (768 + 768) + (768 + 3072) + (3072 + 768)
    vectors = 2 * 2 * 768
    biases = 2304 + 768 + 3072 + 768
    tables = (50257 + 768) + (1024 + 768)
    measured = cost("adafactor").optimizer_states_bytes
    assert measured == pytest.approx(4 * (12 * (block + vectors + biases) + tables + 2 * 768), rel=1e-12)


def test_adamw_traffic_by_hand():
    """Gradient 2, master copy 4 + 4, working copy 2, two moments 2 (4 + 4): 28 bytes per parameter."""
    assert cost("adamw").optimizer_traffic_bytes == 28 * cost("adamw").parameters


def test_launches_grow_with_tensors_and_numbers():
    """One more launch per pass for every 48 tensors or 21 million numbers."""
    few = launches(UPDATES["sgd"], tensors=48, parameters=0)
    assert launches(UPDATES["sgd"], tensors=96, parameters=0) == few + 1
    assert launches(UPDATES["sgd"], tensors=48, parameters=320 * 65536) == few + 1
