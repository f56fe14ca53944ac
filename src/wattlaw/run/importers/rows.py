"""Reading the rows of a CSV file: cells as text, an empty cell as unknown, every error with line and column."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattlaw.errors import DataError, FileError, UnknownNameError
from wattlaw.run.importers.result import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Integers of a file above this are not exact as floating-point numbers.
EXACT = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: its line in the file and its cells by the name of their column."""

    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str | None:
        """Return the text of a cell without surrounding space, or ``None`` where it is empty."""
        return self.cells[column].strip() or None

    def number(self, column: str) -> float | None:
        """Return the number of a cell, whole numbers as integers, or ``None`` where it is empty.

        Raises:
            DataError: the cell is no finite number.
        """
        text = self.text(column)
        if text is None:
            return None
        try:
            number = math.nan if "_" in text else float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise DataError("not a finite number", given=repr(text), allowed="a number, or nothing").at(
                f"column {column}"
            )
        return int(number) if number % 1 == 0 and abs(number) <= EXACT else number


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A CSV file: its columns, its readable rows, and the lines that do not have as many cells as the header."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]

    def require_columns(self, *names: str) -> None:
        """Refuse a file that lacks a column, and list those with the nearest names."""
        for name in names:
            if name not in self.columns:
                raise UnknownNameError.among("column", name, self.columns).at(self.path)


def read_rows(path: str | Path) -> Rows:
    """Read a CSV file with a header.

    Raises:
        FileError: the file cannot be read, is empty, or names a column twice.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(_lines(csv.reader(file, strict=True)))
    except OSError as error:
        raise FileError("cannot read the file", given=error.strerror).at(path) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError("not a CSV file", given=error).at(path) from error
    if not lines:
        raise FileError("an empty file", allowed="a header and rows").at(path)
    columns = tuple(name.strip() for name in lines[0][1])
    for name in columns:
        if columns.count(name) > 1:
            raise FileError("two columns have the same name", given=repr(name)).at(path)
    rows, skipped = [], []
    for line, cells in lines[1:]:
        if len(cells) == len(columns):
            rows.append(Row(line=line, cells=dict(zip(columns, cells, strict=True))))
        else:
            skipped.append(Skipped(row=line, reason=f"{len(cells)} cells; allowed {len(columns)}, as in the header"))
    return Rows(path=path, columns=columns, rows=tuple(rows), skipped=tuple(skipped))


def _lines(reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    for cells in reader:
        if cells:
            yield reader.line_num, cells  # type: ignore[attr-defined]
