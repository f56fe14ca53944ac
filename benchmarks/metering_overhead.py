"""What metering costs: paired runs of a training-like loop with and without a meter, and the time to start one.

Two GPUs of the fake driver library are sampled as real ones would be, by the real nvidia-ml-py. The process is held
on one core, so that the sampling thread takes its time from the loop and not from an idle core: what the process
computes beside the loop is what the steps take longer. Other jobs of a shared machine do not count in CPU time; the
whole difference, by CPU time and by the clock, is shown beside it with its standard error. Prints

    [measure.overhead_percent]  CPU time beside the loop, in percent of the loop's, metered less bare
    [measure.start_s]           from asking for this machine's meter to the open window, in a new process

Usage: python benchmarks/metering_overhead.py [--pairs 60] [--block-s 0.5]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
FAKE_DRIVER = ROOT / "tests" / "measure" / "fake_nvml" / "nvml.c"
STARTS = 7

START = """
import json, time
import wattlaw.measure
began = time.perf_counter()
meter = wattlaw.measure.machine_meter(require=["accelerators"])
meter.start()
print(json.dumps(time.perf_counter() - began))
"""


def environment(folder: Path) -> dict[str, str]:
    """Build the fake driver library with two GPUs and return the environment that finds it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit("a C compiler is needed to build the fake driver library")
    library = folder / "libnvidia-ml.so.1"
    options = ["-O2", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library), str(FAKE_DRIVER), "-lm"]
    subprocess.run([compiler, *options], check=True)
    for index, watts in enumerate((100, 250)):
        script = f"uuid GPU-{index}\nname Fake\ntrace 0 {watts} 1000000 {watts}\n"
        (folder / f"gpu{index}").write_text(script)
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    paths = {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML_DIR": str(folder), "PYTHONPATH": str(ROOT / "src")}
    return {**os.environ, **one_thread, **paths}


def training_step() -> Callable[[], None]:
    """Return a step of some milliseconds: matrix products and an update, like a small layer's."""
    import numpy as np

    rng = np.random.default_rng(0)
    inputs, weights = rng.standard_normal((256, 384)), rng.standard_normal((384, 384)) / 20

    def step() -> None:
        hidden = np.tanh(inputs @ weights)
        gradient = inputs.T @ (hidden * (1 - hidden**2))
        np.subtract(weights, 1e-6 * gradient, out=weights)

    return step


def time_blocks(pairs: int, block_s: float) -> dict[str, Any]:
    """Alternate metered and bare blocks of steps; return both kinds' seconds per step."""
    from wattlaw.measure import machine_meter

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    step, meter = training_step(), machine_meter(require=["accelerators"])
    began = time.perf_counter()
    steps = 0
    while time.perf_counter() - began < 1.0:
        step()
        steps += 1
    per_block = max(1, round(steps * block_s))

    def block() -> dict[str, float]:
        clocks = {"clock": time.perf_counter, "process": time.process_time, "loop": time.thread_time}
        began = {name: clock() for name, clock in clocks.items()}
        for _ in range(per_block):
            step()
        return {name: (clock() - began[name]) / per_block for name, clock in clocks.items()}

    meter.start()  # the first window learns the counters' periods, which later ones know
    time.sleep(1.0)
    meter.stop()
    bare, metered = [], []
    for pair in range(pairs):
        for with_meter in (pair % 2 == 0, pair % 2 == 1):
            if not with_meter:
                bare.append(block())
                continue
            meter.start()
            metered.append(block())
            meter.stop()
    return {"bare": bare, "metered": metered}


def measure(pairs: int = 60, block_s: float = 0.5) -> dict[str, float]:
    """Run the benchmark in processes of its own and return its figures."""
    with tempfile.TemporaryDirectory() as name:
        variables = environment(Path(name))
        starts = [float(_python(["-c", START], variables)) for _ in range(STARTS)]
        arguments = [__file__, "--inside", "--pairs", str(pairs), "--block-s", str(block_s)]
        blocks = json.loads(_python(arguments, variables))
    beside = [
        100 * (metered["process"] / metered["loop"] - bare["process"] / bare["loop"])
        for bare, metered in zip(blocks["bare"], blocks["metered"], strict=True)
    ]
    return {
        "overhead_percent": statistics.fmean(beside),
        "start_s": statistics.median(starts),
        "step_s": statistics.median(block["loop"] for block in blocks["bare"]),
        **_whole_difference(blocks, "process"),
        **_whole_difference(blocks, "clock"),
    }


def _whole_difference(blocks: dict[str, list[dict[str, float]]], kind: str) -> dict[str, float]:
    """Compare whole blocks: median over pairs, and the standard error that its spread implies."""
    extra = [
        100 * (metered[kind] / bare[kind] - 1) for bare, metered in zip(blocks["bare"], blocks["metered"], strict=True)
    ]
    low, mid, high = statistics.quantiles(extra, n=4)
    # For a normal spread: quartiles are 1.35 deviations apart, and a median's error is 1.25 / sqrt(n) deviations.
    return {f"{kind}_percent": mid, f"{kind}_error_percent": 1.25 * (high - low) / 1.35 / len(extra) ** 0.5}


def _python(arguments: list[str], variables: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, *arguments], env=variables, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--block-s", type=float, default=0.5)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(time_blocks(options.pairs, options.block_s)))
        return
    told = measure(options.pairs, options.block_s)
    print(
        f"[measure.overhead_percent] {told['overhead_percent']:.3f} of a step of {1e3 * told['step_s']:.2f} ms; "
        f"whole difference by CPU time {told['process_percent']:.2f} +- {told['process_error_percent']:.2f}, "
        f"by the clock {told['clock_percent']:.2f} +- {told['clock_error_percent']:.2f}; target below 0.5"
    )
    print(f"[measure.start_s] {told['start_s']:.4f}; target below 0.1")


if __name__ == "__main__":
    main()
