"""A user's command, metered: its input, output, signals and exit code pass through as if wattlaw were not there."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from wattlaw.errors import ConfigError, WattlawError
from wattlaw.measure.job import DEFAULT_STORE, Job
from wattlaw.measure.membership import INSIDE_VARIABLE, Membership
from wattlaw.measure.meter import Meter
from wattlaw.measure.parts import SIGNALLED
from wattlaw.run import RunSpec

#: What a shell says of a command that it cannot start.
NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: Signals that are handed on. Ctrl-Z and the window's size reach the command by themselves.
PASSED = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
#: Of a signal that the terminal sent to everything in the foreground, the command included (Linux, siginfo.h).
FROM_KERNEL = 0x80

_SECRET = re.compile(r"(?i)(^|[-_])(token|secret|password|passwd|api[-_]?key|access[-_]?key|credentials?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What became of a command.

    Attributes:
        exit_code: as a shell tells it: 128 and the signal's number if a signal ended it.
        job: with the record, if this process wrote it.
        fault: why there is no record although there should be one; ``None`` if all is well.
    """

    exit_code: int
    job: Job
    fault: str | None = None


def run_command(
    arguments: Sequence[str],
    *,
    spec: RunSpec | None = None,
    output: str | Path = DEFAULT_STORE,
    declared_power_w: float | None = None,
    meter: Meter | None = None,
    here: Membership | None = None,
) -> CommandResult:
    """Run a command, meter this node while it runs, and record it.

    Under torchrun and Slurm, where every rank runs this, the first rank of each node meters and the job gets one
    record. A command that fails is recorded as failed. To be called from the main thread of a program that does
    nothing else.

    Args:
        arguments: the command and its arguments.
        spec: what it runs, if that is known.
        output: the store, a file of JSON lines.
        declared_power_w: power of the node as the user states it.
        meter: what measures this node; made of this machine's sensors if ``None``.
        here: which job and node this process belongs to; found out if ``None``.

    Raises:
        ConfigError: no command, or the process has a rank but no local rank.
        FileError: the store's folder cannot be written; the command is not run.
    """
    if not arguments:
        raise ConfigError("no command to run", hint="'wattlaw run -- python train.py'")
    with _signals_held() as mask:
        job = Job(output, source="wattlaw run", meter=meter, declared_power_w=declared_power_w, here=here)
        if spec is not None:
            job.describe(spec)
        job.surround(command=shlex.join(without_secrets(arguments)))
        job.start()
        environ = {**os.environ, INSIDE_VARIABLE: job.record_id}
        try:
            code = _run(arguments, environ, mask)
        except OSError as error:
            job.cancel()
            missing = isinstance(error, FileNotFoundError)
            fault = f"cannot run {arguments[0]!r}: {error.strerror}"
            return CommandResult(exit_code=NOT_FOUND if missing else NOT_EXECUTABLE, job=job, fault=fault)
        try:
            job.finish(failure=_failure(code), exit_code=code)
        except WattlawError as error:
            return CommandResult(exit_code=code, job=job, fault=str(error))
    return CommandResult(exit_code=code, job=job)


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Blank the values of options that look like secrets: records are published.

    >>> without_secrets(["train.py", "--hub-token=abc", "--api_key", "abc", "--lr", "1e-4"])
    ['train.py', '--hub-token=***', '--api_key', '***', '--lr', '1e-4']
    """
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        name, given, _ = argument.partition("=")
        secret = bool(_SECRET.search(name))
        if hide_next and not argument.startswith("-"):
            shown.append("***")
        else:
            shown.append(f"{name}=***" if secret and given else argument)
        hide_next = secret and not given and argument.startswith("-")
    return shown


def _failure(code: int) -> str | None:
    if code == 0:
        return None
    if code > SIGNALLED:
        with contextlib.suppress(ValueError):
            return f"ended by {signal.Signals(code - SIGNALLED).name}"
    return f"exit code {code}"


# -------------------------------------------------------------------- processes and signals


@contextmanager
def _signals_held() -> Iterator[set[signal.Signals] | None]:
    """Keep signals from ending this process, which has a record to write; give the mask of before.

    Threads that are started meanwhile inherit the mask, so that none of them is struck instead.
    """
    if not hasattr(signal, "sigwaitinfo") or threading.current_thread() is not threading.main_thread():
        yield None
        return
    held = {*PASSED, signal.SIGCHLD}
    # A parent that ignores the end of its children leaves that to us, and then we would not learn of it.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield {signal.Signals(number) for number in mask}
    finally:
        while signal.sigtimedwait(held, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run(arguments: Sequence[str], environ: Mapping[str, str], mask: set[signal.Signals] | None) -> int:
    if mask is None:
        return _run_plainly(arguments, environ)
    # What Python ignores for its own sake, the command must find as it would have been.
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]
    pid = os.posix_spawnp(arguments[0], list(arguments), environ, setsigmask=mask, setsigdef=defaults)
    while True:
        told = signal.sigwaitinfo({*PASSED, signal.SIGCHLD})
        if told.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return _shell_code(os.waitstatus_to_exitcode(status))
        elif told.si_code != FROM_KERNEL:
            os.kill(pid, told.si_signo)


def _run_plainly(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do the same where one cannot wait for signals: Ctrl-C is the terminal's, everything else is handed on."""
    handed_on = [number for number in PASSED if number != signal.SIGINT]
    process: subprocess.Popen[bytes] | None = None

    def hand_on(number: int, _: FrameType | None) -> None:
        if process is not None:
            process.send_signal(number)

    former = {number: signal.signal(number, hand_on) for number in handed_on}
    former[signal.SIGINT] = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        process = subprocess.Popen(arguments, env=environ)  # noqa: S603 - it is what the user asks for
        return _shell_code(process.wait())
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _shell_code(code: int) -> int:
    return SIGNALLED - code if code < 0 else code
