"""Recorded readings, told again."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattlaw.errors import FileError, MeterError
from wattlaw.measure import DeviceEnergy, MeterWarning, Reading
from wattlaw.measure.meters.replay import ReplayMeter, append, load

READING = Reading(
    energies=(
        DeviceEnergy(
            device="GPU-a", name="n", boundary="accelerators", domain="gpu", energy_j=3.0, method="counter", source="s"
        ),
        DeviceEnergy(
            device="GPU-b", name="n", boundary="accelerators", domain="gpu", energy_j=None, method=None, source="s"
        ),
    ),
    duration_s=1.0,
    requested_s=1.0,
    warnings=(MeterWarning(kind="device-lost", device="GPU-b", text="lost"),),
)


def test_what_was_written_is_told_again(tmp_path: Path) -> None:
    """Readings come back in their order and unchanged, unknown energies as unknown."""
    path = tmp_path / "readings.jsonl"
    for _ in range(2):
        append(path, READING)
    meter = ReplayMeter(load(path))
    for _ in range(2):
        meter.start()
        assert meter.stop() == READING
    meter.start()
    with pytest.raises(MeterError, match="at their end"):
        meter.stop()


def test_line_that_is_no_reading_is_named(tmp_path: Path) -> None:
    """The file and the line are in the message."""
    path = tmp_path / "readings.jsonl"
    append(path, READING)
    with path.open("a") as file:
        file.write('{"energies": 3}\n')
    with pytest.raises(FileError, match=r"readings\.jsonl:2"):
        load(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A path that is not there is one line."""
    with pytest.raises(FileError, match="nowhere"):
        load(tmp_path / "nowhere")
