"""Setting a GPU's power limit for a while, and always giving the previous one back.

The previous limit, not the default, comes back: when the block ends or raises, when the process ends, and when it
gets SIGTERM or SIGHUP, whose handlers of before still run. A kill that no process can catch leaves a note in a
file; ``restore_left_over`` (``wattlaw doctor --restore``) then gives the limit back, and so does the next use.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from wattlaw.errors import ConfigError, MeterError
from wattlaw.measure.meters.nvml import Nvml
from wattlaw.measure.sensor import QueryUnsupportedError

#: Signals that end a process by default and that schedulers and terminals send.
_ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOver:
    """A limit that was set and not yet given back.

    Attributes:
        previous_w: what it was before.
        set_w: what it was set to.
        process: who set it.
    """

    device: str
    previous_w: float
    set_w: float
    process: int


def notes_folder() -> Path:
    """Return where notes of limits in force are kept: under ``WATTLAW_STATE``, ``XDG_STATE_HOME`` or the home."""
    if stated := os.environ.get("WATTLAW_STATE"):
        return Path(stated) / "power-limits"
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "wattlaw" / "power-limits"


@contextmanager
def power_limit(device: str, limit_w: float, *, notes: Path | None = None) -> Iterator[None]:
    """Hold one GPU's power limit at ``limit_w`` for the length of a block.

    Args:
        device: the GPU's UUID.
        limit_w: in watts, within what the GPU allows.
        notes: folder for the note of what to give back; ``notes_folder()`` if ``None``.

    Raises:
        UnknownNameError: no such GPU.
        ConfigError: the limit is outside of what the GPU allows.
        MeterError: the GPU has no limit to set, or this user may not set it.
    """
    nvml = Nvml()
    try:
        control = _Control(nvml, device)
        folder = notes_folder() if notes is None else notes
        _restore_dead(nvml, folder, only=device)
        previous_w = control.read_w()
        control.check(limit_w)
        note = _write_note(folder, LeftOver(device=device, previous_w=previous_w, set_w=limit_w, process=os.getpid()))
        restore = _Once(lambda: _give_back(control, previous_w, note))
        with _on_every_exit(restore):
            control.write_w(limit_w)
            yield
    finally:
        nvml.close()


def left_over(notes: Path | None = None) -> tuple[LeftOver, ...]:
    """List the limits that processes which are gone have left behind."""
    folder = notes_folder() if notes is None else notes
    return tuple(entry for _, entry in _notes(folder) if not _is_running(entry.process))


def restore_left_over(notes: Path | None = None) -> tuple[LeftOver, ...]:
    """Give back the limits that processes which are gone have left behind; return them.

    Raises:
        MeterError: a limit cannot be set.
    """
    folder = notes_folder() if notes is None else notes
    if not left_over(folder):
        return ()
    nvml = Nvml()
    try:
        return _restore_dead(nvml, folder)
    finally:
        nvml.close()


class _Control:
    """The power limit of one GPU; NVML's unit is the milliwatt."""

    def __init__(self, nvml: Nvml, device: str) -> None:
        self._nvml = nvml
        self._device = device
        self._handle = nvml.handle(device)

    def read_w(self) -> float:
        """Read the limit that is set."""
        try:
            return float(self._nvml.ask(self._nvml.library.nvmlDeviceGetPowerManagementLimit, self._handle)) * 1e-3
        except QueryUnsupportedError as error:
            raise MeterError("this GPU has no power limit to set", given=self._device) from error

    def check(self, limit_w: float) -> None:
        """Refuse a limit that the GPU would refuse."""
        least, most = self._nvml.ask(self._nvml.library.nvmlDeviceGetPowerManagementLimitConstraints, self._handle)
        if not least <= limit_w * 1e3 <= most:
            raise ConfigError(
                "the GPU does not allow this power limit",
                given=f"{limit_w:g} W",
                allowed=f"{least * 1e-3:g} to {most * 1e-3:g} W",
            )

    def write_w(self, limit_w: float) -> None:
        """Set the limit."""
        try:
            self._nvml.ask(self._nvml.library.nvmlDeviceSetPowerManagementLimit, self._handle, round(limit_w * 1e3))
        except QueryUnsupportedError as error:
            raise MeterError(
                "the power limit may not be set", given=self._device, hint="root, or no power limit in the sweep"
            ) from error


class _Once:
    """Call something the first time only, from whichever exit path comes first, and in this process only.

    A data loader's worker is a fork with the same handlers, and is ended by SIGTERM while the training goes on.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action
        self._process = os.getpid()

    def __call__(self) -> None:
        """Act, if nobody did before."""
        if os.getpid() != self._process:
            return
        action, self._action = self._action, None
        if action is not None:
            action()


@contextmanager
def _on_every_exit(restore: _Once) -> Iterator[None]:
    """Call ``restore`` when the block ends, and when the process is made to end inside of it."""
    atexit.register(restore)
    before = {number: _chain(number, restore) for number in _ENDING_SIGNALS} if _in_main_thread() else {}
    try:
        yield
    finally:
        restore()
        atexit.unregister(restore)
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def _in_main_thread() -> bool:
    """Tell whether signal handlers may be set; in other threads ``atexit`` and the block's end must do."""
    return threading.current_thread() is threading.main_thread()


def _chain(number: int, restore: _Once) -> Any:
    """Put ``restore`` in front of a signal's handler; return the handler, ``None`` if it was left alone."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN or before is None:
        return None

    def handle(received: int, frame: FrameType | None) -> None:
        restore()
        if callable(before):
            before(received, frame)
        else:
            # The default action, and the exit status that goes with it.
            signal.signal(received, signal.SIG_DFL)
            os.kill(os.getpid(), received)

    signal.signal(number, handle)
    return before


def _give_back(control: _Control, previous_w: float, note: Path) -> None:
    control.write_w(previous_w)
    note.unlink(missing_ok=True)


def _write_note(folder: Path, entry: LeftOver) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / f"{entry.device}.{entry.process}.json"
        note.write_bytes(msgspec.json.encode(entry))
    except OSError as error:
        raise MeterError(
            "no note can be kept of the power limit to give back",
            given=f"{folder}: {error.strerror}",
            hint="WATTLAW_STATE=<a folder that can be written>",
        ) from error
    return note


def _notes(folder: Path) -> list[tuple[Path, LeftOver]]:
    entries = []
    for path in sorted(folder.glob("*.json")):
        try:
            entries.append((path, msgspec.json.decode(path.read_bytes(), type=LeftOver)))
        except (OSError, msgspec.DecodeError):
            # A note that was cut off in writing belongs to a limit that was not yet set.
            continue
    return entries


def _restore_dead(nvml: Nvml, folder: Path, *, only: str | None = None) -> tuple[LeftOver, ...]:
    restored = []
    for path, entry in _notes(folder):
        if _is_running(entry.process) or only not in (None, entry.device):
            continue
        _give_back(_Control(nvml, entry.device), entry.previous_w, path)
        restored.append(entry)
    return tuple(restored)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
