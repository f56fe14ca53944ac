"""The step law: time and energy of a training run from the physics of its step.

A micro-step's kernels take the time of their operations and of their traffic; the host that launches them works
beside them, and so does the link, up to a latency per collective. Energy is power over time: what a device draws as
soon as it runs, and more while it computes, moves memory or talks, at the clock that its governor then allows.

    kernels   = flop / (matrix_fraction peak) + traffic_factor traffic / bandwidth
    wire      = bytes sent / (link_fraction link), or through the network where that takes longer
    launch    = launch_step + launch_kernel kernels + tensor_collective all-reduces
    talking   = smooth_max(kernels + tensor wire, wire) + collective collectives
    blocks    = smooth_max(talking, launch) + tensor_hop hops + stage wire + stage_message messages
    step      = blocks + kernels outside of the blocks
    update    = smooth_max(optimizer traffic / bandwidth, update_step + update_tensor tensors)
    duration  = micro-steps step + bubble micro-steps blocks + updates update + evaluation + set-up
    energy    = host_w nodes duration + devices limit (active + clock (compute + memory) + talk)

Small Transformers on fast GPUs are bound by ``launch``, which the paper sees as compute that is sub-linear in FLOP.
``docs/laws/step.md`` derives every term, and says where the law fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import DataError, UnknownNameError
from wattlaw.features.table import Table
from wattlaw.law import hierarchy
from wattlaw.law.anchor import anchors_of
from wattlaw.law.calibration import Calibration, Estimate, MachineCalibration, Residuals
from wattlaw.parallel.layout import plainly

Numbers = NDArray[np.float64]
Scope = Literal["universal", "gpu", "pace", "link"]

#: How far a parameter differs from one machine to the next, as the standard deviation of its logarithm: a property of
#: the mathematics hardly, of the GPU somewhat, of what the host works on and of its links by any factor.
SPREAD_BY_SCOPE: Mapping[Scope, float] = {"universal": 0.15, "gpu": 0.4, "pace": 0.3, "link": 1.0}
#: What the host works on it does at one pace, set by its processor and software: all of it is slower or faster
#: together, by this standard deviation of the logarithm, and the ``pace`` above is what is left.
COMMON_PACE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the law, positive, fitted in its logarithm.

    Attributes:
        name: with its unit at the end, where it has one.
        start: median of its prior, a round figure from experience with such machines.
        spread: standard deviation of the prior's logarithm.
        upper: physical bound, such as 1 for a share of a peak.
        scope: what it is a property of, which says how far it transfers.
        meaning: in words.
    """

    name: str
    start: float
    spread: float
    scope: Scope
    meaning: str
    upper: float = np.inf


