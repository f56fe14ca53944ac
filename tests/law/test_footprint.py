"""Money and carbon from figures that the user names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import ConfigError
from wattlaw.hardware import Embodied
from wattlaw.law.footprint import Footprint, Prices, footprint, scaled
from wattlaw.law.interval import Interval
from wattlaw.law.prediction import Prediction

KWH = 3.6e6


def prediction(*, time=True):
    """Ten kilowatt-hours in two hours."""
    energy = Interval(low=8 * KWH, mid=10 * KWH, high=15 * KWH, level=0.9)
    return Prediction(
        energy_j=energy,
        duration_s=Interval(low=3600, mid=7200, high=10800, level=0.9) if time else None,
        power_w=5000.0,
        boundary="node",
        terms_j={},
        terms_s={},
        calibration="",
        cold=False,
        energy_cold=False,
        num_runs={},
        in_domain=True,
        outside=(),
        warnings=(),
    )


def test_worked_numbers():
    """10 kWh at PUE 1.2 are 12 kWh: 4.8 kg at 400 g/kWh, 3.60 at 0.30; four devices for 2 h at 1.50 are 12.

    A device of 300 kg that works 30,000 hours costs 10 g an hour: 80 g for these eight.
    """
    prices = Prices(
        pue=1.2,
        carbon_g_per_kwh=400,
        price_per_kwh=0.3,
        price_per_device_hour=1.5,
        embodied=Embodied(device_kg=300, host_kg=0, life_h=30_000),
    )
    found = footprint(prediction(), prices, num_devices=4)
    assert found.facility_energy_j.mid == pytest.approx(12 * KWH)
    assert found.carbon_g.mid == pytest.approx(4800)
    assert found.carbon_g.low == pytest.approx(3840)
    assert found.electricity_cost.high == pytest.approx(5.4)
    assert found.device_cost.mid == pytest.approx(12)
    assert found.embodied_g.mid == pytest.approx(80)
    assert found.embodied_g.high == pytest.approx(120)
    assert [found.money.low, found.money.mid, found.money.high] == pytest.approx([2.88 + 6, 15.6, 5.4 + 18])
    assert found.carbon_g.level == found.money.level == 0.9
    assert found.counted_boundary == "facility"


def test_what_was_not_given_is_not_known():
    """No price, no cost; no time, no rent and no sum of it; without a PUE the electricity is the nodes'."""
    assert footprint(prediction(), Prices(), num_devices=1) == Footprint()
    untimed = footprint(prediction(time=False), Prices(price_per_device_hour=1, price_per_kwh=1), num_devices=1)
    assert (untimed.device_cost, untimed.money) == (None, None)
    assert untimed.electricity_cost.mid == pytest.approx(10)
    priced = footprint(prediction(time=False), Prices(price_per_kwh=1), num_devices=1)
    assert priced.money == priced.electricity_cost
    found = footprint(prediction(), Prices(carbon_g_per_kwh=100), num_devices=1)
    assert (found.facility_energy_j, found.carbon_g.mid) == (None, pytest.approx(1000))
    assert (found.counted_boundary, found.embodied_g, found.money) == ("node", None, None)


def test_a_price_may_be_zero():
    """Carbon-free electricity emits nothing, which is not the same as unknown."""
    assert footprint(prediction(), Prices(carbon_g_per_kwh=0), num_devices=1).carbon_g.mid == 0


def test_scaling_keeps_the_level():
    """All three numbers are multiplied."""
    assert scaled(Interval(low=1, mid=2, high=3, level=0.8), 2) == Interval(low=2, mid=4, high=6, level=0.8)


@pytest.mark.parametrize("boundary", ["accelerators", "facility", ""])
def test_a_pue_is_of_nodes_only(boundary):
    """An energy that lacks the host, or already holds the facility, is not multiplied by a PUE."""
    with pytest.raises(ConfigError, match="multiplies the energy of nodes"):
        footprint(replace(prediction(), boundary=boundary), Prices(pue=1.2), num_devices=1)
    carbon = footprint(replace(prediction(), boundary=boundary), Prices(carbon_g_per_kwh=100), num_devices=1)
    assert carbon.counted_boundary == (boundary or None)
