"""TOML as wattlaw writes it: tables of plain values, read back unchanged by the standard library.

Written here because the standard library only reads TOML, and a spec is a few flat tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(mapping: Mapping[str, Any]) -> str:
    """Write nested tables of texts, numbers and lists as TOML; ``None`` is left out, as TOML has no null.

    >>> print(toml_text({"name": "demo", "recipe": {"batch_size": 32, "epochs": None}}), end="")
    name = "demo"
    <BLANKLINE>
    [recipe]
    batch_size = 32
    """
    return "\n".join(_tables(mapping, ())).lstrip("\n") + "\n"


def _tables(mapping: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    values = {key: value for key, value in mapping.items() if value is not None}
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    lines = ["", f"[{'.'.join(map(_key, path))}]"] if path and (plain or not values) else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += _tables(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(part)}" for key, part in value.items() if part is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(part) for part in value)}]"
    raise TypeError(f"TOML has no form for {value!r}")


def _text(text: str) -> str:
    # A JSON string is a TOML basic string but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
