"""The layout: over which devices a training step is divided, and along which axes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.units import Quantity, every

#: What each strategy divides: the name of its degree, and its ZeRO stage (0: every rank holds all weights,
#: 1: optimizer states are sharded, 2: gradients too, 3: weights as well). Rajbhandari et al. 2020, arXiv 1910.02054.
STRATEGIES = {
    "single": ("data_parallel", 0),
    "ddp": ("data_parallel", 0),
    "zero1": ("data_parallel", 1),
    "fsdp": ("data_parallel", 3),
    "fsdp-grad-op": ("data_parallel", 2),
    "tp": ("tensor_parallel", 0),
    "pp": ("pipeline_parallel", 0),
    "cp": ("context_parallel", 0),
    "ep": ("expert_parallel", 0),
}
#: Names of the ways to divide the data, by ZeRO stage.
DATA_STRATEGIES = {0: "ddp", 1: "zero1", 2: "fsdp-grad-op", 3: "fsdp"}
#: Degrees that a product may state; the data-parallel one is what they leave.
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of parallelism. Numbers may be columns, one entry per run.

    The degrees of data, tensor, pipeline and context parallelism multiply to the number of devices; the experts are
    dealt out among the ranks that hold the same weights otherwise.

    Attributes:
        data_parallel: groups of devices that train on different sequences.
        tensor_parallel: devices that divide each matrix.
        pipeline_parallel: stages that the blocks of the model are dealt out to.
        pipeline_interleaving: runs of blocks that each stage holds; 1 is the plain one-forward-one-backward schedule
            (Narayanan et al. 2021, arXiv 2104.04473, section 2.2).
        sequence_parallel: 1 where tensor-parallel devices also divide, by tokens, what they would otherwise repeat
            (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2).
        vocabulary_parallel: 1 where tensor parallelism divides the embedding and the last projection too, as Megatron
            does; 0 where it divides the blocks only.
        context_parallel: devices that divide each sequence, and pass keys and values around a ring (Liu et al. 2023,
            arXiv 2310.01889; Megatron-Core).
        expert_parallel: ranks that the experts of each block are dealt out to; tokens travel to them and back (Fedus
            et al. 2021, arXiv 2101.03961).
        zero_stage: what ranks with the same weights shard: 0 nothing (DDP), 1 optimizer states, 2 gradients too
            (FSDP SHARD_GRAD_OP), 3 weights too (FSDP FULL_SHARD).
        num_nodes: machines that the devices stand in, the same number in each.
    """

    data_parallel: Quantity = 1
    tensor_parallel: Quantity = 1
    pipeline_parallel: Quantity = 1
    pipeline_interleaving: Quantity = 1
    sequence_parallel: Quantity = 0
    vocabulary_parallel: Quantity = 0
    context_parallel: Quantity = 1
    expert_parallel: Quantity = 1
    zero_stage: Quantity = 0
    num_nodes: Quantity = 1

    def __post_init__(self) -> None:
        """Refuse degrees that are no whole numbers, flags that are none, and devices that do not fill their nodes."""
        for field in ("data_parallel", *DEGREES, "pipeline_interleaving", "num_nodes"):
            value = getattr(self, field)
            if not every((value >= 1) & (value % 1 == 0)):
                raise ConfigError(f"{field} must be a whole number of at least 1", given=value)
        for field in ("sequence_parallel", "vocabulary_parallel"):
            flag = getattr(self, field)
            if not every((flag == 0) | (flag == 1)):
                raise ConfigError(f"{field} must be 0 or 1", given=flag, allowed="0, 1")
        if not every((self.pipeline_interleaving == 1) | (self.pipeline_parallel > 1)):
            raise ConfigError("pipeline_interleaving needs a pipeline", given=self.pipeline_interleaving, allowed="1")
        stage = self.zero_stage
        if not every((stage >= 0) & (stage <= 3) & (stage % 1 == 0)):
            raise ConfigError("unknown zero_stage", given=stage, allowed="0, 1, 2, 3")
        if not every(self.replicas % self.expert_parallel == 0):
            raise ConfigError(
                "expert_parallel does not divide the ranks that hold the same weights",
                given=f"expert_parallel {self.expert_parallel}, {self.replicas} ranks",
                allowed=f"a divisor of {self.replicas}",
            )
        if not every(self.num_devices % self.num_nodes == 0):
            raise ConfigError(
                "the devices do not divide over the nodes",
                given=f"{self.num_devices} devices on {self.num_nodes} nodes",
                allowed="the same number of devices on every node",
            )

    @classmethod
    def of(
        cls,
        strategy: str,
        *,
        num_devices: int = 1,
        tensor_parallel: int | None = None,
        pipeline_parallel: int | None = None,
        context_parallel: int | None = None,
        expert_parallel: int | None = None,
        num_nodes: int = 1,
    ) -> Self:
        """Build the layout of a named strategy or product.

        The degrees are needed for products only (``"fsdp x tp"``, ``"tp x pp"``): the rest of the devices is
        data-parallel, or belongs to the one axis whose degree is not given. A pipeline's micro-batches are the
        recipe's ``grad_accumulation``. Experts (``"fsdp x ep"``) are dealt out to the ranks that there are without
        them, to all of these where no degree is given.

        >>> Layout.of("fsdp x tp", num_devices=8, tensor_parallel=2).data_parallel
        4
        >>> Layout.of("tp x pp", num_devices=8, pipeline_parallel=4).tensor_parallel
        2
        """
        parts = _factors(strategy)
        for part in parts:
            if part not in STRATEGIES:
                raise UnknownNameError.among("strategy", part, STRATEGIES, hint="a product such as 'fsdp x tp'")
        if not (num_devices >= 1 and num_devices % 1 == 0):
            raise ConfigError("num_devices must be a whole number of at least 1", given=num_devices)
        axes = [STRATEGIES[part][0] for part in parts]
        if len(set(axes)) != len(axes) or ("single" in parts and len(parts) > 1):
            raise ConfigError(
                "a product divides along different axes",
                given=strategy,
                allowed="ddp or fsdp, and tp, and pp, and cp, and ep",
            )
        if parts == ["single"] and num_devices != 1:
            raise ConfigError(
                "strategy single runs on one device",
                given=f"{num_devices} devices",
                allowed="1",
                hint=f"strategies {', '.join(name for name in STRATEGIES if name != 'single')}",
            )
        given = {
            "tensor_parallel": tensor_parallel,
            "pipeline_parallel": pipeline_parallel,
            "context_parallel": context_parallel,
        }
        dealt = "expert_parallel" in axes
        if expert_parallel not in (None, 1) and not dealt:
            raise ConfigError(
                "expert_parallel is given but the strategy has no ep", given=strategy, hint=f"'{strategy} x ep'"
            )
        others = [axis for axis in axes if axis != "expert_parallel"] or ["data_parallel"]
        degrees = _degrees(strategy, others, num_devices, given)
        if dealt:
            ranks = degrees.get("data_parallel", 1) * degrees.get("context_parallel", 1)
            degrees["expert_parallel"] = ranks if expert_parallel is None else expert_parallel
        return cls(**degrees, zero_stage=max(STRATEGIES[part][1] for part in parts), num_nodes=num_nodes)

    @property
    def num_devices(self) -> Quantity:
        """All devices of the job."""
        return _product(self.data_parallel, self.tensor_parallel, self.pipeline_parallel, self.context_parallel)

    @property
    def replicas(self) -> Quantity:
        """Ranks that hold the same weights, before these are sharded: of data and of context parallelism."""
        return _product(self.data_parallel, self.context_parallel)

    @property
    def devices_per_node(self) -> Quantity:
        """Devices in one node."""
        return self.num_devices / self.num_nodes

    @property
    def state_shards(self) -> Quantity:
        """Ranks that optimizer states are divided over; 1 where every rank holds all."""
        return 1 + (self.replicas - 1) * (self.zero_stage >= 1)

    @property
    def gradient_shards(self) -> Quantity:
        """Ranks that gradients are divided over; 1 where every rank holds all."""
        return 1 + (self.replicas - 1) * (self.zero_stage >= 2)

    @property
    def weight_shards(self) -> Quantity:
        """Ranks that weights are divided over; 1 where every rank holds all."""
        return 1 + (self.replicas - 1) * (self.zero_stage == 3)

    # Megatron and DeepSpeed deal devices out along the tensor axis first, then context, then data (the experts before
    # the other ranks), then pipeline.

    @property
    def tensor_ranks_per_node(self) -> Quantity:
        """Devices of one tensor-parallel group that stand in one node."""
        return smaller(self.tensor_parallel, self.devices_per_node)

    @property
    def replicas_per_node(self) -> Quantity:
        """Ranks that hold the same weights and stand in one node."""
        return smaller(self.replicas, larger(1, self.devices_per_node / self.tensor_parallel))

    @property
    def context_ranks_per_node(self) -> Quantity:
        """Devices that divide one sequence and stand in one node."""
        return smaller(self.context_parallel, larger(1, self.devices_per_node / self.tensor_parallel))

    @property
    def expert_ranks_per_node(self) -> Quantity:
        """Ranks that the experts are dealt out to and that stand in one node."""
        return smaller(self.expert_parallel, self.replicas_per_node)

    @property
    def stages_per_node(self) -> Quantity:
        """Stages of one pipeline that stand in one node."""
        return larger(1, self.devices_per_node / (self.tensor_parallel * self.replicas))

    @property
    def strategy(self) -> str:
        """The name of this layout, ``single`` where nothing is divided (one run only, not a column)."""
        data = DATA_STRATEGIES[int(self.zero_stage)]
        parts = [data] if self.data_parallel > 1 or self.zero_stage > 0 else []
        parts += ["tp"] if self.tensor_parallel > 1 else []
        parts += ["pp"] if self.pipeline_parallel > 1 else []
        parts += ["cp"] if self.context_parallel > 1 else []
        parts += ["ep"] if self.expert_parallel > 1 else []
        return " x ".join(parts) or "single"


