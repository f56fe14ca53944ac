"""Power that the user states, for machines that cannot be measured: watts times seconds, labelled ``declared``.

It says nothing about how power depends on the work, so an energy law must not be fitted to it. It is used only if
the user asks for it, and never as a stand-in for a sensor that fails.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence

from wattlaw.errors import ConfigError
from wattlaw.measure.reading import Boundary, MeterWarning
from wattlaw.measure.sensor import DeviceState, SensorInfo


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
