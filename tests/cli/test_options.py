"""Values of options that several verbs share."""

from __future__ import annotations

import pytest

from wattlaw.cli.options import POWER
from wattlaw.errors import ConfigError


@pytest.mark.parametrize(("text", "watts"), [("65W", 65.0), (" 1.2 kW ", 1200.0), ("500mW", 0.5), ("1e2 W", 100.0)])
def test_powers_are_read_with_their_unit(text, watts):
    """A power is a number and a unit."""
    assert POWER.convert(text, None, None) == pytest.approx(watts)


@pytest.mark.parametrize("text", ["65", "W", "-65W", "0W", "nan W", "1e999W", "65 J", "..W", ""])
def test_what_is_no_power_is_refused(text):
    """No unit, another unit, not a number, or not above zero; the text is shown as it was typed."""
    with pytest.raises(ConfigError) as caught:
        POWER.convert(text, None, None)
    assert caught.value.given == repr(text)
