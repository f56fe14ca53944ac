"""Regions: what a kilowatt-hour of a country's or state's electricity emits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from wattlaw.errors import ConfigError
from wattlaw.hardware.source import Source, require_positive

Scope = Literal["life-cycle", "direct"]

#: ``life-cycle``: with building the plants and getting the fuel. ``direct``: what leaves the chimneys only.
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region whose electricity's carbon intensity is known.

    Attributes:
        code: ISO 3166-1 alpha-2 for countries (``DE``; ``EU`` is the European Union), ISO 3166-2 for parts of them
            (``US-CA``).
        name: in English.
        carbon_g_per_kwh: grams of CO2 equivalent per kilowatt-hour generated in the region, a mean over ``year``.
        year: that the figure is of.
        scope: what it counts, one of ``SCOPES``. A figure of one scope says nothing beside a figure of the other.
        source: of the figure.
        aliases: other exact names.
    """

    code: str
    name: str
    carbon_g_per_kwh: float
    year: int
    scope: Scope
    source: Source
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an intensity that is not above zero, and a scope that is none."""
        require_positive(carbon_g_per_kwh=self.carbon_g_per_kwh)
        if self.scope not in SCOPES:
            raise ConfigError("unknown scope", given=self.scope, allowed=", ".join(SCOPES))
