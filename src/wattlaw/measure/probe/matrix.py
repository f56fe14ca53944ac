"""Rate of matrix products in the shapes that a Transformer's blocks and its head have, per precision.

A block's products are [tokens, d] by [d, d] (queries, keys, values, output), by [d, 4 d] and back (the MLP), and in the
backward pass the same flop twice more; the shape that is new there is the weights' gradient, [d, tokens] by
[tokens, 4 d]. Each case is the flop of all of these over their time. Square products show what the device can do at
best.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from wattlaw.measure.probe.figure import Figure
from wattlaw.measure.probe.timing import sample_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

Shape = tuple[int, int, int]

#: (tokens, hidden size) of the blocks, by device: from small models up to what fills the device.
BLOCKS = {
    "cpu": ((256, 128), (512, 256), (1024, 384)),
    "cuda": ((4096, 512), (4096, 768), (8192, 1024), (8192, 2048), (8192, 4096)),
}
#: (tokens, hidden size, vocabulary) of the head.
HEADS = {"cpu": ((256, 128, 4000), (512, 256, 8000)), "cuda": ((4096, 768, 30522), (8192, 1024, 50257))}
SQUARES = {"cpu": (1024,), "cuda": (4096, 8192)}
#: Beginnings of the figures' names.
NAMES = ("matrix", "head_matrix", "square_matrix")
#: Formats that torch multiplies in; fp8 products are not torch.matmul's.
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
HALVES = ("bf16", "fp16")


def flop(shapes: tuple[Shape, ...]) -> float:
    """Operations of products [m, k] by [k, n]: 2 m k n each.

    >>> flop(((2, 3, 4),))
    48.0
    """
    return float(sum(2 * m * k * n for m, k, n in shapes))


def block_shapes(tokens: int, hidden_size: int) -> tuple[Shape, ...]:
    """Return the products of one block that stand for all: of the attention, of the MLP, of a weight's gradient."""
    wide = 4 * hidden_size
    return (
        (tokens, hidden_size, hidden_size),
        (tokens, hidden_size, wide),
        (tokens, wide, hidden_size),
        (hidden_size, tokens, wide),
    )


def measure(
    device: torch.device, precisions: tuple[str, ...], budget_s: float, *, wait: Callable[[], None]
) -> dict[str, Figure]:
    """Measure ``matrix_PRECISION_flop_per_s``, ``head_matrix_...`` and ``square_matrix_...``."""
    kind = device.type
    cases: dict[str, list[tuple[Shape, ...]]] = {
        "matrix": [block_shapes(*sizes) for sizes in BLOCKS[kind]],
        "head_matrix": [(sizes,) for sizes in HEADS[kind]],
        "square_matrix": [((size, size, size),) for size in SQUARES[kind]],
    }
    told = {
        "matrix": "products of Transformer blocks, geometric mean over sizes",
        "head_matrix": "products with a vocabulary, geometric mean over sizes",
        "square_matrix": "square products, geometric mean over sizes",
    }
    chosen = [precision for precision in precisions if precision in PRECISIONS]
    each_s = budget_s / max(1, len(chosen) * sum(len(shapes) for shapes in cases.values()))
    found = {}
    for precision in chosen:
        for name, groups in cases.items():
            rates, count = [], 0
            for shapes in groups:
                figure = rate(shapes, device, precision, each_s, wait=wait)
                rates.append(figure.value)
                count += figure.num_samples
            found[f"{name}_{precision}_flop_per_s"] = Figure.of_cases(
                rates, unit="flop/s", method=f"{precision}: {told[name]} {list(map(_sizes, groups))}", num_samples=count
            )
    return found


def rate(
    shapes: tuple[Shape, ...], device: torch.device, precision: str, budget_s: float, *, wait: Callable[[], None]
) -> Figure:
    """Measure the rate of some products one after another."""
    with rounding(precision):
        times_s = sample_times(multiply(shapes, device, precision), wait=wait, budget_s=budget_s)
    work = flop(shapes)
    return Figure.of_samples([work / time_s for time_s in times_s], unit="flop/s", method=str(shapes))


def multiply(shapes: tuple[Shape, ...], device: torch.device, precision: str) -> Callable[[], None]:
    """Make the factors, random as in a training and not zero, which would draw less power; return what multiplies."""
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    factors = [
        (
            torch.randn(m, k, device=device, dtype=dtype),
            torch.randn(k, n, device=device, dtype=dtype),
            torch.empty(m, n, device=device, dtype=dtype),
        )
        for m, k, n in shapes
    ]

    def call() -> None:
        for left, right, product in factors:
            torch.mm(left, right, out=product)

    return call


@contextmanager
def rounding(precision: str) -> Iterator[None]:
    """Let fp32 factors be rounded to TF32 for ``tf32`` and for nothing else."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _sizes(shapes: tuple[Shape, ...]) -> str:
    return "x".join(str(size) for size in shapes[0])
