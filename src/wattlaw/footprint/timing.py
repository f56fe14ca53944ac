"""When a run starts: what its hours cost under prices that change, and when it had better start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError
from wattlaw.footprint.prices import Prices
from wattlaw.footprint.series import BestStart, Series, best_start
from wattlaw.footprint.tariff import Tariff

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What hours a run falls into, and the best start within a window for each thing that changes with them.

    Attributes:
        start_s: when the run starts, in seconds since 1970 UTC.
        duration_s: that it is expected to take; it is taken to draw the same power all the time.
        window_s: how long it may wait.
        best: by what is to be low, ``carbon`` or ``electricity``: the best start.
        warnings: doubts, one line each.
    """

    start_s: float
    duration_s: float
    window_s: float
    best: Mapping[str, BestStart]
    warnings: tuple[str, ...] = ()


def timed(
    prices: Prices,
    *,
    duration_s: float,
    start_s: float,
    window_s: float = 0.0,
    carbon: Series | None = None,
    price: Series | Tariff | None = None,
) -> tuple[Prices, Timing]:
    """Put the mean over a run in place of an intensity and a price that change, and look for a better start.

    Args:
        prices: the other figures that are known.
        duration_s: of the run.
        start_s: when it starts, in seconds since 1970 UTC.
        window_s: how long it may wait.
        carbon: intensity of the electricity over time.
        price: of electricity over time.

    Returns:
        prices for a run that starts at ``start_s``, and what another start within the window would change.

    Raises:
        ConfigError: two ways to say the same price, or a run that takes no time.
        DataError: a series that does not cover the run and its window, or has a gap there.
    """
    if carbon is not None and prices.intensity_g_per_kwh is not None:
        raise ConfigError("a series is one way to say the carbon intensity, a figure or region another")
    if price is not None and prices.price_per_kwh is not None:
        raise ConfigError("a tariff is one way to say the price of electricity, price_per_kwh another")
    if isinstance(price, Tariff):
        price = price.series(start_s, start_s + window_s + duration_s)
    best = {
        name: best_start(series, duration_s=duration_s, start_s=start_s, window_s=window_s)
        for name, series in (("carbon", carbon), ("electricity", price))
        if series is not None
    }
    warnings = tuple(
        f"{series.estimated:.0%} of {series.name} are estimates of the source itself"
        for series in (carbon,)
        if series is not None and series.estimated
    )
    known = replace(
        prices,
        carbon_g_per_kwh=best["carbon"].now_per_kwh if "carbon" in best else prices.carbon_g_per_kwh,
        price_per_kwh=best["electricity"].now_per_kwh if "electricity" in best else prices.price_per_kwh,
    )
    timing = Timing(start_s=start_s, duration_s=duration_s, window_s=window_s, best=best, warnings=warnings)
    return known, timing
