"""The cost of a step: published formulas, sums, scalings, and columns against numbers."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.workload import Architecture, Recipe, Stack, StepCost, from_sizes, operations, preset, presets, step_cost
from wattlaw.workload.recipe import CHECKPOINTINGS, OPTIMIZERS, PRECISIONS

FULL = {"attention": "full", "head": "counted"}
CAUSAL = {"attention": "causal", "head": "counted"}


def recipe(**changes):
    """A short micro-step."""
    return Recipe(**{"batch_size": 2, "seq_len": 128, "steps": 1, **changes})


def test_gpt3_step_is_narayanans_formula():
    """With full checkpointing 96 B s l h^2 (1 + s / 6h + V / 16 l h): arXiv 2104.04473, section 5.1."""
    cost = step_cost(preset("gpt3-175b"), recipe(seq_len=2048, checkpointing="full", attention_kernel="eager"), **FULL)
    b, s, layers, h, v = 2, 2048, 96, 12288, 50257
    assert cost.flop == 96 * b * s * layers * h**2 + 16 * b * s**2 * layers * h + 6 * b * s * h * v


def test_bert_step_by_hand():
    """6 B S L (4 d^2 + 2 d ff) + 12 L S d B S + 6 B (d^2 + d C), forward and backward."""
    cost = step_cost(preset("bert-base-uncased", head="classification"), recipe(), **FULL)
    b, s, layers, d, ff, labels = 2, 128, 12, 768, 3072, 2
    blocks = 6 * b * s * layers * (4 * d**2 + 2 * d * ff) + 12 * layers * s * d * b * s
    assert cost.forward_flop + cost.backward_flop == blocks + 6 * b * (d**2 + d * labels)


def test_dense_flop_approach_six_per_parameter_and_token():
    """Kaplan et al. 2020, arXiv 2001.08361: 6 N, within what attention and embedding make of it."""
    cost = step_cost(preset("llama-2-7b"), recipe(), **CAUSAL)
    assert (cost.forward_flop + cost.backward_flop) / (6 * cost.parameters * cost.tokens) == pytest.approx(1, abs=0.02)


def with_one_kernel_gelu(architecture):
    """The model as Megatron runs it, whose GELU is one kernel and keeps its input only."""
    blocks = tuple(replace(stack, activation_kernels=1) for stack in architecture.stacks)
    return replace(architecture, stacks=blocks)


@pytest.mark.parametrize("name", ["gpt2", "gpt2-xl"])
@pytest.mark.parametrize("length", [128, 1024])
def test_activations_per_layer_are_korthikantis(name, length):
    """Per layer s b h (34 + 5 a s / h) bytes, 16-bit, eager attention, dropout: arXiv 2205.05198, equation 1."""
    architecture = with_one_kernel_gelu(preset(name))
    found = operations(architecture, recipe(seq_len=length, attention_kernel="eager", precision="fp16"), **FULL)
    h, a = architecture.hidden_size, architecture.stacks[0].num_heads
    assert sum(op.saved_bytes for op in found if op.in_block) == 2 * length * h * 34 + 2 * length * 5 * a * length


def test_gpt2s_own_gelu_keeps_three_inner_widths_more():
    """x, x / 2, tanh and 1 + tanh are kept where one kernel keeps x: 3 (4 h) numbers of 2 bytes, 24 s b h per layer."""
    model, eager = preset("gpt2"), recipe(attention_kernel="eager", precision="fp16")
    written_out, one_kernel = (
        sum(op.saved_bytes for op in operations(each, eager, **FULL) if op.in_block)
        for each in (model, with_one_kernel_gelu(model))
    )
    assert written_out - one_kernel == 24 * 2 * 128 * 768


def test_selective_checkpointing_leaves_34_s_b_h():
    """Dropping scores and softmax leaves 34 s b h per layer: arXiv 2205.05198, table 2, at one device."""
    model = with_one_kernel_gelu(preset("gpt2"))
    found = operations(model, recipe(attention_kernel="eager", checkpointing="selective"), **FULL)
    assert sum(op.saved_bytes for op in found if op.in_block) == 34 * 2 * 128 * 768


def test_a_gelu_in_steps_keeps_three_tensors_more():
    """GPT-2's in eight steps: the tanh and both factors of the last product, 3 x 4 x 2 s b h."""
    sums = [
        sum(op.saved_bytes for op in operations(model, recipe(attention_kernel="eager"), **FULL) if op.in_block)
        for model in (preset("gpt2"), with_one_kernel_gelu(preset("gpt2")))
    ]
    assert sums[0] - sums[1] == 3 * 4 * 2 * (2 * 128) * 768


