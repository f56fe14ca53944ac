"""The laws by name. A new law is one file and one line here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from wattlaw.errors import UnknownNameError

if TYPE_CHECKING:
    from wattlaw.law.protocol import Law

#: Name -> where the law is: a prediction imports its own law and no other.
LAWS: Mapping[str, tuple[str, str]] = {
    "step": ("wattlaw.law.step", "StepLaw"),
    "paper": ("wattlaw.law.paper", "PaperLaw"),
    "additive": ("wattlaw.law.paper", "AdditiveLaw"),
    "power": ("wattlaw.law.paper", "PowerLaw"),
    "boosting": ("wattlaw.law.baselines", "BoostingLaw"),
    "6nd": ("wattlaw.law.baselines", "FlopCountLaw"),
    "tdp": ("wattlaw.law.baselines", "RatedPowerLaw"),
}


def law_named(name: str) -> Law:
    """Return a law with its usual options.

    Raises:
        UnknownNameError: no such law.
    """
    if name not in LAWS:
        raise UnknownNameError.among("law", name, LAWS)
    module, kind = LAWS[name]
    law: Law = getattr(importlib.import_module(module), kind)()
    return law
