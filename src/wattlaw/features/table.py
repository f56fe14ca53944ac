"""Named columns of one length: what a law sees of any number of runs."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wattlaw.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """Columns of numbers or text, one entry per run, that cannot be changed.

    A number is a finite float64 and its column's name ends in the unit (``energy_j``); a column that some run
    lacks is left out of the table rather than filled. Text columns hold names (``strategy``, ``group``).

    Attributes:
        columns: the column of each name, all of one length.

    Raises:
        DataError: columns of different lengths or of more than one dimension, or a number that is not finite.

    >>> Table({"energy_j": [2.0, 3.0], "strategy": ["single", "fsdp"]}).take([1])["strategy"].tolist()
    ['fsdp']
    """

    columns: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        """Convert, check and freeze the columns."""
        columns = {name: _column(name, values) for name, values in self.columns.items()}
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(
                "columns differ in length", given=", ".join(f"{name} {count}" for name, count in lengths.items())
            )
        object.__setattr__(self, "columns", MappingProxyType(columns))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self.columns[name]
        except KeyError:
            raise DataError(
                "a column is missing", given=name, allowed=", ".join(sorted(self.columns)) or "none"
            ) from None

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column that must hold numbers.

        Raises:
            DataError: no such column, or it holds text.
        """
        values = self[name]
        if values.dtype.kind != "f":
            raise DataError(f"column {name} holds text where numbers are needed", given=values[0] if len(self) else "")
        return values

    def positive(self, name: str) -> NDArray[np.float64]:
        """Return a column of numbers that must all be above zero, because a logarithm is taken of them.

        Raises:
            DataError: no such column, or an entry that is not above zero.
        """
        values = self.numbers(name)
        wrong = np.flatnonzero(~(values > 0))
        if wrong.size:
            raise DataError(
                f"column {name} must be above zero", given=f"{values[wrong[0]]:g} in row {wrong[0]}", allowed="> 0"
            )
        return values

    def text(self, name: str) -> NDArray[np.str_]:
        """Return a column that must hold text.

        Raises:
            DataError: no such column, or it holds numbers.
        """
        values = self[name]
        if values.dtype.kind != "U":
            raise DataError(f"column {name} holds numbers where text is needed")
        return values

    def take(self, rows: ArrayLike) -> Self:
        """Return the rows of a boolean mask or of integer positions, in that order."""
        wanted = np.asarray(rows)
        if wanted.size == 0 and wanted.dtype != np.bool_:
            wanted = wanted.astype(np.intp)
        return type(self)({name: values[wanted] for name, values in self.columns.items()})

    def with_columns(self, **columns: ArrayLike) -> Self:
        """Return the table with columns added or replaced."""
        return type(self)({**self.columns, **{name: np.asarray(values) for name, values in columns.items()}})

    def without(self, *names: str) -> Self:
        """Return the table without some columns, which need not be there."""
        return type(self)({name: values for name, values in self.columns.items() if name not in names})

    @classmethod
    def concat(cls, tables: Sequence[Table]) -> Self:
        """Stack tables with the same column names, in order.

        Raises:
            DataError: no table, or column names that differ.
        """
        if not tables:
            raise DataError("no table to stack", given="none", allowed="one or more")
        names = set(tables[0].columns)
        for table in tables[1:]:
            if set(table.columns) != names:
                raise DataError("the tables have different columns", given=_listed(names ^ set(table.columns)))
        return cls({name: np.concatenate([table[name] for table in tables]) for name in tables[0].columns})


def _column(name: str, values: Any) -> NDArray[Any]:
    column = np.array(values)  # a copy: nobody else may change it
    if column.ndim != 1:
        raise DataError(f"column {name} must have one dimension", given=f"{column.ndim} dimensions")
    if column.dtype.kind in "OT" and all(isinstance(value, str) for value in column):
        column = column.astype(np.str_)
    if column.dtype.kind != "U":
        column = _finite(name, column)
    column.flags.writeable = False
    return column


def _finite(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"column {name} holds something that is neither a number nor text") from None
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise DataError(
            f"column {name} has a value that is not finite",
            given=f"{numbers[wrong[0]]} in row {wrong[0]} ({wrong.size} of {len(numbers)} rows)",
            hint="leaving out the row or the column",
        )
    return numbers


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
