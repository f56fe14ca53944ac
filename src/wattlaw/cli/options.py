"""Options that several verbs share, how their values are read, and how results print."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from wattlaw.cli.file_kinds import Kind, require_kind
from wattlaw.errors import ConfigError, FileError, UnknownNameError, WattlawError
from wattlaw.law.laws import LAWS
from wattlaw.units import MOST_DEVICES

Item = TypeVar("Item")
#: Goes through the items of a loop, and shows how far it is where somebody watches.
Watch = Callable[[Iterable[Item], str, int], Iterable[Item]]
#: Where a terminal says that it is narrower, or of no width at all (``COLUMNS=0``), tables are as wide as this.
NARROWEST = 40


class Number(click.ParamType[float]):
    """A finite number within bounds; a whole one may also be written as 1e6."""

    def __init__(
        self,
        *,
        whole: bool = False,
        at_least: float | None = None,
        above: float | None = None,
        at_most: float | None = None,
        below: float | None = None,
    ) -> None:
        self.name = "integer" if whole else "number"
        self.whole = whole
        self.bounds = {">=": at_least, ">": above, "<=": at_most, "<": below}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number, or refuse it with the bounds."""
        if not isinstance(value, str):
            return float(value) if not self.whole else int(value)
        number = self._number(value)
        at_least, above, at_most, below = (self.bounds[sign] for sign in (">=", ">", "<=", "<"))
        if (
            number is None
            or (at_least is not None and number < at_least)
            or (above is not None and number <= above)
            or (at_most is not None and number > at_most)
            or (below is not None and number >= below)
        ):
            raise ConfigError(f"not {self._kind}", given=repr(value), allowed=self._allowed).at(option_of(param))
        return number

    def scaled(self, number: str, factor: float, text: str, param: click.Parameter | None) -> float:
        """Read the number in front of a unit, of which ``factor`` make one in SI; an error shows the whole text."""
        try:
            found = Number.convert(self, number, param, None) * factor
        except ConfigError as error:
            error.given = repr(text)
            raise
        if not math.isfinite(found):
            raise ConfigError(f"not {self._kind}", given=repr(text), allowed=self._allowed).at(option_of(param))
        return found

    def _number(self, text: str) -> float | None:
        try:
            if self.whole:
                return int(text)
        except ValueError:
            pass  # 1e6 is a whole number too
        try:
            number = float(text)
        except ValueError:
            return None
        if not math.isfinite(number) or (self.whole and number % 1 != 0):
            return None
        return int(number) if self.whole else number

    @property
    def _kind(self) -> str:
        return "a whole number in range" if self.whole else "a number in range"

    @property
    def _allowed(self) -> str:
        bounds = [f"{sign} {bound:g}" for sign, bound in self.bounds.items() if bound is not None]
        return ", ".join([f"a {'whole' if self.whole else 'finite'} number", *bounds])


