"""Declared power."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError
from wattlaw.measure import machine_meter
from wattlaw.measure.meters.declared import DeclaredPower


@pytest.mark.parametrize("watts", [0.0, -1.0, float("nan"), float("inf")])
def test_no_power_is_not_declared(watts: float) -> None:
    """A declared power of zero would be an energy of zero."""
    with pytest.raises(ConfigError):
        DeclaredPower(watts)


def test_only_if_asked() -> None:
    """The machine's meter declares nothing by itself, and what is declared is labelled."""
    assert not any(sensor.info.domain == "declared" for sensor in machine_meter().sensors)
    meter = machine_meter(declared_power_w=65.0, require=["node"])
    meter.start()
    total = meter.stop().total("node")
    assert total is not None
    assert total.method == "declared"
    assert "declared by the user" in total.source
