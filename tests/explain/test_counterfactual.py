"""Changes that people ask for: what they do, and why some cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import ConfigError
from wattlaw.explain import Change, outcomes, usual_changes
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict


def test_an_outcome_is_the_prediction_of_the_changed_run(bert_run):
    """The same numbers as asking for it, relative to the run as it is, per token too."""
    changed = replace(bert_run, recipe=replace(bert_run.recipe, batch_size=64))
    (found,) = outcomes(bert_run, bundled(), [Change(name="twice", apply=lambda _: changed)])
    before, after = predict([bert_run, changed], bundled())
    assert (found.energy_j, found.duration_s, found.refused) == (after.energy_j, after.duration_s, "")
    assert found.energy_change == pytest.approx(after.energy_j.mid / before.energy_j.mid - 1)
    assert found.energy_per_token_change == pytest.approx(found.energy_change)  # the same samples


def test_every_usual_change_gives_a_number_or_a_reason(bert_run, run_of):
    """For a small run, and for one that nearly fills its memory."""
    for spec in (bert_run, run_of("llama-2-7b", batch_size=8, seq_len=4096, checkpointing="full")):
        changes = usual_changes(spec)
        found = outcomes(spec, bundled(), changes)
        assert [one.name for one in found] == [one.name for one in changes]
        assert all((one.energy_j is None) == bool(one.refused) for one in found)
        assert len({one.name for one in found}) == len(found)
    names = {change.name for change in usual_changes(bert_run)}
    wanted = {"half the sequence length", "full checkpointing", "LoRA, rank 8", "eager attention", "cap 180 W"}
    assert wanted | {"twice the devices", "one device", "captured graphs"} <= names


def test_changes_go_back_as_well(bert_run):
    """A run that has what is usually tried is offered to be without."""
    recipe = replace(bert_run.recipe, checkpointing="full", attention_kernel="eager", adapter_rank=4, precision="fp32")
    names = {change.name for change in usual_changes(replace(bert_run, recipe=recipe, power_limit_w=180.0))}
    assert {"no checkpointing", "fused attention", "all weights trained", "no cap"} <= names
    assert "cap 180 W" not in names


def test_what_does_not_fit_says_why(bert_run):
    """Memory and its parts, in one line; so does a change that is no run at all."""

    def impossible(_):
        raise ConfigError("never")

    large = replace(bert_run, recipe=replace(bert_run.recipe, batch_size=8192))
    found = outcomes(
        bert_run,
        bundled(),
        [Change(name="large", apply=lambda _: large), Change(name="impossible", apply=impossible)],
    )
    assert found[0].energy_j is None
    assert "does not fit into a device's memory" in found[0].refused
    assert "activations" in found[0].refused
    assert found[1].refused == "never"


def test_longer_sequences_cost_less_per_token_where_launches_bind(single_run):
    """Half the length of a launch-bound run saves little, so that a token costs more."""
    short = replace(single_run, recipe=replace(single_run.recipe, batch_size=2, seq_len=32))
    half = next(one for one in usual_changes(short) if one.name == "half the sequence length")
    (found,) = outcomes(short, bundled(), [half])
    assert found.energy_change < 0 < found.energy_per_token_change
