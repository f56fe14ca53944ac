"""The calibrations that wattlaw ships, fitted by ``scripts/fit_calibrations.py`` from published measurements."""

from __future__ import annotations

from functools import cache
from importlib import resources

from wattlaw.errors import UnknownNameError
from wattlaw.law.calibration import Calibration

_FOLDER = resources.files("wattlaw.law") / "data" / "bundled"

#: What is used where no calibration is named.
DEFAULT = "step"


def bundled_names() -> tuple[str, ...]:
    """Return the names of the shipped calibrations."""
    return tuple(sorted(file.name.removesuffix(".json") for file in _FOLDER.iterdir() if file.name.endswith(".json")))


@cache
def bundled(name: str = DEFAULT) -> Calibration:
    """Return a shipped calibration.

    ``step``: the step law with the parameters that hold for all machines, and those of the hosts with an
    A100-SXM4-40GB and with RTX 2080 Ti that it was fitted on.

    Raises:
        UnknownNameError: none of this name.
    """
    if name not in bundled_names():  # exactly: a name is no path
        raise UnknownNameError.among("shipped calibration", name, bundled_names())
    return Calibration.from_json((_FOLDER / f"{name}.json").read_bytes(), place=f"{name}.json")
