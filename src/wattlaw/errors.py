"""All errors of wattlaw, split by what the reader can do about them.

::

    WattlawError
    ├── ConfigError        fix the value: a size, an option, a combination that cannot be
    ├── UnknownNameError   pick a known name: of a model, an accelerator, a law, a strategy
    ├── FileError          repair the file: not readable, not that format, a field missing or of the wrong type
    ├── DataError          add or clean data: too few rows, NaN, collinear columns
    ├── FitError           change the law or the data: the fit did not converge; carries ``partial``
    ├── MeterError         get a meter or a permission: nothing here measures this
    └── MissingExtraError  install an optional part of wattlaw

    WattlawWarning         doubt that does not stop the work; also a field of the result

A message is one line: what was attempted, what was given, what is allowed and what to try. The detail is
raised deep, where it is known; the function at the door adds the file or field once, with ``at``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Self

#: What is shown of a value: lists of names that are no longer than this are shown whole.
LONGEST_SHOWN = 200


class WattlawError(Exception):
    """The root: everything that wattlaw raises on purpose, and that a user can mend."""

    def __init__(
        self,
        attempted: str,
        *,
        given: object = None,
        allowed: object = None,
        hint: str | None = None,
        place: str | None = None,
    ) -> None:
        super().__init__(attempted)
        self.attempted = attempted
        self.given = given
        self.allowed = allowed
        self.hint = hint
        self.place = place

    def __str__(self) -> str:
        parts = [f"{self.place}: {self.attempted}" if self.place else self.attempted]
        if self.given is not None:
            parts.append(f"given {_shown(self.given)}")
        if self.allowed is not None:
            parts.append(f"allowed {_shown(self.allowed)}")
        if self.hint:
            parts.append(f"try {self.hint}")
        return _one_line("; ".join(parts))

    def at(self, place: object) -> Self:
        """Name the file or field that the error was found in, outermost first, and return the error."""
        self.place = f"{place}: {self.place}" if self.place else str(place)
        return self


class ConfigError(WattlawError):
    """A value or a combination of values that cannot be run."""


class UnknownNameError(WattlawError):
    """A name that wattlaw does not know; the message lists the nearest ones."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str], *, hint: str | None = None) -> Self:
        """Build the error for ``name``, which should have been one of the ``known`` names of this ``kind``.

        Names that fit into a line are all listed, the nearest first; of more, that others exist is said: whoever reads
        only the nearest takes them for all there are.
        """
        names = sorted(set(known))
        lowered = {candidate.lower(): candidate for candidate in names}
        longer = [candidate for candidate in lowered if name and candidate.startswith(name.lower())]
        nearest = difflib.get_close_matches(name.lower(), lowered, n=5, cutoff=0.4)
        shown = [lowered[candidate] for candidate in dict.fromkeys([*longer[:5], *nearest])][:5]
        whole = ", ".join([*shown, *(other for other in names if other not in shown)])
        if len(whole) > LONGEST_SHOWN:
            whole = some_of(names, nearest=shown)
        return cls(f"unknown {kind}", given=repr(name), allowed=whole, hint=hint)


def some_of(names: Sequence[str], *, nearest: Sequence[str]) -> str:
    """Write the nearest of many names, or the first where none is near, and how many there are.

    >>> some_of(["a10", "a30", "t4"], nearest=["t4"])
    't4 (nearest of 3)'
    """
    return f"{', '.join(nearest or names[:5])} ({'nearest' if nearest else 'some'} of {len(names)})"


class FileError(WattlawError):
    """A file that cannot be read or is not what it should be; it is left as it was."""


class DataError(WattlawError):
    """Measurements from which this cannot be computed: too few, not finite, collinear."""


class FitError(WattlawError):
    """A fit that did not end well; ``partial`` is what it had reached."""

    def __init__(self, attempted: str, *, partial: Any = None, **details: Any) -> None:
        super().__init__(attempted, **details)
        self.partial = partial


class MeterError(WattlawError):
    """Nothing on this machine can measure what was asked for, or it may not be read."""


class MissingExtraError(WattlawError):
    """An optional part of wattlaw is not installed."""

    @classmethod
    def of(cls, extra: str, purpose: str) -> Self:
        """Build the error for work that needs ``pip install 'wattlaw[extra]'``."""
        return cls(f"{purpose} needs an optional part", hint=f"pip install 'wattlaw[{extra}]'")


def encoding_hint(content: bytes) -> str | None:
    """Say what to try with the text of a file that is not in UTF-8, such as some editors write; ``None`` where it is.

    >>> encoding_hint("Läufe".encode("utf-16"))
    'saving it as UTF-8'
    """
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "saving it as UTF-8"
    return None


class WattlawWarning(UserWarning):
    """Doubt about a result: outside of the fitted domain, a parameter on its bound, a value that was assumed."""


def _shown(value: object) -> str:
    text = str(value) or "''"
    if len(text) <= LONGEST_SHOWN:
        return text
    kept = text[: LONGEST_SHOWN - len("...")]
    # A list ends behind a whole name.
    return f"{kept.rpartition(', ')[0] or kept}..."


def _one_line(text: str) -> str:
    """Join the lines, and show what a terminal cannot print (parts of binary files, escape codes) as a mark."""
    joined = " ".join(text.split())
    return joined if joined.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in joined)
