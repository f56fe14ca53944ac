"""How much work a recipe on a layout makes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.parallel.layout import Layout
from wattlaw.run import schedule
from wattlaw.workload import Recipe


def test_samples_worked():
    """SST-2's 67,349 sentences make ceil(67,349 / (32 x 4)) = 527 micro-steps per epoch on four ranks of batch 32."""
    recipe = Recipe(batch_size=32, seq_len=128, padded_len=40, samples=67349, epochs=3)
    found = schedule(recipe, Layout(data_parallel=4))
    assert (found.micro_steps, found.optimizer_steps) == (3 * 527, 3 * 527)
    assert found.trained_tokens == 67349 * 3 * 40


def test_accumulation_worked():
    """A last accumulation that is not full is a step all the same: 10 micro-steps by 4 are 3 steps, each epoch."""
    recipe = Recipe(batch_size=1, seq_len=8, grad_accumulation=4, samples=10, epochs=2)
    assert schedule(recipe, Layout()).optimizer_steps == 6


def test_tokens_worked():
    """Two billion tokens by 16 ranks x 2 x 4,096 are 15,259 micro-steps, and by 8 accumulated 1,908 steps."""
    recipe = Recipe(batch_size=2, seq_len=4096, grad_accumulation=8, tokens=2e9)
    found = schedule(recipe, Layout(data_parallel=16, zero_stage=3, num_nodes=2))
    assert (found.micro_steps, found.optimizer_steps, found.trained_tokens) == (15259, 1908, 2e9)


def test_evaluation_worked():
    """Evaluation is a share of the trained tokens, in batches of the training's size, the last perhaps not full."""
    recipe = Recipe(batch_size=2, seq_len=10, steps=100, evaluation_fraction=0.111)
    found = schedule(recipe, Layout())
    assert found.evaluated_tokens == pytest.approx(222)
    assert found.evaluation_micro_steps == 12


def test_tensor_parallel_ranks_share_the_data():
    """Devices that divide matrices train on the same sequences, so they do not divide the micro-steps."""
    recipe = Recipe(batch_size=8, seq_len=64, samples=1000, epochs=1)
    assert schedule(recipe, Layout(tensor_parallel=4)) == schedule(recipe, Layout())


@given(
    steps=st.integers(1, 10**6),
    accumulation=st.integers(1, 64),
    batch_size=st.integers(1, 512),
    ranks=st.integers(1, 64),
)
def test_steps_and_their_tokens_agree(steps, accumulation, batch_size, ranks):
    """A run given by its steps and one given by the tokens of those steps have the same schedule."""
    layout = Layout(data_parallel=ranks)
    sizes = {"batch_size": batch_size, "seq_len": 128, "grad_accumulation": accumulation}
    by_steps = schedule(Recipe(**sizes, steps=steps), layout)
    assert schedule(Recipe(**sizes, tokens=by_steps.trained_tokens), layout) == by_steps


@given(samples=st.integers(1, 10**7), batch_size=st.integers(1, 4096), ranks=st.integers(1, 64))
def test_micro_steps_hold_the_samples(samples, batch_size, ranks):
    """The micro-steps of an epoch hold every sample, and one fewer would not."""
    recipe = Recipe(batch_size=batch_size, seq_len=1, samples=samples, epochs=1)
    per_micro_step = batch_size * ranks
    micro_steps = schedule(recipe, Layout(data_parallel=ranks)).micro_steps
    assert (micro_steps - 1) * per_micro_step < samples <= micro_steps * per_micro_step


def test_columns_equal_one_by_one():
    """A column of runs gives the schedules of its runs."""
    batches, tokens = np.array([1.0, 3.0, 8.0]), np.array([1000.0, 5000.0, 77.0])
    columns = schedule(
        Recipe(batch_size=batches, seq_len=16, tokens=tokens, grad_accumulation=4, evaluation_fraction=0.1), Layout()
    )
    for index, (batch_size, total) in enumerate(zip(batches, tokens, strict=True)):
        one = schedule(
            Recipe(batch_size=batch_size, seq_len=16, tokens=total, grad_accumulation=4, evaluation_fraction=0.1),
            Layout(),
        )
        assert columns.micro_steps[index] == one.micro_steps
        assert columns.optimizer_steps[index] == one.optimizer_steps
        assert columns.evaluation_micro_steps[index] == one.evaluation_micro_steps
