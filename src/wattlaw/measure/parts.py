"""The parts of a job: one file per node beside the store, from its start until the job's record is written.

::

    runs/records.jsonl                      the store
    runs/.records.jsonl.open/JOB/NODE.json  a part: first open, then closed with the node's reading
    runs/.records.jsonl.open/JOB/rank-3.json  a rank that does not meter, and failed

Whoever closes the last part claims the folder by renaming it, which only one process can, writes the job's record
into the store and deletes the folder. A part is there from the start, so that a process that is killed leaves a
trace: the next job of the same store finds it and records the job as failed. No network, no lock, no waiting.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from wattlaw.errors import FileError, WattlawError
from wattlaw.measure.reading import BOUNDARIES, Reading, merge
from wattlaw.measure.record import energies_of, environment_of, observed_of
from wattlaw.measure.sensor import DeviceState
from wattlaw.run import RunRecord, append_record, write_atomic
from wattlaw.run.record import Status, record_from_mapping

#: A process renews its open part, with what it has measured so far, this often, and is taken for dead after this long.
RENEW_S = 10.0
DEAD_AFTER_S = 300.0

CLAIMED = ".claimed"
#: A shell adds this to the number of the signal that ended a command.
SIGNALLED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one node knows of a job.

    Attributes:
        record_id: of the record that the job gets if this is its first node.
        node: this node among those of the job.
        num_nodes: how many parts the job has.
        host: the node's name.
        origin: process and machine that wrote it, to tell whether it still lives.
        draft: the record's fields as far as they are known, as ``record_to_mapping`` lays them out.
        closed: the node's window has ended, and the draft is final.
        status: of the node's share of the job.
        exit_code: of its command, where there is one.
        reason: why it failed, or why its energy is unknown.
        reading: what was measured: of an open part until it was renewed, ``None`` before that.
        states: of the devices at the end.
        drivers: versions.
    """

    record_id: str
    node: str
    num_nodes: int
    host: str
    origin: str
    draft: dict[str, Any]
    closed: bool = False
    status: Status = "ok"
    exit_code: int | None = None
    reason: str = ""
    reading: Reading | None = None
    states: tuple[DeviceState, ...] = ()
    drivers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """A rank that does not meter, and failed."""

    rank: int
    reason: str
    exit_code: int | None = None


def new_record_id() -> str:
    """Name a record: when its job began, and a random part."""
    return f"job-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"


