"""Reading config.json: what is understood, and that everything else is one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, FileError, UnknownNameError, WattlawError, WattlawWarning
from wattlaw.workload import FAMILIES, Recipe, from_config, from_mapping, from_sizes, preset, presets, step_cost
from wattlaw.workload.families import TASKS
from wattlaw.workload.presets import preset_config

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bert-base-uncased"
BERT = dict(preset_config("bert-base-uncased"))
RECIPE = Recipe(batch_size=1, seq_len=8, steps=1)


def test_a_real_file_is_the_model_it_names():
    """A published config.json, given as file or as folder, has the sizes of the preset."""
    read = from_config(EXAMPLE / "config.json", head="classification")
    assert read == from_config(str(EXAMPLE), head="classification")
    assert read.stacks == preset("bert-base-uncased").stacks
    assert (read.num_labels, read.pooler) == (2, 1)


def test_labels_are_counted_from_the_file():
    """``id2label`` says how many classes there are, two where it does not, and the caller has the last word."""
    labelled = {**BERT, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}
    assert from_mapping(labelled).num_labels == 3
    assert from_mapping(labelled, num_labels=7).num_labels == 7
    del labelled["id2label"]
    assert from_mapping(labelled).num_labels == 2


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("BertForMaskedLM", "mlm"),
        ("BertForPreTraining", "mlm"),
        ("BertForSequenceClassification", "classification"),
        ("BertForTokenClassification", "classification"),
        ("BertForQuestionAnswering", "classification"),
        ("BertModel", "none"),
    ],
)
def test_the_class_decides_the_head(name, head):
    """The entry of ``architectures`` is what is trained."""
    assert from_mapping({**BERT, "architectures": [name]}).head == head


def test_without_a_class_the_head_must_be_given():
    """There is no silent guess between pre-training and fine-tuning."""
    bare = {key: value for key, value in BERT.items() if key != "architectures"}
    with pytest.raises(FileError, match=r"architectures.*head = lm"):
        from_mapping(bare)
    assert from_mapping(bare, head="mlm").head == "mlm"


def test_a_sparse_file_has_the_defaults_of_its_class():
    """Published BERT files leave out what equals the default; positions and segments are then 512 and 2."""
    sparse = {key: BERT[key] for key in BERT if key not in ("max_position_embeddings", "type_vocab_size")}
    assert from_mapping(sparse) == from_mapping(BERT)


@pytest.mark.parametrize(
    "name", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
)
def test_a_missing_size_is_named(name):
    """The five sizes have no default here."""
    with pytest.raises(FileError, match=f"{name}.*missing"):
        from_mapping({key: value for key, value in BERT.items() if key != name})


def test_a_misspelt_size_is_pointed_at():
    """The message proposes the field that was probably meant."""
    wrong = {("hiden_size" if key == "hidden_size" else key): value for key, value in BERT.items()}
    with pytest.raises(FileError, match=r"hidden_size.*hiden_size"):
        from_mapping(wrong)


@pytest.mark.parametrize(
    ("changes", "kind", "word"),
    [
        ({"hidden_size": "768"}, FileError, "hidden_size"),
        ({"hidden_size": True}, FileError, "hidden_size"),
        ({"hidden_size": 768.5}, FileError, "hidden_size"),
        ({"hidden_size": float("nan")}, FileError, "hidden_size"),
        ({"hidden_size": [768]}, FileError, "hidden_size"),
        ({"hidden_size": 0}, ConfigError, "hidden_size"),
        ({"hidden_size": -768}, ConfigError, "hidden_size"),
        ({"hidden_size": 10**400}, ConfigError, "hidden_size"),
        ({"hidden_size": 770}, ConfigError, "num_heads"),
        ({"hidden_dropout_prob": 2}, FileError, "hidden_dropout_prob"),
        ({"tie_word_embeddings": "yes"}, FileError, "tie_word_embeddings"),
        ({"architectures": "BertModel"}, FileError, "architectures"),
        ({"architectures": ["BertForFun"]}, FileError, "architectures"),
        ({"architectures": ["BertForCausalLM"]}, ConfigError, "head"),
        ({"id2label": []}, FileError, "id2label"),
        ({"is_decoder": True}, ConfigError, "is_decoder"),
        ({"position_embedding_type": "relative_key"}, ConfigError, "position_embedding_type"),
        ({"model_type": 7}, FileError, "model_type"),
        ({"model_type": None}, FileError, "model_type: the field is null"),
        ({"hidden_size": None}, FileError, "hidden_size: the field is null"),
        ({"model_type": "berd"}, UnknownNameError, "bert"),
    ],
)
def test_a_wrong_field_is_one_error_that_names_it(changes, kind, word):
    """Type, range, divisibility and unknown values are told apart and told in one line."""
    changed = {**BERT, "architectures": ["BertForSequenceClassification"], **changes}
    with pytest.raises(kind, match=word) as caught:
        from_mapping(changed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (json.dumps(BERT)[:-20], "not JSON"),
        ("", "not JSON"),
        ("[1, 2]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"model_type": NaN}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("\ufeff{}", "model_type: the field is missing"),  # a byte-order mark in front is read over
    ],
)
def test_a_broken_file_is_named_and_left_alone(tmp_path, content, word):
    """Truncated, empty and foreign files are one error with the file's name; the file stays as it was."""
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(FileError, match=word) as caught:
        from_config(file)
    assert str(file) in str(caught.value)
    assert file.read_text(encoding="utf-8") == content


