"""How figures are drawn: one style, and SVG whose colours follow the light or dark of the page that holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.errors import MissingExtraError
from wattlaw.report.document import Cell, DataTable, Figure

if TYPE_CHECKING:
    import altair as alt

#: What a drawing is made of, by the variable of the page's style that may replace it. The colours of series are those
#: of Okabe and Ito 2008, which people with any colour vision tell apart; the page has lighter ones for the dark.
INK = "#1a1b1e"
FAINT = "#d9dbe0"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#8c564b")
#: On a series' colour: letters and edges.
ON_SERIES = "#ffffff"
VARIABLES = {
    INK: "--ink",
    FAINT: "--faint",
    ON_SERIES: "--on-series",
    **{colour: f"--series-{n}" for n, colour in enumerate(SERIES, 1)},
}

#: Colour of each strategy, the same in every figure; other strategies take what is left over.
STRATEGIES = {
    "fsdp": SERIES[0],
    "tp": SERIES[1],
    "ddp": SERIES[2],
    "fsdp x tp": SERIES[3],
    "fsdp-grad-op": SERIES[4],
    "pp": SERIES[5],
    "single": SERIES[6],
    "data parallel, fitted": SERIES[0],
    "tensor parallel, fitted": SERIES[1],
    "ideal": SERIES[6],
}

#: Beyond this many points a drawing shows an even share of them; its table says how many there are.
MOST_POINTS = 1500

STYLE: Mapping[str, Any] = {
    "aria": False,
    "background": None,
    # The reader's letters may be wider than those that the drawing was laid out with.
    "padding": {"left": 24, "right": 28, "top": 6, "bottom": 6},
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": FAINT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "symbolType": "circle"},
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12},
    "title": {"color": INK, "fontSize": 13, "anchor": "start"},
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": INK},
    "boxplot": {"median": {"color": INK}, "rule": {"color": INK}, "ticks": True},
}


def altair() -> Any:
    """Return the plotting library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import altair as alt
        import vl_convert  # noqa: F401  # a chart without it could not be drawn
    except ImportError:
        raise MissingExtraError.of("report", "drawing figures") from None
    return alt


def figure(
    name: str, chart: alt.TopLevelMixin, rows: Sequence[Mapping[str, Cell]], *, title: str, alt_text: str
) -> Figure:
    """Put a chart and its numbers together."""
    spec = {**json.loads(chart.to_json(indent=None, validate=False)), "config": STYLE}
    return Figure(name=name, title=title, alt=alt_text, spec=spec, table=DataTable.of(title, rows))


def colour_of(names: Iterable[str], *, title: str, field: str) -> Any:
    """Encode a series by colour: a strategy by its own, anything else in order."""
    alt = altair()
    known = list(dict.fromkeys(names))
    spare = [colour for colour in SERIES if colour not in {STRATEGIES.get(name) for name in known}]
    colours = [STRATEGIES[name] if name in STRATEGIES else spare.pop(0) if spare else INK for name in known]
    return alt.Color(f"{field}:N", title=title, scale=alt.Scale(domain=known, range=colours))


def thinned(rows: Sequence[Mapping[str, Cell]]) -> list[dict[str, Cell]]:
    """Take an even share of too many rows, in order."""
    step = -(-len(rows) // MOST_POINTS) or 1
    return [dict(row) for row in rows[::step]]


def as_svg(drawn: Figure) -> str:
    """Draw a figure as SVG: scales with its place, speaks its alternative text, follows the page's colours."""
    import vl_convert

    altair()
    svg: str = vl_convert.vegalite_to_svg(dict(drawn.spec))
    return _accessible(_coloured(svg), drawn)


def _coloured(svg: str) -> str:
    """Let the page's style replace each colour; alone, the file keeps them and is dark where its reader is."""

    def variable(found: re.Match[str]) -> str:
        name = VARIABLES.get(found[2].lower())
        return f'{found[1]}="var({name},{found[2]})"' if name else found[0]

    return re.sub(r'\b(fill|stroke)="(#[0-9a-fA-F]{6})"', variable, svg)


def _accessible(svg: str, drawn: Figure) -> str:
    head, _, body = svg.partition(">")
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    width, height = (float(one) for one in size.groups()) if size else (560.0, 360.0)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'role="img" font-family="system-ui, sans-serif" '
        f'aria-labelledby="{drawn.name}-title {drawn.name}-alt" class="drawing">'
        f'<title id="{drawn.name}-title">{_escaped(drawn.title)}</title>'
        f'<desc id="{drawn.name}-alt">{_escaped(drawn.alt)}</desc>'
    )
    return opening + _small(body)


#: A round mark as it is drawn, and what it can be: a path of two arcs, a circle.
_MARK = re.compile(r'<path transform="translate\(([^,]+),([^)]+)\)" d="M([\d.]+),0A[^"]*" ([^>]*)/>')
#: What says nothing: roles inside of one picture, values that hold anyway, and the letters, which the root names.
_IDLE = re.compile(r' (?:role|aria-[a-z]+|font-family|pointer-events)="[^"]*"| (?:opacity|stroke-width)="1"')


def _small(body: str) -> str:
    """Leave out what a picture does not need: half of the file is that."""
    rounded = re.sub(r'="[^"]*"', lambda value: re.sub(r"(\d\.\d)\d+", r"\1", value[0]), _IDLE.sub("", body))
    marked = _MARK.sub(r'<circle cx="\1" cy="\2" r="\3" \4/>', rounded)
    return re.sub(r'(<circle (?:(?!stroke=)[^>])*?) stroke-width="[^"]*"', r"\1", marked)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
