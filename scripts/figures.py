"""Recompute every figure that wattlaw claims and write ``build/figures.json``.

Each ``scripts/*_figures.py`` has a function ``figures()`` that returns a list of
``{name, target, measured, unit, command, note}``; ``measured`` is a plain number, percentages as numbers of percent.
What cannot be computed here (no tables, no torch) ends the run; what was computed before it is in the file. Words after
the command choose scripts by the start of their names; the figures of the others stay as they are in the file.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from claims import FIELDS, Figure, show

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "build" / "figures.json"


def scripts(wanted: list[str]) -> list[Path]:
    """Figure scripts whose names start with one of the ``wanted`` words (all for none); those that take long last."""
    found = sorted(HERE.glob("*_figures.py"), key=lambda path: (path.stem.startswith("measure"), path.stem))
    return [path for path in found if not wanted or any(path.stem.startswith(word) for word in wanted)]


def collect(wanted: list[str]) -> list[Figure]:
    """Run the scripts one by one; the file is written after each, so that a later one cannot take it along."""
    figures: list[Figure] = []
    before: list[Figure] = json.loads(TARGET.read_text()) if wanted and TARGET.exists() else []
    for path in scripts(wanted):
        print(f"{path.name} ...", flush=True)
        for figure in importlib.import_module(path.stem).figures():
            assert tuple(figure) == FIELDS, figure
            assert isinstance(figure["measured"], int | float), figure
            figures.append(figure)
            show([figure])
        TARGET.parent.mkdir(exist_ok=True)
        names = {figure["name"] for figure in figures}
        kept = [figure for figure in before if figure["name"] not in names]
        TARGET.write_text(json.dumps([*kept, *figures], indent=1) + "\n")
    return figures


def main() -> None:
    """Write ``build/figures.json``."""
    figures = collect(sys.argv[1:])
    print(f"{len(figures)} figures in {TARGET.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
