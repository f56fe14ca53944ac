"""The laws by name. A new law is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wattlaw.errors import UnknownNameError
from wattlaw.law.additive import AdditiveLaw
from wattlaw.law.paper import PaperLaw
from wattlaw.law.power import PowerLaw
from wattlaw.law.protocol import Law
from wattlaw.law.step import StepLaw

LAWS: Mapping[str, Callable[[], Law]] = {
    "step": StepLaw,
    "paper": PaperLaw,
    "additive": AdditiveLaw,
    "power": PowerLaw,
}


def law_named(name: str) -> Law:
    """Return a law with its usual options.

    Raises:
        UnknownNameError: no such law.
    """
    if name not in LAWS:
        raise UnknownNameError.among("law", name, LAWS)
    return LAWS[name]()
