"""Power that the user states, for machines that cannot be measured: watts times seconds, labelled ``declared``.

It says nothing about how power depends on the work, so an energy law must not be fitted to it. It is used only if
the user asks for it, and never as a stand-in for a sensor that fails.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Sequence

from wattlaw.errors import ConfigError
from wattlaw.measure.reading import Boundary, MeterWarning
from wattlaw.measure.sensor import DeviceState, SensorInfo
from wattlaw.units import SI_PER_UNIT


def parse_power(text: str) -> float:
    """Read a power with its unit, in watts.

    Raises:
        ConfigError: no number, no unit, or not above zero.

    >>> parse_power("65W"), parse_power("1.2 kW")
    (65.0, 1200.0)
    """
    match = re.fullmatch(r"\s*([0-9.eE+]+)\s*(mW|kW|W)\s*", text)
    try:
        power_w = float(match[1]) * SI_PER_UNIT[match[2]] if match else math.nan
    except ValueError:
        power_w = math.nan
    if not (math.isfinite(power_w) and power_w > 0):
        raise ConfigError("a declared power is a number above zero with its unit", given=repr(text), allowed="65W")
    return power_w


class DeclaredPower:
    """A sensor that answers what it was told."""

    def __init__(self, power_w: float, *, boundary: Boundary = "node", host: str | None = None) -> None:
        if not (math.isfinite(power_w) and power_w > 0):
            raise ConfigError("a declared power must be above zero", given=power_w)
        self._power_w = power_w
        host = socket.gethostname() if host is None else host
        self._info = SensorInfo(
            device=f"{host}/declared",
            name=f"declared {power_w:g} W",
            boundary=boundary,
            domain="declared",
            power=f"declared by the user: {power_w:g} W",
            period_s=0.0,
            power_method="declared",
        )

    @property
    def info(self) -> SensorInfo:
        """Tell what is declared."""
        return self._info

    def energy_j(self) -> float:
        """Fail: a declaration counts nothing."""
        raise AssertionError

    def power_w(self) -> float:
        """Return the declared power."""
        return self._power_w

    def inspect(self) -> Sequence[MeterWarning]:
        """Find nothing."""
        return ()

    def state(self) -> DeviceState | None:
        """Know nothing."""
        return None
