"""Time-of-use tariffs: a price of electricity that depends on month, day of the week and time of day."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError, FileError, UnknownNameError, WattlawError
from wattlaw.footprint.series import Series
from wattlaw.run.fields import expect_list, expect_mapping, expect_number, expect_text, refuse_unknown
from wattlaw.run.spec_file import read_toml
from wattlaw.units import SI_PER_UNIT

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: Tariffs change, and offsets from UTC differ from whole hours, by quarters of an hour at the finest.
STEP_S = 900.0
STEPS_PER_DAY = int(SI_PER_UNIT["d"] / STEP_S)
MONTHS = tuple(range(1, 13))
#: Longer than that no tariff holds, and a schedule of it would only fill the memory.
LONGEST_S = 3 * 366 * SI_PER_UNIT["d"]
#: The years 1900 and 9000 in seconds since 1970 UTC: beyond, dates of some zone have no year that can be written.
FIRST_S, LAST_S = -2_208_988_800.0, 221_845_392_000.0

KEYS = ("currency", "timezone", "price_per_kwh", "zones")
ZONE_KEYS = ("name", "days", "months", "from", "to", "price_per_kwh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """When one price holds.

    Attributes:
        name: for people.
        price_per_kwh: in the tariff's currency; may be negative.
        days: of the week on which it begins, 0 is Monday.
        months: in which it holds, 1 is January.
        start_step: quarter of an hour of the day at which it begins, in local time.
        num_steps: quarters that it lasts, at most a day; past midnight it belongs to the day on which it began.
    """

    name: str
    price_per_kwh: float
    days: tuple[int, ...] = tuple(range(7))
    months: tuple[int, ...] = MONTHS
    start_step: int = 0
    num_steps: int = STEPS_PER_DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """A time-of-use tariff.

    Attributes:
        zones: when which price holds; no two at the same time.
        timezone: name of the time zone in which they are meant, such as ``Europe/Berlin``.
        base_price_per_kwh: at all other times; ``None`` where the zones leave none.
        currency: for people.
        source: the file that it comes from.
    """

    zones: tuple[Zone, ...]
    timezone: str
    base_price_per_kwh: float | None = None
    currency: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse zones that overlap, and times that have no price."""
        timezone_named(self.timezone)
        self.prices_per_kwh()

    def prices_per_kwh(self) -> NDArray[np.float64]:
        """Return the price of each quarter of an hour of a week in each month: shape ``[12, 7, quarters of a day]``."""
        owner = np.full((12, 7 * STEPS_PER_DAY), -1)
        for number, zone in enumerate(self.zones):
            for day in zone.days:
                steps = (day * STEPS_PER_DAY + zone.start_step + np.arange(zone.num_steps)) % owner.shape[1]
                places = np.ix_(np.array(zone.months) - 1, steps)
                if (owner[places] >= 0).any():
                    other = self.zones[int(owner[places].max())]
                    raise ConfigError(
                        "two zones hold at the same time",
                        given=f"{zone.name} and {other.name} on {DAYS[day]}",
                        allowed="one price at a time",
                    )
                owner[places] = number
        free = np.argwhere(owner < 0)
        if free.size and self.base_price_per_kwh is None:
            month, step = free[0]
            raise ConfigError(
                "a time has no price",
                given=f"month {month + 1}, {DAYS[step // STEPS_PER_DAY]} {_clock(int(step) % STEPS_PER_DAY)}",
                hint="price_per_kwh above the zones, for all other times",
            )
        prices = np.array([*(zone.price_per_kwh for zone in self.zones), self.base_price_per_kwh or 0.0], dtype=float)
        found: NDArray[np.float64] = prices[owner].reshape(12, 7, STEPS_PER_DAY)  # -1, the last, is the base price
        return found

    def series(self, start_s: float, end_s: float) -> Series:
        """Lay the tariff out over a range of time, in quarters of an hour; summer time comes and goes as it does there.

        Raises:
            DataError: a range longer than three years, or of no year in the calendar.
        """
        if not end_s - start_s <= LONGEST_S:
            raise DataError(
                "no tariff holds that long",
                given=f"{(end_s - start_s) / 86400:.0f} days",
                allowed="at most three years",
            )
        zone = timezone_named(self.timezone)
        first_s = np.floor(start_s / STEP_S) * STEP_S
        count = max(1, int(np.ceil((end_s - first_s) / STEP_S)))
        if not FIRST_S <= first_s <= first_s + STEP_S * count <= LAST_S:
            raise DataError("a time that the calendar does not reach", allowed="the years 1900 to 9000").at("start")
        local = [datetime.fromtimestamp(first_s + STEP_S * step, zone) for step in range(count)]
        months = np.array([time.month - 1 for time in local])
        days = np.array([time.weekday() for time in local])
        steps = np.array([(time.hour * 3600 + time.minute * 60) // int(STEP_S) for time in local])
        return Series(
            start_s=float(first_s),
            step_s=STEP_S,
            per_kwh=self.prices_per_kwh()[months, days, steps],
            name="tariff",
            source=self.source,
        )


def read_tariff(path: str | Path) -> Tariff:
    """Read a tariff from a TOML file.

    ::

        currency = "EUR"
        timezone = "Europe/Berlin"
        price_per_kwh = 0.31              # at all other times

        [[zones]]
        name = "night"
        days = ["mon-fri", "sat"]         # every day, where left out
        from = "22:00"                    # past midnight: belongs to the day on which it begins
        to = "06:00"
        price_per_kwh = 0.19

    Raises:
        FileError: the file cannot be read, or a value is not of the kind that its key needs.
        ConfigError, UnknownNameError: a value or key that cannot be, zones that overlap, times without a price.
    """
    path = Path(path)
    tables = read_toml(path)
    try:
        return _tariff(tables, source=str(path))
    except WattlawError as error:
        error.at(path)
        raise


def timezone_named(name: str) -> zoneinfo.ZoneInfo:
    """Find a time zone by its name in the IANA database.

    Raises:
        UnknownNameError: there is none; lists the nearest.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = zoneinfo.available_timezones()
        hint = None if known else "pip install tzdata: this machine has no list of time zones"
        raise UnknownNameError.among("time zone", name, known, hint=hint) from error


def _tariff(tables: Mapping[str, Any], *, source: str) -> Tariff:
    refuse_unknown("key", tables, KEYS)
    if "timezone" not in tables:
        raise ConfigError("timezone is missing", allowed="the name of a time zone, such as Europe/Berlin")
    base = tables.get("price_per_kwh")
    zones = []
    for number, table in enumerate(expect_list("zones", tables.get("zones", []))):
        try:
            zones.append(_zone(expect_mapping("table", table), number))
        except WattlawError as error:
            error.at(f"zones[{number}]")
            raise
    if not zones and base is None:
        raise ConfigError("a tariff needs a price", given="none", allowed="price_per_kwh, or [[zones]]")
    return Tariff(
        zones=tuple(zones),
        timezone=expect_text("timezone", tables["timezone"]),
        base_price_per_kwh=None if base is None else expect_number("price_per_kwh", base),
        currency=expect_text("currency", tables.get("currency", "")),
        source=source,
    )


def _zone(table: Mapping[str, Any], number: int) -> Zone:
    refuse_unknown("key", table, ZONE_KEYS)
    if "price_per_kwh" not in table:
        raise ConfigError("price_per_kwh is missing", allowed="money per kWh")
    start = _quarter("from", table.get("from", "00:00"))
    end = _quarter("to", table.get("to", "24:00"))
    if start == STEPS_PER_DAY or end in (0, start):
        raise ConfigError(
            "a zone begins and ends at two times of the day",
            given=f"{table.get('from', '00:00')} to {table.get('to', '24:00')}",
            allowed="00:00 to 24:00, or past midnight: 22:00 to 06:00",
        )
    return Zone(
        name=expect_text("name", table.get("name", f"zone {number + 1}")),
        price_per_kwh=expect_number("price_per_kwh", table["price_per_kwh"]),
        days=_days(expect_list("days", table["days"])) if "days" in table else tuple(range(7)),
        months=_months(expect_list("months", table["months"])) if "months" in table else MONTHS,
        start_step=start,
        num_steps=end - start if end > start else STEPS_PER_DAY - start + end,
    )


def _quarter(key: str, value: object) -> int:
    """Read a time of day as its quarter of an hour.

    >>> _quarter("from", "06:30")
    26
    """
    text = expect_text(key, value)
    hours, colon, minutes = text.partition(":")
    is_time = colon and hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2
    total = int(hours) * 60 + int(minutes) if is_time else -1
    if not 0 <= total <= 24 * 60 or int(minutes) > 59 or total % 15:
        raise ConfigError("not a time of day", given=text, allowed="00:00 to 24:00, in quarters of an hour").at(key)
    return total // 15


def _clock(step: int) -> str:
    return f"{step // 4:02}:{step % 4 * 15:02}"


def _days(names: list[object]) -> tuple[int, ...]:
    """Read days of the week, and ranges of them.

    >>> _days(["sat-mon", "wed"])
    (0, 2, 5, 6)
    """
    found: set[int] = set()
    for name in names:
        first, _, last = expect_text("days", name).strip().lower().partition("-")
        for day in (first, last or first):
            if day not in DAYS:
                raise UnknownNameError.among("day", day, DAYS).at("days")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        found.update(day % 7 for day in range(begin, end + 1 if end >= begin else end + 8))
    if not found:
        raise ConfigError("a zone without days holds never", allowed=", ".join(DAYS)).at("days")
    return tuple(sorted(found))


def _months(numbers: list[object]) -> tuple[int, ...]:
    for number in numbers:
        if isinstance(number, bool) or number not in MONTHS:
            raise FileError("not a month", given=repr(number), allowed="1 to 12").at("months")
    if not numbers:
        raise ConfigError("a zone without months holds never", allowed="1 to 12").at("months")
    return tuple(sorted({int(number) for number in numbers if isinstance(number, int)}))
