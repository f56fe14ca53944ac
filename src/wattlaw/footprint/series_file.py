"""Series from CSV files: Electricity Maps' layout, or two columns of times and values.

Times carry their offset from UTC, or stand in a column whose heading says UTC: local times without one happen twice
when summer time ends. The heading of the values says their unit. What is missing stays missing; it is an error only
where a run needs it.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from wattlaw.errors import ConfigError, DataError, FileError, WattlawError
from wattlaw.footprint.series import Series, moment
from wattlaw.hardware.region import SCOPES, Scope

#: How Electricity Maps names the columns of its two intensities, over the years.
MAPS_COLUMNS: dict[Scope, tuple[str, ...]] = {"life-cycle": ("(life cycle)", "(lca)"), "direct": ("(direct)",)}

#: Grams per kilowatt-hour in one of each unit that a heading may name; a pound is 0.45359237 kg by definition.
CARBON_UNITS = {"g/kwh": 1.0, "kg/mwh": 1.0, "kg/kwh": 1e3, "t/mwh": 1e3, "lb/mwh": 0.45359237}
#: Kilowatt-hours in what a price is of.
ENERGY_UNITS = {"kwh": 1.0, "mwh": 1e3}
#: More than any grid emits; a higher figure is one in another unit.
LARGEST_G_PER_KWH = 3000.0

#: Offered where a heading names no unit.
CARBON_HEADINGS = "a heading such as gCO2eq/kWh or kg/MWh"
PRICE_HEADINGS = "a heading such as price_per_kwh, EUR/kWh or EUR/MWh"


def read_carbon_series(path: str | Path, *, scope: Scope = "life-cycle") -> Series:
    """Read carbon intensities over time.

    Electricity Maps' files have, among others, the columns ``Datetime (UTC)``, ``Zone id``, ``Carbon intensity
    gCO₂eq/kWh (direct)`` and ``Carbon intensity gCO₂eq/kWh (Life cycle)``, or ``(LCA)`` in those of earlier years.

    Args:
        path: of the CSV file.
        scope: which of Electricity Maps' two intensities; other files have one only.

    Raises:
        FileError: the file cannot be read, or a line of it not be understood.
        DataError: times that stand twice or in uneven steps, or intensities that no grid has.
    """
    if scope not in SCOPES:
        raise ConfigError("unknown scope", given=scope, allowed=", ".join(SCOPES))
    path = Path(path)
    try:
        header, rows = _table(path)
        maps = _maps_column(header, scope)
        column, factor = (maps, 1.0) if maps is not None else (_second(header), _carbon_factor(header[1]))
        series = _series(header, rows, column, factor)
        _require_intensities(series)
        zone = _zone(header, rows) if maps is not None else ""
        return Series(
            start_s=series.start_s,
            step_s=series.step_s,
            per_kwh=series.per_kwh,
            name=f"{scope} carbon of {zone}" if zone else "carbon intensity",
            source=str(path),
            estimated=_estimated(header, rows),
        )
    except WattlawError as error:
        error.at(path)
        raise


def read_price_series(path: str | Path) -> Series:
    """Read prices of electricity over time, such as those of the day before: times, and money per kWh or MWh.

    Raises:
        FileError: the file cannot be read, or a line of it not be understood.
        DataError: times that stand twice or in uneven steps.
    """
    path = Path(path)
    try:
        header, rows = _table(path)
        series = _series(header, rows, _second(header), _price_factor(header[1]))
    except WattlawError as error:
        error.at(path)
        raise
    return Series(
        start_s=series.start_s,
        step_s=series.step_s,
        per_kwh=series.per_kwh,
        name="price of electricity",
        source=str(path),
    )


def _table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the headings, and the rows with the lines that they stand in."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            table = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise FileError("cannot read the file", given=error.strerror) from error
    except (ValueError, csv.Error) as error:
        raise FileError("not a CSV file in UTF-8", given=error) from error
    if len(table) < 2:
        raise FileError("no row of times and values", given=f"{len(table)} lines", allowed="a heading, and rows")
    (_, header), *rows = table
    for line, row in rows:
        if len(row) != len(header):
            raise FileError(f"line {line} has another number of columns", given=len(row), allowed=len(header))
    return [" ".join(cell.split()) for cell in header], rows


def _second(header: Sequence[str]) -> int:
    if len(header) != 2:
        raise FileError(
            "neither Electricity Maps' columns nor two of times and values",
            given=", ".join(header),
            allowed="'Datetime (UTC)' and 'Carbon intensity gCO₂eq/kWh (Life cycle)', or two columns",
        )
    return 1


def _maps_column(header: Sequence[str], scope: Scope) -> int | None:
    """Find the column of an intensity in Electricity Maps' layout; ``None`` in another layout."""
    found = {
        name: column
        for column, name in enumerate(map(_plain, header))
        if name.startswith("carbon intensity gco2eq/kwh (")
    }
    if not found:
        return None
    for name, column in found.items():
        if name.endswith(MAPS_COLUMNS[scope]):
            return column
    raise FileError(f"no column of the {scope} intensity", given=", ".join(found), hint="the other scope")


