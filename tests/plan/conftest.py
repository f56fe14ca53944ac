"""Small problems to plan."""

from __future__ import annotations

import pytest

from wattlaw.footprint import Prices
from wattlaw.hardware import accelerator, node_type
from wattlaw.law.bundled import bundled
from wattlaw.parallel.layout import Layout
from wattlaw.plan import Limits, Objective, Offer, Problem, Space
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe, from_sizes


@pytest.fixture(scope="session")
def calibration():
    """The shipped step law, without what it learnt beside its formula: that costs time and no generality."""
    return bundled().without_residual()


@pytest.fixture(scope="session")
def run():
    """A small GPT-2 trained with a global batch of 24."""
    return RunSpec(
        architecture=from_sizes(
            "gpt2", num_layers=6, hidden_size=256, num_heads=4, ffn_size=1024, vocab_size=5000, max_positions=128
        ),
        recipe=Recipe(batch_size=6, grad_accumulation=2, seq_len=128, precision="fp16", steps=1000),
        layout=Layout.of("ddp", num_devices=2),
        accelerator=accelerator("rtx-2080-ti"),
        name="small",
    )


@pytest.fixture(scope="session")
def offer():
    """Offer some devices of a kind, in nodes where a node type is named."""

    def build(name="rtx-2080-ti", count=4, node=None, **changes):
        where = None if node is None else node_type(node)
        return Offer(accelerator=accelerator(name), num_devices=count, node=where, **changes)

    return build


@pytest.fixture(scope="session")
def problem(run, offer):
    """Ask how to run the small model; what is given replaces parts of the question, and sizes parts of its space."""

    def build(*, limits=None, objective="energy", offers=None, model=run, energy_weight=None, prices=None, **space):
        return Problem(
            run=model,
            space=Space(offers=offers or (offer(),), **space),
            limits=limits or Limits(),
            objective=Objective(goal=objective, energy_weight=energy_weight),
            prices=prices or Prices(),
        )

    return build