PARAMETERS = (
    Parameter(name="matrix_fraction", start=0.5, spread=0.5, upper=1, scope="gpu",
              meaning="share of the peak rate that the matrix products of the blocks reach"),
    Parameter(name="head_matrix_fraction", start=0.35, spread=0.5, upper=1, scope="universal",
              meaning="the same outside of the blocks, where the vocabulary's size fits no tile"),
    Parameter(name="traffic_factor", start=3.0, spread=0.7, scope="universal",
              meaning="memory time of the blocks over the least that their traffic needs: re-reads, casts, bandwidth"),
    Parameter(name="head_traffic_factor", start=1.5, spread=0.7, scope="universal",
              meaning="the same outside of the blocks"),
    Parameter(name="launch_step_s", start=1.5e-3, spread=1.0, scope="pace",
              meaning="host's work per micro-step: data, loss, loop"),
    Parameter(name="launch_kernel_s", start=6e-5, spread=1.0, scope="pace",
              meaning="host's work to launch one kernel of the blocks"),
    Parameter(name="update_step_s", start=5e-3, spread=0.5, scope="pace",
              meaning="host's work per optimizer step"),
    Parameter(name="update_tensor_s", start=1e-4, spread=0.5, scope="pace",
              meaning="host's work per weight tensor and optimizer step"),
    Parameter(name="collective_s", start=3e-4, spread=1.0, scope="pace",
              meaning="latency of a collective of data parallelism, with the hooks around it"),
    Parameter(name="tensor_collective_s", start=1.2e-3, spread=1.0, scope="pace",
              meaning="host's work per all-reduce of tensor parallelism"),
    Parameter(name="link_fraction", start=0.35, spread=1.0, upper=1, scope="link",
              meaning="share of the link's rate that collectives reach"),
    Parameter(name="network_fraction", start=0.5, spread=0.4, upper=1, scope="link",
              meaning="share of the rate of a port to the network that messages between nodes reach"),
    Parameter(name="tensor_hop_s", start=7e-6, spread=1.0, scope="link",
              meaning="latency from rank to rank of an all-reduce of tensor parallelism, which nothing hides"),
    Parameter(name="stage_message_s", start=2e-4, spread=1.0, scope="pace",
              meaning="host's work and latency per message between the stages of a pipeline"),
    Parameter(name="unshard_factor", start=0.4, spread=1.0, scope="link",
              meaning="copies in and out of flat shards, in passes of the sharded bytes over the link"),
    Parameter(name="setup_epoch_s", start=5.0, spread=0.7, scope="link",
              meaning="set-up and gathering of sharded weights per epoch"),
    Parameter(name="active_fraction", start=0.25, spread=0.3, upper=1, scope="gpu",
              meaning="share of the power limit that a device draws as soon as it runs kernels"),
    Parameter(name="compute_fraction", start=0.75, spread=0.3, upper=1, scope="universal",
              meaning="further share while matrix units are busy"),
    Parameter(name="memory_fraction", start=0.6, spread=0.3, upper=1, scope="universal",
              meaning="further share while memory is busy"),
    Parameter(name="talk_fraction", start=0.14, spread=0.5, upper=1, scope="universal",
              meaning="further share while a collective moves bytes"),
    Parameter(name="low_clock_fraction", start=0.45, spread=0.3, upper=1, scope="universal",
              meaning="dynamic power at the governor's low clock over that at its high clock"),
    Parameter(name="clock_threshold", start=0.3, spread=0.4, upper=1, scope="gpu",
              meaning="busy share of time above which the governor raises the clock"),
    Parameter(name="host_power_w", start=30.0, spread=0.6, scope="link",
              meaning="what the energy's boundary includes besides the devices, per node"),
)  # fmt: skip


def between_machines() -> Numbers:
    """Covariance of the logarithms of one machine's parameters around the common ones."""
    alone = np.diag([SPREAD_BY_SCOPE[parameter.scope] ** 2 for parameter in PARAMETERS])
    paced = np.array([parameter.scope == "pace" for parameter in PARAMETERS], dtype=np.float64)
    together: Numbers = alone + COMMON_PACE**2 * np.outer(paced, paced)
    return together


#: Columns of ``features.physical`` that the law reads.
COLUMNS = (
    "block_flop",
    "head_flop",
    "block_traffic_bytes",
    "head_traffic_bytes",
    "block_kernels",
    "weight_tensors",
    "shard_bytes",
    "unshard_bytes",
    "shard_collectives",
    "gradient_bytes",
    "gradient_collectives",
    "tensor_bytes",
    "tensor_collectives",
    "tensor_hops",
    "stage_bytes",
    "stage_messages",
    "shard_port_bytes",
    "gradient_port_bytes",
    "tensor_port_bytes",
    "stage_port_bytes",
    "optimizer_traffic_bytes",
    "micro_steps",
    "bubble_micro_steps",
    "optimizer_steps",
    "evaluation_micro_steps",
    "num_epochs",
    "num_devices",
    "num_nodes",
    "pipeline_parallel",
    "peak_flop_per_s",
    "bandwidth_bytes_per_s",
    "link_bytes_per_s",
    "network_bytes_per_s",
    "power_limit_w",
)
#: Of these, the ones whose range says whether a run is like those of a fit.
DOMAIN_COLUMNS = (
    "block_flop",
    "head_flop",
    "block_traffic_bytes",
    "block_kernels",
    "optimizer_traffic_bytes",
    "shard_bytes",
    "gradient_bytes",
    "tensor_bytes",
    "stage_bytes",
    "num_devices",
    "num_nodes",
)

