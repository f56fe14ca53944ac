"""Recompute every figure that wattlaw claims and write ``build/figures.json``.

Each ``scripts/*_figures.py`` has a function ``figures()`` that returns a list of
``{name, target, measured, unit, command, note}``; ``measured`` is a plain number, percentages as numbers of percent.
A figure that cannot be computed here (no tables, no torch) is left out and named on the way, never filled in.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIELDS = {"name", "target", "measured", "unit", "command", "note"}


def collect(wanted: list[str]) -> list[dict[str, Any]]:
    """Run the figure scripts whose names start with one of the ``wanted`` words (all of them for none)."""
    figures: list[dict[str, Any]] = []
    for path in sorted(HERE.glob("*_figures.py")):
        if wanted and not any(path.stem.startswith(word) for word in wanted):
            continue
        print(f"{path.name} ...", flush=True)
        for figure in importlib.import_module(path.stem).figures():
            assert set(figure) == FIELDS, figure
            assert isinstance(figure["measured"], int | float), figure
            figures.append(figure)
            print(f"  {figure['name']:42} {figure['measured']:<12.6g} {figure['unit']:10} target {figure['target']}")
    return figures


def main() -> None:
    """Write ``build/figures.json``."""
    figures = collect(sys.argv[1:])
    target = HERE.parent / "build" / "figures.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{len(figures)} figures in {target.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
