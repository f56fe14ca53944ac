"""JSON for machines."""

from __future__ import annotations

import json

import pytest

from wattlaw.law.interval import Interval
from wattlaw.report.machine import as_builtins, as_json


def test_values_are_laid_out_by_field():
    """A frozen value is an object, and comes back as it was."""
    interval = Interval(low=1.0, mid=2.0, high=3.0, level=0.9)
    assert json.loads(as_json([interval])) == [{"low": 1.0, "mid": 2.0, "high": 3.0, "level": 0.9}]
    assert as_builtins({"a": (interval,)})["a"][0]["mid"] == 2.0


def test_letters_stay_letters_and_nan_is_an_error():
    """JSON has no NaN: to write one would be a file that nobody can read."""
    assert "Läufe" in as_json({"name": "Läufe"})
    with pytest.raises(ValueError, match="JSON"):
        as_json({"energy_j": float("nan")})
