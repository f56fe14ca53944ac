"""Well-known models: names, aliases, and the parameters that their makers state."""

from __future__ import annotations

import pytest

from wattlaw.errors import UnknownNameError
from wattlaw.workload import Recipe, preset, presets, step_cost
from wattlaw.workload.presets import _aliases, preset_config

#: Trainable numbers as the model cards and transformers' ``num_parameters()`` state them.
PUBLISHED = {
    "bert-base-uncased": 109_514_298,
    "roberta-base": 124_697_433,
    "distilbert-base-uncased": 66_985_530,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-11b": 11_307_321_344,
    "flan-t5-base": 247_577_856,
    "mixtral-8x7b": 46_702_792_704,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-30b-a3b": 30_532_122_624,
}


def cost(name, **head):
    """Step cost of a preset."""
    recipe = Recipe(batch_size=1, seq_len=64, steps=1)
    return step_cost(preset(name, **head), recipe, attention="full", head="counted")


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_are_published(name):
    """The count is exact, head and ties included."""
    assert cost(name).parameters == PUBLISHED[name]


def test_gpt3_has_175_billion_parameters():
    """Brown et al. 2020, table 2.1, rounds to 175.0 billion."""
    assert cost("gpt3-175b").parameters == pytest.approx(175e9, rel=0.003)


@pytest.mark.parametrize(
    ("name", "active"), [("mixtral-8x7b", 12.9e9), ("qwen1.5-moe-a2.7b", 2.7e9), ("qwen3-30b-a3b", 3.3e9)]
)
def test_active_parameters_are_those_that_are_published(name, active):
    """What a token meets of a mixture of experts, as the model cards round it."""
    assert cost(name).active_parameters == pytest.approx(active, rel=0.02)


def test_a_dense_model_is_all_active():
    """Without experts every token meets every parameter."""
    assert cost("gpt2").active_parameters == cost("gpt2").parameters


def test_an_alias_is_the_same_model():
    """Identifiers of the published files name the preset, whatever their case."""
    assert preset("meta-llama/Llama-2-7b-hf") == preset("llama-2-7b") == preset("LLAMA-2-7B")


def test_aliases_are_unambiguous():
    """Every alias and name occurs once."""
    entries = [alias for name in presets() for alias in (name, *[a for a, n in _aliases().items() if n == name])]
    assert len(set(entries)) == len(_aliases())


def test_there_are_about_25_models_of_every_family():
    """The list covers each family that can be read."""
    assert len(presets()) >= 25
    assert {preset_config(name)["model_type"] for name in presets()} >= {
        "bert", "roberta", "distilbert", "gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "t5",
        "mixtral", "qwen2_moe", "qwen3_moe",
    }  # fmt: skip


def test_a_part_of_a_name_is_no_name():
    """There is no guessing: the error lists the nearest names."""
    with pytest.raises(UnknownNameError, match="bert-base-uncased"):
        preset("bert-base")


def test_labels_and_head_are_the_callers():
    """Fine-tuning replaces the pre-training head."""
    assert preset("bert-base-uncased").head == "mlm"
    tuned = preset("bert-base-uncased", head="classification", num_labels=3)
    assert (tuned.head, tuned.num_labels) == ("classification", 3)
