"""What the rows that a law is fitted to cover: which energies they hold, and the range of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattlaw.features.table import Table


def boundary(table: Table) -> str:
    """Return what the energies of the table include, empty where it does not say or they differ."""
    found = set(table.text("boundary").tolist()) if "boundary" in table else set()
    return found.pop() if len(found) == 1 else ""


def domain(table: Table, columns: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of those of the ``columns`` that hold numbers.

    They are the ones that an estimate reads, so that every run to come has them, which it has not of what is measured.
    """
    return {
        name: (float(table[name].min()), float(table[name].max()))
        for name in columns
        if table[name].dtype.kind == "f" and len(table)
    }
