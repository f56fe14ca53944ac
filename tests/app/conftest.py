"""A server on a free port of this machine, and a browser to look at it with."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from wattlaw.app.server import create_app

CHROMIUM = os.environ.get("WATTLAW_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
#: A browser that keeps to this machine, and runs as whoever starts it.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

#: BERT-base on SST-2, as a first visitor sees it.
RUN = {
    "model": {"preset": "bert-base-uncased", "head": "classification"},
    "recipe": {
        "batch_size": 32,
        "seq_len": 128,
        "padded_len": 40.2,
        "precision": "fp16",
        "samples": 67349,
        "epochs": 3,
    },
    "hardware": {"gpu": "rtx-2080-ti"},
    "layout": {"strategy": "fsdp", "num_devices": 4},
}


@dataclass(frozen=True)
class Site:
    """A running server."""

    address: str

    def ask(self, path, body=None, *, media_type="application/json", headers=None):
        """Send a request and return the status, the decoded answer and the headers."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kinds = {"content-type": media_type} if data is not None else {}
        with closing(http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=120)) as connection:
            connection.request(
                "GET" if data is None else "POST", f"/{path}", body=data, headers={**kinds, **(headers or {})}
            )
            response = connection.getresponse()
            content, status, found = response.read(), response.status, response.headers
        try:
            return status, json.loads(content), found
        except ValueError:
            return status, content.decode(), found


@pytest.fixture(scope="session")
def site():
    """A server in a thread of this process."""
    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(), log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield Site(address=f"http://127.0.0.1:{listening.getsockname()[1]}/")
    server.should_exit = True
    thread.join(timeout=20)
    listening.close()


@pytest.fixture
def run():
    """A run as a request holds it, to change at will."""
    return json.loads(json.dumps(RUN))


@pytest.fixture(scope="module")
def browser():
    """Chromium, if there is one.

    Of a module: while its driver is open, no other loop of events can run in the thread.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="nothing here drives a browser")
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium, or its path in WATTLAW_CHROMIUM")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield opened
        opened.close()


@pytest.fixture
def page(browser, site):
    """A fresh visitor's page; whatever its console complains of fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.goto(site.address)
    opened.wait_for_selector("#totals [data-number=energy]")
    yield opened
    context.close()
    expected = "Failed to load resource: the server responded with a status of 422"
    assert [line for line in complaints if not line.startswith(expected)] == []