class Quantity(Number):
    """A number with one of several units, such as 50kWh; in SI.

    Args:
        units: that it may have.
        kind: what it is called where it is none.
        example: of one.
        at_least: bound.
        above: bound.
    """

    def __init__(
        self, *units: str, kind: str, example: str, at_least: float | None = None, above: float | None = None
    ) -> None:
        super().__init__(at_least=at_least, above=above)
        self.name = "quantity"
        self._units = units
        self._called = kind
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number and its unit, or refuse it with the units."""
        from wattlaw.units import SI_PER_UNIT

        if not isinstance(value, str):
            return float(value)
        found = re.fullmatch(rf"\s*(.*?)\s*({'|'.join(self._units)})\s*", value)
        if found is None:
            *most, last = self._units
            allowed = f"a number with its unit: {', '.join(most)} or {last}, such as {self._example}"
            raise ConfigError(f"not {self._called}", given=repr(value), allowed=allowed).at(option_of(param))
        return self.scaled(found[1], SI_PER_UNIT[found[2]], value, param)


class Duration(Quantity):
    """A time span with its unit, such as 90min, 24h or 2d; in seconds."""

    def __init__(self, *, at_least: float | None = None, above: float | None = None) -> None:
        super().__init__("s", "min", "h", "d", kind="a time span", example="24h", at_least=at_least, above=above)
        self.name = "duration"


class Name(click.ParamType[str]):
    """One of the names of a kind, in any case; asked for only when one is given, as it may need imports."""

    name = "name"

    def __init__(self, kind: str, known: Callable[[], Iterable[str]]) -> None:
        self.kind = kind
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the known name, or refuse it and list the nearest."""
        names = list(self.known())
        text = str(value).strip().lower()
        if text not in names:
            raise UnknownNameError.among(self.kind, str(value), names).at(option_of(param))
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Offer the names that start like this."""
        return [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]


class InputPath(click.Path):
    """A file or folder to read. Devices are refused: some of them never end.

    Attributes:
        holds: the kinds of file that may be there; any where none is named.
    """

    def __init__(self, *holds: Kind, **options: Any) -> None:
        super().__init__(**options)
        self.holds = holds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        path = _path(value, param)
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):
            return path  # whoever reads it says what it is needed for
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise FileError("a device, not a file", given=str(path), allowed="a file").at(option_of(param))
        if self.holds:
            require_kind(path, self.holds)
        return path


class OutputPath(click.Path):
    """A file to write, checked before the work that fills it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, or say why nothing can be written there."""
        path = _path(value, param)
        try:
            if path.is_dir():
                raise FileError("a folder, not a file", allowed=f"a file, such as {path / 'NAME'}").at(path)
            if path.exists() and not path.is_file():
                raise FileError("a device, not a file", allowed="a file").at(path)
            if not path.parent.is_dir():
                raise FileError("the folder is not there", given=str(path.parent), hint=f"mkdir {path.parent}").at(path)
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise FileError("no permission to write", hint="another folder").at(path)
        except (OSError, ValueError) as error:
            raise FileError("no path of a file", given=error).at(option_of(param)) from error
        return path


class OutputFolder(click.Path):
    """A folder to write into, made where it is absent; an empty text is none, and not the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, or say why it is no folder."""
        path = _path(value, param)
        try:
            if path.exists() and not path.is_dir():
                raise FileError("a file, not a folder", allowed="a folder, which need not be there").at(path)
        except (OSError, ValueError) as error:
            raise FileError("no path of a folder", given=error).at(option_of(param)) from error
        return path


def _path(value: Any, param: click.Parameter | None) -> Path:
    if not str(value):
        raise ConfigError("an empty path", allowed="a path").at(option_of(param))
    return Path(value)


def option_of(param: click.Parameter | None) -> str:
    """Name an option or argument as the user types it."""
    if param is None:
        return "an option"
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name


POSITIVE = Number(above=0)
NOT_NEGATIVE = Number(at_least=0)
ENERGY = Quantity("J", "kJ", "MJ", "Wh", "kWh", "MWh", kind="an energy", example="1kWh", above=0)
POWER = Quantity("mW", "kW", "W", kind="a power", example="65W", above=0)
MASS = Quantity("g", "kg", "t", kind="a mass", example="20kg", above=0)
COUNT = Number(whole=True, at_least=1)
FLAG = Number(whole=True, at_least=0, at_most=1)
DEVICES = Number(whole=True, at_least=1, at_most=MOST_DEVICES)
SHARE = Number(above=0, below=1)

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
declare_power_option = click.option(
    "--declare-power", type=POWER, metavar="WATTS", help="Power of the node as you state it, such as 65W; labelled so."
)


#: The laws, for the help of options.
LISTED_LAWS = f"{', '.join([*LAWS][:-1])} or {[*LAWS][-1]}"


def law_names() -> Iterable[str]:
    """Name the laws."""
    return LAWS


def boundary_names() -> Iterable[str]:
    """Name the boundaries of an energy."""
    from wattlaw.run.record import BOUNDARIES

    return BOUNDARIES


@contextmanager
def about(paths: Iterable[Path]) -> Iterator[None]:
    """Name the files that an error is about, where it does not name one itself."""
    try:
        yield
    except WattlawError as error:
        if error.place is None:
            names = [str(path) for path in paths]
            error.at(", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""))
        raise


def print_json(value: object) -> None:
    """Print a result as JSON on standard output."""
    from wattlaw.report.machine import as_json

    click.echo(as_json(value))


def print_rich(*parts: Any) -> None:
    """Print tables and text for people, in colour where the terminal has it."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, NARROWEST)
    for part in parts:
        console.print(part, crop=False)


def _unwatched(items: Iterable[Any], label: str, total: int) -> Iterable[Any]:
    return items


@contextmanager
def watching(*, shown: bool) -> Iterator[Watch[Any]]:
    """Show on standard error how far a loop is and how long it will take, if that is a terminal.

    Yields:
        a function that goes through the items of a loop, given what it works on and the number of items.
    """
    from wattlaw.report.progress import terminal

    console = terminal(shown=shown)
    if console is None:
        yield _unwatched
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield lambda items, label, total: progress.track(items, total=total, description=label)


@contextmanager
def working(label: str, *, shown: bool) -> Iterator[None]:
    """Show on standard error that something of unknown length goes on, if that is a terminal."""
    from wattlaw.report.progress import terminal

    console = terminal(shown=shown)
    with nullcontext() if console is None else console.status(label):
        yield
