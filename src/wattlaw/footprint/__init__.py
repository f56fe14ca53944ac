"""Money, carbon, and when: what a run's energy and time cost under figures that the user names.

None of this is a law: it multiplies what a law predicted, or a meter measured, by prices and intensities.

- ``prices``: ``Prices``, and electricity, rent, carbon and embodied emissions from them.
- ``series``: a price or an intensity over time, and the best start within a window.
- ``series_file``: such a series from a CSV file, among them Electricity Maps' layout.
- ``tariff``: time-of-use tariffs, from a TOML file.
- ``timing``: what starting at one time or another changes.
"""

from wattlaw.footprint.prices import (
    Prices,
    carbon_g,
    device_cost,
    electricity_cost,
    embodied_g,
    facility_energy_j,
    money,
)
from wattlaw.footprint.series import BestStart, Series, best_start
from wattlaw.footprint.series_file import read_carbon_series, read_price_series
from wattlaw.footprint.tariff import Tariff, Zone, read_tariff
from wattlaw.footprint.timing import Timing, timed

__all__ = [
    "BestStart",
    "Prices",
    "Series",
    "Tariff",
    "Timing",
    "Zone",
    "best_start",
    "carbon_g",
    "device_cost",
    "electricity_cost",
    "embodied_g",
    "facility_energy_j",
    "money",
    "read_carbon_series",
    "read_price_series",
    "read_tariff",
    "timed",
]
