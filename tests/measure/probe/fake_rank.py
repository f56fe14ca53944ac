"""A rank without torch that answers a probe with made-up figures.

What it is and how it fails come from FAKE_PROBE, as JSON: ``environment``, ``fails`` and ``dies`` (a part each).
"""

from __future__ import annotations

import json
import os
import sys

FIGURE = {"unit": "s", "method": "made up", "spread": 0.1, "num_samples": 5, "num_cases": 1}


def say(**message: object) -> None:
    """Answer the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def names(question: dict) -> list[str]:
    """Name the figures of one question."""
    part = question["do"]
    if part == "matrix":
        return [f"matrix_{precision}_flop_per_s" for precision in question["precisions"]]
    if part == "collectives":
        return [f"collective_{question['num_devices']}_{end}" for end in ("latency_s", "bytes_per_s")]
    return {"bandwidth": ["copy_bytes_per_s"], "launch": ["launch_kernel_s"], "layer": [], "strategy": [], "load": []}[
        part
    ]


def main() -> None:
    """Serve until the input ends."""
    settings = json.loads(sys.argv[1])
    script = json.loads(os.environ.get("FAKE_PROBE", "{}"))
    say(answer="ready", environment={"device": "cpu", "torch": "none", **script.get("environment", {})})
    for line in sys.stdin:
        question = json.loads(line)
        if question["do"] == script.get("dies"):
            os._exit(7)
        if question["do"] == script.get("fails"):
            say(answer="failed", kind="error", reason="RuntimeError: no such operation")
            continue
        if question["do"] == "load" and settings["rank"] == 0:
            say(answer="ready")
            sys.stdin.readline()
            say(answer="measured")
        value = 1.0 + settings["rank"]
        say(answer="done", figures={name: {"value": value, **FIGURE} for name in names(question)})


main()
