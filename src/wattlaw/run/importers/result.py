"""What an importer hands back: the records, and the rows that it could not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattlaw.run.record import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A row that was not imported.

    Attributes:
        row: its line in the file, as an editor counts them.
        reason: why, in one line.
    """

    row: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Records and skipped rows; together they are all rows of the source."""

    records: tuple[RunRecord, ...]
    skipped: tuple[Skipped, ...] = ()
