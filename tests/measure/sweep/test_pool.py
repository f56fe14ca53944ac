"""The pool of ranks, with ranks that need no torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from wattlaw.measure.sweep.pool import Pool, PoolTimeoutError, RankDiedError, rank_environment, told_exit
from wattlaw.run import spec_to_mapping


@pytest.fixture
def pool(tmp_path, fake_rank):
    """Two ranks."""
    ranks = Pool(2, log=tmp_path / "ranks.log", command=fake_rank, start_timeout_s=30)
    yield ranks
    ranks.kill()


@pytest.fixture
def question(build_sweep):
    """A question about a DDP configuration of so many layers."""

    def build(num_layers: int, **changed: object) -> dict:
        sweep = build_sweep({"num_layers": num_layers, "strategy": "ddp", "num_devices": 2})
        spec = spec_to_mapping(sweep.runs[0].spec)
        return {"do": "measure", "spec": spec, "window": {"steps": 3, "min_window_s": 0}, "metered": False, **changed}

    return build


def is_alive(process: int) -> bool:
    """Tell whether a process runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_pool_answers_many_questions(pool, question) -> None:
    """The ranks are started once, and are the same processes afterwards."""
    pool.start()
    processes = pool.processes
    answers = [pool.ask(question(1), timeout_s=30) for _ in range(5)]
    assert [len(both) for both in answers] == [2] * 5
    assert all(answer["answer"] == "done" for both in answers for answer in both)
    assert pool.processes == processes
    assert pool.num_starts == 1


def test_a_dead_rank_is_noticed_at_once_and_replaced(pool, question) -> None:
    """A rank that is killed ends the question long before its time-out; the next question starts new ranks."""
    start_s = time.monotonic()
    with pytest.raises(RankDiedError, match="rank 1 ended; given SIGKILL"):
        pool.ask(question(7), timeout_s=60)
    assert time.monotonic() - start_s < 20
    assert not pool.is_running
    assert pool.ask(question(1), timeout_s=30)[0]["answer"] == "done"
    assert pool.num_starts == 2


def test_ranks_that_do_not_answer_are_ended(pool, question) -> None:
    """A time-out names the ranks that are silent, and leaves none of them behind."""
    pool.start()
    processes = pool.processes
    with pytest.raises(PoolTimeoutError, match="ranks 0, 1"):
        pool.ask(question(8), timeout_s=0.3)
    assert not any(is_alive(process) for process in processes)


def test_a_failure_is_an_answer(pool, question) -> None:
    """What a rank says of its own failure comes back, and the pool lives on."""
    answers = pool.ask(question(9), timeout_s=30)
    assert {answer["kind"] for answer in answers} == {"out of memory"}
    assert pool.is_running


def test_ranks_that_wait_for_a_failed_one_are_ended(pool, question, monkeypatch) -> None:
    """A rank that waits in a collective for one that failed is not waited for; the failure comes back at once."""
    monkeypatch.setattr("wattlaw.measure.sweep.pool.GRACE_S", 0.2)
    pool.start()
    start_s = time.monotonic()
    answers = pool.ask(question(12), timeout_s=60)
    assert [answer["answer"] for answer in answers] == ["failed", "missing"]
    assert time.monotonic() - start_s < 20
    assert not pool.is_running


def test_the_meter_stands_between_ready_and_measured(pool, question) -> None:
    """The rank is told to go on only after ``midway``, and ``after`` comes when it is done."""
    calls: list[str] = []
    pool.ask(question(1, metered=True), timeout_s=30, midway=lambda: calls.append("start"),
             after=lambda: calls.append("stop"))  # fmt: skip
    assert calls == ["start", "stop"]


def test_ranks_that_do_not_start_are_an_error(pool, monkeypatch) -> None:
    """A rank that ends while it starts is told with its exit code and the log."""
    monkeypatch.setenv("FAKE_RANK_BROKEN", "1")
    with pytest.raises(RankDiedError, match=r"exit code 1; try .*ranks\.log"):
        pool.start()
    assert not pool.is_running


def test_closing_leaves_no_process(pool, question) -> None:
    """After ``close`` the ranks are gone."""
    pool.ask(question(1), timeout_s=30)
    processes = pool.processes
    pool.close()
    assert not any(is_alive(process) for process in processes)


def test_a_killed_parent_leaves_no_rank(tmp_path, fake_rank) -> None:
    """A parent that gets kill -9 takes its ranks with it: their input ends."""
    program = (
        "import sys, pathlib, time; from wattlaw.measure.sweep.pool import Pool;"
        f"pool = Pool(2, log=pathlib.Path(sys.argv[1]), command={list(fake_rank)!r}); pool.start();"
        "print(*pool.processes, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    with parent:
        processes = [int(number) for number in parent.stdout.readline().split()]
        parent.kill()
    assert len(processes) == 2
    deadline_s = time.monotonic() + 10
    while any(is_alive(process) for process in processes) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not any(is_alive(process) for process in processes)


def test_the_environment_of_a_rank() -> None:
    """Threads are the rank's own, the package is found, and a user's path and interface are kept."""
    changed = rank_environment({"PYTHONPATH": "mine", "GLOO_SOCKET_IFNAME": "eth7"}, threads=3)
    assert changed["OMP_NUM_THREADS"] == "3"
    assert changed["PYTHONPATH"].split(os.pathsep)[1] == "mine"
    assert changed["GLOO_SOCKET_IFNAME"] == "eth7"
    assert changed["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_every_end_has_a_name() -> None:
    """Signals are told by name, other ends by code."""
    assert told_exit(-signal.SIGSEGV) == "SIGSEGV"
    assert told_exit(3) == "exit code 3"
