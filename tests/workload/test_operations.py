"""The list of operations: what it holds, and what its conventions change."""

from __future__ import annotations

from collections import defaultdict

import pytest

from wattlaw.errors import ConfigError
from wattlaw.workload import Recipe, from_sizes, operations, preset, presets
from wattlaw.workload.attention import causal_pairs, windowed_pairs
from wattlaw.workload.operation import KINDS, MODULES

FULL = {"attention": "full", "head": "counted"}


def recipe(**changes):
    """A short micro-step."""
    return Recipe(**{"batch_size": 2, "seq_len": 128, "steps": 1, **changes})


def by_name(model, **changes):
    """Operations of a model with one stack, by name."""
    return {op.name: op for op in operations(model, recipe(**changes), **FULL)}


@pytest.mark.parametrize("name", presets())
@pytest.mark.parametrize("kernel", ["eager", "fused"])
def test_names_are_unique_in_a_stack_and_kinds_are_known(name, kernel):
    """An operation can be found by stack and name, and belongs to a known module and kind."""
    found = operations(preset(name), recipe(attention_kernel=kernel), **FULL)
    assert len({(op.stack, op.name) for op in found}) == len(found)
    assert {op.module for op in found} <= set(MODULES)
    assert {op.kind for op in found} <= set(KINDS)


@pytest.mark.parametrize("name", presets())
def test_a_stack_is_a_short_list(name):
    """Whatever the depth, a stack is at most 21 operations, so that columns of runs stay cheap."""
    lengths = defaultdict(int)
    for op in operations(preset(name), recipe(), **FULL):
        lengths[op.stack] += 1
    assert max(lengths.values()) <= 21


@pytest.mark.parametrize("name", presets())
def test_no_operation_is_negative(name):
    """Work, traffic, launches, memory and weights are at least zero."""
    for op in operations(preset(name), recipe(), **FULL):
        for field in (
            "forward_flop", "backward_flop", "recompute_flop", "forward_bytes", "backward_bytes", "forward_kernels",
            "backward_kernels", "saved_bytes", "weights", "inactive_weights", "tensors",
        ):  # fmt: skip
            assert getattr(op, field) >= 0, (op.name, field)


def test_linear_by_hand():
    """BERT-base, 256 tokens through 768 x 3072: 2 256 768 3072 flop, 2 bytes times three matrices."""
    up = by_name(preset("bert-base-uncased"))["mlp.up"]
    assert (up.rows, up.inner, up.columns) == (256, 768, 3072)
    assert up.forward_flop == up.backward_input_flop == up.backward_weight_flop == 2 * 256 * 768 * 3072
    assert up.forward_bytes == 2 * (256 * 768 + 768 * 3072 + 256 * 3072)
    assert up.backward_bytes == 2 * up.forward_bytes
    assert up.weights == 768 * 3072 + 3072
    assert up.saved_bytes == 2 * 256 * 768


def test_scores_by_hand():
    """Twelve heads of 64 over two sequences of 128: 2 2 128^2 768 flop, twice that backward, none for weights."""
    scores = by_name(preset("bert-base-uncased"), attention_kernel="eager")["attention.scores"]
    assert scores.forward_flop == 2 * 2 * 128**2 * 768
    assert scores.backward_input_flop == 2 * scores.forward_flop
    assert scores.backward_weight_flop == scores.weights == 0
    assert scores.forward_bytes == 2 * (2 * 256 * 768 + 2 * 12 * 128**2)


def test_grouped_queries_shrink_keys_and_values_only():
    """Llama-2 70B: 8192 columns of queries and 2 x 1024 of keys and values; scores cost as with all heads."""
    model = by_name(preset("llama-2-70b"))
    assert model["attention.qkv"].columns == 8192 + 2 * 1024
    assert model["attention.scores"].forward_flop == 2 * 2 * 128**2 * 8192


