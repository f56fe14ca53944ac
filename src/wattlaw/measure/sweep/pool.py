"""A persistent pool of ranks: started once, then asked for one configuration after another.

Ranks are processes of their own that speak JSON over pipes (see ``worker``), so this side needs no torch, and a rank
that dies takes nothing with it. Every rank's pipe is watched: the end of one is the end of its rank, which is known
at once, while the others would wait for it in a collective for ever.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from wattlaw.errors import WattlawError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Message = dict[str, Any]

RANK_COMMAND = (sys.executable, "-m", "wattlaw.measure.sweep.worker")
START_TIMEOUT_S = 180.0
#: After one rank failed the others have this long to say how they ended.
GRACE_S = 2.0
#: For a rank that was killed to be gone.
REAP_S = 10.0


class PoolError(WattlawError):
    """The pool did not answer, and was ended; the next question starts a new one."""


class RankDiedError(PoolError):
    """A rank's process ended."""


class PoolTimeoutError(PoolError):
    """The ranks did not answer in time."""


class Pool:
    """Ranks that wait for questions.

    Args:
        world_size: how many.
        device: ``cpu`` (gloo) or ``cuda`` (nccl).
        threads: of each rank.
        log: file that what the ranks print is added to.
        command: what starts a rank, its settings are appended as JSON; replaced in tests.
        start_timeout_s: for the ranks to be ready.
    """

    def __init__(
        self,
        world_size: int,
        *,
        device: str = "cpu",
        threads: int = 1,
        log: Path,
        command: Sequence[str] = RANK_COMMAND,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.world_size = world_size
        self._settings = {"world_size": world_size, "device": device, "threads": threads}
        self._threads = threads
        self._log = log
        self._command = tuple(command)
        self._start_timeout_s = start_timeout_s
        self._ranks: list[subprocess.Popen[str]] = []
        self._heard: queue.SimpleQueue[tuple[int, Message | None]] = queue.SimpleQueue()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.environment: dict[str, str] = {}
        self.num_starts = 0

    @property
    def is_running(self) -> bool:
        """Whether the ranks are there."""
        return bool(self._ranks)

    @property
    def processes(self) -> tuple[int, ...]:
        """The ranks' process ids."""
        return tuple(rank.pid for rank in self._ranks)

    def start(self) -> None:
        """Start the ranks, if they are not there, and wait until they are ready.

        Raises:
            RankDiedError: one ended while it started; the log says why.
            PoolTimeoutError: they are not ready in time.
        """
        if self._ranks:
            return
        self.num_starts += 1
        self._folder = tempfile.TemporaryDirectory(prefix="wattlaw-pool-")
        # A queue of its own: what ranks of before still had to say is not for this pool.
        self._heard = queue.SimpleQueue()
        try:
            for number in range(self.world_size):
                self._ranks.append(self._start_rank(number, self._folder.name))
            answers = self._collect("ready", time.monotonic() + self._start_timeout_s)
        except BaseException:
            self.kill()
            raise
        self.environment = dict(answers[0].get("environment", {}))

    def ask(
        self,
        question: Mapping[str, Any],
        *,
        timeout_s: float,
        midway: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> list[Message]:
        """Ask every rank the same and return their answers, by rank.

        Args:
            question: what to do.
            timeout_s: for all answers.
            midway: called when a rank says that it is ready to be measured, before it is told to go on.
            after: called when it says that it is done measuring.

        Raises:
            RankDiedError: a rank ended; the pool is ended too.
            PoolTimeoutError: an answer is missing; the pool is ended.
        """
        self.start()
        deadline_s = time.monotonic() + timeout_s
        try:
            for number in range(self.world_size):
                self._tell(number, question)
            return self._collect("done", deadline_s, midway, after)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the ranks at once."""
        ranks, self._ranks = self._ranks, []
        for rank in ranks:
            rank.kill()
        self._reap(ranks)

    def close(self) -> None:
        """Close the ranks' input, which ends them."""
        ranks, self._ranks = self._ranks, []
        for rank in ranks:
            if rank.stdin is not None:
                try:
                    rank.stdin.close()
                except OSError:
                    continue  # it is gone already
        self._reap(ranks)

    # ---------------------------------------------------------------- inside

    def _start_rank(self, number: int, folder: str) -> subprocess.Popen[str]:
        settings = {**self._settings, "rank": number, "store": str(Path(folder) / "store")}
        with self._log.open("ab") as log:
            rank = subprocess.Popen(  # noqa: S603 - our own module
                [*self._command, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=rank_environment(os.environ, self._threads),
                text=True,
                encoding="utf-8",
                # The terminal's Ctrl-C goes to the parent alone.
                start_new_session=True,
            )
        threading.Thread(target=_listen, args=(number, rank.stdout, self._heard), daemon=True).start()
        return rank

    def _tell(self, number: int, message: Mapping[str, Any]) -> None:
        try:
            print(json.dumps(message), file=self._ranks[number].stdin, flush=True)
        except OSError as error:
            raise self._death(number) from error

    def _collect(
        self,
        final: str,
        deadline_s: float,
        midway: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> list[Message]:
        """Wait until every rank has given its final answer; after a failure the others have a little time left."""
        answers: dict[int, Message] = {}
        while len(answers) < self.world_size:
            try:
                number, message = self._heard.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                if any(answer["answer"] == "failed" for answer in answers.values()):
                    break
                raise PoolTimeoutError(
                    "no answer in time", given=f"ranks {self._missing(answers)} are still at it"
                ) from None
            if message is None:
                raise self._death(number)
            if message["answer"] in (final, "failed"):
                answers[number] = message
                if message["answer"] == "failed":
                    deadline_s = min(deadline_s, time.monotonic() + GRACE_S)
            elif message["answer"] == "measured":
                after()
            else:
                midway()
                self._tell(number, {"do": "go"})
        if len(answers) < self.world_size:
            # The silent ones wait in a collective that will never end.
            self.kill()
        return [answers.get(number, {"answer": "missing"}) for number in range(self.world_size)]

    def _missing(self, answers: Mapping[int, Message]) -> str:
        return ", ".join(str(number) for number in range(self.world_size) if number not in answers)

    def _death(self, number: int) -> RankDiedError:
        try:
            code = self._ranks[number].wait(timeout=REAP_S)
        except subprocess.TimeoutExpired:
            # It closed its output and lives on, which none of ours does.
            self._ranks[number].kill()
            code = self._ranks[number].wait()
        return RankDiedError(f"rank {number} ended", given=told_exit(code), hint=str(self._log))

    def _reap(self, ranks: Sequence[subprocess.Popen[str]]) -> None:
        for rank in ranks:
            try:
                rank.wait(timeout=REAP_S)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()
            for pipe in (rank.stdin, rank.stdout):
                _close(pipe)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def rank_environment(environ: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the environment of a rank: this package on its path, its threads, GPUs in the driver's order."""
    source = str(Path(__file__).resolve().parents[3])
    path = environ.get("PYTHONPATH")
    changed = {
        **environ,
        "PYTHONPATH": source if not path else os.pathsep.join([source, path]),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TOKENIZERS_PARALLELISM": "false",
        # Nothing is downloaded for a model that is built from its sizes.
        "HF_HUB_OFFLINE": "1",
    }
    if sys.platform == "linux":
        # A container's host name may have no address; the ranks are on one machine.
        changed.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return changed


def told_exit(code: int) -> str:
    """Tell how a process ended.

    >>> told_exit(-9), told_exit(1)
    ('SIGKILL, perhaps for lack of memory', 'exit code 1')
    """
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"{name}, perhaps for lack of memory" if name == "SIGKILL" else name


def _listen(number: int, pipe: IO[str], heard: queue.SimpleQueue[tuple[int, Message | None]]) -> None:
    try:
        for line in pipe:
            heard.put((number, json.loads(line)))
    except ValueError:
        pass  # half a line of a rank that was killed, or the pipe was closed here
    heard.put((number, None))


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        try:
            pipe.close()
        except OSError:
            return