#: Share of the bandwidth that the optimizer's long, even passes reach (no effect on the fit between 0.6 and 0.9).
UPDATE_BANDWIDTH_FRACTION = 0.8
#: The forward pass is a third of a micro-step's operations: Kaplan et al. 2020, arXiv 2001.08361, section 2.1.
FORWARD_SHARE = 1 / 3
#: Evaluation runs on larger batches than training, so that its launches count less (no effect between 4 and 16).
EVALUATION_BATCH_RATIO = 8.0
#: How sharply the governor switches, as a share of the threshold (no effect between 0.02 and 0.2).
CLOCK_WIDTH = 0.1


def smooth_max(first: Numbers, second: Numbers) -> Numbers:
    """The larger of two times that overlap, a little more where they are alike: (a^3 + b^3)^(1/3)."""
    return np.cbrt(first * first * first + second * second * second)


def on_the_way(sent_bytes: Numbers, link: Numbers, port_bytes: Numbers, port: Numbers) -> Numbers:
    """Time of bytes over the link within a node, or through the port to the network where that takes longer."""
    within = sent_bytes / link
    return within if plainly(port_bytes, 0) else np.maximum(within, port_bytes / port)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTerms:
    """Time and energy of runs by part, shape ``[runs]`` each; both mappings sum to the totals."""

    terms_s: Mapping[str, Numbers]
    terms_j: Mapping[str, Numbers]
    duration_s: Numbers
    energy_j: Numbers


