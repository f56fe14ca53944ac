"""What configurations take: memory first, then time and energy of those that fit, chunk by chunk.

The arithmetic is that of single predictions (``workload``, ``parallel``, ``features``, ``law``) over columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wattlaw import footprint
from wattlaw.errors import DataError
from wattlaw.features.batch import Batch, Devices, devices_of
from wattlaw.features.physical import physical
from wattlaw.features.table import Table
from wattlaw.law.beyond import step_parameters
from wattlaw.law.interval import ends_of_runs
from wattlaw.law.laws import law_named
from wattlaw.law.power_cap import drawn_w
from wattlaw.law.step_terms import energies, powers, terms
from wattlaw.law.step_times import run_at
from wattlaw.parallel.layout import Layout
from wattlaw.parallel.memory import device_memory
from wattlaw.plan.layouts import LAYOUT_COLUMNS, Columns, divisors
from wattlaw.plan.limits import COLUMNS as BOUNDED
from wattlaw.plan.points import Points
from wattlaw.plan.space import CHUNK, UNCAPPED, Group, caps_w, chunks, global_batch, groups
from wattlaw.workload import step_cost
from wattlaw.workload.cost import StepCost

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan.problem import Problem
    from wattlaw.units import Quantity

Numbers = NDArray[np.float64]

#: Limit -> what it needs the upper end of.
UPPER_ENDS = {
    "deadline": ("duration",),
    "energy": ("energy",),
    "money": ("duration", "energy"),
    "carbon": ("energy",),
    "devices": (),
}
#: Share of the power under a cap that a search for the clock is sure to find.
SOLVED = 0.999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costed:
    """One chunk of configurations under one power cap.

    Attributes:
        accelerator: name of the device that all of the chunk use.
        num_configurations: all of the chunk.
        points: those that fit into memory, with what they take.
        dropped: those that fit and are of no use whatever they take, with the least that they may take.
        leanest: the one that needs the least memory for what its device allows; without time and energy.
    """

    accelerator: str
    num_configurations: int
    points: Points
    dropped: Points | None
    leanest: Points


class Hopes(Protocol):
    """Who collects points and knows which more could be of use."""

    def may_keep(self, floors: Points) -> NDArray[np.bool_]:
        """Tell which points may be collected for how they keep the limits, if they take no less than these."""
        ...

    def may_lead(self, floors: Points) -> NDArray[np.bool_]:
        """Tell which points may be on the front of time and energy, if they take no less than these."""
        ...


def costed(
    problem: Problem, calibration: Calibration, *, chunk: int = CHUNK, hopes: Hopes | None = None
) -> Iterator[Costed]:
    """Cost every configuration of a problem, group by group and chunk by chunk, in an order of their own.

    Time and energy under a power cap, and upper ends, are dear. Where somebody says what could still be of use, they
    are computed for that alone: a cap makes nothing faster and leaves a device no less power than the law's governor
    draws, and an upper end is not below its middle, which are lower bounds that cost nothing.

    Args:
        problem: what is asked.
        calibration: of the step law.
        chunk: configurations at once.
        hopes: what could still be of use; everything where nobody says.

    Raises:
        ConfigError: the space has no device for the run's precision.
        DataError: the calibration's law does not know time and energy of a layout.
    """
    check_law(calibration)
    for place, group in enumerate(groups(problem.run, problem.space)):
        costs = GroupCosts.of(group, calibration)
        for columns in chunks(group, problem.space, size=chunk):
            yield from _costed_chunk(problem, costs, place, columns, hopes)


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
    problem: Problem, costs: GroupCosts, place: int, columns: dict[str, Numbers], hopes: Hopes | None
) -> Iterator[Costed]:
    count = len(columns["batch_size"])
    device = costs.group.offer.accelerator
    allowed_bytes = (1 - problem.limits.memory_free_fraction) * device.memory_bytes
    layout = costs.layout(columns)
    memory_bytes = costs.memory_bytes(columns, layout)
    points = Points(
        {
            **columns,
            "group": np.full(count, float(place)),
            "num_devices": _full(layout.num_devices, count),
            "memory_bytes": memory_bytes,
            "memory_allowed_bytes": np.full(count, allowed_bytes),
        }
    )
    leanest = points.take([int(np.argmin(memory_bytes))])
    fits = memory_bytes <= allowed_bytes
    if not fits.all():
        points = points.take(fits)
        layout = costs.layout(points.columns)
    read = costs.physical(points.columns, layout)
    for cap_w in caps_w(costs.group):
        kept, dropped = _under_cap(problem, costs, points, read, cap_w, hopes)
        yield Costed(
            accelerator=device.name, num_configurations=count, points=kept, dropped=dropped, leanest=leanest
        )  # fmt: skip


def _under_cap(
    problem: Problem,
    costs: GroupCosts,
    points: Points,
    columns: Mapping[str, Quantity],
    cap_w: float,
    hopes: Hopes | None,
) -> tuple[Points, Points | None]:
    """Cost points of one group under a power cap; what is sure to be of no use is returned with lower bounds alone."""
    dropped = None
    if cap_w != UNCAPPED:
        points = points.with_columns(power_cap_w=np.full(len(points), cap_w))
        limit_w = costs.group.offer.accelerator.power_limit_w
        columns = {**columns, "power_cap_w": cap_w, "cap_share": cap_w / limit_w}
        least = None if hopes is None else costs.floors(columns, len(points))
        if hopes is not None and least is not None:
            floors = with_costs(problem, costs, points, *least)
            useful = hopes.may_keep(floors) | hopes.may_lead(floors)
            dropped = floors.take(~useful)
            points = points.take(useful)
            columns = _rows(columns, useful)
    points = with_costs(problem, costs, points, *costs.estimate(columns, len(points)))
    return with_upper_ends(problem, costs, points, columns, hopes), dropped


def with_costs(problem: Problem, costs: GroupCosts, points: Points, energy_j: Numbers, duration_s: Numbers) -> Points:
    """Add time, energy, money and carbon to points of one group."""
    device = costs.group.offer.accelerator
    watts = points["num_devices"] * device.power_limit_w
    prices = problem.prices.of(device.name)
    return points.with_columns(
        duration_s=duration_s,
        energy_j=energy_j,
        max_power_w=watts,
        **priced(prices, points["num_devices"], energy_j, duration_s),
    )


def with_upper_ends(
    problem: Problem, costs: GroupCosts, points: Points, columns: Mapping[str, Quantity], hopes: Hopes | None
) -> Points:
    """Add the upper ends that limits are compared with; the middle where there is no hope, which misses as well."""
    limits = problem.limits
    targets = {target for limit in limits.bounds() for target in UPPER_ENDS[limit]}
    if limits.confidence is None or not targets:
        return points
    hopeful = np.ones(len(points), dtype=bool) if hopes is None else hopes.may_keep(points)
    table = costs.table(_rows(columns, hopeful), int(hopeful.sum()))
    high = {"energy": points["energy_j"], "duration": points["duration_s"]}
    for target in sorted(targets) if hopeful.any() else ():
        _, beyond = ends_of_runs(costs.calibration, table, target=target, level=limits.confidence)
        values = high[target].copy()
        values[hopeful] *= np.exp(beyond)
        high[target] = values
    prices = problem.prices.of(costs.group.offer.accelerator.name)
    upper = {"duration_s": high["duration"]}
    upper |= priced(prices, points["num_devices"], high["energy"], high["duration"])
    bounded = {BOUNDED[limit] for limit in limits.bounds()}
    return points.with_columns(**{f"{name}_high": values for name, values in upper.items() if name in bounded})


def _rows(columns: Mapping[str, Quantity], rows: NDArray[np.bool_]) -> dict[str, Quantity]:
    """Take rows of columns, some of which are numbers."""
    return {name: values[rows] if np.ndim(values) else values for name, values in columns.items()}  # type: ignore[index]


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
        micro_batches: sizes that divide the global batch.
        step: cost of the undivided model, with one entry per micro-batch where it depends on that.
        devices: figures of the accelerator, within one node.
        network_bytes_per_s: between nodes; the link's where there is one node.
    """

    group: Group
    calibration: Calibration
    micro_batches: Numbers
    step: StepCost
    devices: Devices
    network_bytes_per_s: float

    @classmethod
    def of(cls, group: Group, calibration: Calibration) -> GroupCosts:
        """Look up and compute what the configurations of a group have in common."""
        batch = global_batch(group.run)
        one = {**dict.fromkeys(LAYOUT_COLUMNS, 1.0), "zero_stage": 0.0, "batch_size": 1.0, "grad_accumulation": 1.0}
        spec = group.spec({**one, "power_cap_w": float("inf")})
        devices, network = devices_of(spec), 0.0
        if group.offer.node is not None:
            network = group.offer.node.inter_node_link.bytes_per_s
        micro = divisors(batch)
        return cls(
            group=group,
            calibration=calibration,
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
        alone = terms(self._parameters(columns), columns)
        return _full(alone.energy_j, count), _full(alone.duration_s, count)

    def floors(self, columns: Mapping[str, Quantity], count: int) -> tuple[Numbers, Numbers] | None:
        """Return energy and duration that configurations take at least under their power cap.

        A lower clock makes nothing faster, and while training a device draws what the cap leaves it
        (``power_cap.drawn_w``), or more where the lowest clock overdraws the cap. ``None`` where what the law learnt
        beside its formula may change both.
        """
        seen = self.calibration.machines.get(self.group.offer.accelerator.name)
        if seen is not None and seen.process is not None:
            return None
        open_columns = {**columns, "power_cap_w": columns["power_limit_w"], "cap_share": 1.0}
        parameters = self._parameters(columns)
        run = run_at(parameters, open_columns, 1.0)
        each = powers(parameters, open_columns, run, 1.0)
        busy_j = each.compute_w * run.compute_s + each.memory_w * run.memory_s + each.talk_w * run.talk_s
        limit_w = np.asarray(columns["power_limit_w"], dtype=np.float64)
        left_w = drawn_w(columns["cap_share"] * limit_w, limit_w, each.active_w + busy_j / run.training_s)
        host_j = energies(parameters, open_columns, run, each)["host"]
        energy_j = SOLVED * columns["num_devices"] * left_w * run.training_s + host_j
        return _full(energy_j, count), _full(run.duration_s, count)

    def _parameters(self, columns: Mapping[str, Quantity]) -> dict[str, Any]:
        """Parameters of the law for these configurations."""
        return step_parameters(self.calibration, self.group.offer.accelerator.name, columns)

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
