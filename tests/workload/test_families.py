"""What each family reads from its own fields."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError, FileError
from wattlaw.workload import FAMILIES, from_mapping
from wattlaw.workload.families import family_module, from_sizes
from wattlaw.workload.presets import preset_config


def read(name, **changes):
    """A preset's configuration with changed fields."""
    return from_mapping({**preset_config(name), **changes})


def without(name, *fields):
    """A preset's configuration that lacks fields."""
    return from_mapping({key: value for key, value in preset_config(name).items() if key not in fields})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_module_says_what_it_reads(family):
    """Each module lists its model types and the task of its pre-training."""
    module = family_module(family)
    assert family in module.MODEL_TYPES
    assert module.DEFAULT_TASK in ("lm", "mlm")


def test_dropout_is_a_mask_or_none():
    """What is dropped at random costs a mask of memory; at probability 0 or null it does not."""
    assert read("bert-base-uncased").stacks[0].attention_dropout == 1
    assert read("bert-base-uncased", attention_probs_dropout_prob=0).stacks[0].attention_dropout == 0
    assert read("gpt2", resid_pdrop=None).stacks[0].hidden_dropout == 0


def test_gpt2_mlp_is_four_hidden_sizes_wide_unless_said():
    """``n_inner`` is null in the published files."""
    assert read("gpt2").stacks[0].ffn_size == 4 * 768
    assert read("gpt2", n_inner=1000).stacks[0].ffn_size == 1000


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_ends_of_an_answer_are_two_whatever_labels_there_are(family):
    """The classes for questions on decoders have two outputs; those for tokens one for each label."""
    sizes = {"num_layers": 2, "hidden_size": 8, "num_heads": 2, "ffn_size": 16, "vocab_size": 32}
    asked, labelled = (
        from_sizes(family, head=head, num_labels=5, **sizes) for head in ("question_answering", "token_classification")
    )
    assert (asked.num_labels, labelled.num_labels) == (2, 5)
    assert asked.tied_head == labelled.tied_head == 0


def test_names_of_one_field_are_equivalent():
    """GPT-2 and DistilBERT have names of their own, and accept the usual ones."""
    config = dict(preset_config("gpt2"))
    config["hidden_size"] = config.pop("n_embd")
    config["num_hidden_layers"] = config.pop("n_layer")
    assert from_mapping(config) == from_mapping(preset_config("gpt2"))


def test_a_gelu_in_steps_launches_more():
    """GPT-2's own activation is written out, a built-in one is a single kernel."""
    assert read("gpt2").stacks[0].activation_kernels == 8
    assert read("gpt2", activation_function="gelu").stacks[0].activation_kernels == 1


def test_null_and_absent_key_value_heads_differ():
    """Null is as many as query heads; absent is what the class has, for Mistral 8."""
    assert read("mistral-7b", num_key_value_heads=None).stacks[0].num_kv_heads == 32
    assert without("mistral-7b", "num_key_value_heads").stacks[0].num_kv_heads == 8
    assert without("llama-2-70b", "num_key_value_heads").stacks[0].num_kv_heads == 64


def test_head_size_is_read_or_derived():
    """Llama divides the hidden size, Gemma and Qwen 3 have their own."""
    assert read("llama-2-7b").stacks[0].head_size == 128
    assert read("llama-2-7b", head_dim=64).stacks[0].head_size == 64
    assert without("gemma-7b", "head_dim").stacks[0].head_size == 256
    assert without("qwen3-8b", "head_dim").stacks[0].head_size == 128


def test_biases_of_llama_are_optional_and_of_qwen2_fixed():
    """``attention_bias`` covers all four projections, Qwen 2 has three biases without a field."""
    biased = read("llama-2-7b", attention_bias=True, mlp_bias=True).stacks[0]
    assert (biased.qkv_bias, biased.output_bias, biased.mlp_bias) == (1, 1, 1)
    qwen = read("qwen2.5-7b").stacks[0]
    assert (qwen.qkv_bias, qwen.output_bias, qwen.mlp_bias) == (1, 0, 0)
    assert read("qwen1.5-moe-a2.7b", qkv_bias=False).stacks[0].qkv_bias == 0


def test_windows_are_read():
    """The list of layer types wins; Qwen windows the layers behind ``max_window_layers``; null is no window."""
    kinds = ["sliding_attention"] * 3 + ["full_attention"] * 39
    assert read("gemma-2-9b", layer_types=kinds).stacks[0].windowed_layers == 3
    windowed = read("qwen2.5-7b", use_sliding_window=True, sliding_window=1024, max_window_layers=20).stacks[0]
    assert (windowed.window, windowed.windowed_layers) == (1024, 8)
    assert read("mistral-7b", sliding_window=None).stacks[0].windowed_layers == 0
    assert read("gemma-3-1b", sliding_window_pattern=2).stacks[0].windowed_layers == 13


def test_a_mixture_without_sparse_blocks_is_dense():
    """If every block is listed as dense there is one stack without a router, of the dense width."""
    (stack,) = read("qwen3-30b-a3b", mlp_only_layers=list(range(48))).stacks
    assert (stack.num_experts, stack.ffn_size, stack.num_layers) == (1, 6144, 48)


@pytest.mark.parametrize("layers", ["0", [0.5], [True]])
def test_a_list_of_layers_is_a_list_of_numbers(layers):
    """Anything else is an error that names the field."""
    with pytest.raises(FileError, match="mlp_only_layers"):
        read("qwen3-30b-a3b", mlp_only_layers=layers)


def test_more_experts_per_token_than_experts_are_refused():
    """A token cannot pass nine of eight experts."""
    with pytest.raises(ConfigError, match="experts_per_token"):
        read("mixtral-8x7b", num_experts_per_tok=9)


def test_t5_projection_says_whether_it_is_gated():
    """``gated-gelu`` is gated, ``relu`` is not, and others are refused."""
    assert read("t5-base").stacks[0].gated == 0
    assert read("flan-t5-base").stacks[0].gated == 1
    for unknown in ("gelu-gated", "gated-gelu-new"):
        with pytest.raises(FileError, match="feed_forward_proj"):
            read("t5-base", feed_forward_proj=unknown)


def test_t5_is_symmetric_unless_said():
    """Null or absent decoder layers are as many as the encoder's."""
    assert without("t5-base", "num_decoder_layers").num_layers == 24
    assert read("t5-base", num_decoder_layers=3).num_layers == 15


def test_whole_floats_are_whole_numbers():
    """JSON does not tell 768.0 from 768."""
    assert read("bert-base-uncased", hidden_size=768.0) == read("bert-base-uncased")


@pytest.mark.parametrize("name", ["layer_types", "architectures"])
def test_a_list_of_texts_is_a_list_of_texts(name):
    """Anything else is an error that names the field."""
    with pytest.raises(FileError, match=name):
        read("gemma-2-9b", **{name: [1]})


def test_a_text_is_a_text():
    """A number where a name should be is an error; null is the default."""
    with pytest.raises(FileError, match="feed_forward_proj"):
        read("t5-base", feed_forward_proj=1)
    assert read("t5-base", feed_forward_proj=None) == read("t5-base")
