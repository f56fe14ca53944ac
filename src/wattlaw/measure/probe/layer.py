"""How fast a whole layer gets through its traffic: what is left of its time when its matrix products are taken off.

A layer's norms, activations, softmax and dropout read and write little per byte of their operands, and seldom at the
rate of a long copy: on GPUs they read again what has left a cache, on CPUs they compute. So a real block is timed, by
the difference of models of two depths; its products alone, in the same shapes and in turns with it, so that both meet
the same disturbances; and the rest of the time is divided into the bytes that the list of operations counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from wattlaw.measure.probe import matrix
from wattlaw.measure.probe.figure import Figure
from wattlaw.measure.probe.launch import Trained, formats
from wattlaw.measure.probe.timing import in_turns
from wattlaw.workload import Architecture, Recipe, from_sizes, operations

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

NAMES = ("layer_traffic_bytes_per_s",)
#: (hidden size, sequences, tokens per sequence), by device: so large that a GPU, and not its host, bounds the step; on
#: a CPU small ones too, since what each operation costs before it computes adds to its time there.
SIZES = {"cpu": ((64, 8, 128), (128, 8, 64), (256, 4, 128)), "cuda": ((1024, 64, 512), (2048, 32, 512))}
DEPTHS = (1, 3)
HEAD_SIZE, VOCAB_SIZE = 64, 64
#: Less than this share of a layer's time beside its products is within the noise.
LEAST_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What was timed of one layer, and what is counted of it.

    Attributes:
        time_s: forward and backward pass.
        products_flop_per_s: rate of its products alone.
        flop: of the layer.
        traffic_bytes: of the layer.
    """

    time_s: float
    products_flop_per_s: float
    flop: float
    traffic_bytes: float

    @property
    def traffic_bytes_per_s(self) -> float | None:
        """Bytes over the time that the products leave; ``None`` where they leave next to none."""
        left_s = self.time_s - self.flop / self.products_flop_per_s
        return self.traffic_bytes / left_s if left_s > LEAST_SHARE * self.time_s else None


def measure(
    device: torch.device, precisions: tuple[str, ...], budget_s: float, *, wait: Callable[[], None]
) -> dict[str, Figure]:
    """Measure ``layer_traffic_bytes_per_s``."""
    cases = [(size, precision) for size in SIZES[device.type] for precision in formats(device, precisions)]
    rates, count = [], 0
    for size, precision in cases:
        layer, samples = _time(device, size, precision, budget_s / len(cases), wait=wait)
        count += samples
        if layer.traffic_bytes_per_s is not None:
            rates.append(layer.traffic_bytes_per_s)
    if not rates:
        return {}
    told = ", ".join(f"{precision} {'x'.join(map(str, size))}" for size, precision in cases)
    method = f"bytes of a BERT layer over its time beside its products: {told}"
    return {NAMES[0]: Figure.of_cases(rates, unit="B/s", method=method, num_samples=count)}


def _time(
    device: torch.device, size: tuple[int, int, int], precision: str, budget_s: float, *, wait: Callable[[], None]
) -> tuple[Layer, int]:
    hidden_size, num_sequences, seq_len = size
    recipe = Recipe(batch_size=num_sequences, seq_len=seq_len, precision=precision, optimizer="sgd", steps=1)  # type: ignore[arg-type]
    short, deep = (Trained(_model(hidden_size, depth), recipe, device) for depth in DEPTHS)
    shapes = matrix.block_shapes(num_sequences * seq_len, hidden_size)
    with matrix.rounding(precision):
        products = matrix.multiply(shapes, device, precision)
        calls = (short.micro_step, deep.micro_step, products)
        times_s = in_turns(calls, wait=wait, budget_s=budget_s, rounds=4, fewest=2)
    short_s, deep_s, products_s = map(median, times_s)
    flop, traffic_bytes = counted(_model(hidden_size, 1), recipe)
    layer = Layer(
        time_s=(deep_s - short_s) / (DEPTHS[1] - DEPTHS[0]),
        products_flop_per_s=matrix.flop(shapes) / products_s,
        flop=flop,
        traffic_bytes=traffic_bytes,
    )
    return layer, sum(map(len, times_s))


def counted(architecture: Architecture, recipe: Recipe) -> tuple[float, float]:
    """Count the flop and the bytes of the blocks in one micro-step."""
    work = [one for one in operations(architecture, recipe, attention="causal", head="counted") if one.in_block]
    flop = sum(float(one.repeats * (one.forward_flop + one.backward_flop)) for one in work)
    return flop, sum(float(one.repeats * (one.forward_bytes + one.backward_bytes)) for one in work)


def _model(hidden_size: int, num_layers: int) -> Architecture:
    return from_sizes(
        "bert", head="classification", num_layers=num_layers, hidden_size=hidden_size,
        num_heads=hidden_size // HEAD_SIZE, ffn_size=4 * hidden_size, vocab_size=VOCAB_SIZE,
    )  # fmt: skip
