"""Embodied emissions: what making a device and its share of the host emitted, over the hours that they work."""

from __future__ import annotations

from dataclasses import dataclass

from wattlaw.hardware.source import Source, require_positive
from wattlaw.units import SI_PER_UNIT

HOURS_PER_YEAR = 365.25 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Embodied:
    """Emissions of making one device and its share of the host.

    Attributes:
        device_kg: of the device.
        host_kg: of the rest of the machine, per device.
        life_h: hours that they work for somebody in their life.
        sources: of the figures; empty where the user states them.
    """

    device_kg: float
    host_kg: float
    life_h: float
    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        """Refuse figures that are not above zero; a host that is counted with the device may be 0."""
        require_positive(device_kg=self.device_kg, life_h=self.life_h, host_kg=self.host_kg or None)

    @property
    def g_per_device_hour(self) -> float:
        """Grams of CO2 equivalent per hour that a device works: all that it took, spread evenly over its life.

        Luccioni et al. 2023, section 4.1: 150 kg and an eighth of 2,500 kg over six years of which 85 % are worked.

        >>> round(Embodied(device_kg=150, host_kg=2500 / 8, life_h=6 * HOURS_PER_YEAR * 0.85).g_per_device_hour, 2)
        10.35
        """
        return (self.device_kg + self.host_kg) * SI_PER_UNIT["kg"] / self.life_h
