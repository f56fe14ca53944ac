"""The column maps that wattlaw ships, one TOML file each."""

from __future__ import annotations

from pathlib import Path

from wattlaw.errors import UnknownNameError

# A path, not importlib.resources, whose import alone takes longer than the look-up: wheels are installed as files.
FOLDER = Path(__file__).parent


def shipped_maps() -> tuple[str, ...]:
    """Names of the shipped maps.

    >>> "bert_gpt_multi_gpu" in shipped_maps()
    True
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def shipped_map(name: str) -> Path:
    """Path of a shipped map.

    Raises:
        UnknownNameError: there is no such map; lists the nearest.
    """
    if name not in shipped_maps():
        raise UnknownNameError.among("column map", name, shipped_maps(), hint="the path of a TOML file")
    return FOLDER / f"{name}.toml"