def _factors(strategy: str) -> list[str]:
    """Split a product at its signs, of which ``x`` stands between spaces or names; an empty factor is refused."""
    parts = re.split(r"\s*[x*×+]\s*", strategy.strip().lower())
    if not all(parts):
        raise UnknownNameError.among("strategy", strategy, STRATEGIES, hint="a product such as 'fsdp x tp'")
    return parts


def _product(*degrees: Quantity) -> Quantity:
    """Multiply, without a pass over a column for a plain 1."""
    found: Quantity = 1
    for degree in degrees:
        if not plainly(degree, 1):
            found = degree if plainly(found, 1) else found * degree
    return found


def plainly(quantity: Quantity, value: float) -> bool:
    """Tell whether this is a number, of all runs, and that one: then a column need not be passed over."""
    return isinstance(quantity, int | float) and quantity == value


def divided(quantity: Quantity, divisor: Quantity) -> Quantity:
    """Divide; by a plain 1 without a pass over a column."""
    return quantity if plainly(divisor, 1) else quantity / divisor


def smaller(first: Quantity, second: Quantity) -> Quantity:
    """The smaller of two numbers, or of two columns entry by entry."""
    return first + (second - first) * (second < first)


def larger(first: Quantity, second: Quantity) -> Quantity:
    """The larger of two numbers, or of two columns entry by entry."""
    return first + (second - first) * (second > first)


