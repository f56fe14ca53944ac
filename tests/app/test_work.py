"""Who computes: lanes that do not wait for each other, work that is not begun for nobody, fits that end."""

from __future__ import annotations

import threading

import anyio
import pytest
from starlette.requests import ClientDisconnect

from wattlaw.app import server
from wattlaw.app.server import BusyError, Work
from wattlaw.app.worker import run_worker
from wattlaw.errors import DataError


class Asker:
    """Stands for a request whose sender is there, or is not."""

    def __init__(self, *, gone=False):
        self.gone = gone

    async def is_disconnected(self):
        """Tell whether the sender went away."""
        return self.gone


def working(**lanes):
    """Return a ``Work`` with so many threads in each lane."""
    work = Work()
    work.lanes = {name: anyio.CapacityLimiter(threads) for name, threads in lanes.items()}
    work.fits = anyio.Semaphore(1)
    return work


def test_a_lane_does_not_wait_for_another():
    """While a search holds its lane, a prediction is answered."""
    free = threading.Event()

    async def main():
        work = working(predictions=1, searches=1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work.answer, "searches", Asker(), free.wait, 30)
            answer = await work.answer("predictions", Asker(), lambda: {"energy_j": 1.0})
            free.set()
        return answer

    assert anyio.run(main) == b'{"energy_j":1.0}'


def test_a_full_lane_says_that_it_is_busy(monkeypatch):
    """Beyond the most that may wait, one is refused at once and the others are answered."""
    monkeypatch.setattr(server, "MOST_WAITING", 1)
    free = threading.Event()

    async def main():
        work = working(searches=1)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(work.answer, "searches", Asker(), free.wait, 30)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(BusyError, match="too many"):
                await work.answer("searches", Asker(), free.wait, 30)
            free.set()

    anyio.run(main)


def test_nothing_is_computed_for_nobody():
    """What its asker no longer waits for is not begun."""
    begun = []

    async def main():
        with pytest.raises(ClientDisconnect):
            await working(searches=1).answer("searches", Asker(gone=True), begun.append, 1)

    anyio.run(main)
    assert begun == []


def test_one_fit_at_a_time():
    """A second fit is asked to come again."""

    async def main():
        work = working()
        await work.fits.acquire()
        with pytest.raises(BusyError, match="another fit"):
            await work.fit("step", b"")

    anyio.run(main)


def test_a_fit_that_takes_too_long_is_stopped():
    """Its process is ended, and the line says how long it may take."""

    async def main():
        with pytest.raises(DataError, match="took too long"):
            await run_worker("step", b"", seconds=0.001)

    anyio.run(main)
