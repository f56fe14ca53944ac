"""Architectures and stacks: what can be built, and that they survive a file."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from wattlaw.errors import ConfigError
from wattlaw.workload import Architecture, Stack, preset, presets

SIZES = {"num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "head_size": 8, "ffn_size": 64}


def decoder(**changes):
    """A small decoder stack."""
    return Stack(**{"role": "decoder", **SIZES, **changes})


@pytest.mark.parametrize("name", presets())
def test_every_preset_round_trips_through_plain_values(name):
    """What is written to a record and read again is the same architecture."""
    architecture = preset(name)
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(architecture)), Architecture) == architecture


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"num_layers": 0}, "num_layers"),
        ({"num_layers": -1}, "num_layers"),
        ({"num_layers": 1.5}, "num_layers"),
        ({"num_layers": float("nan")}, "num_layers"),
        ({"num_layers": float("inf")}, "num_layers"),
        ({"num_layers": "12"}, "num_layers"),
        ({"num_layers": True}, "num_layers"),
        ({"num_layers": 10**400}, "num_layers"),
        ({"num_kv_heads": 3}, "num_kv_heads"),
        ({"experts_per_token": 2}, "experts_per_token"),
        ({"gated": 2}, "gated"),
        ({"window": 8, "windowed_layers": 3}, "windowed_layers"),
        ({"windowed_layers": 1}, "window"),
        ({"role": "critic"}, "role"),
    ],
)
def test_a_stack_that_cannot_be_built_is_refused_by_name(changes, word):
    """Each impossible size or combination is one error that names the field."""
    with pytest.raises(ConfigError, match=word):
        decoder(**changes)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"hidden_size": 0}, "hidden_size"),
        ({"vocab_size": None}, "vocab_size"),
        ({"stacks": ()}, "stack"),
        ({"head": "tail"}, "head"),
        ({"head": "classification"}, "num_labels"),
        ({"stacks": (decoder(cross_attention=1),)}, "cross_attention"),
        ({"tied_head": 0.5}, "tied_head"),
    ],
)
def test_an_architecture_that_cannot_be_built_is_refused_by_name(changes, word):
    """Each impossible size or combination is one error that names the field."""
    with pytest.raises(ConfigError, match=word):
        Architecture(**{"family": "llama", "hidden_size": 32, "vocab_size": 100, "stacks": (decoder(),), **changes})


def test_one_bad_entry_spoils_a_column():
    """A column is checked entry by entry."""
    with pytest.raises(ConfigError, match="num_layers"):
        decoder(num_layers=np.array([2.0, 0.0]))
    with pytest.raises(ConfigError, match="num_kv_heads"):
        decoder(num_heads=np.array([4.0, 5.0]))


def test_cross_attention_is_the_same_for_a_whole_column():
    """Blocks with and without a second attention are different lists of operations."""
    with pytest.raises(ConfigError, match="cross_attention"):
        decoder(cross_attention=np.array([0.0, 1.0]))


def test_columns_of_integers_are_refused():
    """64-bit integers would overflow in products without an error."""
    with pytest.raises(ConfigError, match="floats"):
        decoder(num_layers=np.array([2, 3]))


def test_an_encoder_and_a_decoder_together_need_two_lengths():
    """Only a model with both roles is an encoder-decoder."""
    assert preset("t5-small").is_encoder_decoder
    assert not preset("gpt2").is_encoder_decoder
    assert preset("t5-small").num_layers == 12
