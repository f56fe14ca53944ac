"""What the rows that a law is fitted to cover: which energies they hold, and the range of each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wattlaw.errors import DataError

if TYPE_CHECKING:
    from wattlaw.features.table import Table


Range = tuple[float, float]


def boundary(table: Table) -> str:
    """Return what the energies of the table include, empty where it does not say or they differ."""
    found = _boundaries(table)
    return found[0] if len(found) == 1 else ""


def require_one_boundary(table: Table) -> None:
    """Refuse energies that include different things.

    Raises:
        DataError: the boundaries are named.
    """
    found = _boundaries(table)
    if len(found) > 1:
        raise DataError("energies with different boundaries cannot be fitted together", given=", ".join(found))


def _boundaries(table: Table) -> list[str]:
    return sorted(set(table.text("boundary").tolist())) if "boundary" in table else []


def domain(table: Table, columns: Sequence[str]) -> dict[str, Range]:
    """Return the smallest and largest value of those of the ``columns`` that hold numbers.

    They are the ones that an estimate reads, so that every run to come has them, which it has not of what is measured.
    """
    return {
        name: (float(table[name].min()), float(table[name].max()))
        for name in columns
        if table[name].dtype.kind == "f" and len(table)
    }


def widened(ranges: Mapping[str, Range], before: Mapping[str, Range]) -> dict[str, Range]:
    """Return the ranges, wide enough to hold those that an earlier fit covered of the same columns."""
    return {
        name: (min(low, before[name][0]), max(high, before[name][1])) if name in before else (low, high)
        for name, (low, high) in ranges.items()
    }
