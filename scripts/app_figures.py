"""The page under many users at once: how long a prediction takes, and what that does to the server's memory.

``wattlaw app`` runs as a process of its own; its users are threads of this one, on the same cores. Each asks for a
prediction every two seconds, never the same one twice in a row, over a connection that it keeps. All traffic is to
127.0.0.1. ``python scripts/app_figures.py [SECONDS]``.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from claims import claims_of, show

_figure = claims_of("python scripts/figures.py app")
USERS = 50
PERIOD_S = 2.0
SECONDS = 60.0
#: What is not counted: connections are made, and memory that is kept anyway is taken.
WARM_UP_S = 10.0
FIRST_VISITS = 5

RUN = {
    "model": {"preset": "bert-base-uncased", "head": "classification"},
    "recipe": {"batch_size": 32, "seq_len": 128, "precision": "fp16", "samples": 67349, "epochs": 3},
    "hardware": {"gpu": "rtx-2080-ti"},
    "layout": {"strategy": "fsdp", "num_devices": 4},
}


def figures(seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Return every figure of the page: name, target, measured, unit, command, note."""
    server, port = _start()
    try:
        visits = _first_visits(port)
        _users(port, WARM_UP_S)
        before = _resident_mb(server.pid)
        took, errors = _users(port, seconds)
        after = _resident_mb(server.pid)
        whole, more_errors = _users(port, seconds / 3, paths=("predict", "compare", "explain"))
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    took.sort()
    whole.sort()
    note = (
        f"{USERS} users, each asking every {PERIOD_S:g} s for {seconds:g} s on {os.cpu_count()} cores, users included: "
        f"{len(took)} predictions, median {took[len(took) // 2]:.1f} ms, longest {took[-1]:.1f} ms"
    )
    found = [
        _figure("app.p95_ms", 300, took[int(0.95 * len(took))], "ms", note),
        _figure("app.page_p95_ms", 300, whole[int(0.95 * len(whole))], "ms",
                f"the same users for {seconds / 3:g} s, each asking for what a page shows of a move: the prediction, "
                "the other ways, the tree; the time of any one answer"),
        _figure("app.errors", 0, errors + more_errors, "count", "answers that are none, and refused connections"),
        _figure("app.memory_growth_mb", 0, after - before, "MB",
                f"resident memory of the server, {before:.1f} MB after {WARM_UP_S:g} s of the same traffic, "
                f"{after:.1f} MB at the end"),
    ]  # fmt: skip
    if visits:
        shown = ", ".join(f"{one:.0f}" for one in visits)
        note = f"opening the page in Chromium to the first numbers, median of fresh visitors: {shown}"
        found.append(_figure("app.first_visit_ms", 1000, sorted(visits)[len(visits) // 2], "ms", note))
    return found


def _start() -> tuple[subprocess.Popen[str], int]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, "-m", "wattlaw.cli", "app", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert server.stdout is not None
    found = re.search(r":(\d+)/", server.stdout.readline())
    assert found is not None, "the server did not start"
    return server, int(found[1])


def _users(port: int, seconds: float, *, paths: tuple[str, ...] = ("predict",)) -> tuple[list[float], int]:
    """Let all users ask for some time; return the milliseconds that each answer took, and how many were none."""
    took: list[float] = []
    errors: list[str] = []
    end = time.monotonic() + seconds
    arguments = (port, end, paths, took, errors)
    threads = [threading.Thread(target=_user, args=(number, *arguments)) for number in range(USERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, len(errors)


def _user(number: int, port: int, end: float, paths: tuple[str, ...], took: list[float], errors: list[str]) -> None:
    chosen = random.Random(number)  # noqa: S311  # the users differ, and differ in the same way each time
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    due = time.monotonic() + chosen.uniform(0, PERIOD_S)
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        question = _question(chosen)
        try:
            took.extend(_answered_ms(connection, path, question) for path in paths)
        except (OSError, http.client.HTTPException, AssertionError, ValueError) as error:
            errors.append(repr(error))
            connection.close()
        due += PERIOD_S
    connection.close()


def _answered_ms(connection: http.client.HTTPConnection, path: str, question: bytes) -> float:
    """Ask once, check the answer, and return how long it took."""
    start = time.perf_counter()
    connection.request("POST", f"/api/{path}", question, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    took = 1e3 * (time.perf_counter() - start)
    assert response.status == 200, answer
    assert path != "predict" or answer["energy_j"]["mid"] > 0
    return took


def _question(chosen: random.Random) -> bytes:
    """One run as somebody who moves the sliders asks for it."""
    count = chosen.choice([1, 2, 4, 8])
    layout = {"strategy": chosen.choice(["ddp", "fsdp", "tp"]) if count > 1 and count != 8 else "single" if count == 1
              else "fsdp", "num_devices": count}  # fmt: skip
    recipe = {**RUN["recipe"], "batch_size": chosen.randint(1, 64), "seq_len": chosen.choice([64, 128, 256])}
    gpu = chosen.choice(["rtx-2080-ti", "a100-sxm4-40gb", "h100-sxm5-80gb", "l4"])
    return json.dumps({"run": {**RUN, "recipe": recipe, "layout": layout, "hardware": {"gpu": gpu}}}).encode()


def _resident_mb(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def _first_visits(port: int) -> list[float]:
    """Milliseconds from opening the page to the first numbers; none where there is no browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
    found = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=arguments)
        for _ in range(FIRST_VISITS):
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_selector("#totals [data-number=energy]")
            found.append(float(page.evaluate("performance.now()")))
            context.close()
        browser.close()
    return found


if __name__ == "__main__":
    show(figures(*map(float, sys.argv[1:2])))
