"""Money and carbon from figures that the user names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.footprint import (
    Prices,
    carbon_g,
    device_cost,
    electricity_cost,
    embodied_g,
    facility_energy_j,
    money,
)
from wattlaw.hardware import Embodied, embodied, region

KWH, HOUR = 3.6e6, 3600.0

finite = st.floats(0, 1e6)


def test_the_electricity_of_bloom():
    """BLOOM's training took 433,196 kWh at 57 g/kWh: 24.7 t of carbon (Luccioni et al. 2023, table 2)."""
    assert carbon_g(433_196 * KWH, Prices(carbon_g_per_kwh=57)) / 1e6 == pytest.approx(24.69, abs=0.005)


def test_the_hardware_of_bloom():
    """1,082,990 hours of A100 in servers of eight: 11.2 t embodied, 3.64 of GPUs and 7.57 of servers (section 4.1)."""
    bloom = embodied("a100-sxm4-80gb")
    tonnes = embodied_g(1_082_990 / 384 * HOUR, 384, Prices(embodied=bloom)) / 1e6
    assert tonnes == pytest.approx(11.2, rel=2e-3)
    boards = Embodied(device_kg=bloom.device_kg, host_kg=0, life_h=bloom.life_h)
    assert embodied_g(1_082_990 * HOUR, 1, Prices(embodied=boards)) / 1e6 == pytest.approx(3.64, rel=2e-3)


def test_worked_numbers():
    """10 kWh at PUE 1.2 are 12: at 0.30 they cost 3.60; four devices for 2 h at 1.50 cost 12; 15.60 in all."""
    prices = Prices(price_per_kwh=0.3, price_per_device_hour=1.5, pue=1.2)
    energy = facility_energy_j(10 * KWH, prices)
    assert energy == pytest.approx(12 * KWH)
    assert electricity_cost(energy, prices) == pytest.approx(3.6)
    assert device_cost(2 * HOUR, 4, prices) == pytest.approx(12)
    assert money(2 * HOUR, 4, energy, prices) == pytest.approx(15.6)
    assert carbon_g(energy, Prices(region=region("DE"))) == pytest.approx(12 * region("DE").carbon_g_per_kwh)


def test_what_was_not_given_is_not_known():
    """And never 0; without a PUE the energy is the nodes'; money is of what was priced."""
    nothing = Prices()
    assert facility_energy_j(KWH, nothing) == KWH
    assert [formula(KWH, nothing) for formula in (carbon_g, electricity_cost)] == [None, None]
    assert [formula(HOUR, 1, nothing) for formula in (device_cost, embodied_g)] == [None, None]
    assert money(HOUR, 1, KWH, nothing) is None
    assert money(HOUR, 1, KWH, Prices(price_per_device_hour=2)) == 2
    assert money(HOUR, 1, KWH, Prices(price_per_kwh=3)) == 3
    assert money(HOUR, 1, KWH, Prices(price_per_kwh=0)) == 0


@given(energies=st.lists(finite, min_size=1, max_size=5), intensity=finite, rent=finite, price=finite)
def test_columns_are_numbers_side_by_side(energies, intensity, rent, price):
    """The same formula, with one entry per run; prices may be columns too."""
    prices = Prices(carbon_g_per_kwh=intensity, price_per_device_hour=rent, price_per_kwh=price, pue=1.5)
    column = np.array(energies)
    durations = column * 2 + 1
    for formula in (
        lambda energy, _: facility_energy_j(energy, prices),
        lambda energy, _: carbon_g(energy, prices),
        lambda energy, duration: money(duration, 4, energy, prices),
    ):
        singles = [formula(energy, duration) for energy, duration in zip(energies, durations, strict=True)]
        assert formula(column, durations) == pytest.approx(np.array(singles))
    per_run = Prices(price_per_device_hour=np.full(column.size, rent), pue=np.full(column.size, 1.5))
    assert device_cost(durations, 4, per_run) == pytest.approx(device_cost(durations, 4, prices))


def test_prices_by_the_name_of_the_device():
    """Are looked up once per kind of device; a name that has none is an error, as is asking without a name."""
    prices = Prices(price_per_device_hour={"a100-sxm4-40gb": 1.5, "l4": 0.5}, embodied="published", pue=1.1)
    found = prices.of("a100-sxm4-40gb")
    assert (found.price_per_device_hour, found.pue) == (1.5, 1.1)
    assert found.embodied == embodied("a100-sxm4-40gb")
    with pytest.raises(UnknownNameError, match="h100-sxm5-80gb"):
        prices.of("h100-sxm5-80gb")
    with pytest.raises(UnknownNameError, match="no published embodied emissions are known of this device; given l4"):
        prices.of("l4")
    for formula in (device_cost, embodied_g):
        with pytest.raises(ConfigError, match=r"prices\.of"):
            formula(HOUR, 1, prices)


@pytest.mark.parametrize(
    "figures",
    [
        {"pue": 0.9},
        {"pue": float("nan")},
        {"pue": float("inf")},
        {"pue": np.array([1.0, 0.5])},
        {"carbon_g_per_kwh": -1},
        {"price_per_kwh": float("nan")},
        {"price_per_device_hour": float("inf")},
        {"price_per_device_hour": {"l4": -1.0}},
        {"price_per_kwh": 1e308},
        {"pue": 1e308},
    ],
)
def test_figures_that_cannot_be_are_refused(figures):
    """With what is allowed."""
    with pytest.raises(ConfigError, match="allowed >="):
        Prices(**figures)


def test_one_way_to_say_the_intensity():
    """A region and a figure would be two."""
    with pytest.raises(ConfigError, match="one of them"):
        Prices(region=region("FR"), carbon_g_per_kwh=30)
