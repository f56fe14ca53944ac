"""Own and foreign processes, told from a /proc of our own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wattlaw.measure.devices import Place
from wattlaw.measure.processes import foreign, job_root


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A tree of processes: 10 is a launcher with ranks 11 and 12 in sessions of their own; 20 is somebody else's."""
    for pid, parent, session in [
        (1, 0, 1), (10, 1, 10), (11, 10, 11), (12, 10, 12), (13, 12, 12), (14, 1, 10), (20, 1, 20),
    ]:  # fmt: skip
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (strange) name) S {parent} {pid} {session} 0 -1\n")
    return tmp_path


def test_descendants_and_the_session_are_own(proc: Path) -> None:
    """Ranks of the launcher, their children, and what runs in its session belong to the job; 20 and 99 do not."""
    assert foreign([10, 11, 12, 13, 14, 20, 99, 20], 10, proc=proc) == (20, 99)


def test_the_session_of_the_first_process_tells_nothing(proc: Path) -> None:
    """What init or a container's runtime starts shares session 1 or 0: only descent makes a process the job's own."""
    for pid, parent, session in [(30, 1, 1), (31, 30, 1), (32, 1, 1), (40, 0, 0), (41, 0, 0)]:
        (proc / str(pid)).mkdir()
        (proc / str(pid) / "stat").write_text(f"{pid} (name) S {parent} {pid} {session} 0 -1\n")
    assert foreign([1, 30, 31, 32], 30, proc=proc) == (1, 32)
    assert foreign([40, 41], 40, proc=proc) == (41,)


def test_everything_in_a_container_is_own_if_its_first_process_is_the_root(proc: Path) -> None:
    """Metering as a container's entry point: all of it is the job's."""
    assert foreign([1, 10, 11, 20, 99], 1, proc=proc) == (99,)


def test_sibling_ranks_are_own_if_the_launcher_is_the_root(proc: Path) -> None:
    """Seen from rank 11 alone, its sibling 12 would be foreign."""
    assert foreign([12], 11, proc=proc) == (12,)
    assert foreign([12], 10, proc=proc) == ()


def test_without_proc_nothing_is_claimed(tmp_path: Path) -> None:
    """On systems without /proc nobody is accused."""
    assert foreign([1, 2], 1, proc=tmp_path / "nowhere") == ()


def test_root_is_this_process_or_the_launcher() -> None:
    """A rank's job is what its launcher started."""
    assert job_root(Place(host="h")) == os.getpid()
    assert job_root(Place(host="h", rank=0, local_rank=0)) == os.getppid()
