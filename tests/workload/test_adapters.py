"""Low-rank adapters beside a frozen model: operations and parameters against PyTorch's own count, and limits."""

from __future__ import annotations

from dataclasses import replace

import flop_difference
import numpy as np
import pytest

from wattlaw.workload import Recipe, from_mapping, from_sizes, operations, step_cost
from wattlaw.workload.cost import total

RANK = 16
RECIPE = Recipe(batch_size=2, seq_len=128, steps=1, adapter_rank=RANK)

#: Last names of the modules that have an adapter, by model and target; a fused projection has one adapter.
ADAPTED = {
    ("bert-base-uncased", "query-value"): ("query", "value"),
    ("bert-base-uncased", "all-linear"): ("query", "key", "value", "attention.output.dense", "intermediate.dense",
                                          "output.dense"),
    ("gpt2", "attention"): ("c_attn", "attn.c_proj"),
    ("llama-2-7b", "attention"): ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("llama-2-7b", "all-linear"): ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    ("qwen3-8b", "query-value"): ("q_proj", "v_proj"),
    ("t5-base", "query-value"): (".q", ".v"),
    ("t5-base", "attention"): (".q", ".k", ".v", ".o"),
    ("mixtral-8x7b", "attention"): ("q_proj", "k_proj", "v_proj", "o_proj"),
}  # fmt: skip


def counted_by_torch(name, targets):
    """Freeze a model on the meta device, put adapters on it and count a training step."""
    torch = pytest.importorskip("torch", reason="the flop counter is PyTorch's")
    pytest.importorskip("transformers", reason="the models are those of transformers")

    class Adapted(torch.nn.Module):
        """W x + B A x, with a frozen W."""

        def __init__(self, base):
            super().__init__()
            inner, columns = base.weight.shape if type(base).__name__ == "Conv1D" else base.weight.shape[::-1]
            self.base = base
            self.into = torch.nn.Linear(inner, RANK, bias=False, device="meta")
            self.out = torch.nn.Linear(RANK, columns, bias=False, device="meta")

        def forward(self, x):
            return self.base(x) + self.out(self.into(x)) * 2.0

    model = flop_difference.meta_model(flop_difference.published_config(name, 2))
    new = [each for part, each in model.named_modules() if part.endswith(("classifier", "score"))]
    model.requires_grad_(requires_grad=False)
    for each in new:
        each.requires_grad_(requires_grad=True)
    chosen = [
        part
        for part, each in model.named_modules()
        if part.endswith(ADAPTED[name, targets]) and type(each).__name__ in ("Linear", "Conv1D")
    ]
    for part in chosen:
        parent, _, last = part.rpartition(".")
        setattr(model.get_submodule(parent), last, Adapted(model.get_submodule(part)))
    inputs = flop_difference.meta_inputs(model, batch_size=2, seq_len=128, target_len=128)
    counted = flop_difference.count(model, inputs)
    return counted, sum(each.numel() for each in model.parameters() if each.requires_grad)


@pytest.mark.parametrize(("name", "targets"), ADAPTED)
def test_training_adapters_equals_pytorchs_count_exactly(name, targets):
    """No difference in operations, in weights or in trained weights, for separate, fused and encoder-decoder models."""
    architecture = from_mapping(flop_difference.published_config(name, 2))
    recipe = replace(RECIPE, adapter_targets=targets, attention_kernel="eager")
    cost = step_cost(architecture, recipe, attention="full", head="counted")
    counted, trained = counted_by_torch(name, targets)
    assert cost.parameters == counted.parameters
    assert cost.trained_parameters == trained
    assert cost.forward_flop == counted.forward_flop
    assert cost.forward_flop + cost.backward_flop == counted.training_flop


def llama(**changes):
    """A small decoder."""
    sizes = {"num_layers": 4, "hidden_size": 512, "num_heads": 8, "ffn_size": 1376, "vocab_size": 32000} | changes
    return from_sizes("llama", **sizes)


