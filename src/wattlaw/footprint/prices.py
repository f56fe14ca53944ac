"""What an energy and a time cost, in money and in carbon, from figures that the user names: none is guessed.

Every function takes numbers, or columns of numbers with one entry per run, and gives ``None`` where the figure that it
needs was not given: not known is not 0. Boundaries are kept apart. The energy that is counted is the nodes', or the
facility's where a PUE was given; what the hardware took to make is a line of its own, never added to the electricity's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.hardware import embodied as published
from wattlaw.units import JOULES_PER_KWH, LARGEST_FIGURE, MOST_PUE, SECONDS_PER_HOUR, Quantity, every

if TYPE_CHECKING:
    from wattlaw.hardware import Embodied, Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The figures that turn a run into money and carbon; each is ``None`` where nobody named it.

    Attributes:
        price_per_kwh: of electricity, in any currency.
        price_per_device_hour: of renting one device, in the same currency: a number, or numbers by the accelerator's
            name.
        carbon_g_per_kwh: of the electricity, in grams of CO2 equivalent.
        region: whose electricity is used, in place of ``carbon_g_per_kwh``.
        pue: power usage effectiveness, the energy of the facility over that of its nodes; ``None`` counts the nodes
            only.
        embodied: what making the hardware emitted, or ``"published"`` for the figures that wattlaw ships.
    """

    price_per_kwh: Quantity | None = None
    price_per_device_hour: Quantity | Mapping[str, float] | None = None
    carbon_g_per_kwh: Quantity | None = None
    region: Region | None = None
    pue: Quantity | None = None
    embodied: Embodied | Literal["published"] | None = None

    def __post_init__(self) -> None:
        """Refuse a PUE below 1, prices and intensities below 0, and two ways to say the intensity."""
        if self.pue is not None and not every((self.pue >= 1) & (self.pue <= MOST_PUE)):
            raise ConfigError(
                "a PUE is the facility's energy over its nodes'", given=self.pue, allowed=f">= 1, <= {MOST_PUE:g}"
            )
        rents = self.price_per_device_hour
        named = (
            {f"price_per_device_hour of {name}": price for name, price in rents.items()}
            if isinstance(rents, Mapping)
            else {"price_per_device_hour": rents}
        )
        figures = {"price_per_kwh": self.price_per_kwh, "carbon_g_per_kwh": self.carbon_g_per_kwh, **named}
        for name, figure in figures.items():
            if figure is not None and not every((figure >= 0) & (figure <= LARGEST_FIGURE)):
                raise ConfigError(f"{name} is out of range", given=figure, allowed=f">= 0, <= {LARGEST_FIGURE:g}")
        if self.region is not None and self.carbon_g_per_kwh is not None:
            raise ConfigError(
                "a region is one way to say the carbon intensity, carbon_g_per_kwh another",
                given=f"{self.region.code} and {self.carbon_g_per_kwh}",
                allowed="one of them",
            )

    @property
    def intensity_g_per_kwh(self) -> Quantity | None:
        """Grams per kilowatt-hour, of the figure or of the region."""
        return self.carbon_g_per_kwh if self.region is None else self.region.carbon_g_per_kwh

    def of(self, accelerator: str) -> Prices:
        """Return what holds for one kind of device: its rent, and the emissions of making it.

        Raises:
            UnknownNameError: prices are given by name, and not for this device; or no published emissions of it.
        """
        rent, making = self.price_per_device_hour, self.embodied
        if isinstance(rent, Mapping):
            if accelerator not in rent:
                raise UnknownNameError.among("price of a device", accelerator, rent)
            rent = rent[accelerator]
        if making == "published":
            making = published(accelerator)
        return replace(self, price_per_device_hour=rent, embodied=making)


def facility_energy_j(node_energy_j: Quantity, prices: Prices) -> Quantity:
    """Energy that is paid for: the nodes' times the PUE, or the nodes' where none was given.

    The Green Grid 2007, Power Usage Effectiveness: facility energy / energy of its machines.
    """
    return node_energy_j if prices.pue is None else node_energy_j * prices.pue


def electricity_cost(energy_j: Quantity, prices: Prices) -> Quantity | None:
    """Money for the electricity: its energy in kWh times the price."""
    return None if prices.price_per_kwh is None else energy_j / JOULES_PER_KWH * prices.price_per_kwh


def device_cost(duration_s: Quantity, num_devices: Quantity, prices: Prices) -> Quantity | None:
    """Money for renting the devices: their hours times the price.

    Raises:
        ConfigError: the price is given by name, and ``Prices.of`` has not said of which device.
    """
    rent = prices.price_per_device_hour
    if rent is None:
        return None
    if isinstance(rent, Mapping):
        raise ConfigError("a price by name of the device needs the device", hint="prices.of(accelerator)")
    return duration_s * num_devices / SECONDS_PER_HOUR * rent


def money(duration_s: Quantity, num_devices: Quantity, facility_energy_j: Quantity, prices: Prices) -> Quantity | None:
    """Money in all that is priced: electricity, rent, or their sum. ``None`` where neither price was given.

    Who rents devices with their electricity gives no price of electricity.
    """
    parts = (electricity_cost(facility_energy_j, prices), device_cost(duration_s, num_devices, prices))
    known = [part for part in parts if part is not None]
    return sum(known[1:], start=known[0]) if known else None


def carbon_g(facility_energy_j: Quantity, prices: Prices) -> Quantity | None:
    """Grams of CO2 equivalent of the electricity: its energy in kWh times the grid's intensity.

    GHG Protocol, Scope 2 Guidance 2015, the location-based method.
    """
    intensity = prices.intensity_g_per_kwh
    return None if intensity is None else facility_energy_j / JOULES_PER_KWH * intensity


def embodied_g(duration_s: Quantity, num_devices: Quantity, prices: Prices) -> Quantity | None:
    """Grams of CO2 equivalent of making the hardware, for the hours that the run takes of its life.

    Luccioni et al. 2023, JMLR 24 (253), section 4.1: emissions / hours of use in a life x device-hours.

    Raises:
        ConfigError: the published figure is asked for, and ``Prices.of`` has not said of which device.
    """
    making = prices.embodied
    if making is None:
        return None
    if making == "published":
        raise ConfigError("the published figure needs the device", hint="prices.of(accelerator)")
    return duration_s * num_devices / SECONDS_PER_HOUR * making.g_per_device_hour
