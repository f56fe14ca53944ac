"""Recipes: what can be trained."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import ConfigError
from wattlaw.workload import Recipe

GOOD = {"batch_size": 8, "seq_len": 128, "steps": 10}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": -1}, "batch_size"),
        ({"batch_size": float("nan")}, "batch_size"),
        ({"batch_size": float("inf")}, "batch_size"),
        ({"batch_size": "8"}, "batch_size"),
        ({"batch_size": 10**400}, "batch_size"),
        ({"batch_size": np.array([1, 2])}, "floats"),
        ({"padded_len": 129}, "padded_len"),
        ({"evaluation_fraction": -0.1}, "evaluation_fraction"),
        ({"evaluation_fraction": "all"}, "evaluation_fraction"),
        ({"precision": "fp4"}, "precision"),
        ({"optimizer": "lion"}, "optimizer"),
        ({"checkpointing": "half"}, "checkpointing"),
        ({"attention_kernel": "magic"}, "attention_kernel"),
        ({"software": "hand-written"}, "software"),
        ({"adapter_targets": "mlp"}, "adapter_targets"),
        ({"adapter_rank": 2.5}, "adapter_rank"),
        ({"adapter_rank": -1}, "adapter_rank"),
        ({"predicted_fraction": 0}, "predicted_fraction"),
        ({"predicted_fraction": 1.5}, "predicted_fraction"),
        ({"packed_sequences": 0.5}, "packed_sequences"),
        ({"packed_sequences": 129}, "packed_sequences"),
        ({"tokens": 1e9}, "exactly once"),
        ({"steps": None}, "exactly once"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused_by_name(changes, word):
    """Each impossible value or combination is one error that names the field."""
    with pytest.raises(ConfigError, match=word):
        Recipe(**{**GOOD, **changes})


def test_lengths_fall_back_on_the_longest_sequence():
    """Without a mean length every sequence is computed in full; the decoder is as long as the encoder."""
    assert Recipe(**GOOD).computed_len == Recipe(**GOOD).decoder_len == 128
    padded = Recipe(**GOOD, padded_len=41)
    assert padded.computed_len == padded.decoder_len == 41
    assert Recipe(**GOOD, target_len=16).decoder_len == 16