def test_cross_attention_by_hand():
    """T5-base, 2 x 128 in and 2 x 32 out: queries from the decoder, keys and values from the encoder's output."""
    how = recipe(target_len=32, attention_kernel="eager")
    model = {op.name: op for op in operations(preset("t5-base"), how, **FULL) if op.stack == 1}
    assert model["cross_attention.query"].forward_flop == 2 * 64 * 768 * 768
    assert model["cross_attention.key_value"].forward_flop == 2 * 256 * 768 * 2 * 768
    assert model["cross_attention.scores"].forward_flop == 2 * 2 * 32 * 128 * 768
    assert model["attention.scores"].forward_flop == 2 * 2 * 32 * 32 * 768
    kept_once_bytes = 12 * model["cross_attention.key_value"].saved_bytes
    assert kept_once_bytes == pytest.approx(2 * 256 * 768, rel=1e-12)


def test_experts_multiply_work_by_the_chosen_and_weights_by_all():
    """Mixtral: each token passes 2 of 8 experts; 8 experts are held, read and updated."""
    up = by_name(preset("mixtral-8x7b"))["mlp.up"]
    dense = by_name(preset("mistral-7b"))["mlp.up"]
    assert up.forward_flop == 2 * dense.forward_flop
    assert up.weights == 8 * dense.weights
    assert up.active_weights == 2 * dense.weights
    assert up.forward_bytes > 8 * 2 * dense.weights


@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("window", [1, 2, 3, 9])
def test_pairs_are_those_of_the_mask(length, window):
    """Counting the ones of the mask gives the same pairs."""
    mask = [(i, j) for i in range(length) for j in range(length) if j <= i]
    assert causal_pairs(length) == len(mask)
    assert windowed_pairs(length, window) == sum(i - j < window for i, j in mask)


def test_causal_counts_decoders_only():
    """An encoder attends both ways under either convention; a decoder's half is S (S + 1) / 2 pairs."""
    flop = {}
    for name in ("bert-base-uncased", "gpt2"):
        for attention in ("full", "causal"):
            found = operations(preset(name), recipe(), attention=attention, head="counted")
            flop[name, attention] = next(op for op in found if op.name == "attention.scores").forward_flop
    assert flop["bert-base-uncased", "causal"] == flop["bert-base-uncased", "full"]
    assert flop["gpt2", "causal"] / flop["gpt2", "full"] == 129 / 256


def test_a_window_counts_beyond_its_length_only():
    """Mistral's 4096 tokens do not bind at 128, and cap the pairs per token at 8192."""
    flop = {}
    for length in (128, 8192):
        for window in (0, 4096):
            model = from_sizes(
                "mistral", num_layers=1, hidden_size=64, num_heads=2, ffn_size=64, vocab_size=10,
                window=window, windowed_layers=int(window > 0),
            )  # fmt: skip
            found = operations(model, recipe(seq_len=length), attention="causal", head="counted")
            flop[length, window] = next(op for op in found if op.name == "attention.scores").forward_flop
    assert flop[128, 4096] == flop[128, 0]
    assert flop[8192, 4096] < 0.8 * flop[8192, 0]


def test_the_head_is_left_out_on_demand():
    """Without the head no operation of it is left, and the rest is unchanged."""
    counted = operations(preset("gpt2"), recipe(), attention="full", head="counted")
    without = operations(preset("gpt2"), recipe(), attention="full", head="not_counted")
    assert without == tuple(op for op in counted if op.module != "head")
    assert len(without) < len(counted)


def test_a_fused_kernel_trades_traffic_for_computing_again():
    """It launches less, writes no scores, keeps none, and computes the scores again."""
    eager = by_name(preset("gpt2"), attention_kernel="eager")
    fused = by_name(preset("gpt2"), attention_kernel="fused")
    assert "attention.softmax" not in fused
    for name in ("attention.scores", "attention.values"):
        assert fused[name].forward_flop == eager[name].forward_flop
        assert fused[name].forward_bytes < eager[name].forward_bytes
        assert fused[name].forward_kernels < eager[name].forward_kernels
    assert fused["attention.scores"].recompute_flop == fused["attention.scores"].forward_flop
    assert eager["attention.scores"].recompute_flop == 0


