"""What a probe's figures say about parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from wattlaw.hardware import accelerator
from wattlaw.law.anchoring import REFERENCE_BANDWIDTH_FRACTION, RULES, TRANSFER_SPREAD, anchors
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Anchor, Calibration
from wattlaw.law.step_terms import PARAMETERS


@dataclass(frozen=True)
class Number:
    """A measured number without a unit."""

    value: float
    error: float = 0.0


@pytest.fixture(scope="module")
def prior() -> Calibration:
    """The shipped calibration."""
    return bundled()


@pytest.fixture(scope="module")
def h100():
    """A device that the shipped calibration has not seen."""
    return accelerator("h100-sxm5-80gb")


def anchor_of(name: str, figures: dict, device, prior: Calibration) -> Anchor:
    """The anchor of one parameter."""
    return next(one for one in anchors(figures, device, prior) if one.parameter == name)


def test_shares_of_the_data_sheet(h100, prior) -> None:
    """Half of the bf16 peak and an eighth of the TF32 peak are a quarter, the geometric mean; so for a link."""
    figures = {
        "matrix_bf16_flop_per_s": Number(0.5 * h100.peak_flop_per_s("bf16")),
        "matrix_tf32_flop_per_s": Number(0.125 * h100.peak_flop_per_s("tf32")),
        "collective_2_bytes_per_s": Number(0.3 * h100.link.bytes_per_s),
    }
    matrix = anchor_of("matrix_fraction", figures, h100, prior)
    assert matrix.value == pytest.approx(0.25)
    assert matrix.told_by == ("matrix_tf32_flop_per_s", "matrix_bf16_flop_per_s")
    assert anchor_of("link_fraction", figures, h100, prior).value == pytest.approx(0.3)


def test_uncertainties_add_as_squares(h100, prior) -> None:
    """An anchor is no surer than the transfer, and less sure where formats differ or a figure scatters."""
    peak = h100.peak_flop_per_s("bf16")
    exact = anchor_of("matrix_fraction", {"matrix_bf16_flop_per_s": Number(0.5 * peak)}, h100, prior)
    rough = anchor_of("matrix_fraction", {"matrix_bf16_flop_per_s": Number(0.5 * peak, error=0.3)}, h100, prior)
    assert exact.spread == pytest.approx(TRANSFER_SPREAD["matrix_fraction"])
    assert rough.spread == pytest.approx(math.hypot(TRANSFER_SPREAD["matrix_fraction"], 0.3))


def test_a_memory_that_reaches_what_others_reach_changes_nothing(h100, prior) -> None:
    """At the reference share of the bandwidth the traffic factor is the common one, at half of it twice that."""
    usual = REFERENCE_BANDWIDTH_FRACTION * h100.bandwidth_bytes_per_s
    same = anchor_of("traffic_factor", {"copy_bytes_per_s": Number(usual)}, h100, prior)
    half = anchor_of("traffic_factor", {"copy_bytes_per_s": Number(usual / 2)}, h100, prior)
    assert same.value == pytest.approx(prior.parameter("traffic_factor"))
    assert half.value == pytest.approx(2 * prior.parameter("traffic_factor"))


def test_a_layer_tells_its_traffic_and_long_passes_only_hint(h100, prior) -> None:
    """A layer at a fifth of the bandwidth has a factor of five; without it, copies say less, and less surely."""
    layer = Number(h100.bandwidth_bytes_per_s / 5)
    copies = Number(0.9 * h100.bandwidth_bytes_per_s)
    both = anchor_of("traffic_factor", {"layer_traffic_bytes_per_s": layer, "copy_bytes_per_s": copies}, h100, prior)
    hint = anchor_of("traffic_factor", {"copy_bytes_per_s": copies}, h100, prior)
    assert both.value == pytest.approx(5)
    assert both.told_by == ("layer_traffic_bytes_per_s",)
    assert hint.spread > 2 * both.spread


def test_latency_of_a_collective_is_what_the_law_makes_of_two_steps(h100, prior) -> None:
    """Put into the law's smooth maximum beside the plain step, the latency gives the divided step back."""
    figures = {
        "plain_step_s": Number(6e-3), "sharded_step_s": Number(10e-3), "sharded_step_collectives": Number(15.0),
        "tensor_step_s": Number(18e-3), "tensor_step_collectives": Number(24.0),
    }  # fmt: skip
    latency_s = anchor_of("collective_s", figures, h100, prior).value
    assert ((15 * latency_s) ** 3 + 6e-3**3) ** (1 / 3) == pytest.approx(10e-3)
    # All-reduces of tensor parallelism are work of the host: they add.
    assert anchor_of("tensor_collective_s", figures, h100, prior).value == pytest.approx(12e-3 / 24)


def test_a_hidden_latency_is_not_guessed_from_steps(h100, prior) -> None:
    """Where the divided step is no longer than the plain one, the bare latency counts, and without it none."""
    figures = {
        "plain_step_s": Number(6e-3), "sharded_step_s": Number(6.1e-3), "sharded_step_collectives": Number(15.0),
        "tensor_step_s": Number(5e-3), "tensor_step_collectives": Number(24.0),
    }  # fmt: skip
    assert anchors(figures, h100, prior) == ()
    with_bare = {**figures, "collective_2_latency_s": Number(2e-5), "collective_8_latency_s": Number(8e-5)}
    assert anchor_of("collective_s", with_bare, h100, prior).value == pytest.approx(4e-5)


def test_power_above_the_active_one(h100, prior) -> None:
    """Of 700 W: 140 W with empty kernels is a fifth, 630 W in products 0.7 more; memory below that is no share."""
    figures = {
        "accelerators_launch_power_w": Number(140.0, error=0.01),
        "accelerators_matrix_power_w": Number(630.0, error=0.01),
        "accelerators_memory_power_w": Number(130.0),
        "accelerators_idle_power_w": Number(70.0),
    }
    found = {one.parameter: one.value for one in anchors(figures, h100, prior)}
    assert found == pytest.approx({"active_fraction": 0.2, "compute_fraction": 0.7})


def test_every_rule_has_a_parameter_and_an_uncertainty() -> None:
    """A rule for a parameter that the law does not have would be lost in silence."""
    assert RULES.keys() == TRANSFER_SPREAD.keys()
    assert RULES.keys() <= {parameter.name for parameter in PARAMETERS}
