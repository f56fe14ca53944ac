"""A report as Markdown, with its figures as SVG files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wattlaw.report.document import Block, DataTable, Document, Figure
from wattlaw.report.figures.drawing import as_svg
from wattlaw.report.html import shown

#: A table of a figure is cut after so many rows: in Markdown nothing folds away.
MOST_ROWS = 40
#: A drawing that is a file of its own follows its reader's light or dark itself.
_STYLE = (
    "<style>@media (prefers-color-scheme: dark){svg{--ink:#e8e9ec;--faint:#3a3e47;--on-series:#101114;"
    "--series-1:#4db2f0;--series-2:#ff8c42;--series-3:#3fd0a4;--series-4:#e7a3c8;--series-5:#8fd3ff;--series-6:#ffc04d;"
    "--series-7:#a9adb5;--series-8:#c99b8d}}</style>"
)


def as_markdown(document: Document, *, folder: str) -> tuple[str, Mapping[str, str]]:
    """Write a report as Markdown.

    Args:
        document: the report.
        folder: that the figures will lie in, as the Markdown names it.

    Returns:
        the text, and the content of each figure's file by its name.

    Raises:
        MissingExtraError: the report has figures, and the plotting library is not installed.
    """
    files: dict[str, str] = {}
    lines = [f"# {document.title}", "", *_paragraphs(document.summary)]
    for section in document.sections:
        lines += [f"## {section.heading}", "", *_paragraphs(section.sentences)]
        for block in section.blocks:
            lines += _block(block, folder, files)
    lines += [f"- {name}: {value}" for name, value in document.provenance.items()]
    return "\n".join(lines) + "\n", files


def _paragraphs(sentences: tuple[str, ...]) -> Iterator[str]:
    for sentence in sentences:
        yield sentence
        yield ""


def _block(block: Block, folder: str, files: dict[str, str]) -> list[str]:
    if isinstance(block, DataTable):
        return [*_table(block), ""]
    if isinstance(block, Figure):
        name = f"{block.name}.svg"
        svg = as_svg(block)
        files[name] = svg.replace("</desc>", f"</desc>{_STYLE}", 1)
        alt = block.alt.replace("[", "(").replace("]", ")")
        return [f"### {block.title}", "", f"![{alt}]({folder}/{name})", "", block.alt, "", *_table(block.table), ""]
    return [block.caption, "", f"```{block.language}", block.text.rstrip("\n"), "```", ""]


def _table(table: DataTable) -> list[str]:
    rows = table.rows[:MOST_ROWS]
    left_out = table.left_out + len(table.rows) - len(rows)
    lines = [
        _row(table.columns),
        _row(["---"] * len(table.columns)),
        *(_row([shown(one) for one in row]) for row in rows),
    ]
    return [*lines, "", f"{left_out} further rows are not shown."] if left_out else lines


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