def test_full_checkpointing_keeps_inputs_and_one_block():
    """L inputs of 2 s b h, and what one block keeps while it is gone through again."""
    one = operations(preset("gpt2"), recipe(), **FULL)
    block_bytes = sum(op.saved_bytes for op in one if op.in_block)
    again = operations(preset("gpt2"), recipe(checkpointing="full"), **FULL)
    kept_bytes = sum(op.repeats * op.saved_bytes for op in again if op.in_block)
    assert kept_bytes == pytest.approx(12 * 2 * 2 * 128 * 768 + block_bytes, rel=1e-12)


def test_logits_of_a_language_model_by_hand():
    """2 x 128 tokens times 50257 words: 2 bytes, a copy of 4 and its logarithmic softmax of 4."""
    assert step_cost(preset("gpt2"), recipe(), **FULL).logits_bytes == 256 * 50257 * 10


@pytest.mark.parametrize("name", presets())
def test_parts_sum_to_the_operations(name):
    """Every total is the sum of the list of operations over their executions, divided parts are no more than it."""
    for checkpointing in CHECKPOINTINGS:
        how = recipe(checkpointing=checkpointing)
        cost = step_cost(preset(name), how, **CAUSAL)
        found = operations(preset(name), how, **CAUSAL)
        for total, field in (
            (cost.parameters, "weights"),
            (cost.active_parameters, "active_weights"),
            (cost.forward_flop, "forward_flop"),
            (cost.backward_flop, "backward_flop"),
            (cost.recompute_flop, "recompute_flop"),
            (cost.forward_traffic_bytes, "forward_bytes"),
            (cost.backward_traffic_bytes, "backward_bytes"),
            (cost.recompute_traffic_bytes, "recompute_bytes"),
            (cost.forward_kernels, "forward_kernels"),
            (cost.backward_kernels, "backward_kernels"),
            (cost.activations_bytes + cost.logits_bytes, "saved_bytes"),
        ):
            assert total == pytest.approx(sum(op.repeats * getattr(op, field) for op in found), rel=1e-12), field
        for field in fields(StepCost):
            if field.name.startswith("divided_"):
                whole = getattr(cost, field.name.removeprefix("divided_"))
                assert 0 <= getattr(cost, field.name) <= whole * (1 + 1e-12), field.name


def test_memory_and_flop_are_sums_of_their_parts():
    """Nothing hides in a total."""
    cost = step_cost(preset("gpt2"), recipe(checkpointing="full"), **CAUSAL)
    parts = {field.name: getattr(cost, field.name) for field in fields(cost)}
    held = ("weights", "master_weights", "gradients", "optimizer_states", "activations", "logits")
    assert cost.memory_bytes == sum(parts[f"{name}_bytes"] for name in held)
    assert cost.flop == parts["forward_flop"] + parts["backward_flop"] + parts["recompute_flop"]
    assert cost.kernels == parts["forward_kernels"] + parts["backward_kernels"] + parts["recompute_kernels"]


def test_a_head_that_is_not_counted_is_still_of_the_model():
    """The convention takes away work, not parameters."""
    counted = step_cost(preset("llama-2-7b"), recipe(), **CAUSAL)
    without = step_cost(preset("llama-2-7b"), recipe(), attention="causal", head="not_counted")
    assert without.parameters == counted.parameters
    assert counted.forward_flop - without.forward_flop == 2 * 256 * 4096 * 32000
    assert without.logits_bytes == 0


def test_checkpointing_costs_one_more_forward_of_the_blocks():
    """Full: flop and launches of all blocks again; selective: of the scores; both keep less."""
    costs = {name: step_cost(preset("gpt2"), recipe(checkpointing=name, attention_kernel="eager"), **FULL)
             for name in CHECKPOINTINGS}  # fmt: skip
    head = 2 * 256 * 768 * 50257
    assert costs["none"].recompute_flop == costs["none"].recompute_kernels == 0
    assert costs["full"].recompute_flop == costs["full"].forward_flop - head
    assert costs["selective"].recompute_flop == 12 * 4 * 2 * 128**2 * 768
    assert costs["full"].activations_bytes < costs["selective"].activations_bytes < costs["none"].activations_bytes


