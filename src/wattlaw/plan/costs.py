"""What configurations take: memory first, then time and energy of those that fit, chunk by chunk.

The arithmetic is that of single predictions (``workload``, ``parallel``, ``features``, ``law``) over columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattlaw import footprint
from wattlaw.errors import DataError
from wattlaw.features.batch import Batch, Devices, devices_of
from wattlaw.features.physical import physical
from wattlaw.features.table import Table
from wattlaw.law.beyond import toward_common
from wattlaw.law.interval import ends_of_runs
from wattlaw.law.laws import law_named
from wattlaw.law.step_terms import PARAMETERS, terms
from wattlaw.parallel.layout import Layout
from wattlaw.parallel.memory import device_memory
from wattlaw.plan.points import Points
from wattlaw.plan.space import CHUNK, LAYOUT_COLUMNS, Columns, Group, chunks, divisors, global_batch, groups
from wattlaw.workload import step_cost
from wattlaw.workload.cost import StepCost

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.problem import Problem
    from wattlaw.units import Quantity

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costed:
    """One chunk of configurations.

    Attributes:
        accelerator: name of the device that all of the chunk use.
        num_configurations: all of the chunk.
        points: those that fit into memory, with what they take.
        leanest: the one that needs the least memory for what its device allows; without time and energy.
    """

    accelerator: str
    num_configurations: int
    points: Points
    leanest: Points


def costed(problem: Problem, calibration: Calibration, *, chunk: int = CHUNK) -> Iterator[Costed]:
    """Cost every configuration of a problem, group by group and chunk by chunk, in an order of their own.

    Raises:
        ConfigError: the space has no device for the run's precision.
        DataError: the calibration's law does not know time and energy of a layout.
    """
    check_law(calibration)
    for place, group in enumerate(groups(problem.run, problem.space)):
        costs = GroupCosts.of(group, calibration)
        for columns in chunks(group, problem.space, size=chunk):
            yield _costed_chunk(problem, calibration, costs, place, columns)


def check_law(calibration: Calibration) -> None:
    """Refuse a law that does not read layouts and devices, or knows no time.

    Raises:
        DataError: with what to use instead.
    """
    if law_named(calibration.law).name != "step":
        raise DataError(
            "a plan needs a law that knows time and energy of every layout",
            given=f"the {calibration.law} law",
            hint="a calibration of the step law",
        )


def _costed_chunk(
    problem: Problem, calibration: Calibration, costs: GroupCosts, place: int, columns: dict[str, Numbers]
) -> Costed:
    count = len(columns["batch_size"])
    device = costs.group.offer.accelerator
    allowed_bytes = (1 - problem.limits.memory_free_fraction) * device.memory_bytes
    layout = costs.layout(columns)
    memory_bytes = costs.memory_bytes(columns, layout)
    devices = columns["data_parallel"] * columns["tensor_parallel"] * columns["pipeline_parallel"]
    points = Points(
        {
            **columns,
            "group": np.full(count, float(place)),
            "num_devices": devices,
            "memory_bytes": memory_bytes,
            "memory_allowed_bytes": np.full(count, allowed_bytes),
        }
    )
    leanest = points.take([int(np.argmin(memory_bytes))])
    fits = memory_bytes <= allowed_bytes
    if not fits.all():
        points = points.take(fits)
        layout = costs.layout(points.columns)
    return Costed(
        accelerator=device.name,
        num_configurations=count,
        points=with_costs(problem, calibration, costs, points, layout),
        leanest=leanest,
    )


def with_costs(problem: Problem, calibration: Calibration, costs: GroupCosts, points: Points, layout: Layout) -> Points:
    """Add time, energy, money and carbon to points of one group; with a confidence, their upper ends too."""
    count = len(points)
    columns = costs.physical(points.columns, layout)
    energy_j, duration_s = costs.estimate(columns, count)
    watts = points["num_devices"] * costs.group.offer.accelerator.power_limit_w
    found = {"duration_s": duration_s, "energy_j": energy_j, "max_power_w": watts}
    prices = problem.prices.of(costs.group.offer.accelerator.name)
    found |= priced(prices, points["num_devices"], energy_j, duration_s)
    limits = problem.limits
    if limits.confidence is not None and limits.bounds() and count:
        table = costs.table(columns, count)
        high = {
            target: values * np.exp(ends_of_runs(calibration, table, target=target, level=limits.confidence)[1])
            for target, values in (("energy", energy_j), ("duration", duration_s))
        }
        upper = priced(prices, points["num_devices"], high["energy"], high["duration"])
        found |= {f"{name}_high": values for name, values in upper.items()} | {"duration_s_high": high["duration"]}
    elif limits.confidence is not None and limits.bounds():
        names = ("facility_energy_j", "money", "carbon_g")
        found |= {f"{name}_high": found[name] for name in names if name in found} | {"duration_s_high": duration_s}
    return points.with_columns(**found)


def priced(prices: footprint.Prices, num_devices: Quantity, energy_j: Quantity, duration_s: Quantity) -> dict[str, Any]:
    """Return energy of the facility, money and carbon, as far as there are prices, by the names of their columns."""
    facility_j = footprint.facility_energy_j(energy_j, prices)
    found = {
        "facility_energy_j": facility_j,
        "money": footprint.money(duration_s, num_devices, facility_j, prices),
        "carbon_g": footprint.carbon_g(facility_j, prices),
    }
    return {name: values for name, values in found.items() if values is not None}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupCosts:
    """What is the same for all configurations of a group.

    Attributes:
        group: of configurations.
        calibration: of the step law.
        parameters: its parameters for the group's accelerator.
        micro_batches: sizes that divide the global batch.
        step: cost of the undivided model, with one entry per micro-batch where it depends on that.
        devices: figures of the accelerator, within one node.
        network_bytes_per_s: between nodes; the link's where there is one node.
    """

    group: Group
    calibration: Calibration
    parameters: Mapping[str, float]
    micro_batches: Numbers
    step: StepCost
    devices: Devices
    network_bytes_per_s: float

    @classmethod
    def of(cls, group: Group, calibration: Calibration) -> GroupCosts:
        """Look up and compute what the configurations of a group have in common."""
        batch = global_batch(group.run)
        name = group.offer.accelerator.name
        seen = calibration.machines.get(name)
        one = {**dict.fromkeys(LAYOUT_COLUMNS, 1.0), "zero_stage": 0.0, "batch_size": 1.0, "grad_accumulation": 1.0}
        spec = group.spec({**one, "power_cap_w": float("inf")})
        devices, network = devices_of(spec), 0.0
        if group.offer.node is not None:
            network = group.offer.node.inter_node_link.bytes_per_s
        micro = divisors(batch)
        return cls(
            group=group,
            calibration=calibration,
            parameters=calibration.parameters if seen is None else seen.parameters,
            micro_batches=micro,
            step=step_cost(
                group.run.architecture, replace(group.recipe, batch_size=micro), attention="full", head="counted"
            ),
            devices=devices,
            network_bytes_per_s=network or float(devices.link_bytes_per_s),
        )

    def memory_bytes(self, columns: Columns, layout: Layout) -> Numbers:
        """Return what a framework reserves on the fullest device of each configuration."""
        places = np.searchsorted(self.micro_batches, columns["batch_size"])
        size = self.micro_batches.size
        taken = {
            field.name: value[places] if getattr(value := getattr(self.step, field.name), "size", 0) == size > 1
            else float(np.squeeze(value))
            for field in fields(StepCost)
        }  # fmt: skip
        memory = device_memory(StepCost(**taken), layout, micro_batches=_column(columns["grad_accumulation"]))
        return _full(memory.reserved_bytes, len(places))

    def physical(self, columns: Columns, layout: Layout) -> Mapping[str, Quantity]:
        """Return the columns that the law reads; what is the same for all is one number."""
        network: Quantity = self.devices.network_bytes_per_s
        if not isinstance(layout.num_nodes, float) or layout.num_nodes > 1:
            network = np.where(np.asarray(layout.num_nodes) > 1, self.network_bytes_per_s, network)
        recipe = replace(
            self.group.recipe,
            batch_size=_column(columns["batch_size"]),
            grad_accumulation=_column(columns["grad_accumulation"]),
        )
        return physical(
            Batch(
                architecture=self.group.run.architecture,
                recipe=recipe,
                layout=layout,
                devices=self._devices(network, columns["power_cap_w"]),
            )
        )

    def estimate(self, columns: Mapping[str, Quantity], count: int) -> tuple[Numbers, Numbers]:
        """Return energy and duration of each configuration, from the columns that the law reads."""
        seen = self.calibration.machines.get(self.group.offer.accelerator.name)
        if count and seen is not None and seen.process is not None:
            found = law_named(self.calibration.law).estimate(self.calibration, self.table(columns, count))
            assert found.duration_s is not None
            return found.energy_j, found.duration_s
        parameters: dict[str, Any] = {one.name: self.parameters[one.name] for one in PARAMETERS}
        parameters["matrix_fraction"] = toward_common(
            parameters["matrix_fraction"], self.calibration, self.group.offer.accelerator.name, columns
        )
        alone = terms(parameters, columns)
        return _full(alone.energy_j, count), _full(alone.duration_s, count)

    def table(self, columns: Mapping[str, Quantity], count: int) -> Table:
        """Lay the columns out as a table, with the machine."""
        whole = {name: _full(values, count) for name, values in columns.items()}
        return Table({**whole, "machine": np.full(count, self.group.offer.accelerator.name)})

    def layout(self, columns: Columns) -> Layout:
        """Return the layouts of the configurations as one whose numbers are columns."""
        own = self.group.run.layout
        return Layout(
            **{name: _column(columns[name]) for name in LAYOUT_COLUMNS},
            sequence_parallel=own.sequence_parallel,
            vocabulary_parallel=own.vocabulary_parallel,
        )

    def _devices(self, network: Quantity, cap_w: Numbers) -> Devices:
        limit_w = self.group.offer.accelerator.power_limit_w
        return replace(self.devices, network_bytes_per_s=network, power_cap_w=_column(np.minimum(cap_w, limit_w)))


def _column(values: Numbers) -> Quantity:
    """A column, or its number where all entries are the same: arithmetic then skips it."""
    return float(values[0]) if len(values) and (values == values[0]).all() else values


def _full(values: Any, count: int) -> Numbers:
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (count,))
