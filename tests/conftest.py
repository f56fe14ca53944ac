"""Fixtures that several packages' tests use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from wattlaw.hardware import accelerator, node_type
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of measured tables; tests that need it are skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared tables are not here")
    return SHARED_DATA


@pytest.fixture(scope="session")
def run_specs():
    """Runs of small models of five families on layouts of up to 16 devices, for tests of what holds for any run."""
    return drawn_run_specs()


@st.composite
def drawn_run_specs(draw):
    """Draw a run that can be."""
    num_nodes = draw(st.sampled_from([1, 1, 2]))
    return RunSpec(
        architecture=draw(_architectures()),
        recipe=draw(_recipes()),
        layout=draw(_layouts(num_nodes)),
        accelerator=accelerator(draw(st.sampled_from(["a100-sxm4-40gb", "rtx-2080-ti", "v100-sxm2-32gb", "l4"]))),
        node=node_type("pcie-box") if num_nodes > 1 or draw(st.booleans()) else None,
    )


@st.composite
def _architectures(draw):
    family = draw(st.sampled_from(["bert", "gpt2", "llama", "mixtral", "t5"]))
    num_heads = draw(st.sampled_from([4, 8]))
    sizes = {
        "num_layers": draw(st.integers(1, 24)),
        "num_heads": num_heads,
        "hidden_size": num_heads * draw(st.sampled_from([16, 64, 128])),
        "ffn_size": draw(st.sampled_from([256, 1024, 4096])),
        "vocab_size": draw(st.integers(1000, 200_000)),
    }
    if family in ("llama", "mixtral"):
        sizes["num_kv_heads"] = draw(st.sampled_from([4, num_heads]))
    if family == "mixtral":
        sizes |= {"num_experts": 8, "experts_per_token": draw(st.integers(1, 8))}
    head = "classification" if family == "bert" and draw(st.booleans()) else None
    return from_sizes(family, head=head, **sizes)


@st.composite
def _recipes(draw):
    amount = draw(st.sampled_from(["steps", "samples", "tokens"]))
    return Recipe(
        batch_size=draw(st.integers(1, 256)),
        seq_len=draw(st.integers(8, 512)),
        padded_len=draw(st.none() | st.floats(1.0, 8.0)),
        grad_accumulation=draw(st.integers(1, 16)),
        precision=draw(st.sampled_from(["fp32", "fp16"])),
        optimizer=draw(st.sampled_from(["adamw", "sgd", "adafactor"])),
        checkpointing=draw(st.sampled_from(["none", "selective", "full"])),
        attention_kernel=draw(st.sampled_from(["eager", "fused"])),
        epochs=draw(st.none() | st.floats(0.5, 10.0)) if amount == "samples" else None,
        evaluation_fraction=draw(st.sampled_from([0.0, 0.1, 2.0])),
        **{amount: draw(st.integers(1, 10**7))},
    )


@st.composite
def _layouts(draw, num_nodes):
    strategy = draw(st.sampled_from(["single", "ddp", "fsdp", "fsdp-grad-op", "tp", "ddp x tp", "fsdp x tp"]))
    if strategy == "single" and num_nodes > 1:
        strategy = "ddp"
    num_devices = 1 if strategy == "single" else num_nodes * draw(st.sampled_from([2, 4]))
    if strategy == "tp":
        num_devices = min(num_devices, 4)
    return Layout.of(
        strategy,
        num_devices=num_devices,
        tensor_parallel=2 if " x " in strategy else None,
        num_nodes=num_nodes,
    )
