"""Fixtures that several packages' tests use."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from wattlaw.hardware import accelerator, node_type
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.run import Energy, RunRecord, RunSpec
from wattlaw.workload import Recipe, from_sizes

# A shell that starts the suite in the background has it, and every process that it starts, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast the machine is, is not what the properties are about.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of measured tables; tests that need it are skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared tables are not here")
    return SHARED_DATA


@pytest.fixture(scope="session")
def records():
    """Forty runs on two machines under three strategies, with 3 % noise around what the shipped law predicts."""
    divided = [Layout.of(strategy, num_devices=count) for strategy in ("fsdp", "tp") for count in (2, 4)]
    layouts = [Layout.of("single"), *divided]
    specs = [
        RunSpec(
            architecture=from_sizes(
                "bert",
                head="classification",
                num_layers=layers,
                hidden_size=width,
                num_heads=4,
                ffn_size=4 * width,
                vocab_size=30522,
            ),
            recipe=Recipe(batch_size=8 * (1 + layers // 4), seq_len=64, precision="fp16", steps=500 + 7 * width),
            layout=layouts[number % 5],
            accelerator=accelerator(("a100-sxm4-40gb", "rtx-2080-ti")[number % 2]),
        )
        for number, (layers, width) in enumerate((n, w) for n in (2, 4, 6, 8, 12) for w in (128, 256, 384, 512) * 2)
    ]
    single = [replace(spec, layout=Layout.of("single")) for spec in specs]
    noise = np.exp(np.random.default_rng(1).normal(0, 0.03, (len(specs), 2)))
    return tuple(
        RunRecord(
            record_id=f"run {number}",
            spec=spec,
            duration_s=found.duration_s.mid * factors[0],
            observed={"single_device_duration_s": alone.duration_s.mid},
            energies=(Energy(energy_j=found.energy_j.mid * factors[1], boundary="node", method="integrated"),),
        )
        for number, (spec, found, alone, factors) in enumerate(
            zip(specs, predict(specs, bundled()), predict(single, bundled()), noise, strict=True)
        )
    )


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
        software=draw(st.sampled_from(["eager", "eager", "fused", "graphs"])),
        adapter_rank=draw(st.sampled_from([0, 0, 8])),
        epochs=draw(st.none() | st.floats(0.5, 10.0)) if amount == "samples" else None,
        evaluation_fraction=draw(st.sampled_from([0.0, 0.1, 2.0])),
        **{amount: draw(st.integers(1, 10**7))},
    )


@st.composite
def _layouts(draw, num_nodes):
    strategies = ["single", "ddp", "fsdp", "fsdp-grad-op", "tp", "ddp x tp", "fsdp x tp"]
    strategy = draw(st.sampled_from([*strategies, "pp", "ddp x pp", "tp x pp", "fsdp x pp"]))
    if strategy == "single" and num_nodes > 1:
        strategy = "ddp"
    num_devices = 1 if strategy == "single" else num_nodes * draw(st.sampled_from([2, 4]))
    if strategy == "tp":
        num_devices = min(num_devices, 4)
    layout = Layout.of(
        strategy,
        num_devices=num_devices,
        tensor_parallel=2 if " x tp" in strategy else None,
        pipeline_parallel=2 if " x pp" in strategy else None,
        num_nodes=num_nodes,
    )
    return replace(
        layout,
        pipeline_interleaving=draw(st.sampled_from([1, 3])) if layout.pipeline_parallel > 1 else 1,
        sequence_parallel=draw(st.sampled_from([0, 1])),
        vocabulary_parallel=draw(st.sampled_from([0, 1])),
        context_parallel=draw(st.sampled_from([1, 1, 2])),
        expert_parallel=2 if layout.data_parallel % 2 == 0 and draw(st.booleans()) else 1,
    )
