"""A model as one rank trains it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


def _every_micro_step(last: bool) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """A model as one rank trains it.

    Attributes:
        model: takes a batch and returns a loss.
        micro_step: what a micro-step runs in; its argument tells whether it is the last of the optimizer step.
        casts: whether the model brings its own mixed precision, so that none is put around it.
    """

    model: nn.Module
    micro_step: Callable[[bool], AbstractContextManager[None]] = _every_micro_step
    casts: bool = False
