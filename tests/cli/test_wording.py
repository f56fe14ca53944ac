"""Errors about a spec, in the words of who typed options."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattlaw.cli.wording import in_options
from wattlaw.errors import ConfigError

OPTIONS = {
    ("recipe", "batch_size"): "--batch-size",
    ("recipe", "steps"): "--steps",
    ("recipe", "samples"): "--samples",
    ("model", "preset"): "--model",
    ("model", "config"): "--config",
    ("model", "head"): "--head",
}


def reworded(error, *, typed=(), file=None):
    """The message of the reworded error."""
    return str(in_options(error, options=OPTIONS, typed=typed, file=file))


@pytest.mark.parametrize(
    ("place", "attempted", "message"),
    [
        ("[recipe]: batch_size", "must be whole", "--batch-size: must be whole"),
        ("[recipe] batch_size", "must be whole", "--batch-size: must be whole"),
        ("[recipe]", "batch_size must be whole", "--batch-size must be whole"),
        ("[recipe]: batch_size", "a key is missing", "--batch-size: is missing"),
        ("[model]: preset", "unknown model", "--model: unknown model"),
        ("[model]: preset: head", "unknown head", "--head: unknown head"),
        ("[model]: preset", "unknown head", "--head: unknown head"),
        ("[model]: config: a/config.json: hidden_size", "is missing", "a/config.json: hidden_size: is missing"),
        ("[recipe]", "something else", "something else"),
        (None, "something else", "something else"),
    ],
)
def test_a_table_and_key_become_the_option(place, attempted, message):
    """What is about no option is left without a place."""
    error = ConfigError(attempted)
    assert reworded(error.at(place) if place else error) == message


def test_what_was_not_typed_stays_at_the_file():
    """A file's own key keeps its place in the file."""
    file = Path("run.toml")
    error = ConfigError("batch_size must be whole", hint="batch_size = 8").at("[recipe]: batch_size")
    assert reworded(error, typed=["--steps"], file=file) == (
        "run.toml: [recipe]: batch_size: batch_size must be whole; try batch_size = 8"
    )


def test_hints_and_lists_are_reworded_too():
    """Keys with a value, keys that are no words of English, and lists of keys."""
    error = ConfigError("x", given="steps, samples", allowed="one of steps, samples", hint="head = lm, a batch_size")
    assert (
        reworded(error)
        == "x; given --steps, --samples; allowed one of --steps, --samples; try --head lm, a --batch-size"
    )
    assert "the head of a model" in reworded(ConfigError("x", hint="the head of a model"))