def _plain(heading: str) -> str:
    """Compare headings without case and with plain digits.

    >>> _plain("Carbon Intensity gCO₂eq/kWh (LCA)")
    'carbon intensity gco2eq/kwh (lca)'
    """
    return heading.replace("₂", "2").casefold()


def _carbon_factor(heading: str) -> float:
    """Grams per kWh in one of the unit that a heading names.

    >>> _carbon_factor("carbon_g_per_kwh"), _carbon_factor("kgCO2/MWh"), _carbon_factor("intensity [gCO2eq/kWh]")
    (1.0, 1.0, 1.0)
    """
    name = re.sub(r"co2(?:eq|e)?", "", _plain(heading)).replace("lbs", "lb")
    name = re.sub(r"_per_| per |\s*/\s*", "/", name)
    for unit, factor in CARBON_UNITS.items():
        if re.search(rf"(?<![a-z]){unit}(?![a-z])", name):
            return factor
    raise FileError("a heading of carbon intensities names their unit", given=heading, allowed=CARBON_HEADINGS)


def _price_factor(heading: str) -> float:
    """Money per kWh in one of the unit that a heading names.

    >>> _price_factor("price_per_kwh"), _price_factor("EUR/MWh")
    (1.0, 0.001)
    """
    name = re.sub(r"_per_| per |\s*/\s*", "/", heading.casefold())
    for unit, kwh in ENERGY_UNITS.items():
        if re.search(rf"/{unit}(?![a-z])", name):
            return 1 / kwh
    raise FileError("a heading of prices names their unit", given=heading, allowed=PRICE_HEADINGS)


def _series(header: Sequence[str], rows: Sequence[tuple[int, list[str]]], column: int, factor: float) -> Series:
    """Put the values of a column at their times, in even steps, NaN where one is missing."""
    is_utc = re.search(r"(?<![a-z])utc(?![a-z])", header[0].casefold().replace("_", " ")) is not None
    lines: dict[float, int] = {}
    values: dict[float, float] = {}
    for line, row in rows:
        time_s = _time(row[0], line, is_utc=is_utc)
        if time_s in lines:
            raise DataError(
                f"a time stands twice, in lines {lines[time_s]} and {line}",
                given=moment(time_s),
                allowed="each time once, and one zone per file",
            )
        lines[time_s] = line
        values[time_s] = factor * _value(row[column], line)
    times_s = np.sort(np.array(list(values)))
    if times_s.size == 1:
        raise DataError("one time does not say how long it holds", given=moment(times_s[0]), allowed="at least two")
    step_s = float(np.diff(times_s).min())
    places = (times_s - times_s[0]) / step_s
    if not np.allclose(places, places.round(), atol=1e-6, rtol=0):
        uneven = times_s[np.flatnonzero(np.abs(places - places.round()) > 1e-6)[0]]
        raise DataError("times are not in even steps", given=f"{moment(uneven)}, steps of {step_s:g} s")
    per_kwh = np.full(int(places[-1].round()) + 1, np.nan)
    per_kwh[places.round().astype(int)] = [values[time_s] for time_s in times_s]
    return Series(start_s=float(times_s[0]), step_s=step_s, per_kwh=per_kwh)


def _time(text: str, line: int, *, is_utc: bool) -> float:
    """Read a time as seconds since 1970."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise FileError(f"line {line} has no time", given=repr(text), allowed="2026-01-31T14:00Z") from error
    if time.tzinfo is None:
        if not is_utc:
            raise FileError(
                f"line {line}: a time without its offset from UTC can be two times",
                given=repr(text),
                allowed="2026-01-31T14:00Z or +01:00, or a heading with (UTC)",
            )
        time = time.replace(tzinfo=UTC)
    return time.timestamp()


def _value(text: str, line: int) -> float:
    """Read a value; an empty cell is a missing one."""
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value):
        raise FileError(f"line {line} has no number", given=repr(text), allowed="a finite number, or nothing")
    return value


def _require_intensities(series: Series) -> None:
    outside = np.flatnonzero((series.per_kwh < 0) | (series.per_kwh > LARGEST_G_PER_KWH))
    if outside.size:
        at = int(outside[0])
        raise DataError(
            f"no grid emits this, at {moment(series.start_s + at * series.step_s)}",
            given=f"{series.per_kwh[at]:g} g/kWh",
            allowed=f"0 to {LARGEST_G_PER_KWH:g} g/kWh",
            hint="the unit that the heading names",
        )


def _zone(header: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> str:
    """Name the zone of a file, and refuse a file of several."""
    names = [_plain(name) for name in header]
    if "zone id" not in names:
        return ""
    zones = dict.fromkeys(row[names.index("zone id")].strip() for _, row in rows)
    if len(zones) > 1:
        raise DataError("a series is of one zone", given=", ".join(zones), allowed="one zone per file")
    return next(iter(zones))


def _estimated(header: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> float | None:
    names = [_plain(name) for name in header]
    if "data estimated" not in names:
        return None
    column = names.index("data estimated")
    return sum(row[column].strip().casefold() == "true" for _, row in rows) / len(rows)
