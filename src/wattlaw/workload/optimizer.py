"""The update of the weights: what each optimizer computes, keeps and moves per parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattlaw.units import Quantity

#: PyTorch's multi-tensor kernels take up to 48 tensors of depth 3 and 320 blocks of 65,536 numbers per launch
#: (aten/src/ATen/native/cuda/MultiTensorApply.cuh and ForeachUtils).
TENSORS_PER_LAUNCH = 48
NUMBERS_PER_LAUNCH = 320 * 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One optimizer's rule, per parameter.

    Attributes:
        flop: additions, multiplications, divisions and roots.
        states_bytes: kept from one update to the next.
        factored: whether the second moment is kept as one row and one column per matrix (4 bytes each) instead.
        passes: multi-tensor kernels that walk through all parameters, in PyTorch's default (``foreach``) update.
        tensor_kernels: launches for each weight tensor apart.
    """

    flop: int
    states_bytes: int
    factored: bool = False
    passes: int
    tensor_kernels: int = 0


UPDATES = {
    # Forward and backward passes alone, as profilers time them.
    "none": Update(flop=0, states_bytes=0, passes=0),
    # w -= lr g
    "sgd": Update(flop=2, states_bytes=0, passes=1),
    # m = mu m + g; w -= lr m
    "momentum": Update(flop=4, states_bytes=4, passes=3),
    # Two moments (3 + 4), two corrections (2), root, epsilon, quotient (3), step (2): Kingma and Ba 2014, 1412.6980.
    "adam": Update(flop=14, states_bytes=8, passes=7),
    # And the decay of the weights, one product: Loshchilov and Hutter 2017, arXiv 1711.05101.
    "adamw": Update(flop=15, states_bytes=8, passes=8),
    # Both moments in 8 bits; de- and quantisation are two more products each: Dettmers et al. 2021, arXiv 2110.02861.
    "adamw-8bit": Update(flop=19, states_bytes=2, passes=0, tensor_kernels=1),
    # No first moment: squares and their means (4), outer product and root (2), quotient (1), clipping (3), step (2):
    # Shazeer and Stern 2018, arXiv 1804.04235, algorithm 4.
    "adafactor": Update(flop=12, states_bytes=0, factored=True, passes=14, tensor_kernels=6),
}


def launches(update: Update, *, tensors: Quantity, parameters: Quantity) -> Quantity:
    """Kernel launches of one update: each pass ends one where its list of tensors or its blocks are full."""
    per_pass = 1 + tensors / TENSORS_PER_LAUNCH + parameters / NUMBERS_PER_LAUNCH
    return update.passes * per_pass + update.tensor_kernels * tensors
