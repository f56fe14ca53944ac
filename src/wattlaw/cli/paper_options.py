"""The options of the paper's laws: what the paper leaves open, chosen where a law is fitted or judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import Name
from wattlaw.errors import ConfigError

if TYPE_CHECKING:
    from wattlaw.law.paper.options import PaperOptions

#: Option -> the laws that it is of.
LAWS_OF = {
    "compute": ("paper", "power", "additive"),
    "proxies": ("paper", "power", "additive"),
    "efficiency": ("paper",),
    "covariance": ("paper", "power"),
    "effects": ("paper",),
    "weighting": ("additive",),
}
#: How an option is typed where that is not its name.
TYPED = {"effects": "--effect"}


def _known(module: str, name: str) -> Callable[[], Iterable[str]]:
    def known() -> Iterable[str]:
        import importlib

        return [str(one).lower() for one in getattr(importlib.import_module(module), name)]

    return known


_OPTIONS = (
    click.option(
        "--compute",
        type=Name("definition of compute", _known("wattlaw.features.paper", "COMPUTE_DEFINITIONS")),
        help="How paper, power and additive count C: eq2 (the default), 12 L d^2 + 3 L S d per token, or artifact, "
        "L (12 d^2 + 2 d ff), as the authors' data does.",
    ),
    click.option(
        "--proxies",
        type=Name("source of the proxies", _known("wattlaw.features.paper", "PROXY_SOURCES")),
        help="C, M and steps as the spec implies them (spec, the default), all that is known before a run, or as "
        "records observed them (observed), as the authors fitted.",
    ),
    click.option(
        "--efficiency",
        type=Name("efficiency", _known("wattlaw.law.paper.scaling", "EFFICIENCIES")),
        help="Where the paper law's eta_h comes from: speedup (the default), the speedup laws (9) and (11) fitted to "
        "the records, known before a run; measured, as (13) is stated, known only after it; published; or none.",
    ),
    click.option(
        "--covariance",
        type=Name("covariance", _known("wattlaw.law.paper.least_squares", "COVARIANCES")),
        help="Errors of the coefficients: HC3 (the default, as in the paper), cluster (by configuration family) or "
        "classical. A diagnosis shows HC3 and by family, with intervals by family unless one is named.",
    ),
    click.option(
        "--effect",
        "effects",
        multiple=True,
        type=Name("fixed effect", _known("wattlaw.law.paper.options", "EFFECTS")),
        help="Fixed effects of the paper law: strategy (the default), architecture, machine; several may be given.",
    ),
    click.option(
        "--weighting",
        type=Name("weighting", _known("wattlaw.law.paper.additive", "WEIGHTINGS")),
        help="What the additive law minimises: absolute (joules, the default, as in the paper) or relative errors.",
    ),
)


def paper_law_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the paper's laws to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen(given: dict[str, Any], laws: Sequence[str]) -> PaperOptions:
    """Read the options.

    Args:
        given: what was typed, by the names of ``LAWS_OF``.
        laws: that are fitted; none where a law comes fitted.

    Raises:
        ConfigError: an option of which no law knows anything.
    """
    from wattlaw.law.paper.least_squares import COVARIANCES
    from wattlaw.law.paper.options import PaperOptions

    typed = {name: value for name, value in given.items() if value}
    for name in typed:
        if not set(LAWS_OF[name]) & set(laws):
            raise ConfigError(
                f"says nothing of the {laws[0]} law" if laws else "says nothing of a law that comes fitted",
                given=", ".join(laws) or None,
                allowed=f"--law {' or '.join(LAWS_OF[name])}",
            ).at(TYPED.get(name, f"--{name}"))
    if "covariance" in typed:
        typed["covariance"] = next(one for one in COVARIANCES if one.lower() == typed["covariance"])
    return PaperOptions(**typed)
