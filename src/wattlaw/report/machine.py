"""Results as JSON for machines: plain numbers in SI, names with their units."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def as_json(value: object) -> str:
    """Write a result (a frozen value, a mapping or a list of them) as indented JSON.

    >>> print(as_json({"energy_j": 1.0}))
    {
      "energy_j": 1.0
    }
    """
    return json.dumps(as_builtins(value), indent=2, allow_nan=False, ensure_ascii=False)


def as_builtins(value: object) -> Any:
    """Turn a result into dictionaries, lists, numbers and text."""
    return msgspec.to_builtins(value)
