"""The gate: a layout of a family is measured only after its loss equals the loss on one device.

A wrong tensor-parallel plan trains, and raises nothing; only its loss differs. So before the first configuration of a
kind runs, a small model of the same kind is trained for five optimizer steps twice, on one device and divided, without
dropout, in fp32, on the same batches, and the losses are compared after each step.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from wattlaw.measure.sweep.data import make_batches
from wattlaw.parallel.layout import Layout
from wattlaw.workload import Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wattlaw.measure.sweep.pool import Message
    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.run import RunSpec

STEPS = 5
#: Largest difference of two losses over the loss. Sums in another order differ by 1e-6 here and wrong plans by 1e-3.
TOLERANCE = 5e-5
#: High, so that a wrong gradient shows in the next step's loss.
LEARNING_RATE = 3e-3
HEAD_SIZE = 8
SEED = 20


def gate_spec(spec: RunSpec) -> RunSpec:
    """Return the small run that stands for all runs of this kind: same family, traits and layout, small sizes."""
    architecture = spec.architecture
    degree = int(spec.layout.tensor_parallel)
    (stack,) = architecture.stacks
    grouped = stack.num_kv_heads < stack.num_heads
    small = replace(
        stack,
        num_layers=2,
        num_heads=2 * degree,
        num_kv_heads=degree if grouped else 2 * degree,
        head_size=HEAD_SIZE,
        ffn_size=16 * degree,
        hidden_dropout=0,
        attention_dropout=0,
    )
    return replace(
        spec,
        name="",
        power_limit_w=None,
        architecture=replace(
            architecture,
            name="",
            hidden_size=2 * degree * HEAD_SIZE,
            vocab_size=61,
            max_positions=min(architecture.max_positions, 32),
            embedding_dropout=0,
            stacks=(small,),
        ),
        recipe=Recipe(
            batch_size=4,
            seq_len=8,
            grad_accumulation=min(spec.recipe.grad_accumulation, 2),
            precision="fp32",
            checkpointing=spec.recipe.checkpointing,
            attention_kernel=spec.recipe.attention_kernel,
            steps=STEPS,
        ),
    )


def single_spec(spec: RunSpec) -> RunSpec:
    """Return the same run with the whole batch on one device."""
    whole = spec.recipe.batch_size * spec.layout.data_parallel
    return replace(spec, layout=Layout(), recipe=replace(spec.recipe, batch_size=whole))


def compare(spec: RunSpec, ranks: Ranks) -> float:
    """Train both ways and return the largest relative difference of the losses, the same on every rank.

    Args:
        spec: a small run, as ``gate_spec`` makes it.
        ranks: that take part.
    """
    from wattlaw.measure.sweep.ranks import Ranks as Alone

    single = losses(single_spec(spec), Alone(rank=0, device=ranks.device))
    divided = losses(spec, ranks)
    return ranks.agree(largest_difference(single, divided))


def losses(spec: RunSpec, ranks: Ranks) -> list[float]:
    """Train for five optimizer steps and return the loss of each, averaged over the data-parallel ranks."""
    from wattlaw.measure.sweep.training import Training

    count = STEPS * int(spec.recipe.grad_accumulation)
    batches = make_batches(spec, data_rank=ranks.data_rank, count=count, device=ranks.device, seed=SEED)
    training = Training(spec, ranks, batches, learning_rate=LEARNING_RATE)
    return [ranks.mean(float(training.step())) for _ in range(STEPS)]


def largest_difference(single: Sequence[float], divided: Sequence[float]) -> float:
    """Return the largest relative difference; losses that are no numbers differ infinitely.

    >>> largest_difference([2.0, 1.0], [2.0, 1.5])
    0.5
    """
    differences = [abs(b - a) / abs(a) for a, b in zip(single, divided, strict=True)]
    return max(float("inf") if math.isnan(difference) else difference for difference in differences)


def judgement(answers: Sequence[Message]) -> float | str:
    """Return the largest difference of the losses, or why runs of this kind are refused."""
    failures = [answer for answer in answers if answer["answer"] == "failed"]
    if failures:
        return f"the loss check did not run: {failures[0]['reason']}"
    difference = float(answers[0]["difference"])
    if not difference <= TOLERANCE:
        return (
            f"its loss differs from the loss on one device by {difference:.2g} of it within {STEPS} optimizer steps; "
            f"allowed {TOLERANCE:g}"
        )
    return difference