def test_a_field_error_names_file_and_field(tmp_path):
    """A file error reads: file, field, what is wrong."""
    (tmp_path / "config.json").write_text(json.dumps({**BERT, "vocab_size": 0}))
    with pytest.raises(ConfigError) as caught:
        from_config(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: vocab_size: ")


@pytest.mark.parametrize("path", ["absent", "nul\0byte"])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path, path):
    """Absent files and impossible names are no crash."""
    with pytest.raises(FileError):
        from_config(tmp_path / path)


def test_bytes_that_are_no_text_are_an_error(tmp_path):
    """A binary file is not JSON."""
    (tmp_path / "config.json").write_bytes(b'{"model_type": "\xff\xfe"}')
    with pytest.raises(FileError, match="not JSON"):
        from_config(tmp_path)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
SIZES = st.integers(-1, 4096) | st.sampled_from([0, 1, 2, 8, 64, 512, 10**9, 10**12])


@st.composite
def changed_configs(draw):
    """A published configuration with a few fields changed, dropped or added."""
    config = dict(preset_config(draw(st.sampled_from(presets()))))
    for key in draw(st.lists(st.sampled_from(sorted(config)), max_size=4)):
        if draw(st.booleans()):
            config.pop(key, None)
        else:
            config[key] = draw(SIZES | JSON_VALUES)
    return config


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=changed_configs(), head=st.none() | st.sampled_from(TASKS))
def test_any_changed_configuration_builds_or_is_refused(config, head):
    """Whatever stands in a file, the answer is a model with a finite cost or one of our errors."""
    try:
        architecture = from_mapping(config, head=head)
        cost = step_cost(architecture, Recipe(batch_size=2, seq_len=8, steps=1), attention="causal", head="counted")
    except WattlawError:
        return
    assert 0 < cost.parameters < float("inf")
    assert 0 < cost.flop < float("inf")
    assert 0 < cost.memory_bytes < float("inf")


@settings(max_examples=100, deadline=None)
@given(mapping=st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=5) | JSON_VALUES)
def test_any_json_value_is_no_crash(mapping):
    """Foreign JSON is refused with one of our errors."""
    with pytest.raises(WattlawError):
        from_mapping(mapping)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"num_layers": "12"}, "num_layers"),
        ({"num_heads": 0}, "num_heads"),
        ({"num_heads": 7}, "num_heads"),
        ({"layers": 3}, "num_layers"),
        ({"family": "bert3"}, "bert"),
        ({"head": "lm"}, "head"),
        ({"head": "labels"}, "classification"),
        ({"num_labels": 0, "head": "classification"}, "num_labels"),
    ],
)
def test_wrong_sizes_are_named(changes, word):
    """Sizes given by hand are checked like those of a file."""
    sizes = {"num_layers": 2, "hidden_size": 64, "num_heads": 4, "ffn_size": 256, "vocab_size": 100, **changes}
    with pytest.raises(WattlawError, match=word):
        from_sizes(sizes.pop("family", "bert"), **sizes)


