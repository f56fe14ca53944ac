"""Runs of every family and strategy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.hardware import accelerator, node_type
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset


def bert(**recipe):
    """BERT-base fine-tuned on SST-2 with four RTX 2080 Ti under FSDP."""
    chosen = {"batch_size": 32, "seq_len": 128, "precision": "fp16", "samples": 67349, "epochs": 3, **recipe}
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(**chosen),
        layout=Layout.of("fsdp", num_devices=4),
        accelerator=accelerator("rtx-2080-ti"),
        name="BERT",
    )


def preset_run(name, layout=None, **recipe):
    """A run of a known model on devices that hold it."""
    chosen = {"batch_size": 2, "seq_len": 256, "steps": 100, "evaluation_fraction": 0.1, **recipe}
    layout = layout or Layout.of("fsdp", num_devices=64, num_nodes=8)
    several = layout.num_nodes > 1
    return RunSpec(
        architecture=preset(name),
        recipe=Recipe(**chosen),
        layout=layout,
        accelerator=accelerator("h100-sxm5-80gb"),
        node=node_type("dgx-h100") if several else None,
        name=name,
    )


@pytest.fixture
def bert_run():
    """BERT-base under FSDP."""
    return bert()


@pytest.fixture
def single_run():
    """The same on one device."""
    return replace(bert(), layout=Layout())


@pytest.fixture
def run_of():
    """The function that builds a run of a known model."""
    return preset_run
