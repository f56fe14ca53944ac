"""Money and carbon of a prediction, with its interval: the arithmetic of ``wattlaw.footprint`` at its ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wattlaw.errors import ConfigError
from wattlaw.footprint.prices import (
    Prices,
    carbon_g,
    device_cost,
    electricity_cost,
    embodied_g,
    facility_energy_j,
    money,
)
from wattlaw.law.interval import Interval
from wattlaw.law.prediction import Prediction
from wattlaw.units import Quantity

__all__ = [
    "Footprint",
    "Prices",
    "carbon_g",
    "device_cost",
    "electricity_cost",
    "embodied_g",
    "facility_energy_j",
    "footprint",
    "money",
    "scaled",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Money and carbon of a run; ``None`` where the figure it needs was not given.

    Attributes:
        facility_energy_j: energy times PUE, what the meter of the building sees.
        carbon_g: grams of CO2 equivalent of the electricity.
        embodied_g: grams of CO2 equivalent of making the hardware, for the hours taken; never part of ``carbon_g``.
        electricity_cost: of the electricity, in the currency of the price.
        device_cost: rent of the devices, in the currency of the price.
        money: the two together, of what was priced.
        counted_boundary: of the electricity that is counted: ``facility`` with a PUE, else that of the prediction.
    """

    facility_energy_j: Interval | None = None
    carbon_g: Interval | None = None
    embodied_g: Interval | None = None
    electricity_cost: Interval | None = None
    device_cost: Interval | None = None
    money: Interval | None = None
    counted_boundary: str | None = None


def scaled(interval: Interval, factor: float) -> Interval:
    """Return an interval in another quantity, ``factor`` of it per unit of the first."""
    return Interval(
        low=interval.low * factor, mid=interval.mid * factor, high=interval.high * factor, level=interval.level
    )


def footprint(prediction: Prediction, prices: Prices, *, num_devices: float) -> Footprint:
    """Turn a prediction into money and carbon.

    Each end of an interval is that of the energy and of the time taken together, as if both came out low or both high:
    they mostly do, and the sum of electricity and rent is never told narrower than it is.

    Args:
        prediction: of the run.
        prices: the figures that are known, of the run's kind of device (``Prices.of``).
        num_devices: that are rented, and worn.

    Returns:
        what can be said with the figures given.

    Raises:
        ConfigError: a PUE for an energy that is not of nodes.
    """
    if prices.pue is not None and prediction.boundary != "node":
        raise ConfigError(
            "a PUE multiplies the energy of nodes",
            given=f"energies within the boundary {prediction.boundary or 'that nobody named'}",
            allowed="node",
            hint="a law fitted to energies of nodes, or no PUE",
        )
    time = prediction.duration_s
    energy = _at_ends(lambda joules: facility_energy_j(joules, prices), prediction.energy_j)
    assert energy is not None
    electricity = _at_ends(lambda joules: electricity_cost(joules, prices), energy)
    rent = making = None
    total = electricity if prices.price_per_device_hour is None else None
    if time is not None:
        rent = _at_ends(lambda seconds: device_cost(seconds, num_devices, prices), time)
        making = _at_ends(lambda seconds: embodied_g(seconds, num_devices, prices), time)
        total = _at_ends(lambda seconds, joules: money(seconds, num_devices, joules, prices), time, energy)
    carbon = _at_ends(lambda joules: carbon_g(joules, prices), energy)
    counted = "facility" if prices.pue is not None else prediction.boundary or None
    return Footprint(
        facility_energy_j=None if prices.pue is None else energy,
        carbon_g=carbon,
        embodied_g=making,
        electricity_cost=electricity,
        device_cost=rent,
        money=total,
        counted_boundary=counted if carbon is not None or electricity is not None else None,
    )


def _at_ends(formula: Callable[..., Quantity | None], *intervals: Interval) -> Interval | None:
    """Apply a formula that grows with its arguments to the lower ends, the middles and the upper ends of intervals."""
    middle = formula(*(one.mid for one in intervals))
    if middle is None:
        return None
    low, high = (formula(*ends) for ends in (tuple(one.low for one in intervals), tuple(one.high for one in intervals)))
    assert low is not None
    assert high is not None
    return Interval(low=float(low), mid=float(middle), high=float(high), level=intervals[0].level)
