"""The rules by which terms are shared out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import DataError
from wattlaw.explain import explain
from wattlaw.explain.attribution import attribute
from wattlaw.hardware import accelerator, node_type
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes


@pytest.mark.parametrize("kind", ["terms_s", "terms_j"])
def test_a_term_that_no_rule_knows_is_refused(single_run, kind):
    """A law that learns a new term asks for a rule: it falls neither under "other" nor to everybody by time."""
    (prediction,) = predict([single_run], bundled())
    assert attribute(single_run, bundled(), prediction)
    more = replace(prediction, **{kind: {**getattr(prediction, kind), "thermal": 5.0}})
    with pytest.raises(DataError, match="thermal"):
        attribute(single_run, bundled(), more)


def test_being_on_and_the_host_are_paid_by_time(bert_run):
    """The same watts for every part; set-up draws the host's power only."""
    tree = explain(bert_run, bundled())
    watts = {
        (term, round(node.terms_j[term] / node.time_s, 6))
        for node in tree.walk()
        for term in ("active", "host")
        if not node.children and node.name != "set-up" and node.time_s
    }
    assert len(watts) == 2
    assert set(tree.child("set-up").terms_j) == {"host"}


def test_gathered_weights_are_paid_by_who_holds_them(bert_run):
    """Under FSDP the table of the vocabulary costs what its share of the weights is."""
    tree = explain(bert_run, bundled())
    table = 30522 * 768 + 512 * 768 + 2 * 768
    weights = 109_483_778
    assert tree.child("embeddings", "lookup").phases_s["communication"] == pytest.approx(
        tree.phases_s["communication"] * table / weights, rel=1e-9
    )


def test_frozen_weights_send_no_gradients(bert_run):
    """Replicas with adapters exchange what is trained: adapters and the last projection."""
    spec = replace(bert_run, layout=Layout.of("ddp", num_devices=4))
    spec = replace(spec, recipe=replace(spec.recipe, adapter_rank=8))
    tree = explain(spec, bundled())
    sending = {
        operation.name
        for module in (*tree.child("blocks", "block 0").children, *tree.children)
        for operation in module.children
        if operation.kind == "operation" and "communication" in operation.phases_s
    }
    assert sending
    assert all("adapter" in name or name == "projection" for name in sending)


def test_experts_and_contexts_are_paid_by_routing_and_attention():
    """Tokens travel to experts for the router, keys and values around the ring for attention's own products."""
    model = from_sizes(
        "mixtral", num_layers=4, hidden_size=256, num_heads=4, num_kv_heads=4, ffn_size=512, vocab_size=1000,
        num_experts=8, experts_per_token=2,
    )  # fmt: skip
    layout = Layout(data_parallel=4, expert_parallel=4, context_parallel=2)
    spec = RunSpec(
        architecture=model,
        recipe=Recipe(batch_size=4, seq_len=512, steps=10),
        layout=layout,
        accelerator=accelerator("h100-sxm5-80gb"),
        node=node_type("dgx-h100"),
    )
    (prediction,) = predict([spec], bundled())
    tree = explain(spec, bundled())
    assert tree.energy_j == pytest.approx(prediction.energy_j.mid, rel=1e-9)
    block = tree.child("blocks", "block 0")
    assert "communication" in block.child("experts", "mlp.routing").phases_s
    assert "communication" in block.child("attention", "scores").phases_s
    assert not [child.name for child in tree.children if child.name.startswith("messages")]
