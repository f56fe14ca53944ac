"""Strategies: how a model is divided over the ranks. One file each, with ``check`` and ``divide``.

``check(spec)`` refuses what the strategy cannot run and needs no torch; ``divide(model, ranks, spec)`` returns the
model as each rank trains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wattlaw.errors import ConfigError
from wattlaw.measure.sweep.strategies import ddp, fsdp, fsdp_tp, single, tp

if TYPE_CHECKING:
    from torch import nn

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.measure.sweep.strategies.divided import Divided
    from wattlaw.run import RunSpec


class Strategy(Protocol):
    """What a file of this package offers."""

    def check(self, spec: RunSpec) -> None:
        """Refuse what cannot be run."""
        ...

    def divide(self, model: nn.Module, ranks: Ranks, spec: RunSpec) -> Divided:
        """Divide the model over the ranks."""
        ...


#: Name of the layout (``Layout.strategy``) -> its file.
STRATEGIES: dict[str, Strategy] = {
    "single": single,
    "ddp": ddp,
    "fsdp": fsdp,
    "fsdp-grad-op": fsdp,
    "tp": tp,
    "fsdp x tp": fsdp_tp,
    "fsdp-grad-op x tp": fsdp_tp,
}


def strategy_of(spec: RunSpec) -> Strategy:
    """Return the strategy of a run.

    Raises:
        ConfigError: no file here runs this layout.
    """
    name = spec.layout.strategy
    if name not in STRATEGIES:
        raise ConfigError("this layout is not run in a sweep", given=name, allowed=", ".join(STRATEGIES))
    return STRATEGIES[name]
