"""The parts of a probe: what they count, and that their figures follow from the times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.measure.probe import bandwidth, collectives, launch, layer, load, matrix, strategies
from wattlaw.measure.probe.launch import Depth, figures_of_lines
from wattlaw.measure.probe.layer import Layer
from wattlaw.workload import Recipe, from_sizes

torch = pytest.importorskip("torch", reason="the optional part 'measure' is not installed")
CPU = torch.device("cpu")


def no_wait() -> None:
    """Wait for nothing: a CPU's work is done when its call returns."""


@pytest.fixture
def half_a_second(monkeypatch):
    """Whatever is timed takes half a second, as often as five times."""

    def sample(call, *, wait, budget_s):
        call()
        return [0.5] * 5

    for module in (matrix, bandwidth, launch):
        monkeypatch.setattr(module, "sample_times", sample)


def test_flop_of_a_block() -> None:
    """Per token a block's four products are 2 d d + 3 x 2 d 4 d = 26 d^2 flop: for 8 tokens of width 4, 3328."""
    assert matrix.flop(matrix.block_shapes(8, 4)) == 26 * 4 * 4 * 8


def test_rates_are_flop_over_time(half_a_second) -> None:
    """A square product of size 1024 in half a second is 2 x 1024^3 / 0.5 flop/s, whatever the device did."""
    found = matrix.measure(CPU, ("fp32", "fp8"), 1.0, wait=no_wait)
    assert found["square_matrix_fp32_flop_per_s"].value == pytest.approx(2 * 1024**3 / 0.5)
    assert found.keys() == {f"{name}_fp32_flop_per_s" for name in matrix.NAMES}


def test_rates_are_bytes_over_time(half_a_second) -> None:
    """A copy reads and writes each byte, a sum of two arrays reads two and writes one."""
    found = bandwidth.measure(CPU, 1.0, wait=no_wait, array_bytes=4000)
    assert found["copy_bytes_per_s"].value == 2 * 4000 / 0.5
    assert found["add_bytes_per_s"].value == 3 * 4000 / 0.5


def test_products_and_sums_are_done() -> None:
    """What is timed computes what it says: nothing is left out that would make it fast."""
    a_copy, an_add = bandwidth.copy(CPU, 400)(), bandwidth.add(CPU, 400)()
    assert a_copy.sum() == 100
    assert an_add.sum() == 200


@pytest.mark.parametrize(("precision", "expected"), [("tf32", "high"), ("fp32", "highest")])
def test_only_tf32_is_rounded(precision: str, expected: str) -> None:
    """Within the block fp32 factors are rounded for tf32 only; afterwards it is as it was."""
    before = torch.get_float32_matmul_precision()
    with matrix.rounding(precision):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == before


def test_slopes_and_intercepts_are_found() -> None:
    """Steps of 2 ms and 30 us per kernel, updates of 40 us per tensor: the figures say so, of both families."""

    def family(kernels: float, tensors: float) -> list[Depth]:
        return [
            Depth(
                kernels=depth * kernels,
                tensors=depth * tensors,
                micro_steps_s=[2e-3 + 30e-6 * depth * kernels, 1.0, 0.0],
                updates_s=[1e-4 + 40e-6 * depth * tensors],
            )
            for depth in (1, 3, 6)
        ]

    found = figures_of_lines([family(40, 16), family(30, 12)], "made up")
    assert found["launch_kernel_s"].value == pytest.approx(30e-6)
    assert found["launch_step_s"].value == pytest.approx(2e-3)
    assert found["update_tensor_s"].value == pytest.approx(40e-6)
    assert found["launch_kernel_s"].num_samples == 24


