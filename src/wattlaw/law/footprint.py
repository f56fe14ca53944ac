"""What an energy costs in money and carbon, from figures that the user names: none is guessed."""

from __future__ import annotations

from dataclasses import dataclass

from wattlaw.errors import ConfigError
from wattlaw.law.interval import Interval
from wattlaw.law.prediction import Prediction
from wattlaw.units import JOULES_PER_KWH, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Money and carbon of a run; ``None`` where the figure it needs was not given.

    Attributes:
        facility_energy_j: energy times PUE, what the meter of the building sees.
        carbon_g: grams of CO2 equivalent of the facility's electricity.
        electricity_cost: of the facility's electricity, in the currency of the price.
        device_cost: rent of the devices, in the currency of the price.
    """

    facility_energy_j: Interval | None = None
    carbon_g: Interval | None = None
    electricity_cost: Interval | None = None
    device_cost: Interval | None = None


def scaled(interval: Interval, factor: float) -> Interval:
    """Return an interval in another quantity, ``factor`` of it per unit of the first."""
    return Interval(
        low=interval.low * factor, mid=interval.mid * factor, high=interval.high * factor, level=interval.level
    )


def footprint(
    prediction: Prediction,
    *,
    num_devices: float,
    pue: float | None = None,
    carbon_g_per_kwh: float | None = None,
    price_per_kwh: float | None = None,
    price_per_device_hour: float | None = None,
) -> Footprint:
    """Turn a prediction into money and carbon.

    Args:
        prediction: of the run.
        num_devices: that are rented.
        pue: energy of the facility over that of its nodes, at least 1; ``None`` counts the nodes only.
        carbon_g_per_kwh: of the grid.
        price_per_kwh: of electricity.
        price_per_device_hour: of renting one device.

    Returns:
        what can be said with the figures given.

    Raises:
        ConfigError: a PUE below 1 or for an energy that is not of nodes, or a price or intensity below 0.
    """
    if pue is not None and not 1 <= pue < float("inf"):
        raise ConfigError("a PUE is the facility's energy over its nodes'", given=pue, allowed=">= 1")
    if pue is not None and prediction.boundary != "node":
        raise ConfigError(
            "a PUE multiplies the energy of nodes",
            given=f"energies within the boundary {prediction.boundary or 'that nobody named'}",
            allowed="node",
            hint="a law fitted to energies of nodes, or no PUE",
        )
    figures = {
        "carbon_g_per_kwh": carbon_g_per_kwh,
        "price_per_kwh": price_per_kwh,
        "price_per_device_hour": price_per_device_hour,
    }
    for name, figure in figures.items():
        if figure is not None and not 0 <= figure < float("inf"):
            raise ConfigError(f"{name} must not be negative", given=figure, allowed=">= 0")
    energy = prediction.energy_j if pue is None else scaled(prediction.energy_j, pue)
    time = prediction.duration_s
    return Footprint(
        facility_energy_j=None if pue is None else energy,
        carbon_g=None if carbon_g_per_kwh is None else scaled(energy, carbon_g_per_kwh / JOULES_PER_KWH),
        electricity_cost=None if price_per_kwh is None else scaled(energy, price_per_kwh / JOULES_PER_KWH),
        device_cost=None
        if price_per_device_hour is None or time is None
        else scaled(time, price_per_device_hour * num_devices / SECONDS_PER_HOUR),
    )