class Parts:
    """The folder of the open jobs of one store.

    Args:
        store: the store's file.
        dead_after_s: how long an open part that nobody renews is taken for alive.
    """

    def __init__(self, store: Path, *, dead_after_s: float = DEAD_AFTER_S) -> None:
        self._store = store
        self._folder = store.with_name(f".{store.name}.open")
        self._dead_after_s = dead_after_s

    def put(self, job: str, part: Part) -> Path:
        """Write a part, in place of the same node's former one, and return its file.

        Raises:
            FileError: the folder cannot be written.
        """
        path = self._folder / job / f"{part.node}.json"
        _write(path, part)
        return path

    def put_failure(self, job: str, failure: RankFailure) -> bool:
        """Leave word that a rank failed; ``False`` if the job's record is written already."""
        if not (self._folder / job).is_dir():
            return False
        _write(self._folder / job / f"rank-{failure.rank}.json", failure)
        return True

    def drop(self, job: str, node: str) -> None:
        """Forget a part: nothing was run."""
        (self._folder / job / f"{node}.json").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (self._folder / job).rmdir()

    def finish(self, job: str) -> RunRecord | None:
        """Write the job's record if all its parts are closed and nobody else is at it; ``None`` otherwise.

        Raises:
            FileError: the record cannot be written; the parts are kept.
        """
        parts, _ = _read(self._folder / job)
        if not parts or not all(part.closed for part in parts) or len(parts) < _num_nodes(parts):
            return None
        return self._write_record(self._folder / job)

    def recover(self) -> list[RunRecord]:
        """Record the jobs whose processes ended without a word, and return their records."""
        try:
            folders = [entry for entry in self._folder.iterdir() if entry.is_dir()]
        except OSError:
            return []
        found = (self._write_record(folder) for folder in folders if self._is_abandoned(folder))
        return [record for record in found if record is not None]

    def recover_node(self, job: str, node: str) -> RunRecord | None:
        """Record what a former job of the same name has left in this node's place."""
        path = self._folder / job / f"{node}.json"
        parts, _ = _read(path.parent)
        if not any(part.node == node for part in parts):
            return None
        if _num_nodes(parts) == 1:
            return self._write_record(path.parent)
        # The other nodes' parts may belong to the new job: they may have been faster than this node.
        own = path.parent.with_name(f"{job}.{secrets.token_hex(4)}")
        own.mkdir()
        try:
            path.rename(own / path.name)
        except FileNotFoundError:
            own.rmdir()
            return None
        return self._write_record(own)

    def _write_record(self, folder: Path) -> RunRecord | None:
        """Claim a job's folder, write its record and delete it; ``None`` if another process was faster."""
        name = folder.name.split(CLAIMED)[0]
        claimed = folder.with_name(f"{name}{CLAIMED}.{secrets.token_hex(4)}")
        try:
            folder.rename(claimed)
            os.utime(claimed)
        except FileNotFoundError:
            return None
        parts, failures = _read(claimed)
        record = record_of(parts, failures) if parts else None
        # Of a claim that was broken off the record may have been written.
        is_new = record is not None and not (CLAIMED in folder.name and self._holds(record.record_id))
        if record is not None and is_new:
            try:
                append_record(self._store, record)
            except WattlawError:
                claimed.rename(folder)
                raise
        shutil.rmtree(claimed, ignore_errors=True)
        return record if is_new else None

    def _holds(self, record_id: str) -> bool:
        return self._store.exists() and f'"record_id":"{record_id}"'.encode() in self._store.read_bytes()

    def _is_abandoned(self, folder: Path) -> bool:
        if CLAIMED in folder.name:
            return _age_s(folder) > self._dead_after_s
        parts, _ = _read(folder)
        if any(not part.closed and self._is_alive(folder, part) for part in parts):
            return False
        complete = bool(parts) and len(parts) == _num_nodes(parts)
        return complete or _age_s(folder) > self._dead_after_s

    def _is_alive(self, folder: Path, part: Part) -> bool:
        machine, _, pid = part.origin.rpartition("/")
        if machine == _machine() and not _runs(int(pid)):
            return False
        return _age_s(folder / f"{part.node}.json") <= self._dead_after_s


# -------------------------------------------------------------------- from parts to a record


def record_of(parts: Sequence[Part], failures: Sequence[RankFailure] = ()) -> RunRecord:
    """Make the record of a job from the parts of its nodes; each device counts once.

    An energy is of all nodes or unknown: where a node's part is missing, open, or lacks what another node has
    measured, the record holds no such energy, and the notes say why. Of a job on one node that was killed, it is what
    was measured until the part was last renewed, and the notes say of how long that is.
    """
    parts = sorted(parts, key=lambda part: (len(part.node), part.node))
    draft = record_from_mapping(parts[0].draft)
    reading = merge([part.reading for part in parts if part.reading is not None])
    complete = _complete_only(parts, reading)
    faults = [*_faults(parts), *(f"rank {failure.rank}: {failure.reason}" for failure in failures)]
    codes = [code for code in (*(part.exit_code for part in parts), *(one.exit_code for one in failures)) if code]
    durations = [part.reading.requested_s for part in parts if part.reading is not None]
    failed = bool(faults) or any(part.status == "failed" for part in parts)
    doubts = [part.reason for part in parts if part.closed and part.status == "ok" and part.reason]
    told = len(parts) == _num_nodes(parts) and all(part.exit_code is not None for part in parts)
    return replace(
        draft,
        record_id=parts[0].record_id,
        status="failed" if failed else draft.status,
        duration_s=max(durations, default=0.0) or None,
        energies=energies_of(complete),
        observed={
            **draft.observed,
            **observed_of(complete),
            "num_nodes": _num_nodes(parts),
            # A launcher ends the other ranks by signals: the rank that failed by itself is the cause.
            **({"exit_code": min(codes, key=lambda code: code > SIGNALLED, default=0)} if told or codes else {}),
        },
        notes="; ".join(dict.fromkeys([*([draft.notes] if draft.notes else []), *faults, *doubts, *_gaps(parts)])),
        environment={
            **environment_of(
                reading,
                [state for part in parts for state in part.states],
                {name: version for part in parts for name, version in part.drivers.items()},
            ),
            **draft.environment,
        },
    )


