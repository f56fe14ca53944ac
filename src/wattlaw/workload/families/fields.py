"""Typed reading of a Hugging Face ``config.json``: each field is what it should be, or the error names it."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError, FileError
from wattlaw.workload.architecture import LARGEST_COUNT

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a configuration, by name.

    Where a field is absent, a reader takes the value that the model's configuration class in Hugging Face
    transformers takes (which is what the sizes of a published sparse file mean), or refuses where none is given.
    """

    mapping: Mapping[str, Any]

    def count(self, *names: str, default: int | None = None, least: int = 1, most: int = LARGEST_COUNT) -> int:
        """Read a whole number under the first of its names that is there.

        Args:
            names: the field's name, then names that the configuration class maps onto it.
            default: taken where the field is absent or null.
            least: smallest allowed.
            most: largest allowed.

        Returns:
            the number.

        Raises:
            FileError: the field is absent without a default, or not a whole number.
            ConfigError: the number is out of range.
        """
        name, value = self._find(names)
        if value is None:
            if default is not None:
                return default
            raise self._absent(*names)
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise FileError("the field is not a whole number", given=repr(value), allowed=f"{least} or more").at(name)
        if not least <= value <= most:
            raise ConfigError(
                "the number is out of range",
                given=value if abs(value) < 10**30 else "a number of more than 30 digits",
                allowed=f"{least} to {most}",
            ).at(name)
        return value

    def flag(self, name: str, *, default: bool) -> int:
        """Read a true or false as 1 or 0; null is absent."""
        value = self.mapping.get(name)
        if value is None:
            return int(default)
        if not isinstance(value, bool):
            raise FileError("the field is not true or false", given=repr(value), allowed="true, false").at(name)
        return int(value)

    def dropped(self, name: str, *, default: float) -> int:
        """Read a dropout probability as 1 where it drops anything, 0 where not; null is 0."""
        value = self.mapping.get(name, default)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise FileError("the field is not a probability", given=repr(value), allowed="0 to 1").at(name)
        return int(value > 0)

    def text(self, name: str, *, default: str | None = None) -> str:
        """Read a text."""
        value = self.mapping.get(name, default)
        if value is None and default is not None:
            return default
        if value is None:
            raise self._absent(name)
        if not isinstance(value, str):
            raise FileError("the field is not a text", given=repr(value)).at(name)
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        """Read a list of whole numbers from zero; absent or null is an empty one."""
        value = self.mapping.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or any(
            isinstance(item, bool) or not isinstance(item, int) for item in value
        ):
            raise FileError("the field is not a list of whole numbers", given=repr(value)).at(name)
        return tuple(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of texts; absent or null is an empty one."""
        value = self.mapping.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or any(not isinstance(item, str) for item in value):
            raise FileError("the field is not a list of texts", given=repr(value)).at(name)
        return tuple(value)

    def has(self, name: str) -> bool:
        """Tell whether a field is there and not null."""
        return self.mapping.get(name) is not None

    def refuse(self, name: str, *, unless: object, why: str) -> None:
        """Refuse a field whose value changes the model in a way that is not counted here."""
        value = self.mapping.get(name, unless)
        if value is not None and value != unless:
            raise ConfigError(why, given=repr(value), allowed=repr(unless)).at(name)

    def _find(self, names: tuple[str, ...]) -> tuple[str, Any]:
        for name in names:
            if self.has(name):
                return name, self.mapping[name]
        return names[0], None

    def _absent(self, *names: str) -> FileError:
        """Say that a field is not there, or that it is and holds nothing."""
        null = next((name for name in names if name in self.mapping), None)
        if null is not None:
            return FileError("the field is null", allowed="a value").at(null)
        return FileError("the field is missing", hint=self._nearest(names[0])).at(names[0])

    def _nearest(self, name: str) -> str:
        near = difflib.get_close_matches(name, [str(key) for key in self.mapping], n=3, cutoff=0.7)
        return f"renaming {', '.join(near)}" if near else "the file that was published with the model"