SMALL = {
    "num_layers": st.integers(1, 6),
    "num_heads": st.sampled_from([1, 2, 4, 8]),
    "ffn_size": st.integers(1, 300),
    "vocab_size": st.integers(1, 300),
}
FAMILY = st.sampled_from(["bert", "roberta", "distilbert", "gpt2", "llama", "qwen3", "gemma2", "t5", "mixtral"])


@st.composite
def models(draw):
    """A small model of any family."""
    sizes = {name: draw(values) for name, values in SMALL.items()}
    sizes["hidden_size"] = sizes["num_heads"] * draw(st.integers(1, 32))
    family = draw(FAMILY)
    if family == "mixtral":
        sizes["num_experts"] = draw(st.integers(1, 8))
        sizes["experts_per_token"] = draw(st.integers(1, sizes["num_experts"]))
    return from_sizes(family, **sizes)


@st.composite
def recipes(draw):
    """Any way to train it."""
    seq_len = draw(st.integers(1, 512))
    return Recipe(
        batch_size=draw(st.integers(1, 64)),
        seq_len=seq_len,
        padded_len=draw(st.none() | st.integers(1, seq_len)),
        precision=draw(st.sampled_from(PRECISIONS)),
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        checkpointing=draw(st.sampled_from(CHECKPOINTINGS)),
        attention_kernel=draw(st.sampled_from(["eager", "fused"])),
        steps=1,
    )


@settings(max_examples=60, deadline=None)
@given(architecture=models(), how=recipes())
def test_doubling_the_batch_doubles_what_depends_on_it(architecture, how):
    """Flop and activations double; parameters, launches and the update stay."""
    one = step_cost(architecture, how, **CAUSAL)
    two = step_cost(architecture, replace(how, batch_size=2 * how.batch_size), **CAUSAL)
    assert two.flop == pytest.approx(2 * one.flop, rel=1e-12)
    assert two.activations_bytes == pytest.approx(2 * one.activations_bytes, rel=1e-12)
    assert one.traffic_bytes < two.traffic_bytes <= 2 * one.traffic_bytes
    assert (two.parameters, two.kernels, two.optimizer_traffic_bytes) == (
        one.parameters,
        one.kernels,
        one.optimizer_traffic_bytes,
    )


@settings(max_examples=60, deadline=None)
@given(architecture=models(), how=recipes())
def test_causal_is_no_more_than_full(architecture, how):
    """Masked pairs take away flop, and neither traffic nor memory."""
    causal = step_cost(architecture, how, **CAUSAL)
    full = step_cost(architecture, how, **FULL)
    assert causal.flop <= full.flop
    assert (causal.traffic_bytes, causal.memory_bytes) == (full.traffic_bytes, full.memory_bytes)


@settings(max_examples=60, deadline=None)
@given(architecture=models(), how=recipes())
def test_one_more_layer_costs_more_of_everything(architecture, how):
    """Flop, traffic, launches, parameters and memory grow with depth."""
    deeper = replace(
        architecture, stacks=tuple(replace(stack, num_layers=stack.num_layers + 1) for stack in architecture.stacks)
    )
    one, more = step_cost(architecture, how, **FULL), step_cost(deeper, how, **FULL)
    for name in ("flop", "traffic_bytes", "kernels", "parameters", "weights_bytes", "memory_bytes"):
        assert getattr(more, name) > getattr(one, name)


@settings(max_examples=60, deadline=None)
@given(architecture=models(), how=recipes())
def test_padding_away_tokens_saves(architecture, how):
    """A shorter mean length computes fewer tokens, in proportion for everything that is linear in tokens."""
    whole = step_cost(architecture, replace(how, padded_len=None), **FULL)
    padded = step_cost(architecture, how, **FULL)
    assert padded.tokens <= whole.tokens
    assert padded.flop <= whole.flop
    assert padded.parameters == whole.parameters


def column_of(values):
    """One column of floats, from one value per run."""
    return np.array(values, dtype=float)