def _degrees(strategy: str, axes: list[str], num_devices: int, given: dict[str, int | None]) -> dict[str, int]:
    """Deal the devices out to the axes of a strategy: what is given, and the rest to the one axis that is not."""
    known: dict[str, int] = {}
    for axis, degree in given.items():
        short = next(name for name, (its_axis, _) in STRATEGIES.items() if its_axis == axis)
        if axis in axes:
            known |= {} if degree is None else {axis: degree}
        elif degree not in (None, 1):
            raise ConfigError(
                f"{axis} is given but the strategy has no {short}", given=strategy, hint=f"'{strategy} x {short}'"
            )
    if len(axes) == 1 and known:
        ((axis, degree),) = known.items()
        if degree != num_devices:
            raise ConfigError(
                f"strategy {strategy} uses every device",
                given=f"{axis} {degree}",
                allowed=f"{num_devices}",
                hint=f"'ddp x {strategy}' or 'fsdp x {strategy}'",
            )
    open_axes = [axis for axis in axes if axis not in known]
    if "data_parallel" in open_axes:  # its degree is never given: it is what the others leave
        open_axes.remove("data_parallel")
        open_axes.append("data_parallel")
    if len(open_axes) > 1:
        raise ConfigError(
            f"strategy {strategy} needs {open_axes[0]}", given="none", allowed=f"a divisor of {num_devices}"
        )
    divisor = math.prod(known.values())
    if min(known.values(), default=1) < 1 or num_devices % divisor or (not open_axes and divisor != num_devices):
        raise ConfigError(
            f"the devices do not divide by {' x '.join(known)}",
            given=", ".join([f"{num_devices} devices", *(f"{axis} {degree}" for axis, degree in known.items())]),
            allowed=f"a divisor of {num_devices}" if open_axes else f"degrees whose product is {num_devices}",
        )
    return known | dict.fromkeys(open_axes, num_devices // divisor)