def terms(parameters: Mapping[str, Numbers | float], columns: Mapping[str, Numbers]) -> StepTerms:
    """Evaluate the law.

    Args:
        parameters: value of each of ``PARAMETERS``, a number or a column with one entry per run.
        columns: the columns of ``COLUMNS``, numbers or of shape ``[runs]``.

    Returns:
        seconds and joules by part.
    """
    p, c = parameters, columns
    bandwidth = c["bandwidth_bytes_per_s"]
    block_flop_s = c["block_flop"] / (p["matrix_fraction"] * c["peak_flop_per_s"])
    head_flop_s = c["head_flop"] / (p["head_matrix_fraction"] * c["peak_flop_per_s"])
    block_memory_s = p["traffic_factor"] * c["block_traffic_bytes"] / bandwidth
    head_memory_s = p["head_traffic_factor"] * c["head_traffic_bytes"] / bandwidth
    kernels_s = block_flop_s + block_memory_s
    head_s = head_flop_s + head_memory_s

    link = p["link_fraction"] * c["link_bytes_per_s"]
    port = p["network_fraction"] * c["network_bytes_per_s"]
    sharded = c["shard_collectives"] > 0
    copied_bytes = p["unshard_factor"] * c["unshard_bytes"]
    wire_s = on_the_way(c["shard_bytes"] + copied_bytes, link, c["shard_port_bytes"], port)
    # The next kernel waits for what tensor parallelism reduces, so that none runs beside it.
    tensor_s = on_the_way(c["tensor_bytes"], link, c["tensor_port_bytes"], port)
    stage_s = on_the_way(c["stage_bytes"], link, c["stage_port_bytes"], port)
    latency_s = p["collective_s"] * c["shard_collectives"]
    launch_s = (
        p["launch_step_s"]
        + p["launch_kernel_s"] * c["block_kernels"]
        + p["tensor_collective_s"] * c["tensor_collectives"]
    )
    serial_s = kernels_s + tensor_s
    talking_s = smooth_max(serial_s, wire_s) + latency_s
    covered_s = smooth_max(talking_s, launch_s)
    passing_s = p["tensor_hop_s"] * c["tensor_hops"] + stage_s + p["stage_message_s"] * c["stage_messages"]
    blocks_s = covered_s + passing_s
    step_s = blocks_s + head_s

    # Replicated gradients are reduced while the last micro-step before an update still computes or is launched.
    gradient_s = on_the_way(c["gradient_bytes"], link, c["gradient_port_bytes"], port)
    reducing_s = smooth_max(serial_s, wire_s + gradient_s) + latency_s + p["collective_s"] * c["gradient_collectives"]
    gradient_wait_s = smooth_max(reducing_s, launch_s) - covered_s
    update_memory_s = c["optimizer_traffic_bytes"] / (UPDATE_BANDWIDTH_FRACTION * bandwidth)
    update_s = smooth_max(update_memory_s, p["update_step_s"] + p["update_tensor_s"] * c["weight_tensors"])

    steps, updates, evaluations = c["micro_steps"], c["optimizer_steps"], c["evaluation_micro_steps"]
    evaluated_s = FORWARD_SHARE * (kernels_s + head_s) * evaluations
    evaluation_s = evaluated_s + FORWARD_SHARE * (launch_s + latency_s) * (evaluations / EVALUATION_BATCH_RATIO)
    setup_s = p["setup_epoch_s"] * sharded * c["num_epochs"]
    bubble_s = c["bubble_micro_steps"] * blocks_s
    training_s = steps * step_s + bubble_s + updates * (update_s + gradient_wait_s)
    duration_s = training_s + evaluation_s + setup_s

    # All stages of a pipeline wait for the last one's head, and only that one is busy with it.
    stages = c["pipeline_parallel"]
    compute_s = steps * (block_flop_s + head_flop_s / stages)
    step_memory_s = steps * (block_memory_s + head_memory_s / stages)
    memory_s = step_memory_s + updates * update_memory_s
    talk_s = np.minimum(steps * (wire_s + tensor_s + stage_s) + updates * gradient_s, training_s)
    busy = (compute_s + memory_s + talk_s) / training_s
    threshold = p["clock_threshold"]
    clock = p["low_clock_fraction"] + (1 - p["low_clock_fraction"]) / (
        1 + np.exp(np.minimum((threshold - busy) / (CLOCK_WIDTH * threshold), 500.0))
    )
    limit_w = c["num_devices"] * c["power_limit_w"]
    terms_j = {
        "compute": limit_w * clock * p["compute_fraction"] * compute_s,
        "memory": limit_w * p["memory_fraction"] * (clock * memory_s + evaluated_s),
        "communication": limit_w * p["talk_fraction"] * talk_s,
        "active": limit_w * p["active_fraction"] * (training_s + evaluation_s),
        "host": p["host_power_w"] * c["num_nodes"] * duration_s,
    }
    terms_s = {
        "compute": compute_s,
        "memory": step_memory_s,
        "communication": steps * (talking_s - kernels_s + passing_s) + updates * gradient_wait_s,
        "launch": steps * (covered_s - talking_s),
        "pipeline": bubble_s + steps * head_s * (1 - 1 / stages),
        "update": updates * update_s,
        "evaluation": evaluation_s,
        "setup": setup_s,
    }
    energy_j = terms_j["compute"] + terms_j["memory"] + terms_j["communication"] + terms_j["active"] + terms_j["host"]
    return StepTerms(terms_s=terms_s, terms_j=terms_j, duration_s=duration_s, energy_j=energy_j)