def stacked(instances, kind, **kept):
    """Merge values of a dataclass into one whose numbers are columns."""
    names = [field.name for field in fields(kind) if field.name not in kept]
    return kind(**kept, **{name: column_of([getattr(one, name) for one in instances]) for name in names})


RUN = st.fixed_dictionaries({**SMALL, "width": st.integers(1, 32), "batch": st.integers(1, 9)})


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(RUN, min_size=1, max_size=5),
    head=st.sampled_from(["mlm", "classification"]),
    checkpointing=st.sampled_from(CHECKPOINTINGS),
    kernel=st.sampled_from(["eager", "fused"]),
    optimizer=st.sampled_from(OPTIMIZERS),
)
def test_columns_give_the_numbers_of_each_run(sizes, head, checkpointing, kernel, optimizer):
    """Every quantity, evaluated once for a column of different models, equals that of each model alone."""
    ones = [
        from_sizes(
            "bert", head=head, num_layers=one["num_layers"], num_heads=one["num_heads"], ffn_size=one["ffn_size"],
            vocab_size=one["vocab_size"], hidden_size=one["num_heads"] * one["width"],
        )
        for one in sizes
    ]  # fmt: skip
    stack = stacked([one.stacks[0] for one in ones], Stack, role="encoder")
    column = stacked(ones, Architecture, family="bert", name="", head=ones[0].head, stacks=(stack,))
    how = {
        "seq_len": 64,
        "steps": 1,
        "checkpointing": checkpointing,
        "attention_kernel": kernel,
        "optimizer": optimizer,
    }
    together = step_cost(column, Recipe(batch_size=column_of([one["batch"] for one in sizes]), **how), **FULL)
    for index, one in enumerate(ones):
        alone = step_cost(one, Recipe(batch_size=sizes[index]["batch"], **how), **FULL)
        for field in fields(StepCost):
            entry = np.broadcast_to(getattr(together, field.name), len(ones))[index]
            assert entry == pytest.approx(getattr(alone, field.name), rel=1e-12), field.name


def test_columns_of_mixtures_and_dense_models_share_one_shape():
    """Rows without router, shared expert or window cost as if the fields were not there."""
    dense, sparse = preset("qwen2.5-0.5b"), preset("qwen1.5-moe-a2.7b")
    stack = stacked([dense.stacks[0], sparse.stacks[0]], Stack, role="decoder")
    column = stacked([dense, sparse], Architecture, family="qwen2", name="", head="lm", stacks=(stack,))
    together = step_cost(column, recipe(), **CAUSAL)
    for index, one in enumerate((dense, sparse)):
        alone = step_cost(one, recipe(), **CAUSAL)
        for field in fields(StepCost):
            entry = np.broadcast_to(getattr(together, field.name), 2)[index]
            assert entry == pytest.approx(getattr(alone, field.name), rel=1e-12), field.name


def test_base_models_with_and_without_a_pooler_share_one_shape():
    """A column may hold BERT and DistilBERT side by side."""
    ones = [preset(name, head="none") for name in ("bert-base-uncased", "distilbert-base-uncased")]
    stack = stacked([one.stacks[0] for one in ones], Stack, role="encoder")
    column = stacked(ones, Architecture, family="bert", name="", head="none", stacks=(stack,))
    together = step_cost(column, recipe(), **FULL)
    for index, one in enumerate(ones):
        alone = step_cost(one, recipe(), **FULL)
        assert together.kernels[index] == alone.kernels
        assert together.parameters[index] == alone.parameters
        assert together.traffic_bytes[index] == alone.traffic_bytes


def test_positions_and_norms_of_columns_may_differ():
    """A rotary model and one without, with and without biases and head norms, in one column."""
    first, second = preset("llama-2-7b"), preset("qwen3-8b")
    stack = stacked([first.stacks[0], second.stacks[0]], Stack, role="decoder")
    column = stacked([first, second], Architecture, family="llama", name="", head="lm", stacks=(stack,))
    together = step_cost(column, recipe(attention_kernel="eager"), **CAUSAL)
    for index, one in enumerate((first, second)):
        alone = step_cost(one, recipe(attention_kernel="eager"), **CAUSAL)
        assert together.kernels[index] == alone.kernels
        assert together.parameters[index] == alone.parameters
        assert together.memory_bytes[index] == alone.memory_bytes
