"""A report as a value: sections of text, tables and figures, before it is a page or Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Cell = str | float | int | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """Named columns of plain values.

    Attributes:
        caption: what the rows are.
        columns: headings, with units.
        rows: one cell per column each; ``None`` is what is not known.
        left_out: rows that are not shown because there are too many.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0

    @classmethod
    def of(cls, caption: str, rows: Sequence[Mapping[str, Cell]], *, most: int = 2000) -> DataTable:
        """Build a table from rows of one shape; beyond ``most`` rows the others are counted only."""
        columns = tuple(rows[0]) if rows else ()
        shown = tuple(tuple(row.get(name) for name in columns) for row in rows[:most])
        return cls(caption=caption, columns=columns, rows=shown, left_out=max(0, len(rows) - most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One drawing and what it shows.

    Attributes:
        name: short, of letters and hyphens; names the file and the anchor.
        title: what is drawn.
        alt: one or two sentences for who cannot see it, with what there is to see in these data.
        spec: the drawing, in Vega-Lite.
        table: the numbers that are drawn.
    """

    name: str
    title: str
    alt: str
    spec: Mapping[str, Any]
    table: DataTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A text to copy as it is.

    Attributes:
        caption: what it is for.
        language: of the text, such as ``toml``.
        text: the lines.
    """

    caption: str
    language: str
    text: str


Block = DataTable | Figure | Snippet


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, sentences under it, and blocks in order."""

    heading: str
    sentences: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report.

    Attributes:
        title: of the page.
        kind: what it is made from.
        summary: the first sentences.
        sections: in order.
        provenance: what it was made with and from, one line each.
    """

    title: str
    kind: Literal["prediction", "plan", "records", "fit"]
    summary: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
