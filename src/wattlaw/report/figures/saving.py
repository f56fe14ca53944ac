"""Writing figures: as the page, PNG or SVG that the end of the file's name asks for, or all three; offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError, FileError
from wattlaw.report.document import Figure
from wattlaw.report.figures.drawing import altair, as_svg

if TYPE_CHECKING:
    import altair as alt

FORMS = (".html", ".png", ".svg")


def require_form(path: Path) -> None:
    """Refuse a figure that could not be written, before the work that fills it.

    Raises:
        ConfigError: the name ends in no form that a figure has.
        MissingExtraError: the plotting library is not installed.
    """
    altair()
    if path.suffix.lower() not in FORMS:
        raise ConfigError("a figure is a page, PNG or SVG", given=path.name, allowed=", ".join(FORMS))


def write_figure(drawn: Figure, path: Path) -> None:
    """Write a figure.

    Raises:
        ConfigError: the name ends in no form that a figure has.
        FileError: the file cannot be written.
        MissingExtraError: the plotting library is not installed.
    """
    require_form(path)
    import vl_convert

    spec: dict[str, Any] = dict(drawn.spec)
    try:
        match path.suffix.lower():
            case ".png":
                white = {**spec, "config": {**spec.get("config", {}), "background": "#ffffff"}}
                path.write_bytes(vl_convert.vegalite_to_png(white, scale=2))
            case ".svg":
                path.write_text(as_svg(drawn), encoding="utf-8")
            case _:
                path.write_text(vl_convert.vegalite_to_html(spec, bundle=True), encoding="utf-8")
    except OSError as error:
        raise FileError("cannot write the figure", given=error.strerror).at(path) from error


def save(chart: alt.LayerChart | alt.VConcatChart, path: Path) -> None:
    """Write a figure as PNG at ``path``, and beside it as SVG and as a page that opens without a network.

    Raises:
        FileError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        chart.save(path.with_suffix(".png"), scale_factor=2)
        chart.save(path.with_suffix(".svg"))
        chart.save(path.with_suffix(".html"), inline=True)
    except OSError as error:
        raise FileError("cannot write the figure", given=error.strerror).at(path) from error
