"""Latency and rate of collectives over a real process group, by number of devices.

Small messages tell the latency; large ones the rate at which each device sends, from the bytes that a ring algorithm
sends (``parallel.collectives``).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wattlaw.measure.probe.figure import Figure
from wattlaw.measure.probe.timing import WARMUP_CALLS, repeats_for
from wattlaw.parallel.collectives import ring_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.distributed import ProcessGroup

SMALL_BYTES = 4096
LARGE_BYTES = {"cpu": 16 * 2**20, "cuda": 256 * 2**20}
ELEMENT_BYTES = 4
#: Endings of the figures' names.
NAMES = ("latency_s", "bytes_per_s")
#: Collective -> ring passes that it makes: an all-reduce is a scatter and a gather.
PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def counts(world_size: int) -> tuple[int, ...]:
    """Return the numbers of devices that are tried: powers of two, and all.

    >>> counts(1), counts(6)
    ((), (2, 4, 6))
    """
    powers = [2**place for place in range(1, world_size.bit_length()) if 2**place <= world_size]
    return tuple(sorted({*powers, world_size} - {1}))


def measure(device: torch.device, num_devices: int, group: ProcessGroup, budget_s: float) -> dict[str, Figure]:
    """Measure ``collective_N_latency_s`` and ``collective_N_bytes_per_s``; every rank of the group calls this."""
    each_s = budget_s / (2 * len(PASSES))
    latencies, rates, count = [], [], 0
    for name, passes in PASSES.items():
        small_s = _times(name, device, num_devices, group, SMALL_BYTES, each_s)
        large_s = _times(name, device, num_devices, group, LARGE_BYTES[device.type], each_s)
        latency = Figure.of_samples(small_s, unit="s", method=name)
        large = Figure.of_samples(large_s, unit="s", method=name)
        sent = passes * float(ring_bytes(_whole_bytes(LARGE_BYTES[device.type], num_devices), num_devices))
        latencies.append(latency.value)
        rates.append(sent / large.value)
        count += latency.num_samples + large.num_samples
    told = f"{', '.join(PASSES)} over {num_devices} ranks, geometric mean"
    return {
        f"collective_{num_devices}_latency_s": Figure.of_cases(
            latencies, unit="s", method=f"{told}, {SMALL_BYTES} bytes", num_samples=count
        ),
        f"collective_{num_devices}_bytes_per_s": Figure.of_cases(
            rates,
            unit="B/s",
            method=f"{told}, {LARGE_BYTES[device.type]} bytes, bytes that a ring sends per rank",
            num_samples=count,
        ),
    }


def _whole_bytes(num_bytes: int, num_devices: int) -> int:
    """Return the next smaller message that divides among the devices."""
    return num_bytes // (ELEMENT_BYTES * num_devices) * ELEMENT_BYTES * num_devices


def _times(
    name: str, device: torch.device, num_devices: int, group: ProcessGroup, num_bytes: int, budget_s: float
) -> list[float]:
    """Time a collective; the ranks agree on how often, so that none waits for one that does not come."""
    call = _collective(name, device, num_devices, group, num_bytes)
    for _ in range(WARMUP_CALLS):
        call()
    start_s = time.perf_counter()
    call()
    calls, samples = repeats_for(_longest(time.perf_counter() - start_s, device, group), budget_s)
    times_s = []
    for _ in range(samples):
        _longest(0.0, device, group)
        start_s = time.perf_counter()
        for _ in range(calls):
            call()
        times_s.append((time.perf_counter() - start_s) / calls)
    return times_s


def _collective(
    name: str, device: torch.device, num_devices: int, group: ProcessGroup, num_bytes: int
) -> Callable[[], None]:
    import torch
    import torch.distributed as dist

    whole = torch.zeros(_whole_bytes(num_bytes, num_devices) // ELEMENT_BYTES, device=device)
    part = torch.zeros(len(whole) // num_devices, device=device)
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
    }
    chosen = calls[name]

    def call() -> None:
        chosen()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return call


def _longest(value: float, device: torch.device, group: ProcessGroup) -> float:
    """Return the largest of the ranks' values on all of them."""
    import torch
    import torch.distributed as dist

    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX, group=group)
    return max(float(shared.item()), 1e-7)
