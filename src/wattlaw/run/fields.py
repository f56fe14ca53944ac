"""Checks of the plain values that files hold, each with the field in its message."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from wattlaw.errors import ConfigError, FileError, UnknownNameError

#: Above this an integer of a file has no float, and arithmetic would fail far from the file.
LARGEST = sys.float_info.max


def expect_mapping(field: str, value: object) -> dict[str, Any]:
    """Return a table of named values, or refuse what is none."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise FileError("not a table of named values", given=repr(value), allowed="name = value").at(field)
    return dict(value)


def expect_text(field: str, value: object) -> str:
    """Return a text, or refuse what is none."""
    if not isinstance(value, str):
        raise FileError("not a text", given=repr(value), allowed="a text").at(field)
    return value


def expect_list(field: str, value: object) -> list[Any]:
    """Return a list, or refuse what is none."""
    if not isinstance(value, (list, tuple)):
        raise FileError("not a list", given=repr(value), allowed="a list").at(field)
    return list(value)


def expect_texts(field: str, value: object) -> tuple[str, ...]:
    """Return several texts, or refuse what is no list of them."""
    return tuple(expect_text(field, one) for one in expect_list(field, value))


def expect_number(field: str, value: object) -> float:
    """Return a finite number, or refuse what is none: NaN and infinity are no measurements."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FileError("not a number", given=repr(value), allowed="a finite number").at(field)
    if not abs(value) <= LARGEST:
        raise ConfigError("not a finite number", given=value, allowed="a finite number").at(field)
    return value


def expect_positive(field: str, value: object) -> float:
    """Return a number above zero; what is not known is absent, and not 0."""
    number = expect_number(field, value)
    if number <= 0:
        raise ConfigError("must be above zero", given=number, allowed="> 0, or absent where not known").at(field)
    return float(number)


def expect_whole(field: str, value: object) -> int:
    """Return a whole number of at least 1, also where a file writes it as 2.0."""
    number = expect_number(field, value)
    if number < 1 or number % 1 != 0:
        raise ConfigError("must be a whole number", given=number, allowed=">= 1").at(field)
    return int(number)


def expect_one_of(field: str, value: object, names: Iterable[str]) -> str:
    """Return a known name, or refuse what is none of them and list the nearest."""
    text = expect_text(field, value)
    known = tuple(names)
    if text not in known:
        raise UnknownNameError.among(field.rpartition(".")[2], text, known).at(field)
    return text


def refuse_unknown(kind: str, table: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that would otherwise be ignored: a slip of the pen must not become a default."""
    names = tuple(known)
    for name in table:
        if name not in names:
            raise UnknownNameError.among(kind, name, names).at(name)
