"""How many runs per second of processor time pass through features and the step law on one core.

Every number of every run is different: sizes, batch, length, layout, device. A simple copy of the columns (read and
written once) is timed beside it, as the limit that memory sets.
"""

from __future__ import annotations

import json
import os
import sys

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import time

import numpy as np

from wattlaw.features.batch import Batch, Devices
from wattlaw.features.physical import physical
from wattlaw.law.bundled import bundled
from wattlaw.law.step_terms import terms
from wattlaw.parallel import Layout
from wattlaw.workload import Recipe, from_sizes

NUM_RUNS = 2**20
#: Columns of this many runs stay in the cache of a core.
CHUNK = 4096


def batch_of(num_runs: int, seed: int) -> Batch:
    """Draw runs of GPT-2-like models on up to 512 devices."""
    rng = np.random.default_rng(seed)

    def whole(low: int, high: int) -> np.ndarray:
        return rng.integers(low, high, num_runs, endpoint=True).astype(np.float64)

    heads, tensor = 8 * whole(1, 12), 2 ** whole(0, 3)
    architecture = from_sizes(
        "gpt2",
        num_layers=whole(2, 96),
        hidden_size=64 * heads,
        num_heads=heads,
        ffn_size=256 * heads,
        vocab_size=whole(30000, 128000),
        max_positions=np.full(num_runs, 8192.0),
        head="lm",
    )
    recipe = Recipe(
        batch_size=whole(1, 64),
        seq_len=128 * whole(1, 64),
        grad_accumulation=whole(1, 16),
        tokens=1e9 * whole(1, 1000),
    )
    layout = Layout(data_parallel=2 ** whole(0, 6), tensor_parallel=tensor, zero_stage=3 * whole(0, 1))
    peak_flop_per_s, power_limit_w = 1e12 * whole(50, 1000), whole(70, 1000)
    devices = Devices(
        peak_flop_per_s=peak_flop_per_s,
        unquantised_flop_per_s=peak_flop_per_s,
        bandwidth_bytes_per_s=1e9 * whole(300, 5000),
        power_limit_w=power_limit_w,
        power_cap_w=power_limit_w,
        link_bytes_per_s=1e9 * whole(10, 900),
        network_bytes_per_s=1e9 * whole(1, 100),
    )
    return Batch(architecture=architecture, recipe=recipe, layout=layout, devices=devices)


def runs_per_second(repeats: int = 5) -> float:
    """Return the best of several passes over ``NUM_RUNS`` runs."""
    parameters = bundled().parameters
    batches = [batch_of(CHUNK, seed) for seed in range(16)]
    passes = []
    for _ in range(repeats):
        start = time.process_time()
        for index in range(NUM_RUNS // CHUNK):
            terms(parameters, physical(batches[index % len(batches)]))
        passes.append(time.process_time() - start)
    return NUM_RUNS / min(passes)


def copies_per_second(num_columns: int = 24) -> float:
    """Return how many runs per second could have their columns copied once."""
    columns = [np.random.default_rng(0).random(CHUNK) for _ in range(num_columns)]
    start = time.process_time()
    for _ in range(NUM_RUNS // CHUNK):
        for column in columns:
            column.copy()
    return NUM_RUNS / (time.process_time() - start)


if __name__ == "__main__":
    rate, limit = runs_per_second(), copies_per_second()
    if "--json" in sys.argv:
        print(json.dumps({"runs_per_second": rate, "copies_per_second": limit}))
        sys.exit()
    print(f"features and step law: {rate / 1e6:.2f} million runs/s on one core")
    print(f"copying their columns: {limit / 1e6:.2f} million runs/s; ratio {rate / limit:.3f}")
