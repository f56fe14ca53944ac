"""Ctrl-C: the first finishes what is running and stops, the second stops at once; so does SIGTERM."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


class Stop:
    """Whether somebody asked for an end."""

    def __init__(self, told: Callable[[], None] = lambda: None) -> None:
        self.asked = False
        self._told = told

    def ask(self) -> None:
        """Ask for an end after the running configuration; a second time, at once.

        Raises:
            KeyboardInterrupt: it had been asked for already.
        """
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._told()


@contextmanager
def stop_on_signals(told: Callable[[], None] = lambda: None) -> Iterator[Stop]:
    """Turn signals into a request, for the length of a block; handlers of before come back.

    Args:
        told: called when the first Ctrl-C came, to tell the user what happens now.
    """
    stop = Stop(told)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.ask()

    def terminate(_number: int, _frame: FrameType | None) -> None:
        stop.asked = True
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        # Handlers are the main thread's; whoever runs a sweep in another one asks by ``stop``.
        yield stop
        return
    before = {signal.SIGINT: signal.signal(signal.SIGINT, interrupt),
              signal.SIGTERM: signal.signal(signal.SIGTERM, terminate)}  # fmt: skip
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
