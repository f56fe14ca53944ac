"""Declared power."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError
from wattlaw.measure import machine_meter
from wattlaw.measure.meters.declared import DeclaredPower, parse_power


@pytest.mark.parametrize(("text", "watts"), [("65W", 65.0), (" 1.2 kW ", 1200.0), ("500mW", 0.5), ("1e2 W", 100.0)])
def test_powers_are_read_with_their_unit(text: str, watts: float) -> None:
    """A power is a number and a unit."""
    assert parse_power(text) == pytest.approx(watts)


@pytest.mark.parametrize("text", ["65", "W", "-65W", "0W", "nan W", "1e999W", "65 J", "..W", ""])
def test_anything_else_is_refused(text: str) -> None:
    """No unit, another unit, not a number, or not above zero."""
    with pytest.raises(ConfigError, match="65W"):
        parse_power(text)


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
