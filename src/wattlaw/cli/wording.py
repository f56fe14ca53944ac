"""Errors in the words of the command line: what was typed, not the table and key of a spec that it became."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from wattlaw.errors import WattlawError

#: "[table]: key: the rest", with or without the colon after the table.
PLACE = re.compile(r"\[(?P<table>\w+)\](?::? (?P<key>\w+))?(?:: (?P<rest>.*))?", re.DOTALL)


def in_options(
    error: WattlawError, *, options: Mapping[tuple[str, str], str], typed: Iterable[str], file: Path | None
) -> WattlawError:
    """Reword an error about a run spec that was built from a file, from options, or from both.

    Args:
        error: its place is a table and key of the spec.
        options: the option that sets a table's key.
        typed: options that were given.
        file: of the spec; ``None`` where everything comes from options.

    Returns:
        the same error: at the option where one was typed, and at the file otherwise.
    """
    given = set(typed)
    known = {place: option for place, option in options.items() if file is None or option in given}
    place, rest = _where(error, known)
    if place is not None:
        error.place = f"{place}: {rest}" if rest else place
        key = place.removeprefix("--").replace("-", "_")
        if error.attempted.startswith(f"{key} "):
            error.attempted = place + error.attempted.removeprefix(key)
    elif file is not None:
        error.at(file)
    else:
        error.place = rest
    if error.attempted == "a key is missing":
        error.attempted = "is missing"
    keys = {key: option for (_, key), option in known.items()}
    error.attempted = _reworded(error.attempted, keys)
    error.hint = error.hint and _reworded(error.hint, keys)
    error.given = _reworded(error.given, keys) if isinstance(error.given, str) else error.given
    error.allowed = _reworded(error.allowed, keys) if isinstance(error.allowed, str) else error.allowed
    if error.place and error.attempted.startswith(error.place):
        error.place = None
    return error


def _where(error: WattlawError, options: Mapping[tuple[str, str], str]) -> tuple[str | None, str | None]:
    """Return the option that an error is about, and what its place names within that option's value."""
    found = PLACE.fullmatch(error.place or "")
    if found is None:
        return None, error.place
    table, key, rest = found["table"], found["key"], found["rest"]
    if (table, key) == ("model", "config") and (table, key) in options and rest:
        return rest, None  # the file that the option names, and the field in it
    inner, _, beyond = (rest or "").partition(": ")
    if (table, inner) in options:  # a key of the same table, such as the head of a preset
        key, rest = inner, beyond
    if (table, error.attempted.removeprefix("unknown ")) in options:
        key, rest = error.attempted.removeprefix("unknown "), None
    if key is None:
        named = [name for one, name in options if one == table and re.search(rf"\b{name}\b", error.attempted)]
        key = max(named, key=len, default="")
    if (table, key) not in options:
        return None, rest
    return options[table, key], rest


def _reworded(text: str, keys: Mapping[str, str]) -> str:
    """Write keys as options: those that are no words of English, and those that are given a value or listed."""
    for key, option in keys.items():
        text = re.sub(rf"\b{key} = (?=\w)", f"{option} ", text)
        if "_" in key:
            text = re.sub(rf"(?<![-\w]){key}\b", option, text)
    listed = re.fullmatch(r"((?:one of )?)(\w+(?:, \w+)*)", text)
    if listed and all(name in keys for name in listed[2].split(", ")):
        text = listed[1] + ", ".join(keys[name] for name in listed[2].split(", "))
    return text
