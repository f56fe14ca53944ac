"""A report as one HTML file that needs no network and no other file.

The page's policy lets it load nothing at all; it runs no script, unless it is asked to be interactive: then it holds
the library that draws, and the figures answer the pointer.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from wattlaw.report.document import Block, Cell, DataTable, Document, Figure, Section, Snippet
from wattlaw.report.figures.drawing import VARIABLES, as_svg

_FOLDER = Path(__file__).parent

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
#: The library that draws compiles its expressions.
INTERACTIVE_POLICY = f"{POLICY}; script-src 'unsafe-inline' 'unsafe-eval'"


def drawings(document: Document) -> dict[str, str]:
    """Draw the figures of a report, each as SVG, by name.

    Raises:
        MissingExtraError: there are figures, and the plotting library is not installed.
    """
    return {figure.name: as_svg(figure) for figure in _figures(document)}


def as_html(document: Document, *, interactive: bool = False, drawn: Mapping[str, str] | None = None) -> str:
    """Write a report as a page.

    Args:
        document: the report.
        interactive: include the library that draws (half a megabyte), so that figures answer the pointer.
        drawn: the drawings, where they were made already.

    Raises:
        MissingExtraError: the report has figures, and the plotting library is not installed.
    """
    drawn = drawings(document) if drawn is None else drawn
    sections = "\n".join(_section(section, drawn) for section in document.sections)
    contents = "\n".join(
        f'<li><a href="#{_anchor(section.heading)}">{html.escape(section.heading)}</a></li>'
        for section in document.sections
    )
    return Template((_FOLDER / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(document.title),
        policy=INTERACTIVE_POLICY if interactive else POLICY,
        style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        summary=_paragraphs(document.summary),
        contents=contents,
        sections=sections,
        provenance=_provenance(document),
        scripts=_scripts(document) if interactive else "",
    )


def _figures(document: Document) -> list[Figure]:
    return [block for section in document.sections for block in section.blocks if isinstance(block, Figure)]


def _block(block: Block, drawn: Mapping[str, str]) -> str:
    if isinstance(block, Figure):
        return _figure(block, drawn[block.name])
    return _table(block) if isinstance(block, DataTable) else _snippet(block)


def _figure(figure: Figure, svg: str) -> str:
    """Write a figure: the drawing, what there is to see in it, and its numbers."""
    return (
        f'<figure id="{figure.name}"><figcaption>{html.escape(figure.title)}</figcaption>'
        f'<div class="scroll" tabindex="0" role="group" aria-label="{html.escape(figure.title)}">{svg}</div>'
        f'<p class="alt">{html.escape(figure.alt)}</p>'
        f"<details><summary>The data of this figure as a table</summary>{_table(figure.table)}</details></figure>"
    )


def _section(section: Section, drawn: Mapping[str, str]) -> str:
    anchor = _anchor(section.heading)
    blocks = "\n".join(_block(block, drawn) for block in section.blocks)
    return (
        f'<section aria-labelledby="{anchor}">\n<h2 id="{anchor}">{html.escape(section.heading)}</h2>\n'
        f"{_paragraphs(section.sentences)}\n{blocks}\n</section>"
    )


def _table(table: DataTable) -> str:
    numeric = [all(not isinstance(row[at], str) for row in table.rows) for at in range(len(table.columns))]
    head = "".join(_heading(name, number=number) for name, number in zip(table.columns, numeric, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(_cell(value, number=number) for value, number in zip(row, numeric, strict=True)) + "</tr>"
        for row in table.rows
    )
    more = f'<p class="note">{table.left_out} further rows are not shown.</p>' if table.left_out else ""
    caption = html.escape(table.caption)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Table: {caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>{more}"
    )


def _heading(name: str, *, number: bool) -> str:
    return f'<th scope="col"{_number(number)}>{html.escape(name)}</th>'


def _cell(value: Cell, *, number: bool) -> str:
    return f"<td{_number(number)}>{html.escape(shown(value))}</td>"


def _number(number: bool) -> str:
    return " class=n" if number else ""


def shown(value: Cell) -> str:
    """Write a cell: six digits at most, and nothing for what is not known."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _snippet(snippet: Snippet) -> str:
    caption = html.escape(snippet.caption)
    return f'<p>{caption}</p>\n<pre tabindex="0" aria-label="{caption}"><code>{html.escape(snippet.text)}</code></pre>'


def _paragraphs(sentences: Sequence[str]) -> str:
    return "\n".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def _provenance(document: Document) -> str:
    entries = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in document.provenance.items()
    )
    return f"<dl>{entries}</dl>"


def _scripts(document: Document) -> str:
    import vl_convert

    data = "\n".join(
        f'<script type="application/json" data-figure="{figure.name}">{_as_data(figure.spec)}</script>'
        for figure in _figures(document)
    )
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    own = (_FOLDER / "interactive.js").read_text(encoding="utf-8")
    colours = f'<script type="application/json" id="colours">{_as_data(VARIABLES)}</script>'
    return f'{colours}\n{data}\n<script>{library}</script>\n<script type="module">\n{own}</script>\n'


def _as_data(value: object) -> str:
    return json.dumps(value).replace("<", "\\u003c")


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