def test_fp8_reads_operands_of_one_byte():
    """Matrix products read half of what bf16 reads and write the same."""
    half = by_name(preset("gpt2"), precision="bf16")["mlp.up"]
    quarter = by_name(preset("gpt2"), precision="fp8")["mlp.up"]
    written = 2 * half.rows * half.columns
    assert quarter.forward_bytes - written == (half.forward_bytes - written) / 2


@pytest.mark.parametrize(
    ("changes", "conventions", "word"),
    [
        ({}, {"attention": "half", "head": "counted"}, "attention"),
        ({}, {"attention": "full", "head": "yes"}, "head"),
        ({"target_len": 8}, FULL, "target_len"),
        ({"seq_len": 1025}, FULL, "positions"),
    ],
)
def test_what_does_not_fit_is_refused(changes, conventions, word):
    """Unknown conventions, a second length without a second stack, and more positions than the model has."""
    with pytest.raises(ConfigError, match=word):
        operations(preset("gpt2"), recipe(**changes), **conventions)


def test_conventions_have_no_default():
    """A caller says what is counted; forgetting it is an error and not a habit."""
    with pytest.raises(TypeError):
        operations(preset("gpt2"), recipe())


def test_a_masked_head_computes_what_it_predicts():
    """A quarter of the positions: a quarter of transform, norm, projection and loss; blocks and pooler are the same."""
    model = preset("bert-base-uncased")
    whole, part = by_name(model), by_name(model, predicted_fraction=0.25)
    for name in ("head.transform", "head.norm", "head.projection", "head.loss"):
        for field in ("forward_flop", "backward_weight_flop", "saved_bytes"):
            assert getattr(part[name], field) == getattr(whole[name], field) / 4, (name, field)
        assert part[name].weights == whole[name].weights
    assert {name: op for name, op in part.items() if not name.startswith("head.")} == {
        name: op for name, op in whole.items() if not name.startswith("head.")
    }


def test_packed_sequences_attend_to_themselves():
    """Four sequences of 32 in a row of 128: causal 4 x 32 x 33 / 2 pairs, all 4 x 32^2, instead of those of 128."""
    kernel = {"attention_kernel": "fused", "packed_sequences": 4}
    for attention, pairs in (("causal", 4 * 32 * 33 / 2), ("full", 4 * 32**2)):
        found = {
            op.name: op
            for op in operations(preset("llama-2-7b"), recipe(**kernel), attention=attention, head="counted")
        }
        assert found["attention.scores"].forward_flop == 2 * 2 * pairs * 4096
        assert found["attention.qkv"].forward_flop == 2 * 2 * 128 * 4096 * 3 * 4096


def test_written_out_scores_of_packed_sequences_are_masked_and_not_saved():
    """An eager kernel computes and keeps all pairs of a row."""
    packed, alone = (by_name(preset("gpt2"), attention_kernel="eager", packed_sequences=count) for count in (4, 1))
    assert packed == alone


def test_positions_are_those_of_a_packed_sequence():
    """A row of 2,048 fits a model of 1,024 positions where it holds two sequences."""
    assert operations(preset("gpt2"), recipe(seq_len=2048, packed_sequences=2), **FULL)
    with pytest.raises(ConfigError, match="seq_len exceeds"):
        operations(preset("gpt2"), recipe(seq_len=2048), **FULL)


def test_fused_software_computes_an_activation_in_one_kernel():
    """GPT-2's written-out GELU is one kernel, and one pass over its input, in fused software."""
    eager, fused = (by_name(preset("gpt2"), software=software) for software in ("eager", "fused"))
    assert (eager["mlp.activation"].forward_kernels, fused["mlp.activation"].forward_kernels) == (8, 1)
    assert fused["mlp.activation"].forward_bytes == eager["mlp.activation"].forward_bytes / 8
    assert {name for name in eager if eager[name] != fused[name]} == {"mlp.activation"}
