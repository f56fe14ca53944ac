"""What an accelerator answers, apart from its figures."""

from __future__ import annotations

import dataclasses

import pytest

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.hardware import Accelerator, Link, Peak, accelerator

LINK = Link(kind="pcie-4-x16", bytes_per_s=31.5e9, latency_s=5e-6)


def made(**changes):
    """A made-up one, with some of its figures changed."""
    fields = {
        "name": "made-up",
        "peaks": (Peak(unit="matrix", precision="fp16", flop_per_s=100e12),),
        "memory_bytes": 16e9,
        "bandwidth_bytes_per_s": 500e9,
        "power_limit_w": 200.0,
        "link": LINK,
    }
    return Accelerator(**{**fields, **changes})


@pytest.mark.parametrize(
    ("name", "precision", "allowed"),
    [
        ("a100-sxm4-40gb", "fp8", "fp32, tf32, bf16, fp16"),
        ("rtx-2080-ti", "bf16", "fp32, fp16"),
        ("v100-sxm2-16gb", "tf32", "fp32, fp16"),
        ("tpu-v4", "fp32", "bf16"),
        ("t4", "int4", "fp32, fp16"),
    ],
)
def test_unsupported_precisions_are_refused(name, precision, allowed):
    """A format without a unit for it is an error that lists the formats of the device, never another rate."""
    with pytest.raises(ConfigError) as caught:
        accelerator(name).peak_flop_per_s(precision)
    assert caught.value.allowed == allowed
    assert name in str(caught.value)


def test_fp32_is_a_vector_rate_on_nvidia_and_a_matrix_rate_on_cdna():
    """With TF32 off NVIDIA computes fp32 products in its vector units; CDNA has matrix units for fp32."""
    assert accelerator("a100-sxm4-40gb").peak("fp32").unit == "vector"
    assert accelerator("mi210").peak("fp32").unit == "matrix"


def test_matrix_units_go_before_vector_units_and_fp32_sums_before_fp16_sums():
    """Of several rates for one format the one is chosen that a training step's products get."""
    vector = Peak(unit="vector", precision="fp16", flop_per_s=20e12)
    fast = Peak(unit="matrix", precision="fp16", flop_per_s=200e12, accumulation="fp16")
    slow = Peak(unit="matrix", precision="fp16", flop_per_s=100e12)
    assert made(peaks=(fast, vector, slow)).peak("fp16") == slow
    assert made(peaks=(fast, vector)).peak("fp16") == vector
    assert made(peaks=(fast,)).peak("fp16") == fast


def test_pascal_answers_with_its_only_fp16_rate():
    """A P100 states one fp16 rate, with sums in fp16; the choice says so."""
    assert accelerator("p100-sxm2-16gb").peak("fp16").accumulation == "fp16"


def test_ridge_is_rate_over_bandwidth():
    """100 Tflop/s over 500 GB/s need 200 flop per byte."""
    assert made().ridge_flop_per_byte("fp16") == 200


@pytest.mark.parametrize("field", ["memory_bytes", "bandwidth_bytes_per_s", "power_limit_w"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_figures_are_above_zero(field, value):
    """A figure that is not finite and above zero is refused by name."""
    with pytest.raises(ConfigError, match=field):
        made(**{field: value})


def test_a_device_has_a_peak():
    """A device without any rate is refused, as is a rate of zero and a link without bandwidth."""
    with pytest.raises(ConfigError, match="peak"):
        made(peaks=())
    with pytest.raises(ConfigError, match="flop_per_s"):
        Peak(unit="matrix", precision="fp16", flop_per_s=0)
    with pytest.raises(ConfigError, match="bytes_per_s"):
        dataclasses.replace(LINK, bytes_per_s=0)
    with pytest.raises(ConfigError, match="latency_s"):
        dataclasses.replace(LINK, latency_s=-1)


def test_figures_tell_their_source():
    """A figure's place in the file leads to the document; other places list the nearest."""
    device = accelerator("a100-sxm4-40gb")
    assert "A100" in device.source_of("power.limit_w").title
    assert device.peak_source("bf16") == device.source_of("peak.matrix.bf16_flop_per_s")
    assert str(device.peak_source("bf16")).startswith("NVIDIA, ")
    with pytest.raises(UnknownNameError, match=r"power\.limit_w"):
        device.source_of("power.limit")


def test_values_cannot_be_changed():
    """Accelerators are frozen: a changed copy is made with ``dataclasses.replace``, and is checked again."""
    device = accelerator("t4")
    with pytest.raises(dataclasses.FrozenInstanceError):
        device.power_limit_w = 50.0
    assert dataclasses.replace(device, power_limit_w=50.0).power_limit_w == 50
    with pytest.raises(ConfigError):
        dataclasses.replace(device, power_limit_w=0)


def test_reference_is_the_name_of_a_shipped_device():
    """What a shipped device is stored by is its canonical name."""
    device = accelerator("Tesla T4")
    assert device.reference == "t4"
    assert accelerator(device.reference) is device
