"""When a run starts: the mean over its hours, and the best start for carbon and for money apart."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.footprint import Prices, Series, Tariff, Zone, timed
from wattlaw.hardware import region

HOUR = 3600.0
T0 = 1_751_328_000.0  # 2025-07-01, midnight in UTC
CARBON = Series(start_s=T0, step_s=HOUR, per_kwh=np.array([400.0, 300, 100, 200, 500]), name="carbon", estimated=0.25)
CHEAP_LATER = Tariff(
    zones=(Zone(name="late", price_per_kwh=0.1, start_step=12, num_steps=8),), timezone="UTC", base_price_per_kwh=0.3
)


def test_prices_become_means_over_the_run():
    """Two hours from half past midnight: 300 g/kWh; money and the other figures as they were."""
    prices, timing = timed(
        Prices(pue=1.2, price_per_kwh=0.5), duration_s=2 * HOUR, start_s=T0 + HOUR / 2, carbon=CARBON
    )
    assert prices.carbon_g_per_kwh == pytest.approx((200 + 300 + 50) / 2)
    assert (prices.pue, prices.price_per_kwh) == (1.2, 0.5)
    assert (timing.start_s, timing.window_s) == (T0 + HOUR / 2, 0)
    assert timing.best["carbon"].start_s == timing.start_s
    assert timing.warnings == ("25% of carbon are estimates of the source itself",)


def test_carbon_and_money_have_their_own_best_starts():
    """An hour: least carbon at 2:00, cheapest from 3:00."""
    prices, timing = timed(Prices(), duration_s=HOUR, start_s=T0, window_s=4 * HOUR, carbon=CARBON, price=CHEAP_LATER)
    assert (prices.carbon_g_per_kwh, prices.price_per_kwh) == (400, 0.3)
    assert timing.best["carbon"].start_s == T0 + 2 * HOUR
    assert timing.best["carbon"].saving == pytest.approx(0.75)
    assert timing.best["electricity"].start_s == T0 + 3 * HOUR
    assert timing.best["electricity"].per_kwh == pytest.approx(0.1)


def test_a_region_stands_beside_a_tariff():
    """What does not change with time stays as it is."""
    prices, timing = timed(Prices(region=region("FR")), duration_s=HOUR, start_s=T0, price=CHEAP_LATER)
    assert prices.intensity_g_per_kwh == region("FR").carbon_g_per_kwh
    assert (set(timing.best), timing.warnings) == ({"electricity"}, ())


@pytest.mark.parametrize(
    ("prices", "changing"),
    [
        (Prices(region=region("FR")), {"carbon": CARBON}),
        (Prices(carbon_g_per_kwh=1), {"carbon": CARBON}),
        (Prices(price_per_kwh=1), {"price": CHEAP_LATER}),
    ],
)
def test_one_way_to_say_a_price(prices, changing):
    """A figure and a series of the same thing would be two."""
    with pytest.raises(ConfigError, match="one way to say"):
        timed(prices, duration_s=HOUR, start_s=T0, **changing)


def test_a_series_reaches_over_the_run_and_its_window():
    """A window that it does not cover is not half looked at."""
    with pytest.raises(DataError, match="does not cover"):
        timed(Prices(), duration_s=HOUR, start_s=T0, window_s=5 * HOUR, carbon=CARBON)
