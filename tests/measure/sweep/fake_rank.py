"""A rank without torch: answers at once with made-up times, or misbehaves as the number of layers tells it to.

Layers 7: rank 1 is killed. 8: no answer. 9: out of memory. 10: the loss is no number.
12: rank 0 is out of memory and rank 1 does not answer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def say(**message: object) -> None:
    """Answer the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def measure(rank: int, layers: int, question: dict) -> dict:
    """Pretend to measure."""
    if layers == 7 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if layers == 8 or (layers == 12 and rank == 1):
        time.sleep(60)
    if layers in (9, 12):
        return {"answer": "failed", "kind": "out of memory", "reason": "no memory for 7 TB"}
    metered = question["metered"] and rank == 0
    if metered:
        say(answer="ready")
        sys.stdin.readline()
    time.sleep(float(os.environ.get("FAKE_RANK_S", "0")))
    if metered:
        say(answer="measured")
    steps = max(question["window"]["steps"], int(question["window"]["min_window_s"] / 0.01))
    return {
        "answer": "done", "duration_s": 0.01 * steps, "step_times_s": [0.01] * steps, "warmup_steps": 3,
        "steady": True, "loss": float("nan") if layers == 10 else 0.5,
    }  # fmt: skip


def main() -> None:
    """Serve until the input ends."""
    settings = json.loads(sys.argv[1])
    rank = settings["rank"]
    if os.environ.get("FAKE_RANK_BROKEN"):
        sys.exit(1)
    say(answer="ready", environment={"torch": "none", "threads_per_rank": str(settings["threads"])})
    for line in sys.stdin:
        question = json.loads(line)
        spec = question["spec"]
        layers = spec["model"]["architecture"]["stacks"][0]["num_layers"]
        if rank >= spec["layout"]["num_devices"]:
            say(answer="done")
        elif question["do"] == "gate":
            wrong = spec["model"]["architecture"]["family"] == os.environ.get("FAKE_RANK_WRONG")
            say(answer="done", difference=0.01 if wrong else 1e-7)
        else:
            say(**measure(rank, layers, question))


main()
