"""Whose processes are on a device: the job's own, or somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from wattlaw.measure.devices import Place

PROC = Path("/proc")


def job_root(here: Place) -> int:
    """Return the process whose descendants are the job: this one, or the launcher of the ranks of this node."""
    return os.getpid() if here.rank is None else os.getppid()


def foreign(pids: Iterable[int], root: int, *, proc: Path = PROC) -> tuple[int, ...]:
    """Pick the processes that are neither ``root`` nor its descendants nor in its session.

    A session tells only if a login or a launcher opened it: everything that the first process of a machine or of a
    container starts shares session 1, and everything that was started from outside of a container shares session 0.
    A process that ``/proc`` does not show (another container's, or seen from another PID namespace) is foreign.
    Without ``/proc`` nothing can be told and the answer is empty.
    """
    if not proc.is_dir():
        return ()
    return tuple(sorted(pid for pid in set(pids) if not _is_own(pid, root, proc)))


def _is_own(pid: int, root: int, proc: Path) -> bool:
    session = _status(root, proc)
    status = _status(pid, proc)
    if session is not None and status is not None and status[1] == session[1] > 1:
        return True
    while status is not None:
        if pid == root:
            return True
        pid = status[0]
        status = _status(pid, proc)
    return False


def _status(pid: int, proc: Path) -> tuple[int, int] | None:
    """Read parent and session of a process; fields 4 and 6 of ``/proc/PID/stat`` (man 5 proc)."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The second field is the command in parentheses, and may hold spaces and parentheses of its own.
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), int(fields[3])
