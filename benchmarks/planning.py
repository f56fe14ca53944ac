"""How many configurations per second of processor time a plan costs on one core.

Every way to train GPT-3 175B on up to 1,024 devices: memory first, time and energy of what fits (``configs_per_s``);
once more on devices with memory enough for all of them, so that none is spared (``all_costed_configs_per_s``); with two
power caps besides none (``capped_configs_per_s``), with a confidence, under which upper ends must keep the deadline
(``confident_configs_per_s``), and with both (``capped_confident_configs_per_s``).

The nearest peer, Calculon (Isaev et al. 2023, SC '23), is on no package index under its name, so that nothing is timed
beside it.
"""

from __future__ import annotations

import json
import os
import sys

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import resource
import time
from dataclasses import replace

from wattlaw.hardware import accelerator, node_type
from wattlaw.law.bundled import bundled
from wattlaw.parallel.layout import Layout
from wattlaw.plan import Limits, Offer, Problem, Space
from wattlaw.plan.search import Found, search
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe, preset

NUM_DEVICES = 1024
REPEATS = 3
#: Shares of the board's limit, and a level.
CAPS = (0.6, 0.8)
CONFIDENCE = 0.9


def problem(
    *, memory_bytes: float | None = None, caps: tuple[float, ...] = (), confidence: float | None = None
) -> Problem:
    """Ask for the greenest way to train GPT-3 on 1,024 A100 within 90 days; devices may be given another memory.

    Args:
        memory_bytes: of each device; its own where none is given.
        caps: power caps, as shares of the board's limit.
        confidence: level of the intervals whose upper ends must keep the deadline.
    """
    device = accelerator("a100-sxm4-80gb")
    if memory_bytes is not None:
        device = replace(device, memory_bytes=memory_bytes)
    run = RunSpec(
        architecture=preset("gpt3-175b"),
        recipe=Recipe(batch_size=1, seq_len=2048, tokens=300e9),
        layout=Layout(data_parallel=1536, sequence_parallel=1, vocabulary_parallel=1),
        accelerator=device,
    )
    caps_w = tuple(share * device.power_limit_w for share in caps)
    offer = Offer(accelerator=device, num_devices=NUM_DEVICES, node=node_type("dgx-a100"), power_caps_w=caps_w)
    space = Space(
        offers=(offer,),
        also=("zero1",),
        pipeline_interleavings=(1, 2, 3, 4, 6, 8, 12),
        checkpointings=("none", "selective", "full"),
        attention_kernels=("eager", "fused"),
    )
    return Problem(run=run, space=space, limits=Limits(deadline_s=90 * 86400.0, confidence=confidence))


def timed(asked: Problem, *, repeats: int = REPEATS) -> tuple[Found, float]:
    """Search several times; return what was found and the least seconds of processor time."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        found = search(asked, bundled())
        seconds.append(time.process_time() - start)
    return found, min(seconds)


def ours() -> dict[str, float]:
    """Time the searches."""
    found, seconds = timed(problem())
    whole, whole_seconds = timed(problem(memory_bytes=1e15))
    assert whole.num_fitting == whole.num_configurations
    peak_bytes = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rates = {}
    for name, caps, confidence in (
        ("capped", CAPS, None),
        ("confident", (), CONFIDENCE),
        ("capped_confident", CAPS, CONFIDENCE),
    ):
        some, some_seconds = timed(problem(caps=caps, confidence=confidence), repeats=1 if confidence else REPEATS)
        rates[f"{name}_configs_per_s"] = some.num_configurations / some_seconds
    return {
        **rates,
        "num_configurations": float(found.num_configurations),
        "num_fitting": float(found.num_fitting),
        "seconds": seconds,
        "configs_per_s": found.num_configurations / seconds,
        "all_costed_configs_per_s": whole.num_configurations / whole_seconds,
        "peak_memory_bytes": peak_bytes,
    }


if __name__ == "__main__":
    found = ours()
    if "--json" in sys.argv:
        print(json.dumps(found))
        sys.exit()
    print(f"{found['num_configurations']:,.0f} configurations in {found['seconds']:.2f} s on one core")
    print(f"{found['configs_per_s'] / 1e6:.2f} million/s, {found['num_fitting']:,.0f} fitted into memory")
    print(f"{found['all_costed_configs_per_s'] / 1e6:.2f} million/s where all of them fit")
    for name, words in (("capped", "two caps"), ("confident", "a confidence"), ("capped_confident", "both")):
        print(f"{found[f'{name}_configs_per_s'] / 1e6:.2f} million/s with {words}")
    print(f"peak memory of the process without these three {found['peak_memory_bytes'] / 1e6:.0f} MB")
