"""How long a run takes, from the physics of its step, with the matrix units at a clock.

``step_terms`` says what the law is; here are its seconds, in four steps: kernels of the device, messages, what overlaps
with what in a micro-step and an update, and whole runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattlaw.parallel.layout import plainly

Numbers = NDArray[np.float64]
#: Parameters by name, and columns by name; a number of all runs, or one entry per run.
Values = Mapping[str, Any]
Columns = Mapping[str, Any]

#: Share of the bandwidth that the optimizer's long, even passes reach (no effect on the fit between 0.6 and 0.9).
UPDATE_BANDWIDTH_FRACTION = 0.8
#: The forward pass is a third of a micro-step's operations: Kaplan et al. 2020, arXiv 2001.08361, section 2.1.
FORWARD_SHARE = 1 / 3
#: Evaluation runs on larger batches than training, so that its launches count less (no effect between 4 and 16).
EVALUATION_BATCH_RATIO = 8.0
#: Rate of attention's two products over that of products with weights: FlashAttention-2 reaches 50 to 73 % of an A100's
#: peak (Dao 2023, arXiv 2307.08691, section 4), plain products 75 to 87 %.
ATTENTION_RATE = 0.7


def smooth_max(first: Numbers, second: Numbers) -> Numbers:
    """The larger of two times that overlap, a little more where they are alike: (a^3 + b^3)^(1/3)."""
    return np.cbrt(first * first * first + second * second * second)


def on_the_way(sent_bytes: Numbers, link: Numbers, port_bytes: Numbers, port: Numbers) -> Numbers:
    """Time of bytes over the link within a node, or through the port to the network where that takes longer."""
    within = sent_bytes / link
    return within if plainly(port_bytes, 0) else np.maximum(within, port_bytes / port)


@dataclass(frozen=True, slots=True)
class Kernels:
    """Seconds of the device's kernels in one micro-step: blocks, and what is outside of them."""

    flop_s: Numbers
    memory_s: Numbers
    head_flop_s: Numbers
    head_memory_s: Numbers


def kernels_at(p: Values, c: Columns, clock: Numbers | float) -> Kernels:
    """Say how long kernels compute and move memory; only what is computed follows the clock.

    fp8 is for the products with weights of the blocks: attention's own products and the head stay in 16 bits.
    """
    bandwidth = c["bandwidth_bytes_per_s"]
    peak, unquantised = c["peak_flop_per_s"], c["unquantised_flop_per_s"]
    slowness = 1 + c["attention_share"] * (peak / (ATTENTION_RATE * unquantised) - 1)
    block_flop_s = c["block_flop"] * slowness / (p["matrix_fraction"] * peak)
    head_flop_s = c["head_flop"] / (p["head_matrix_fraction"] * unquantised)
    if not plainly(clock, 1):
        block_flop_s, head_flop_s = block_flop_s / clock, head_flop_s / clock
    factor = where(c["fused"], p["fused_traffic_factor"], p["traffic_factor"])
    return Kernels(
        flop_s=block_flop_s,
        memory_s=factor * c["block_traffic_bytes"] / bandwidth,
        head_flop_s=head_flop_s,
        head_memory_s=p["head_traffic_factor"] * c["head_traffic_bytes"] / bandwidth,
    )


@dataclass(frozen=True, slots=True)
class Messages:
    """Seconds that messages are on the way: per micro-step, and of replicated gradients per update."""

    beside_s: Numbers
    between_s: Numbers
    stage_s: Numbers
    gradient_s: Numbers

    @property
    def step_s(self) -> Numbers:
        """All of a micro-step."""
        return self.beside_s + self.between_s + self.stage_s