def test_a_missing_size_by_hand_is_named():
    """The message lists what is missing."""
    with pytest.raises(ConfigError, match=r"num_experts, experts_per_token"):
        from_sizes("mixtral", num_layers=2, hidden_size=64, num_heads=4, ffn_size=256, vocab_size=100)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_can_be_built_from_sizes(family):
    """Five sizes suffice, and two more for experts; the same sizes read from a file are the same blocks."""
    experts = {"num_experts": 4, "experts_per_token": 2} if family in ("mixtral", "qwen2_moe", "qwen3_moe") else {}
    built = from_sizes(family, num_layers=2, hidden_size=64, num_heads=4, ffn_size=256, vocab_size=100, **experts)
    assert built.family == family
    assert built.stacks[0].head_size == 16


def test_blocks_before_the_first_sparse_one_are_dense():
    """Qwen's files list dense blocks, and can make every n-th block sparse."""
    config = {**preset_config("qwen3-30b-a3b"), "mlp_only_layers": [0, 3], "decoder_sparse_step": 2}
    dense, sparse = from_mapping(config).stacks
    assert (dense.num_layers, dense.num_experts, dense.ffn_size) == (25, 1, 6144)
    assert (sparse.num_layers, sparse.num_experts, sparse.ffn_size) == (23, 128, 768)
    assert (dense.final_norm, sparse.final_norm) == (0, 1)


def test_windows_follow_each_family():
    """Mistral windows every block, Gemma 2 every second, Gemma 3 five of six, Qwen none unless told."""
    windowed = {name: preset(name).stacks[0].windowed_layers for name in ("mistral-7b", "gemma-2-9b", "gemma-3-1b")}
    assert windowed == {"mistral-7b": 32, "gemma-2-9b": 21, "gemma-3-1b": 22}
    assert preset("qwen3-8b").stacks[0].windowed_layers == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
        {"quantization_config": {}},
        {"torch_dtype": "int8"},
        {"torch_dtype": "torch.uint8"},
        {"dtype": "float8_e4m3fn"},
    ],
)
def test_quantised_weights_are_refused(changes):
    """A training of them is none of the model in bf16, which would be told otherwise."""
    with pytest.raises(ConfigError, match="quantised weights are not counted"):
        from_mapping({**BERT, **changes})
    assert from_mapping({**BERT, "quantization_config": None, "torch_dtype": "float32"}) == from_mapping(BERT)


def test_multilingual_models_have_the_blocks_of_their_family():
    """XLM-R is a RoBERTa; mT5 is gated and has its own head, also where its file leaves that to its class."""
    roberta = {**BERT, "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "type_vocab_size": 1}
    xlm = {**roberta, "model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}
    assert from_mapping(xlm) == from_mapping(roberta)
    mt5 = {
        "model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"], "d_model": 512, "d_ff": 1024, "d_kv": 64,
        "num_layers": 8, "num_heads": 6, "vocab_size": 250112,
    }  # fmt: skip
    read = from_mapping(mt5)
    assert (read.family, read.tied_head, [stack.gated for stack in read.stacks]) == ("t5", 0, [1, 1])
    # 300,176,768 weights in google/mt5-small, its model card's 300 million.
    assert step_cost(read, RECIPE, attention="full", head="counted").parameters == 300_176_768


def test_an_old_file_is_known_by_its_class():
    """Files from before ``model_type`` name the class only; one that says neither is asked for its type."""
    old = {key: value for key, value in BERT.items() if key != "model_type"}
    assert from_mapping({**old, "architectures": ["BertForMaskedLM"]}) == from_mapping(
        {**BERT, "architectures": ["BertForMaskedLM"]}
    )
    for classes in (["SomethingForMaskedLM"], []):
        with pytest.raises(FileError, match="model_type: the field is missing"):
            from_mapping({**old, "architectures": classes})


def test_of_a_model_of_images_and_text_the_text_is_read():
    """Gemma 3 of 4B: 3,880,263,168 weights of text (4.30 billion with the encoder of images), and that is said."""
    gemma = {
        "model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"],
        "vision_config": {"hidden_size": 1152}, "text_config": {
            "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }  # fmt: skip
    with pytest.warns(WattlawWarning, match=r"text part \(gemma3_text\)"):
        read = from_mapping(gemma)
    assert read.head == "lm"
    assert step_cost(read, RECIPE, attention="full", head="counted").parameters == 3_880_263_168
    with pytest.raises(UnknownNameError, match="model_type"):
        from_mapping({**gemma, "text_config": {**gemma["text_config"], "model_type": "some_text"}})
