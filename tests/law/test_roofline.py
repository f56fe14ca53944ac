"""What no run can go below: against the operations counted by another route, and at the ends of intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.law.roofline import least_durations_s, least_energies_j
from wattlaw.law.step import StepLaw
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset


def llama(*, gpu="a100-sxm4-80gb", strategy="fsdp", devices=8, precision="bf16", **recipe):
    """Llama-2 7B, one sequence of 4,096 tokens per device and step."""
    return RunSpec(
        architecture=preset("llama-2-7b"),
        recipe=Recipe(batch_size=1, seq_len=4096, precision=precision, checkpointing="full", steps=100, **recipe),
        layout=Layout.of(strategy, num_devices=devices),
        accelerator=accelerator(gpu),
    )


def test_the_least_time_is_that_of_the_operations_at_the_peak():
    """Llama-2 7B: 4 x 6.48e9 weights of blocks and 3 x 131e6 of the head, and half of S^2, per token; 312 TFLOP/s."""
    (found,) = least_durations_s(physical_columns([llama()]))
    tokens = 4096
    block_weights, head_weights = 32 * (4 * 4096**2 + 3 * 4096 * 11008), 32000 * 4096
    attention = 4 * 2 * 2 * 32 * 4096 * tokens / 2
    flop = tokens * (8 * block_weights + attention + 6 * head_weights)
    assert found == pytest.approx(100 * flop / 312e12, rel=0.02)


def test_fp8_shortens_only_the_products_with_weights():
    """An H100 multiplies fp8 twice as fast as bf16: the least time falls to between a half and all of it."""
    half, quarter = least_durations_s(
        physical_columns([llama(gpu="h100-sxm5-80gb", precision=precision) for precision in ("bf16", "fp8")])
    )
    assert 0.5 < quarter / half < 0.7


def test_being_on_for_the_least_time_costs_less_than_the_run():
    """The least energy is what devices and hosts draw meanwhile, which is less than what is predicted."""
    table = physical_columns([llama()])
    estimate = StepLaw().estimate(bundled(), table)
    (least,) = least_energies_j(estimate, least_durations_s(table))
    assert 0 < least < estimate.terms_j["active"][0] + estimate.terms_j["host"][0]


@given(
    gpu=st.sampled_from(["a100-sxm4-40gb", "rtx-2080-ti", "h100-sxm5-80gb", "t4", "mi300x"]),
    model=st.sampled_from(["bert-base-uncased", "gpt2", "llama-2-7b", "mixtral-8x7b"]),
    devices=st.sampled_from([1, 2, 8]),
    batch=st.integers(1, 8),
    level=st.sampled_from([0.5, 0.95, 0.9999]),
)
@settings(max_examples=60, deadline=None)
def test_no_interval_reaches_below_what_is_possible(gpu, model, devices, batch, level):
    """However little is known of a run and however high the level, it takes no less than its operations at the peak."""
    spec = RunSpec(
        architecture=preset(model),
        recipe=Recipe(batch_size=batch, seq_len=512, precision="fp16", steps=10),
        layout=Layout.of("fsdp" if devices > 1 else "single", num_devices=devices),
        accelerator=replace(accelerator(gpu), memory_bytes=10**15),
    )
    (found,) = predict([spec], bundled(), level=level)
    (least,) = least_durations_s(physical_columns([spec]))
    assert least <= found.duration_s.low * (1 + 1e-12)
    assert found.duration_s.low <= found.duration_s.mid <= found.duration_s.high
    assert 0 < found.energy_j.low <= found.energy_j.mid
