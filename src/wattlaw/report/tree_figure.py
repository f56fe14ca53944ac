"""The energy tree as an icicle: a row per level, as wide as a part's share of the energy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wattlaw.explain.tree import merged
from wattlaw.report.explain import WORDS
from wattlaw.report.figures.drawing import SERIES, altair, figure

if TYPE_CHECKING:
    from wattlaw.explain.node import Node
    from wattlaw.report.document import Figure

WIDTH, ROW_HEIGHT = 860, 40
LEVELS = 5
#: Parts narrower than this share are neither drawn apart nor told in the table.
SMALLEST_SHARE = 0.001
#: Width of a letter, as a share of the figure; names that do not fit are left to the table and the pointer.
LETTER_SHARE = 6.6 / WIDTH

#: Of names, on dark and on light boxes, whatever the page's colours are.
LIGHT, DARK = "#ffffff", "#111111"
#: Colour of each bottleneck.
COLOURS = {"compute": SERIES[0], "memory": SERIES[2], "communication": SERIES[1], "launch": SERIES[5]}


def tree_figure(tree: Node, *, levels: int = LEVELS) -> Figure:
    """Draw a tree; blocks of a stack are drawn together. The colour is what a part is bound by.

    Args:
        tree: the root.
        levels: rows that are drawn.

    Raises:
        MissingExtraError: the plotting library is not installed.
    """
    alt = altair()
    root = merged(tree)
    rows = [row for row in _rectangles(root, 0.0, 0) if row["level"] < levels]
    known = [name for name in COLOURS if any(row["bound by"] == name for row in rows)]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "from:Q",
            title="share of the energy, %",
            scale=alt.Scale(domain=[0, 100], nice=False),
            axis=alt.Axis(grid=False),
        ),
        x2="to:Q",
        y=alt.Y("level:O", title=None, axis=None),
        tooltip=["part:N", "energy J:Q", "share of energy, %:Q", "share of time, %:Q", "bound by:N"],
    )
    boxes = base.mark_rect(stroke="#ffffff", strokeWidth=1.5, opacity=0.85).encode(
        color=alt.Color(
            "bound by:N",
            scale=alt.Scale(domain=known, range=[COLOURS[name] for name in known]),
            legend=alt.Legend(orient="top"),
        )
    )
    names = (
        alt.Chart(alt.InlineData(values=[row for row in rows if row["label"]]))
        .mark_text(fontSize=12)
        .encode(
            x="middle:Q",
            y=alt.Y("level:O", axis=None),
            text="label:N",
            color=alt.condition("datum['bound by'] == 'compute'", alt.value(LIGHT), alt.value(DARK)),
        )
    )
    chart = (boxes + names).properties(width=WIDTH, height=ROW_HEIGHT * len({row["level"] for row in rows}))
    hidden = ("from", "to", "middle", "label", "level")
    table = [{name: value for name, value in row.items() if name not in hidden} for row in rows]
    largest = sorted(root.children, key=lambda one: -one.energy_share)[:3]
    said = ", ".join(f"{WORDS.get(one.name, one.name)} {one.energy_share:.0%}" for one in largest)
    return figure(
        "tree", chart, table, title="Where the energy goes",
        alt_text=f"Icicle of the energy tree of {root.name}: {said}; most of the time is bound by {root.bottleneck}.",
    )  # fmt: skip


def _rectangles(node: Node, start: float, level: int, path: str = "") -> Iterator[dict[str, Any]]:
    """Yield a rectangle per node, children side by side below their parent."""
    name = WORDS.get(node.name, node.name)
    place = f"{path} / {name}" if path else name
    share = node.energy_share
    fits = len(name) * LETTER_SHARE < share
    yield {
        "part": place,
        "energy J": node.energy_j,
        "share of energy, %": 100 * share,
        "time s": node.time_s,
        "share of time, %": 100 * node.time_share,
        "FLOP": node.flop,
        "traffic bytes": node.traffic_bytes,
        "bound by": node.bottleneck,
        "level": level,
        "from": 100 * start,
        "to": 100 * (start + share),
        "middle": 100 * (start + share / 2),
        "label": name if fits else "",
    }
    for child in node.children:
        if child.energy_share >= SMALLEST_SHARE:
            yield from _rectangles(child, start, level + 1, place if level else "")
        start += child.energy_share