def cost_of(architecture, recipe):
    """Cost under the full convention."""
    return step_cost(architecture, recipe, attention="full", head="counted")


def test_a_frozen_base_takes_two_thirds_of_the_products():
    """Without gradients of weights a training step takes 4 N operations per token, not 6 N, up to the adapters."""
    whole = cost_of(llama(num_layers=400), replace(RECIPE, adapter_rank=0, seq_len=1))
    frozen = cost_of(llama(num_layers=400), replace(RECIPE, adapter_rank=1, seq_len=1))
    assert frozen.flop / whole.flop == pytest.approx(2 / 3, rel=0.01)


def test_only_what_is_trained_has_gradients_and_states():
    """The frozen weights are held with 2 bytes; gradients, master copies, moments and updates are the adapters'."""
    whole, frozen = cost_of(llama(), replace(RECIPE, adapter_rank=0)), cost_of(llama(), RECIPE)
    adapters = frozen.parameters - whole.parameters
    assert frozen.trained_parameters == adapters == 4 * 4 * 2 * 512 * RANK
    assert frozen.weights_bytes == 2 * frozen.parameters
    assert frozen.gradients_bytes == 2 * adapters
    assert frozen.master_weights_bytes == 4 * adapters
    assert frozen.optimizer_states_bytes == 8 * adapters
    assert frozen.optimizer_traffic_bytes == 28 * adapters
    assert frozen.activations_bytes < whole.activations_bytes


def test_a_column_mixes_frozen_and_trained_runs():
    """Whether the base is frozen is a mask: each row of a column is what it is alone."""
    ranks = np.array([0.0, 8.0, 64.0])
    together = cost_of(llama(), replace(RECIPE, adapter_rank=ranks))
    alone = [cost_of(llama(), replace(RECIPE, adapter_rank=rank)) for rank in (0, 8, 64)]
    for name in together.__slots__:
        expected = [getattr(one, name) for one in alone]
        np.testing.assert_allclose(np.broadcast_to(getattr(together, name), 3), expected, err_msg=name)


def test_operations_of_adapters_grow_with_rank_and_nothing_else_does():
    """Twice the rank is twice the adapters' operations, forward and backward."""
    work = {rank: operations(llama(), replace(RECIPE, adapter_rank=rank), attention="full", head="counted")
            for rank in (8, 16)}  # fmt: skip
    for field in ("forward_flop", "backward_input_flop", "backward_weight_flop", "trained_weights"):
        slim = {rank: total([op for op in found if ".adapter_" in op.name], field) for rank, found in work.items()}
        rest = {rank: total([op for op in found if ".adapter_" not in op.name], field) for rank, found in work.items()}
        assert slim[16] == 2 * slim[8] > 0
        assert rest[16] == rest[8]


def test_checkpointed_blocks_want_the_gradient_of_their_input():
    """A checkpointed first block computes the gradient of its input, although nobody trains the embeddings."""
    plain, again = cost_of(llama(), RECIPE), cost_of(llama(), replace(RECIPE, checkpointing="full"))
    first_block = 2 * 2 * 128 * 512 * (3 * 512 + 3 * RANK)
    assert again.backward_flop - plain.backward_flop == first_block


def test_each_expert_has_its_own_adapters():
    """On all linear layers a mixture has adapters in every expert, of which a token meets two."""
    sizes = {"num_layers": 2, "hidden_size": 64, "num_heads": 4, "ffn_size": 96, "vocab_size": 100}
    mixture = from_sizes("mixtral", num_experts=8, experts_per_token=2, **sizes)
    recipe = replace(RECIPE, adapter_targets="all-linear")
    with_mlp, without = cost_of(mixture, recipe), cost_of(mixture, RECIPE)
    per_expert = RANK * (64 + 2 * 96) + RANK * (96 + 64)
    assert with_mlp.trained_parameters - without.trained_parameters == 2 * 8 * per_expert
    assert with_mlp.active_parameters - without.active_parameters == 2 * 2 * per_expert
