"""Models from sizes, the GPT-2 adapter and batches: in this process, without a pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import ConfigError
from wattlaw.measure.sweep import sweep_from_mapping
from wattlaw.measure.sweep.data import check_tokens, make_batches, read_tokens
from wattlaw.measure.sweep.gate import gate_spec, largest_difference, single_spec
from wattlaw.measure.sweep.models import blocks_of, build_model, check_model
from wattlaw.workload import from_sizes, preset

torch = pytest.importorskip("torch")
META = torch.device("meta")
CPU = torch.device("cpu")
SIZES = {"num_layers": 2, "hidden_size": 32, "num_heads": 4, "ffn_size": 48, "vocab_size": 100}


@pytest.mark.parametrize(
    ("family", "head", "changed"),
    [
        ("bert", "classification", {}),
        ("bert", "mlm", {"hidden_dropout": 0}),
        ("gpt2", "lm", {}),
        ("gpt2", "lm", {"tied_head": 0, "max_positions": 64}),
        ("llama", "lm", {"num_kv_heads": 2}),
        ("llama", "lm", {"head_size": 16, "qkv_bias": 1, "output_bias": 1, "mlp_bias": 1, "tied_head": 1}),
    ],
)
def test_a_model_is_the_architecture_that_it_was_built_from(build_sweep, family, head, changed) -> None:
    """Blocks, width, dropout and the number of parameters, which ``build_model`` itself compares, are as stated."""
    architecture = from_sizes(family, head=head, **SIZES, **changed)
    recipe = build_sweep({"strategy": "single"}).runs[0].spec.recipe
    model = build_model(architecture, recipe, META)
    dropout = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert len(blocks_of(model, architecture)) == 2
    assert model.training
    assert model.config._attn_implementation == "sdpa"  # noqa: SLF001 - where transformers keeps it
    assert dropout <= {0.1 * architecture.stacks[0].hidden_dropout, 0.1 * architecture.stacks[0].attention_dropout}


def test_a_model_of_another_size_than_stated_is_refused(build_sweep, monkeypatch) -> None:
    """Where transformers builds something else than the architecture says, the numbers of both are told."""
    from wattlaw.measure.sweep import models

    spec = build_sweep({"strategy": "single"}).runs[0].spec
    bert = models.FAMILIES["bert"]
    wrong = replace(bert, fields=lambda *parts: {**bert.fields(*parts), "type_vocab_size": 3})
    monkeypatch.setitem(models.FAMILIES, "bert", wrong)
    with pytest.raises(ConfigError, match=r"another model than the architecture says; given .* parameters"):
        build_model(spec.architecture, spec.recipe, META)


def test_families_and_heads_that_are_not_built_are_refused() -> None:
    """T5, and a head for each token, are refused with what there is."""
    with pytest.raises(ConfigError, match="allowed bert, gpt2, llama"):
        check_model(preset("t5-small"))
    with pytest.raises(ConfigError, match="with this head"):
        check_model(from_sizes("bert", head="token_classification", **SIZES))


def test_a_linear_computes_what_the_conv1d_did() -> None:
    """The adapter changes the module and not the result, with rows in order and with rows by rank."""
    from transformers.pytorch_utils import Conv1D

    from wattlaw.measure.sweep.strategies.plans.gpt2 import rows_by_rank, to_linear

    torch.manual_seed(0)
    fused, inputs = Conv1D(24, 8), torch.randn(3, 8)
    torch.nn.init.normal_(fused.bias)
    rows = rows_by_rank(8, 2)
    torch.testing.assert_close(to_linear(fused)(inputs), fused(inputs))
    torch.testing.assert_close(to_linear(fused, rows=rows)(inputs), fused(inputs)[:, rows])


def test_each_rank_gets_queries_keys_and_values_of_its_heads() -> None:
    """Of width 4 on two ranks, the first takes q 0-1, k 4-5, v 8-9, the second the others."""
    from wattlaw.measure.sweep.strategies.plans.gpt2 import rows_by_rank

    assert rows_by_rank(4, 2).tolist() == [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]
    assert rows_by_rank(4, 1).tolist() == list(range(12))


def test_the_parts_of_a_batch_are_the_batch_of_one_device(build_sweep) -> None:
    """What two data-parallel ranks train on is, together, what one device with the whole batch trains on."""
    spec = build_sweep({"strategy": "ddp", "num_devices": 2}).runs[0].spec
    parts = [make_batches(spec, data_rank=rank, count=2, device=CPU, seed=3) for rank in (0, 1)]
    whole = make_batches(single_spec(spec), data_rank=0, count=2, device=CPU, seed=3)
    for number in range(2):
        for key in ("input_ids", "labels"):
            joined = torch.cat([part[number][key] for part in parts])
            assert joined.tolist() == whole[number][key].tolist()
    assert whole[0]["input_ids"].tolist() != whole[1]["input_ids"].tolist()


def test_a_text_is_read_piece_after_piece_and_round(build_sweep, tmp_path) -> None:
    """Tokens come in the order of the file, from its start again at its end; both kinds of file say the same."""
    (tmp_path / "text.txt").write_text("\n".join(str(number) for number in range(50)))
    np.save(tmp_path / "text.npy", np.arange(50, dtype=np.uint16))
    spec = build_sweep({"strategy": "single"}).runs[0].spec
    for name in ("text.txt", "text.npy"):
        tokens = read_tokens(tmp_path / name)
        check_tokens(tokens, spec.architecture.vocab_size, name)
        batches = make_batches(spec, data_rank=0, count=2, device=CPU, seed=0, tokens=tokens)
        seen = [token for batch in batches for token in batch["input_ids"].flatten().tolist()]
        assert seen == [number % 50 for number in range(64)]


def test_the_loss_check_is_small_and_of_the_same_kind(build_sweep) -> None:
    """It keeps family, head, layout and grouped heads, drops nothing, and divides by the tensor-parallel degree."""
    grid = {"family": "llama", "head": "lm", "num_heads": 8, "num_kv_heads": 4, "hidden_size": 64,
            "attention_dropout": 1, "strategy": "tp", "num_devices": 4}  # fmt: skip
    spec = build_sweep(grid).runs[0].spec
    small = gate_spec(spec)
    (stack,) = small.architecture.stacks
    assert small.layout == spec.layout
    assert (small.architecture.family, small.architecture.head) == ("llama", "lm")
    assert (stack.num_heads, stack.num_kv_heads, stack.attention_dropout) == (8, 4, 0)
    assert stack.ffn_size % 4 == 0
    assert small.recipe.precision == "fp32"


def test_a_loss_that_is_no_number_differs_infinitely() -> None:
    """NaN equals nothing, so it must not pass a comparison either."""
    assert largest_difference([1.0, 2.0], [1.0, float("nan")]) == float("inf")
    assert largest_difference([1.0, 2.0], [1.0, 2.0]) == 0.0


def test_planning_loads_no_torch() -> None:
    """Importing the sweep's package, and planning a sweep, loads neither torch nor transformers."""
    import subprocess
    import sys

    program = (
        "import sys; from wattlaw.measure.sweep import sweep_from_mapping;"
        "sweep_from_mapping({'hardware': {'gpu': 'generic-cpu'}, 'grid': [{'family': 'gpt2', 'precision': 'fp32',"
        "'num_layers': 1, 'hidden_size': 8, 'num_heads': 1, 'ffn_size': 8, 'vocab_size': 9, 'seq_len': 4,"
        "'batch_size': 1, 'strategy': 'single'}]});"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_sweep_needs_no_torch_to_be_refused() -> None:
    """Errors in the file come before anything heavy is touched."""
    with pytest.raises(ConfigError, match="gpu"):
        sweep_from_mapping({"grid": [{}]})