def test_times_that_make_no_line_give_no_figure() -> None:
    """Where the deeper model was faster, the slope is no time of a kernel; it is left out and not set to zero."""
    depths = [
        Depth(kernels=10.0, tensors=10.0, micro_steps_s=[2e-3], updates_s=[1e-3]),
        Depth(kernels=20.0, tensors=20.0, micro_steps_s=[1e-3], updates_s=[2e-3]),
    ]
    assert figures_of_lines([depths], "made up").keys() == {"launch_step_s", "update_tensor_s"}


def test_traffic_is_what_products_leave_time_for() -> None:
    """Of 10 ms, 6 Gflop at 1 Tflop/s take 6: the other 4 move 8 MB at 2 GB/s. Where products take all, none is told."""
    timed = Layer(time_s=10e-3, products_flop_per_s=1e12, flop=6e9, traffic_bytes=8e6)
    assert timed.traffic_bytes_per_s == pytest.approx(2e9)
    assert replace(timed, flop=9.9e9).traffic_bytes_per_s is None
    assert replace(timed, flop=2e10).traffic_bytes_per_s is None


def test_work_of_a_layer() -> None:
    """Per token 72 d^2 flop in the weights of a layer (ffn 4 d), and 12 S d of attention."""
    architecture = from_sizes(
        "bert", head="classification", num_layers=1, hidden_size=128, num_heads=2, ffn_size=512, vocab_size=64
    )
    recipe = Recipe(batch_size=8, seq_len=64, precision="fp32", steps=1)
    flop, traffic_bytes = layer.counted(architecture, recipe)
    assert flop == pytest.approx(8 * 64 * (72 * 128**2 + 12 * 64 * 128))
    assert traffic_bytes > 8 * 64 * 128 * 4


def test_deeper_models_have_more_kernels_and_tensors() -> None:
    """Kernels of the blocks and tensors grow by the same amount with every layer."""
    counted = [
        launch.kernels_and_tensors(launch.narrow_model("bert", depth), launch.narrow_recipe()) for depth in (1, 2, 4)
    ]
    kernels, tensors = zip(*counted, strict=True)
    assert kernels[1] == 2 * kernels[0]
    assert kernels[2] == 4 * kernels[0]
    assert tensors[2] - tensors[1] == 2 * (tensors[1] - tensors[0]) == 32  # 16 tensors in a layer of BERT


@pytest.mark.parametrize(("strategy", "expected"), [("single", 0), ("fsdp", 3 * 5), ("tp", 6 * 4)])
def test_collectives_of_the_divided_step(strategy: str, expected: int) -> None:
    """FSDP: two gathers and a scatter of four blocks and the rest; TP on BERT: six all-reduces per block."""
    assert strategies.num_collectives(strategies.spec_of(strategy, "generic-cpu")) == expected


def test_collectives_are_tried_up_to_all_devices() -> None:
    """Powers of two and all: no count twice, none for one device."""
    assert collectives.counts(8) == (2, 4, 8)
    assert collectives.counts(3) == (2, 3)


def test_a_load_lasts_as_long_as_asked() -> None:
    """Portions of at most 50 ms are handed over until the time is over, each waited for."""
    clock = {"now": 0.0, "pending": 0}

    def call() -> None:
        clock["pending"] += 1

    def wait() -> None:
        clock["now"] += 0.01 * clock["pending"]
        clock["pending"] = 0

    count = load.keep_busy(call, 1.0, wait=wait, clock=lambda: clock["now"])
    assert count == pytest.approx(100, abs=5)
    assert 1.0 <= clock["now"] <= 1.0 + 2 * load.PORTION_S
    assert clock["pending"] == 0


@pytest.mark.parametrize("kind", load.LOADS)
def test_every_load_runs(kind: str, monkeypatch) -> None:
    """Each kind of load is a call that can be repeated."""
    monkeypatch.setitem(load.MATRIX, "cpu", (8, 8, 8))
    monkeypatch.setitem(bandwidth.ARRAY_BYTES, "cpu", 4096)
    call = load.make_load(kind, CPU, "fp32")
    assert load.keep_busy(call, 0.0, wait=no_wait) == 1
