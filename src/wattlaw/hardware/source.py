"""Sources: which document states a figure, or that none does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from wattlaw.errors import ConfigError

Basis = Literal["document", "derived", "declared", "unchecked"]

#: ``document``: the source states the figure. ``derived``: it follows from one that is stated. ``declared``: an
#: assumption of ours. ``unchecked``: often published, but not looked up in a document of the vendor.
BASES: tuple[Basis, ...] = get_args(Basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a figure comes from.

    Attributes:
        key: short name that the figures of a file refer to.
        title: of the document, or what was assumed.
        publisher: who is answerable for the document.
        date: year, year-month or day of publication.
        url: where the text was read and compared; empty where the document is cited by title only.
        basis: how far the figure can be trusted, one of ``BASES``.
    """

    key: str
    title: str
    publisher: str = ""
    date: str = ""
    url: str = ""
    basis: Basis = "document"

    def __str__(self) -> str:
        """One line for tables."""
        return ", ".join(part for part in (self.publisher, self.title, self.date) if part)


def require_positive(**values: float | None) -> None:
    """Refuse values that are not finite and above zero; ``None`` is unknown and passes.

    Raises:
        ConfigError: naming the first value that is none.
    """
    for name, value in values.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ConfigError(f"{name} must be above zero", given=value, allowed="finite numbers > 0")