def messages_of(p: Values, c: Columns) -> Messages:
    """Say how long messages are on the way.

    Shards, and keys and values that go around a context, travel beside the kernels. What tensor parallelism reduces
    and what travels to experts and back the next kernel waits for, so that none runs beside it, and a stage waits for
    the state of the one before, but where fused software divides its kernels so that these too travel beside them.
    """
    link = p["link_fraction"] * c["link_bytes_per_s"]
    port = p["network_fraction"] * c["network_bytes_per_s"]
    copied_bytes = p["unshard_factor"] * c["unshard_bytes"]
    beside_s = on_the_way(c["shard_bytes"] + copied_bytes, link, c["shard_port_bytes"], port)
    if any_of(c["context_bytes"]):
        beside_s = beside_s + on_the_way(c["context_bytes"], link, c["context_port_bytes"], port)
    between_s = on_the_way(c["tensor_bytes"], link, c["tensor_port_bytes"], port)
    stage_s = on_the_way(c["stage_bytes"], link, c["stage_port_bytes"], port)
    if any_of(c["tensor_beside"]) or any_of(c["stage_beside"]):
        beside_s = beside_s + c["tensor_beside"] * between_s + c["stage_beside"] * stage_s
        between_s, stage_s = (1 - c["tensor_beside"]) * between_s, (1 - c["stage_beside"]) * stage_s
    if any_of(c["expert_collectives"]):
        between_s = between_s + on_the_way(c["expert_bytes"], link, c["expert_port_bytes"], port)
    return Messages(
        beside_s=beside_s,
        between_s=between_s,
        stage_s=stage_s,
        gradient_s=on_the_way(c["gradient_bytes"], link, c["gradient_port_bytes"], port),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of one micro-step, one update, and what precedes them."""

    talking_s: Numbers
    covered_s: Numbers
    passing_s: Numbers
    head_s: Numbers
    kernels_s: Numbers
    gradient_wait_s: Numbers
    update_memory_s: Numbers
    update_s: Numbers
    launch_s: Numbers
    latency_s: Numbers


def step_of(p: Values, c: Columns, kernels: Kernels, messages: Messages) -> Step:
    """Say what overlaps with what in a micro-step and in an update."""
    host = c["host_share"]
    kernels_s = kernels.flop_s + kernels.memory_s
    collective_s = _times(host, p["collective_s"])
    latency_s = collective_s * (c["shard_collectives"] + c["expert_collectives"])
    launch_s = _times(
        host,
        p["launch_step_s"]
        + p["launch_kernel_s"] * c["block_kernels"]
        + p["tensor_collective_s"] * c["tensor_collectives"],
    )
    serial_s = kernels_s + messages.between_s
    talking_s = smooth_max(serial_s, messages.beside_s) + latency_s
    covered_s = smooth_max(talking_s, launch_s)
    stage_message_s = _times(host, p["stage_message_s"])
    # Replicated gradients are reduced while the last micro-step before an update still computes or is launched.
    reducing_s = smooth_max(serial_s, messages.beside_s + messages.gradient_s) + latency_s
    reducing_s = reducing_s + collective_s * c["gradient_collectives"]
    update_memory_s = c["optimizer_traffic_bytes"] / (UPDATE_BANDWIDTH_FRACTION * c["bandwidth_bytes_per_s"])
    walk_s = _times(host, p["update_step_s"] + p["update_tensor_s"] * c["weight_tensors"])
    return Step(
        talking_s=talking_s,
        covered_s=covered_s,
        passing_s=p["tensor_hop_s"] * c["tensor_hops"] + messages.stage_s + stage_message_s * c["stage_messages"],
        head_s=kernels.head_flop_s + kernels.head_memory_s,
        kernels_s=kernels_s,
        gradient_wait_s=smooth_max(reducing_s, launch_s) - covered_s,
        update_memory_s=update_memory_s,
        update_s=smooth_max(update_memory_s, walk_s),
        launch_s=launch_s,
        latency_s=latency_s,
    )


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds of whole runs: by part, and how long a device does what it draws power for."""

    terms_s: Mapping[str, Numbers]
    duration_s: Numbers
    training_s: Numbers
    evaluation_s: Numbers
    evaluated_s: Numbers
    compute_s: Numbers
    memory_s: Numbers
    talk_s: Numbers


def run_at(p: Values, c: Columns, clock: Numbers | float) -> RunTimes:
    """Say what runs take with the matrix units at a clock over their highest."""
    kernels, messages = kernels_at(p, c, clock), messages_of(p, c)
    step = step_of(p, c, kernels, messages)
    blocks_s = step.covered_s + step.passing_s
    steps, updates, evaluations = c["micro_steps"], c["optimizer_steps"], c["evaluation_micro_steps"]
    evaluated_s = FORWARD_SHARE * (step.kernels_s + step.head_s) * evaluations
    batches = evaluations / EVALUATION_BATCH_RATIO
    evaluation_s = evaluated_s + FORWARD_SHARE * (step.launch_s + step.latency_s) * batches
    setup_s = p["setup_epoch_s"] * (c["shard_collectives"] > 0) * c["num_epochs"]
    bubble_s = c["bubble_micro_steps"] * blocks_s
    training_s = steps * (blocks_s + step.head_s) + bubble_s + updates * (step.update_s + step.gradient_wait_s)
    # All stages of a pipeline wait for the last one's head, and only that one is busy with it.
    stages = c["pipeline_parallel"]
    compute_s = steps * (kernels.flop_s + kernels.head_flop_s / stages)
    step_memory_s = steps * (kernels.memory_s + kernels.head_memory_s / stages)
    waited_s = steps * (step.talking_s - step.kernels_s + step.passing_s) + updates * step.gradient_wait_s
    return RunTimes(
        terms_s={
            "compute": compute_s,
            "memory": step_memory_s,
            "communication": waited_s,
            "launch": steps * (step.covered_s - step.talking_s),
            "pipeline": bubble_s + steps * step.head_s * (1 - 1 / stages),
            "update": updates * step.update_s,
            "evaluation": evaluation_s,
            "setup": setup_s,
        },
        duration_s=training_s + evaluation_s + setup_s,
        training_s=training_s,
        evaluation_s=evaluation_s,
        evaluated_s=evaluated_s,
        compute_s=compute_s,
        memory_s=step_memory_s + updates * step.update_memory_s,
        talk_s=np.minimum(steps * messages.step_s + updates * messages.gradient_s, training_s),
    )


def where(flag: Any, then: Any, otherwise: Any) -> Any:
    """Choose entry by entry; a flag that is one number, of all runs, needs no pass over a column."""
    if isinstance(flag, int | float):
        return then if flag else otherwise
    return np.where(flag > 0, then, otherwise)


def any_of(column: Any) -> bool:
    """Tell whether any run has some of this."""
    return bool(np.any(column))


def _times(share: Any, seconds: Any) -> Any:
    """Multiply; by a plain 1 without a pass over a column."""
    return seconds if plainly(share, 1) else share * seconds
