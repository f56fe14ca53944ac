"""What a spec leaves out: named with what it gets, and nothing else."""

from __future__ import annotations

import pytest

from wattlaw.run.assumed import assumed
from wattlaw.run.spec_file import spec_from_mapping
from wattlaw.workload import Recipe

RECIPE = {"batch_size": 8, "seq_len": 128, "steps": 10}
TABLES = {"model": {"preset": "gpt2"}, "recipe": RECIPE, "hardware": {"gpu": "l4"}}


def test_it_is_what_the_spec_gets():
    """Each value is that of the spec that is built from the same tables."""
    found = assumed(TABLES)
    spec = spec_from_mapping(TABLES)
    assert found.pop("strategy") == spec.layout.strategy == "single"
    assert {"precision", "optimizer", "checkpointing", "attention_kernel"} <= set(found)
    for name, value in found.items():
        assert getattr(spec.recipe, name) == value


@pytest.mark.parametrize("name", ["precision", "optimizer", "checkpointing", "attention_kernel", "grad_accumulation"])
def test_what_is_given_is_not_assumed(name):
    """Even where it is what would have been assumed."""
    default = getattr(Recipe(**RECIPE), name)
    assert name not in assumed({**TABLES, "recipe": {**RECIPE, name: default}})


def test_what_has_no_meaning_is_not_assumed():
    """What is unknown stays so; adapters that are not there sit nowhere; a layout says its strategy."""
    found = assumed({**TABLES, "layout": {"strategy": "ddp", "num_devices": 2}})
    assert not {"padded_len", "tokens", "epochs", "strategy", "adapter_targets", "batch_size"} & set(found)
    assert assumed({**TABLES, "recipe": {**RECIPE, "adapter_rank": 8}})["adapter_targets"] == "attention"
    assert assumed({})["precision"] == "bf16"
