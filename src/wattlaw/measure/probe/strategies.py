"""Steps that are divided over two devices, beside the step of one: what a collective costs with all that is around it.

Under FSDP each collective has hooks, copies and events around it, under tensor parallelism a dispatch of distributed
tensors: several times the bare latency. With models as narrow as those of ``launch`` the rest of a step takes next to
no time, so the difference to one device's step is the collectives'.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wattlaw.hardware import accelerator
from wattlaw.measure.probe.figure import Figure
from wattlaw.measure.probe.launch import BATCH_SIZE, SEQ_LEN, kernels_and_tensors, narrow_model
from wattlaw.measure.probe.timing import FEWEST_SAMPLES, MOST_SAMPLES
from wattlaw.measure.sweep.data import make_batches
from wattlaw.measure.sweep.training import Training
from wattlaw.parallel.collectives import communication
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe

if TYPE_CHECKING:
    from wattlaw.measure.sweep.ranks import Ranks

#: What is measured, and the name that its figures begin with.
STRATEGIES = {"single": "plain", "fsdp": "sharded", "tp": "tensor"}
NAMES = ("plain_step_s", "sharded_step_s", "sharded_step_collectives", "tensor_step_s", "tensor_step_collectives")
NUM_LAYERS = 4
WARMUP_STEPS = 3


def spec_of(strategy: str, accelerator_name: str) -> RunSpec:
    """Return the run of one strategy, of plain SGD so that the update is next to nothing."""
    return RunSpec(
        architecture=narrow_model("bert", NUM_LAYERS),
        recipe=Recipe(batch_size=BATCH_SIZE, seq_len=SEQ_LEN, precision="fp32", optimizer="sgd", steps=1),
        layout=Layout.of(strategy, num_devices=1 if strategy == "single" else 2),
        accelerator=accelerator(accelerator_name),
    )


def num_collectives(spec: RunSpec) -> float:
    """Count the collectives of one micro-step."""
    said = communication(spec.architecture, spec.recipe, spec.layout, weights_bytes=0.0, gradients_bytes=0.0)
    return float(said.shard_collectives + said.tensor_collectives)


def measure(spec: RunSpec, ranks: Ranks, budget_s: float) -> dict[str, Figure]:
    """Measure ``NAME_step_s``, and count ``NAME_step_collectives``; every rank that takes part calls this."""
    batches = make_batches(spec, data_rank=ranks.data_rank, count=1, device=ranks.device, seed=1)
    training = Training(spec, ranks, batches, seed=1)
    for _ in range(WARMUP_STEPS):
        training.step()
    ranks.synchronize()
    start_s = time.perf_counter()
    training.step()
    ranks.synchronize()
    step_s = ranks.agree(time.perf_counter() - start_s)
    samples = int(min(MOST_SAMPLES, max(FEWEST_SAMPLES, budget_s / max(step_s, 1e-6))))
    times_s = []
    for _ in range(samples):
        start_s = time.perf_counter()
        training.step()
        ranks.synchronize()
        times_s.append(time.perf_counter() - start_s)
    name = STRATEGIES[spec.layout.strategy]
    kernels, _ = kernels_and_tensors(spec.architecture, spec.recipe)
    told = f"BERT of {NUM_LAYERS} layers, {kernels:g} kernels in its blocks, {spec.layout.strategy}"
    found = {f"{name}_step_s": Figure.of_samples(times_s, unit="s", method=f"optimizer step, SGD: {told}")}
    count = num_collectives(spec)
    if count:
        found[f"{name}_step_collectives"] = Figure(value=count, unit="1", method=f"counted by formula: {told}")
    return found
