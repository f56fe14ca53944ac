"""Times of a real model's modules: who gets which time, that nothing is lost, and the file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import ConfigError
from wattlaw.hardware import accelerator
from wattlaw.measure.modules import Stopwatch, check_modules, places_of, time_modules
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes

HEADS = {"bert": "mlm", "gpt2": "lm", "llama": "lm"}
BLOCK_PARTS = {
    f"{module}.{part}"
    for module, parts in (
        ("attention", ("qkv", "core", "output", "residual")),
        ("mlp", ("up", "activation", "down", "residual")),
    )
    for part in parts
}  # fmt: skip


def tiny(family, **recipe):
    """A model of two blocks that takes a millisecond."""
    chosen = {"batch_size": 2, "seq_len": 16, "precision": "fp32", "steps": 1, **recipe}
    return RunSpec(
        architecture=from_sizes(family, head=HEADS[family], num_layers=2, hidden_size=32, num_heads=4, ffn_size=64,
                                vocab_size=100),
        recipe=Recipe(**chosen),
        layout=Layout(),
        accelerator=accelerator("generic-cpu"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def timed():
    """Two steps of one model of each family, each attention kernel."""
    pytest.importorskip("torch")
    specs = [tiny(family, attention_kernel="eager") for family in HEADS] + [tiny("bert")]
    return time_modules(specs, num_steps=2)


def test_every_part_of_every_block_takes_time_forward_and_backward(timed) -> None:
    """Whatever the family and the kernel; inputs by keyword and inputs without gradients make no difference."""
    for found in timed:
        blocks = {(one.part, one.block): one for one in found.parts if one.block >= 0}
        assert {name for name, _ in blocks} == BLOCK_PARTS | {"norm"}
        assert {number for _, number in blocks} == {0, 1}
        assert all(one.forward_s > 0 and one.backward_s > 0 for one in blocks.values())
        ends = {one.part for one in found.parts if one.block < 0}
        assert {"embeddings", "head"} <= ends <= {"embeddings", "head", "final_norm"}
        assert all(one.backward_s > 0 for one in found.parts)
        assert set(found.by_part()) == {one.part for one in found.parts}


def test_the_model_and_the_threads_are_as_before(timed) -> None:
    """Hooks are taken off, and the number of threads is put back."""
    import torch

    before = torch.get_num_threads()
    time_modules([tiny("gpt2")], num_steps=1, threads=1)
    assert torch.get_num_threads() == before
    assert all(found.pass_s > 0 and found.update_s > 0 and found.num_steps == 2 for found in timed)


def test_modules_are_found_by_their_names() -> None:
    """Of BERT, the parts that each module does itself; a module that is not named belongs to the one around it."""
    names = [
        "bert.encoder.layer.11.attention.self",
        "bert.encoder.layer.3.attention.output.LayerNorm",
        "bert.encoder.layer.3.output.LayerNorm",
        "bert.encoder.layer.3.output.dropout",
        "bert.embeddings.word_embeddings",
        "bert.encoder.layer.0",
    ]
    assert places_of("bert", names) == {
        names[0]: (("attention.core", 11),),
        names[1]: (("norm", 3),),
        names[2]: (("norm", 3),),
        names[5]: (("attention.residual", 0), ("mlp.residual", 0)),
    }


def test_a_stopwatch_gives_each_second_to_who_runs() -> None:
    """Nested parts, two parts that share, and the time inside of hooks, which belongs to nobody."""
    now = [0.0]
    watch = Stopwatch(clock=lambda: now[0])

    def after(seconds, action, *arguments) -> None:
        now[0] += seconds
        action(*arguments)

    outer, inner, shared = (("a", 0),), (("b", 0),), (("a", 0), ("c", 0))
    after(5.0, watch.begin, outer)  # nobody runs before the first
    after(1.0, watch.begin, inner)
    after(2.0, watch.end)
    after(4.0, watch.switch, shared)
    after(6.0, watch.close)
    after(9.0, watch.close)
    assert watch.seconds == {("a", 0): 1 + 4 + 3, ("b", 0): 2, ("c", 0): 3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: replace(spec, layout=Layout.of("ddp", num_devices=2)), "modules are timed on one device"),
        (lambda spec: replace(spec, recipe=replace(spec.recipe, checkpointing="full")), "without checkpointing"),
        (lambda spec: replace(spec, architecture=replace(spec.architecture, family="t5")), "modules of this family"),
        (lambda spec: replace(spec, recipe=replace(spec.recipe, precision="fp8")), "fp8"),
    ],
)
def test_what_cannot_be_timed_is_refused(change, words) -> None:
    """Before torch is asked."""
    with pytest.raises(ConfigError, match=words):
        check_modules(change(replace(tiny("bert"), accelerator=accelerator("h100-sxm5-80gb"))))
