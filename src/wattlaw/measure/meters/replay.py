"""A meter that tells recorded readings again: for tests, and for looking at old measurements with new code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from wattlaw.errors import ConfigError, FileError, MeterError
from wattlaw.measure.reading import Reading


class ReplayMeter:
    """Return the given readings, one per window, in their order."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings: Iterator[Reading] = iter(readings)
        self._running = False

    def start(self) -> None:
        """Open a window."""
        if self._running:
            raise ConfigError("the meter is running", hint="stop() before the next start()")
        self._running = True

    def stop(self) -> Reading:
        """Return the next reading.

        Raises:
            MeterError: there are no more.
        """
        if not self._running:
            raise ConfigError("the meter is not running", hint="start() before stop()")
        self._running = False
        try:
            return next(self._readings)
        except StopIteration:
            raise MeterError("the recorded readings are at their end") from None


def append(path: Path, reading: Reading) -> None:
    """Add one reading to a file, as one line of JSON."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(reading) + b"\n")


def load(path: Path) -> list[Reading]:
    """Read all readings of a file.

    Raises:
        FileError: the file or a line of it cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise FileError("readings cannot be read", given=error.strerror).at(path) from error
    readings = []
    for number, line in enumerate(lines, start=1):
        try:
            readings.append(msgspec.json.decode(line, type=Reading))
        except msgspec.DecodeError as error:
            raise FileError("this line is no reading", given=error).at(f"{path}:{number}") from error
    return readings
