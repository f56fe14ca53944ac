"""The step law: time and energy of a training run from the physics of its step.

A micro-step's kernels take the time of their operations and of their traffic; the host that launches them works
beside them, and so does the link, up to a latency per collective. Energy is power over time: what a device draws as
soon as it runs, and more while it computes, moves memory or talks, at the clock that its governor then allows.

    kernels   = flop / (matrix_fraction peak clock) + traffic_factor traffic / bandwidth
    wire      = bytes sent / (link_fraction link), or through the network where that takes longer
    launch    = host's share (launch_step + launch_kernel kernels + tensor_collective all-reduces)
    talking   = smooth_max(kernels + tensor wire, wire) + collective collectives
    blocks    = smooth_max(talking, launch) + tensor_hop hops + stage wire + stage_message messages
    step      = blocks + kernels outside of the blocks
    update    = smooth_max(optimizer traffic / bandwidth, update_step + update_tensor tensors)
    duration  = micro-steps step + bubble micro-steps blocks + updates update + evaluation + set-up
    energy    = host_w nodes duration + devices limit (active + governor (compute + memory) + talk)

The clock is 1 but under a power cap, which ``power_cap`` solves for. Small Transformers on fast GPUs are bound by
``launch``, which the paper sees as compute that is sub-linear in FLOP. Here are the parameters, the columns and the
joules; ``step_times`` has the seconds. ``docs/laws/step.md`` derives every term, and says where the law fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wattlaw.law.power_cap import capped_clock, voltage
from wattlaw.law.step_times import Columns, RunTimes, Values, any_of, run_at, smooth_max, where
from wattlaw.parallel.layout import plainly

__all__ = [
    "COLUMNS",
    "DOMAIN_COLUMNS",
    "PARAMETERS",
    "SPREAD_BY_SCOPE",
    "Parameter",
    "StepTerms",
    "between_machines",
    "smooth_max",
    "terms",
]

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
    Parameter(name="fused_traffic_factor", start=1.2, spread=0.15, scope="universal",
              meaning="memory time of the blocks over the least that their traffic needs, with fused kernels"),
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
    Parameter(name="voltage_floor", start=0.68, spread=0.1, upper=1, scope="gpu",
              meaning="lowest voltage over the highest, below which a lower clock saves none"),
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
    "attention_share",
    "head_flop",
    "block_traffic_bytes",
    "head_traffic_bytes",
    "block_kernels",
    "weight_tensors",
    "fused",
    "host_share",
    "tensor_beside",
    "stage_beside",
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
    "context_bytes",
    "expert_bytes",
    "expert_collectives",
    "shard_port_bytes",
    "gradient_port_bytes",
    "tensor_port_bytes",
    "stage_port_bytes",
    "context_port_bytes",
    "expert_port_bytes",
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
    "unquantised_flop_per_s",
    "bandwidth_bytes_per_s",
    "link_bytes_per_s",
    "network_bytes_per_s",
    "power_limit_w",
    "cap_share",
    "node_host_w",
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
    "context_bytes",
    "expert_collectives",
    "num_devices",
    "num_nodes",
    "cap_share",
)

#: How sharply the governor switches, as a share of the threshold (no effect between 0.02 and 0.2).
CLOCK_WIDTH = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTerms:
    """Time and energy of runs by part, shape ``[runs]`` each; both mappings sum to the totals."""

    terms_s: Mapping[str, Numbers]
    terms_j: Mapping[str, Numbers]
    duration_s: Numbers
    energy_j: Numbers


def terms(parameters: Values, columns: Columns) -> StepTerms:
    """Evaluate the law.

    Args:
        parameters: value of each of ``PARAMETERS``, a number or a column with one entry per run.
        columns: the columns of ``COLUMNS``, numbers or of shape ``[runs]``.

    Returns:
        seconds and joules by part.
    """
    clock = clock_under_cap(parameters, columns)
    run = run_at(parameters, columns, clock)
    terms_j = energies(parameters, columns, run, powers(parameters, columns, run, clock))
    energy_j = terms_j["compute"] + terms_j["memory"] + terms_j["communication"] + terms_j["active"] + terms_j["host"]
    return StepTerms(terms_s=run.terms_s, terms_j=terms_j, duration_s=run.duration_s, energy_j=energy_j)


@dataclass(frozen=True, slots=True)
class Powers:
    """Watts of one device: while it computes, moves memory, evaluates or talks, and at any time beside."""

    compute_w: Numbers
    memory_w: Numbers
    evaluated_w: Numbers
    talk_w: Numbers
    active_w: Numbers


def powers(p: Values, c: Columns, run: RunTimes, clock: Numbers | float) -> Powers:
    """Say what a device draws while it does what.

    A governor that sees an idle device lowers the dynamic power. Under a cap, products go with the clock and the
    square of the voltage, and what flows at any time goes with the voltage (``power_cap``).
    """
    busy = (run.compute_s + run.memory_s + run.talk_s) / run.training_s
    threshold = p["clock_threshold"]
    raised = p["low_clock_fraction"] + (1 - p["low_clock_fraction"]) / (
        1 + np.exp(np.minimum((threshold - busy) / (CLOCK_WIDTH * threshold), 500.0))
    )
    limit_w = c["power_limit_w"]
    compute_w = limit_w * p["compute_fraction"] * raised
    active_w = limit_w * p["active_fraction"]
    if not plainly(clock, 1):
        volts = voltage(clock, p["voltage_floor"])
        compute_w, active_w = compute_w * clock * volts * volts, active_w * volts
    memory_w = limit_w * p["memory_fraction"]
    return Powers(
        compute_w=compute_w,
        memory_w=memory_w * raised,
        evaluated_w=memory_w,
        talk_w=limit_w * p["talk_fraction"],
        active_w=active_w,
    )


def energies(p: Values, c: Columns, run: RunTimes, power: Powers) -> dict[str, Numbers]:
    """Say what runs draw, by part; a node type's declared host goes before the law's own."""
    devices, declared_w = c["num_devices"], c["node_host_w"]
    host_w = p["host_power_w"] if plainly(declared_w, 0) else where(declared_w, declared_w, p["host_power_w"])
    return {
        "compute": devices * power.compute_w * run.compute_s,
        "memory": devices * (power.memory_w * run.memory_s + power.evaluated_w * run.evaluated_s),
        "communication": devices * power.talk_w * run.talk_s,
        "active": devices * power.active_w * (run.training_s + run.evaluation_s),
        "host": host_w * c["num_nodes"] * run.duration_s,
    }


def clock_under_cap(p: Values, c: Columns) -> Numbers | float:
    """Clock over the highest that a power cap leaves while training; 1 for runs without one, which are not solved."""
    if not any_of(c["cap_share"] < 1):
        return 1.0
    shape = np.broadcast_shapes(*(np.shape(values) for values in (*p.values(), *(c[name] for name in COLUMNS))))
    capped = np.broadcast_to(c["cap_share"] < 1, shape)
    own_p = {name: np.broadcast_to(values, shape)[capped] for name, values in p.items()}
    own_c = {name: np.broadcast_to(c[name], shape)[capped] for name in COLUMNS}

    def power_w(clock: Numbers) -> Numbers:
        run = run_at(own_p, own_c, clock)
        each = powers(own_p, own_c, run, clock)
        drawn_j = each.compute_w * run.compute_s + each.memory_w * run.memory_s + each.talk_w * run.talk_s
        return each.active_w + drawn_j / run.training_s

    clocks = np.ones(shape)
    clocks[capped] = capped_clock(power_w, own_c["cap_share"] * own_c["power_limit_w"], own_c["power_limit_w"])
    return clocks