#: With fewer runs than this, their larger half predicted from the smaller tells nothing.
ENOUGH_RUNS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """The step law as one of the laws: fitted jointly to time and energy, machine by machine.

    Attributes:
        prior: a calibration whose common parameters the fit starts from; ``None`` starts from the round figures of
            ``PARAMETERS``. Machines that only the prior saw are kept, and what a probe measured of a machine holds
            that machine's parameters, as far as the probe was sure.
    """

    name: ClassVar[str] = "step"
    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, "machine")

    prior: Calibration | None = None

    def fit(self, table: Table) -> Calibration:
        """Fit to the columns ``energy_j`` and ``duration_s`` (one of them is enough), by ``machine`` and ``group``.

        The residuals kept for intervals are of runs as if not seen (their whole group left out), of the larger half
        of the runs predicted from the smaller, and of each machine predicted from the others.

        Raises:
            DataError: no row, a column missing, or a number that is not finite or above zero.
            FitError: the search did not converge.
        """
        names, found = self._fit(table)
        before = self.prior
        left_out = _as_residuals(table, found)
        machines = {
            name: MachineCalibration(parameters=_by_name(row), residuals=residuals)
            for name, row, residuals in zip(names, found.machines, left_out, strict=True)
        }
        outside = self._predicted_from(table, _smaller_half(table)) if len(table) >= ENOUGH_RUNS else Residuals()
        cold = [self._predicted_from(table, table.text("machine") != name) for name in names if len(names) > 1]
        return Calibration(
            law=self.name,
            parameters=_by_name(found.common),
            machines={**before.machines, **machines} if before else machines,
            domain=_domain(table, before),
            residuals=Residuals.joined(left_out),
            outside=outside if outside or before is None else before.outside,
            cold=Residuals.joined(cold) if cold or before is None else before.cold,
            boundary=_boundary(table),
            warnings=_on_bounds(names, found),
            diagnostics={"evaluations": float(found.evaluations), "num_records": float(len(table))},
            provenance={
                "source": "fit",
                "num_records": str(len(table)),
                "machines": ", ".join(names),
                "state": "warm",
            },
        )

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Say what each run takes; a machine that the calibration did not see has the common parameters.

        Raises:
            DataError: a column is missing.
            UnknownNameError: the calibration lacks a parameter.
        """
        machines, member = np.unique(table.text("machine"), return_inverse=True)
        seen = calibration.machines
        own = [seen[name].parameters if name in seen else calibration.parameters for name in map(str, machines)]
        rows = {
            parameter.name: np.array([_value(values, parameter.name) for values in own])[member]
            for parameter in PARAMETERS
        }
        found = terms(rows, {name: table.numbers(name) for name in COLUMNS})
        return Estimate(
            energy_j=found.energy_j, duration_s=found.duration_s, terms_j=found.terms_j, terms_s=found.terms_s
        )

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Every run: what was not seen is predicted cold."""
        return np.ones(len(table), dtype=bool)

    def _fit(self, table: Table) -> tuple[list[str], hierarchy.Fit]:
        if not len(table):
            raise DataError("no run to fit the step law to", given="0 rows", allowed="1 or more")
        for target in _targets(table):
            table.positive(target)  # here, where the row is the reader's and not one of its machine's
        names = [str(name) for name in np.unique(table.text("machine"))]
        parts = [table.take(table.text("machine") == name) for name in names]
        machines = [
            hierarchy.Machine(
                name=name,
                residuals=_residuals_of(part),
                groups=np.tile(np.unique(part.text("group"), return_inverse=True)[1], len(_targets(part))),
                **self._anchors(name),
            )
            for name, part in zip(names, parts, strict=True)
        ]
        return names, hierarchy.fit(machines, self._hyperprior())

    def _anchors(self, machine: str) -> dict[str, Numbers]:
        """Lay out what a probe measured of a machine; a parameter that it did not measure has an infinite spread."""
        found = {} if self.prior is None else {one.parameter: one for one in anchors_of(self.prior, machine)}
        rows = [found.get(parameter.name) for parameter in PARAMETERS]
        return {
            "anchors": np.array([0.0 if one is None else np.log(one.value) for one in rows]),
            "anchor_spread": np.array([np.inf if one is None else one.spread for one in rows]),
        }

    def _hyperprior(self) -> hierarchy.Prior:
        between = between_machines()
        if self.prior is None:
            centre = np.log([parameter.start for parameter in PARAMETERS])
            spread = np.array([parameter.spread for parameter in PARAMETERS])
        else:
            # The mean of n machines is known to a machine's spread over the root of n.
            centre = np.log([_value(self.prior.parameters, parameter.name) for parameter in PARAMETERS])
            spread = np.sqrt(np.diag(between) / max(1, len(self.prior.machines)))
        return hierarchy.Prior(
            centre=centre,
            spread=spread,
            between=between,
            upper=np.log([parameter.upper for parameter in PARAMETERS]),
        )

    def _predicted_from(self, table: Table, seen: NDArray[np.bool_]) -> Residuals:
        """Residuals of the rows that are not ``seen``, predicted from those that are."""
        if not seen.any() or seen.all():
            return Residuals()
        names, found = self._fit(table.take(seen))
        calibration = Calibration(
            law=self.name,
            parameters=_by_name(found.common),
            machines={
                name: MachineCalibration(parameters=_by_name(row), residuals=Residuals())
                for name, row in zip(names, found.machines, strict=True)
            },
        )
        rest = table.take(~seen)
        estimate = self.estimate(calibration, rest)
        assert estimate.duration_s is not None
        predicted = {"energy_j": estimate.energy_j, "duration_s": estimate.duration_s}
        return Residuals(
            **{
                target.rpartition("_")[0]: tuple(np.log(rest.positive(target) / predicted[target]).tolist())
                for target in _targets(rest)
            }
        )