def _num_nodes(parts: Sequence[Part]) -> int:
    return max(part.num_nodes for part in parts)


def _faults(parts: Sequence[Part]) -> Iterator[str]:
    many = _num_nodes(parts) > 1
    for part in parts:
        where = f"node {part.node}: " if many else ""
        if not part.closed:
            known = "unknown" if part.reading is None else f"known of its first {part.reading.duration_s:.0f} s only"
            yield f"{where}killed before it could report: what it used is {known}"
        elif part.status == "failed":
            yield f"{where}{part.reason or 'failed'}"
    if len(parts) < _num_nodes(parts):
        yield f"{len(parts)} of {_num_nodes(parts)} nodes reported"


def _gaps(parts: Sequence[Part]) -> Iterator[str]:
    """Tell which energies are left out because they are not of the whole job."""
    for boundary in BOUNDARIES:
        count = sum(_has(part, boundary) for part in parts)
        if 0 < count < _num_nodes(parts):
            yield f"energy of {boundary} measured on {count} of {_num_nodes(parts)} nodes, so unknown for the job"
    for part in parts:
        for warning in part.reading.warnings if part.reading is not None else ():
            if warning.kind == "ranks-unmetered":
                yield f"energy of accelerators unknown for the job: {warning}"


def _complete_only(parts: Sequence[Part], reading: Reading) -> Reading:
    """Keep the energies of the boundaries that every node has measured in full."""
    known = {boundary for boundary in BOUNDARIES if all(_has(part, boundary) for part in parts)}
    if len(parts) < _num_nodes(parts):
        known = set()
    if any(warning.kind == "ranks-unmetered" for warning in reading.warnings):
        known -= {"accelerators"}
    return replace(reading, energies=tuple(entry for entry in reading.energies if entry.boundary in known))


def _has(part: Part, boundary: Any) -> bool:
    if not part.closed and part.num_nodes > 1:
        return False
    total = part.reading.total(boundary) if part.reading is not None else None
    return total is not None and total.energy_j is not None


# -------------------------------------------------------------------- files and processes


def _write(path: Path, value: Part | RankFailure) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError("cannot make the folder", given=error.strerror).at(path.parent) from error
    write_atomic(path, msgspec.json.encode(value).decode())


def _read(folder: Path) -> tuple[list[Part], list[RankFailure]]:
    """Read what is in a job's folder; files that vanish meanwhile, or are not ours, are passed over."""
    parts: list[Part] = []
    failures: list[RankFailure] = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError, WattlawError):
            content = path.read_bytes()
            if path.name.startswith("rank-"):
                failures.append(msgspec.json.decode(content, type=RankFailure))
            else:
                part = msgspec.json.decode(content, type=Part)
                record_from_mapping(part.draft)
                parts.append(part)
    return parts, failures


def origin() -> str:
    """Name this process so that another one on this machine can tell whether it lives."""
    return f"{_machine()}/{os.getpid()}"


def _machine() -> str:
    """Tell machines, their boots, and containers apart: where this differs, process numbers mean nothing."""
    boot, namespace = "", ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()}/{boot}/{namespace}"


def _runs(pid: int) -> bool:
    if os.name != "posix":
        return True  # os.kill(pid, 0) would end it on Windows: there the age of the part decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def environment(mapping: Mapping[str, str | None]) -> dict[str, str]:
    """Keep what is known."""
    return {name: value for name, value in mapping.items() if value}
