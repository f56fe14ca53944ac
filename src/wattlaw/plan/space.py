"""What may vary: every way of running one training, as columns of numbers.

Nothing here is one object per configuration. What is not a number (accelerator, precision, optimizer, checkpointing,
attention kernel, adapters) makes a ``Group``; within a group the layouts are rows of a small table, and micro-batches
multiply them chunk by chunk, and power caps each chunk, so that memory does not grow with the space.

The global batch is that of the run and never changes: micro-batch times accumulation times data-parallel ranks. So
everything here trains the same model on the same data in the same steps, but for what the user allows to vary on
purpose (precision, optimizer, adapters).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.hardware import Accelerator, NodeType
from wattlaw.parallel.layout import Layout
from wattlaw.plan.layouts import LAYOUT_COLUMNS, canonical_strategy, chosen, divisors, layouts
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe
from wattlaw.workload.recipe import AttentionKernel, Checkpointing, Optimizer, Precision

#: More devices than this do not stand in one machine of any kind that we know.
MOST_WITHOUT_NODE = 16
#: Configurations that are costed at once: their columns stay in the cache of a core.
CHUNK = 8192
#: Axes that are searched where somebody asks for them.
ALSO = ("zero1", "cp")
#: No cap: the board's own limit.
UNCAPPED = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Devices of one kind that the user has or may rent.

    Attributes:
        accelerator: the kind of device.
        num_devices: at most.
        node: the machine that they stand in; ``None`` where all stand in one machine of which no more is known.
        power_caps_w: caps to choose from, each below the board's own limit, which is always among the choices.
    """

    accelerator: Accelerator
    num_devices: int
    node: NodeType | None = None
    power_caps_w: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse counts that are none, a node without such devices, and caps that are none."""
        name, limit_w = self.accelerator.name, self.accelerator.power_limit_w
        if self.num_devices < 1 or self.num_devices % 1:
            raise ConfigError("a number of devices is whole", given=self.num_devices, allowed=">= 1").at(name)
        if self.node is not None:
            self.node.link_of(self.accelerator)
        elif self.num_devices > MOST_WITHOUT_NODE:
            raise ConfigError(
                "so many devices stand in several nodes, whose kind says how they talk",
                given=f"{name}:{self.num_devices}",
                allowed=f"at most {MOST_WITHOUT_NODE} without a node type",
                hint=f"{name}:{self.num_devices}@dgx-a100, or any of `wattlaw hardware list`",
            )
        for cap_w in self.power_caps_w:
            if not 0 < cap_w <= limit_w:
                raise ConfigError(
                    f"no power cap of a {name}", given=f"{cap_w:g} W", allowed=f"above 0, at most its {limit_w:g} W"
                )

    def num_nodes(self, num_devices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fewest nodes that hold each number of devices."""
        per_node = np.inf if self.node is None else self.node.accelerators_per_node
        return np.maximum(1.0, np.ceil(num_devices / per_node))


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What may vary. An empty tuple is every value that is possible, or, of what changes the result, the run's own.

    Attributes:
        offers: accelerators to choose from, and how many of each; one kind per run.
        strategies: names and products, such as ``fsdp x tp``; empty for all that the degrees below allow.
        device_counts: numbers of devices; empty for every number up to the offer's.
        tensor_parallel: degrees; empty for every divisor of heads and MLP.
        pipeline_parallel: stages; empty for every divisor of the blocks.
        also: ``zero1`` and ``cp`` where they are not searched unasked: the first is of fused frameworks, the second
            with less than ``layouts.LEAST_CONTEXT`` tokens for each device.
        pipeline_interleavings: runs of blocks per stage.
        context_parallel: degrees; empty for those that leave each device of a causal model enough tokens, and for
            every one where ``cp`` is asked for.
        expert_parallel: degrees; empty for every divisor of the experts.
        micro_batches: sequences per rank and micro-step; empty for every divisor of the global batch.
        checkpointings: what is computed again. ``selective`` changes nothing under a fused attention kernel.
        attention_kernels: empty for the run's own.
        precisions: empty for the run's own: it changes the result.
        optimizers: empty for the run's own: it changes the result.
        adapter_ranks: 0 trains all weights; empty for the run's own: it changes the result.
    """

    offers: tuple[Offer, ...]
    strategies: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    device_counts: tuple[int, ...] = ()
    tensor_parallel: tuple[int, ...] = ()
    pipeline_parallel: tuple[int, ...] = ()
    pipeline_interleavings: tuple[int, ...] = (1,)
    context_parallel: tuple[int, ...] = ()
    expert_parallel: tuple[int, ...] = ()
    micro_batches: tuple[int, ...] = ()
    checkpointings: tuple[Checkpointing, ...] = ("none", "full")
    attention_kernels: tuple[AttentionKernel, ...] = ()
    precisions: tuple[Precision, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    adapter_ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a space without devices, one kind offered twice, unknown strategies, and counts below 1."""
        if not self.offers:
            raise ConfigError("nothing to run on", given="no devices", allowed="one kind or more", hint="--gpus NAME:8")
        names = [(offer.accelerator.name, offer.node and offer.node.name) for offer in self.offers]
        if len(set(names)) < len(names):
            twice = next(name for name, _ in names if sum(name == other for other, _ in names) > 1)
            raise ConfigError("one kind of device is offered twice", given=twice, allowed="once, with the sum")
        for name in self.strategies:
            canonical_strategy(name)
        for name in self.also:
            if name not in ALSO:
                raise UnknownNameError.among("axis to search besides", name, ALSO)
        for field in (
            "device_counts",
            "tensor_parallel",
            "pipeline_parallel",
            "pipeline_interleavings",
            "context_parallel",
            "expert_parallel",
            "micro_batches",
        ):
            if any(value < 1 or value % 1 for value in getattr(self, field)):
                raise ConfigError(f"{field} are whole numbers", given=getattr(self, field), allowed=">= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Configurations that differ in numbers only.

    Attributes:
        run: whose model, amount and global batch they have.
        offer: the devices.
        recipe: with the group's precision, optimizer, checkpointing, attention kernel and adapters.
    """

    run: RunSpec
    offer: Offer
    recipe: Recipe

    @property
    def key(self) -> tuple[str, ...]:
        """What tells groups apart and puts them in an order that does not depend on the user's."""
        recipe, node = self.recipe, self.offer.node
        names = (recipe.precision, recipe.optimizer, recipe.checkpointing, recipe.attention_kernel)
        return (self.offer.accelerator.name, node.name if node else "", *names, f"{recipe.adapter_rank:08.0f}")

    def spec(self, row: Mapping[str, float]) -> RunSpec:
        """Build the run spec of one configuration."""
        cap_w = row["power_cap_w"]
        return RunSpec(
            architecture=self.run.architecture,
            recipe=replace(
                self.recipe, batch_size=int(row["batch_size"]), grad_accumulation=int(row["grad_accumulation"])
            ),
            layout=Layout(
                **{name: int(row[name]) for name in LAYOUT_COLUMNS},
                sequence_parallel=self.run.layout.sequence_parallel,
                vocabulary_parallel=self.run.layout.vocabulary_parallel,
            ),
            accelerator=self.offer.accelerator,
            node=self.offer.node,
            power_limit_w=None if cap_w == UNCAPPED else float(cap_w),
            name=self.run.name,
        )


#: Columns that tell the configurations of a group apart.
CHOICE_COLUMNS = (*LAYOUT_COLUMNS, "batch_size", "grad_accumulation", "power_cap_w")


def global_batch(run: RunSpec) -> int:
    """Sequences per optimizer step of a run, which no plan changes."""
    return int(run.recipe.batch_size * run.recipe.grad_accumulation * run.layout.data_parallel)


def groups(run: RunSpec, space: Space) -> tuple[Group, ...]:
    """List the groups of a space, in an order of their own; devices that lack a precision have none.

    Raises:
        ConfigError: no device has a rate for any of the precisions, or a name is unknown.
    """
    own = run.recipe
    checkpointings = space.checkpointings or (own.checkpointing,)
    found = []
    for offer, precision, optimizer, checkpointing, kernel, rank in product(
        space.offers,
        space.precisions or (own.precision,),
        space.optimizers or (own.optimizer,),
        checkpointings,
        space.attention_kernels or (own.attention_kernel,),
        space.adapter_ranks or (own.adapter_rank,),
    ):
        recipe = replace(
            own,
            precision=precision,
            optimizer=optimizer,
            checkpointing=checkpointing,
            attention_kernel=kernel,
            adapter_rank=rank,
        )
        same_as_none = checkpointing == "selective" and kernel == "fused" and "none" in checkpointings
        if precision in offer.accelerator.precisions and not same_as_none:
            found.append(Group(run=run, offer=offer, recipe=recipe))
    if not found:
        raise ConfigError(
            "no device offered computes in this precision",
            given=", ".join(space.precisions or (own.precision,)),
            allowed="; ".join(
                f"{offer.accelerator.name}: {', '.join(offer.accelerator.precisions)}" for offer in space.offers
            ),
        )
    unique = {group.key: group for group in found}
    return tuple(unique[key] for key in sorted(unique))


def caps_w(group: Group) -> tuple[float, ...]:
    """List the power caps of a group, the loosest first; none at all is ``UNCAPPED``."""
    below = {cap_w for cap_w in group.offer.power_caps_w if cap_w < group.offer.accelerator.power_limit_w}
    return (UNCAPPED, *sorted(below, reverse=True))


def chunks(group: Group, space: Space, *, size: int = CHUNK) -> Iterator[dict[str, NDArray[np.float64]]]:
    """Yield the configurations of a group, at most about ``size`` at once, under no cap, in ``CHOICE_COLUMNS``."""
    batch = global_batch(group.run)
    table = layouts(group.run, batch, space, group.offer)
    choices = {data: chosen(divisors(batch // int(data)), space.micro_batches) for data in set(table["data_parallel"])}
    counts = np.array([len(choices[data]) for data in table["data_parallel"]], dtype=np.intp)
    ends = np.cumsum(counts)
    start, before = 0, 0
    while start < len(counts):
        stop = max(start + 1, int(np.searchsorted(ends, before + size, side="right")))
        rows = np.repeat(np.arange(start, stop), counts[start:stop])
        if len(rows):
            micro = np.concatenate([choices[data] for data in table["data_parallel"][start:stop]])
            columns = {name: values[rows] for name, values in table.items()}
            columns["batch_size"] = micro
            columns["grad_accumulation"] = batch / (columns["data_parallel"] * micro)
            yield columns | {"power_cap_w": np.full(len(rows), UNCAPPED)}
        start, before = stop, int(ends[stop - 1])