def _targets(table: Table) -> tuple[str, ...]:
    found = tuple(name for name in ("duration_s", "energy_j") if name in table)
    if not found:
        raise DataError("nothing to fit the step law to", given="no column energy_j or duration_s")
    return found


def _residuals_of(table: Table) -> Callable[[Numbers], Numbers]:
    columns = {name: table.numbers(name) for name in COLUMNS}
    targets = _targets(table)
    seen = np.concatenate([np.log(table.positive(name)) for name in targets])

    def residuals(logarithms: Numbers) -> Numbers:
        found = terms(_by_name(logarithms), columns)
        predicted = {"duration_s": found.duration_s, "energy_j": found.energy_j}
        difference: Numbers = np.concatenate([np.log(predicted[name]) for name in targets]) - seen
        return difference

    return residuals


def _as_residuals(table: Table, found: hierarchy.Fit) -> list[Residuals]:
    """Turn ln(predicted / observed) of each machine into residuals by target."""
    targets = [target.rpartition("_")[0] for target in _targets(table)]
    return [
        Residuals(
            **{
                target: tuple(row.tolist())
                for target, row in zip(targets, -values.reshape(len(targets), -1), strict=True)
            }
        )
        for values in found.held_out
    ]


def _smaller_half(table: Table) -> NDArray[np.bool_]:
    work = table.numbers("block_flop") * table.numbers("micro_steps") * table.numbers("num_devices")
    return work <= np.median(work)


def _domain(table: Table, prior: Calibration | None) -> dict[str, tuple[float, float]]:
    domain = {name: (float(table[name].min()), float(table[name].max())) for name in DOMAIN_COLUMNS}
    if prior is not None:
        for name, (low, high) in prior.domain.items():
            domain[name] = (min(low, domain[name][0]), max(high, domain[name][1]))
    return domain


def _boundary(table: Table) -> str:
    if "boundary" not in table:
        return ""
    found = np.unique(table.text("boundary"))
    if len(found) > 1:
        raise DataError("energies with different boundaries cannot be fitted together", given=", ".join(found))
    return str(found[0])


def _on_bounds(names: list[str], found: hierarchy.Fit) -> tuple[str, ...]:
    return tuple(
        f"{parameter.name} of {name} leans on its bound {parameter.upper:g}"
        for name, values in zip(names, np.exp(found.machines), strict=True)
        for parameter, value in zip(PARAMETERS, values, strict=True)
        if value > 0.99 * parameter.upper
    )


def _by_name(logarithms: Numbers) -> dict[str, float]:
    return {parameter.name: float(value) for parameter, value in zip(PARAMETERS, np.exp(logarithms), strict=True)}


def _value(values: Mapping[str, float], name: str) -> float:
    try:
        return values[name]
    except KeyError:
        raise UnknownNameError.among("parameter of the step law's calibration", name, values) from None
