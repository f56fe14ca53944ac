"""The layout: over which devices a training step is divided, and along which axes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.units import Quantity, every

#: What each strategy divides: the name of its degree, and its ZeRO stage (0: every rank holds all weights,
#: 2: gradients and optimizer states are sharded, 3: weights as well). Rajbhandari et al. 2020, arXiv 1910.02054.
STRATEGIES = {
    "single": ("data_parallel", 0),
    "ddp": ("data_parallel", 0),
    "fsdp": ("data_parallel", 3),
    "fsdp-grad-op": ("data_parallel", 2),
    "tp": ("tensor_parallel", 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of parallelism; their product is the number of devices. Numbers may be columns, one entry per run.

    Attributes:
        data_parallel: groups of devices that train on different sequences.
        tensor_parallel: devices that divide each matrix.
        zero_stage: what data-parallel ranks shard: 0 nothing (DDP), 2 gradients and optimizer states
            (FSDP SHARD_GRAD_OP), 3 weights too (FSDP FULL_SHARD).
        num_nodes: machines that the devices stand in, the same number in each.
    """

    data_parallel: Quantity = 1
    tensor_parallel: Quantity = 1
    zero_stage: Quantity = 0
    num_nodes: Quantity = 1

    def __post_init__(self) -> None:
        """Refuse degrees that are no whole numbers, and devices that do not fill their nodes."""
        for field in ("data_parallel", "tensor_parallel", "num_nodes"):
            value = getattr(self, field)
            if not every((value >= 1) & (value % 1 == 0)):
                raise ConfigError(f"{field} must be a whole number of at least 1", given=value)
        if not every((self.zero_stage == 0) | (self.zero_stage == 2) | (self.zero_stage == 3)):
            raise ConfigError("unknown zero_stage", given=self.zero_stage, allowed="0, 2, 3")
        if not every(self.num_devices % self.num_nodes == 0):
            raise ConfigError(
                "the devices do not divide over the nodes",
                given=f"{self.num_devices} devices on {self.num_nodes} nodes",
                allowed="the same number of devices on every node",
            )

    @classmethod
    def of(cls, strategy: str, *, num_devices: int = 1, tensor_parallel: int | None = None, num_nodes: int = 1) -> Self:
        """Build the layout of a named strategy or product.

        ``tensor_parallel`` is needed for products only (``"fsdp x tp"``): the rest of the devices is data-parallel.

        >>> Layout.of("fsdp x tp", num_devices=8, tensor_parallel=2).data_parallel
        4
        """
        parts = [part for part in re.split(r"\s*[x*×+]\s*", strategy.strip().lower()) if part]
        for part in parts or [strategy]:
            if part not in STRATEGIES:
                raise UnknownNameError.among("strategy", part, STRATEGIES, hint="a product such as 'fsdp x tp'")
        if not (num_devices >= 1 and num_devices % 1 == 0):
            raise ConfigError("num_devices must be a whole number of at least 1", given=num_devices)
        axes = [STRATEGIES[part][0] for part in parts]
        if len(set(axes)) != len(axes) or ("single" in parts and len(parts) > 1):
            raise ConfigError("a product divides along different axes", given=strategy, allowed="ddp or fsdp, and tp")
        if parts == ["single"] and num_devices != 1:
            raise ConfigError(
                "strategy single runs on one device",
                given=f"{num_devices} devices",
                allowed="1",
                hint=f"strategies {', '.join(name for name in STRATEGIES if name != 'single')}",
            )
        tensor = _tensor_degree(axes, num_devices, tensor_parallel, strategy)
        stage = max(STRATEGIES[part][1] for part in parts)
        return cls(data_parallel=num_devices // tensor, tensor_parallel=tensor, zero_stage=stage, num_nodes=num_nodes)

    @property
    def num_devices(self) -> Quantity:
        """All devices of the job."""
        return self.data_parallel * self.tensor_parallel

    @property
    def devices_per_node(self) -> Quantity:
        """Devices in one node."""
        return self.num_devices / self.num_nodes

    @property
    def strategy(self) -> str:
        """The name of this layout, ``single`` where nothing is divided (one run only, not a column)."""
        data = {0: "ddp", 2: "fsdp-grad-op", 3: "fsdp"}[int(self.zero_stage)]
        parts = [data] if self.data_parallel > 1 or self.zero_stage > 0 else []
        parts += ["tp"] if self.tensor_parallel > 1 else []
        return " x ".join(parts) or "single"


def _tensor_degree(axes: list[str], num_devices: int, tensor_parallel: int | None, strategy: str) -> int:
    if "tensor_parallel" not in axes:
        if tensor_parallel not in (None, 1):
            raise ConfigError(
                "tensor_parallel is given but the strategy has no tp", given=strategy, hint=f"'{strategy} x tp'"
            )
        return 1
    if len(axes) == 1:
        if tensor_parallel not in (None, num_devices):
            raise ConfigError(
                "strategy tp uses every device",
                given=f"tensor_parallel {tensor_parallel}",
                allowed=f"{num_devices}",
                hint="'ddp x tp' or 'fsdp x tp'",
            )
        return num_devices
    if tensor_parallel is None:
        raise ConfigError(
            f"strategy {strategy} needs tensor_parallel", given="none", allowed=f"a divisor of {num_devices}"
        )
    if tensor_parallel < 1 or num_devices % tensor_parallel:
        raise ConfigError(
            "the devices do not divide by tensor_parallel",
            given=f"{num_devices} devices, tensor_parallel {tensor_parallel}",
            allowed=f"a divisor of {num_devices}",
        )
    return tensor_parallel
