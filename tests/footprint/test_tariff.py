"""Time-of-use tariffs: what holds when, through summer time, and what cannot be a tariff."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import DataError, WattlawError
from wattlaw.footprint import Tariff, Zone, best_start, read_tariff

BERLIN = """
currency = "EUR"
timezone = "Europe/Berlin"
price_per_kwh = 0.31

[[zones]]
name = "night"
from = "22:00"
to = "06:00"
price_per_kwh = 0.19

[[zones]]
name = "winter evening"
days = ["mon-fri"]
months = [11, 12, 1, 2]
from = "17:00"
to = "20:30"
price_per_kwh = 0.42
"""


@pytest.fixture
def write(tmp_path):
    """Write a tariff file."""

    def written(text):
        path = tmp_path / "tariff.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def at(text, zone="Europe/Berlin"):
    """Seconds of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("time", "price"),
    [
        ("2026-01-14T18:00", 0.42),  # a Wednesday in January
        ("2026-01-14T20:15", 0.42),
        ("2026-01-14T20:30", 0.31),
        ("2026-01-17T18:00", 0.31),  # a Saturday
        ("2026-07-15T18:00", 0.31),  # not in these months
        ("2026-07-15T22:00", 0.19),
        ("2026-07-15T05:59", 0.19),
        ("2026-07-15T06:00", 0.31),
    ],
)
def test_the_price_of_a_time(write, time, price):
    """By month, day and time of day, in local time; past midnight too."""
    start = at(time)
    assert read_tariff(write(BERLIN)).series(start, start + 60).mean_per_kwh(start, 60) == pytest.approx(price)


@given(start=st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 20)), hours=st.integers(1, 60))  # noqa: DTZ001
def test_it_is_the_price_of_each_quarter_looked_up_alone(start, hours):
    """Through both changes of summer time: the local clock of each quarter decides."""
    berlin = ZoneInfo("Europe/Berlin")
    night = Zone(name="night", price_per_kwh=0.1, start_step=88, num_steps=32)
    tariff = Tariff(zones=(night,), timezone="Europe/Berlin", base_price_per_kwh=0.3)
    begin = start.replace(tzinfo=UTC, minute=0, second=0, microsecond=0)
    series = tariff.series(begin.timestamp(), (begin + timedelta(hours=hours)).timestamp())
    for quarter, price in enumerate(series.per_kwh):
        local = (begin + timedelta(minutes=15 * quarter)).astimezone(berlin)
        assert price == (0.1 if local.hour >= 22 or local.hour < 6 else 0.3)


def test_the_night_that_summer_begins_is_an_hour_shorter(write):
    """From 22:00 on 28 March 2026 the cheap price holds for seven hours, in October for nine."""
    tariff = read_tariff(write(BERLIN))
    for date, hours in (("2026-03-28", 7), ("2026-10-24", 9), ("2026-05-05", 8)):
        start = at(f"{date}T22:00")
        cheap = tariff.series(start, start + 10 * 3600).per_kwh == 0.19
        assert cheap[: hours * 4].all()
        assert not cheap[hours * 4]


def test_a_run_waits_for_the_night(write):
    """Four hours, from Wednesday noon with a day to wait: at 22:00, which saves 12 cents of 31."""
    start = at("2026-07-15T12:00")
    series = read_tariff(write(BERLIN)).series(start, start + 30 * 3600)
    best = best_start(series, duration_s=4 * 3600, start_s=start, window_s=24 * 3600)
    assert best.start_s == at("2026-07-15T22:00")
    assert best.saving == pytest.approx(12 / 31)


def test_a_zone_of_one_day_past_midnight():
    """Monday's night ends on Tuesday morning, and no other night is cheap; Sunday's ends on Monday."""
    for day, (evening, morning) in {0: ("2026-11-30", "2026-12-01"), 6: ("2026-11-29", "2026-11-30")}.items():
        zone = Zone(name="n", price_per_kwh=1, days=(day,), start_step=92, num_steps=8)
        tariff = Tariff(zones=(zone,), timezone="UTC", base_price_per_kwh=2)
        prices = {
            time: tariff.series(at(time, "UTC"), at(time, "UTC") + 60).per_kwh[0]
            for time in (f"{evening}T22:45", f"{evening}T23:00", f"{morning}T00:45", f"{morning}T01:00")
        }
        assert list(prices.values()) == [2, 1, 1, 2]


def test_a_tariff_may_be_one_price_and_negative(write):
    """A flat tariff needs no zones; at noon in spring electricity may cost less than nothing."""
    flat = read_tariff(write('timezone = "UTC"\nprice_per_kwh = 0.3'))
    assert set(flat.series(0, 86400).per_kwh) == {0.3}
    negative = read_tariff(write('timezone = "UTC"\n[[zones]]\nprice_per_kwh = -0.01'))
    assert set(negative.series(0, 86400).per_kwh) == {-0.01}
    assert flat.prices_per_kwh().shape == (12, 7, 96)
    assert np.array_equal(flat.prices_per_kwh(), np.full((12, 7, 96), 0.3))


NIGHT = 'timezone = "UTC"\nprice_per_kwh = 0.3\n[[zones]]\nprice_per_kwh = 0.1\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["timezone is missing"]),
        ("timezone = 'UTC'", ["needs a price"]),
        ("timezone = 'Europe/Berln'\nprice_per_kwh = 1", ["time zone", "Europe/Berlin"]),
        ("timezone = 1\nprice_per_kwh = 1", ["timezone", "not a text"]),
        ("timezone = '../etc/passwd'\nprice_per_kwh = 1", ["time zone"]),
        ("timezone = 'UTC'\nprice = 1", ["price", "price_per_kwh"]),
        ("timezone = 'UTC'\nprice_per_kwh = '1'", ["price_per_kwh", "not a number"]),
        ("timezone = 'UTC'\nprice_per_kwh = inf", ["price_per_kwh", "finite"]),
        ("timezone = 'UTC'\nzones = 1", ["zones", "not a list"]),
        ("timezone = 'UTC'\nzones = [1]", ["zones[0]", "not a table"]),
        ("timezone = 'UTC'\n[[zones]]\nname = 'x'", ["zones[0]", "price_per_kwh is missing"]),
        (NIGHT + "day = 'mon'", ["zones[0]", "day", "days"]),
        (NIGHT + "from = '22'", ["zones[0]: from", "22", "quarters"]),
        (NIGHT + "from = '22:10'", ["from", "22:10"]),
        (NIGHT + "from = '22:61'", ["from"]),
        (NIGHT + "to = '25:00'", ["to", "25:00"]),
        (NIGHT + "from = 22", ["from", "not a text"]),
        (NIGHT + "from = '06:00'\nto = '06:00'", ["two times"]),
        (NIGHT + "to = '00:00'", ["two times"]),
        (NIGHT + "from = '24:00'", ["two times"]),
        (NIGHT + "days = ['mo']", ["days", "mo", "mon"]),
        (NIGHT + "days = []", ["days"]),
        (NIGHT + "months = [13]", ["months", "13"]),
        (NIGHT + "months = []", ["months"]),
        (NIGHT + "[[zones]]\nname = 'all'\nprice_per_kwh = 1", ["same time", "zone 1", "all"]),
        ("timezone = 'UTC'\n[[zones]]\nto = '12:00'\nprice_per_kwh = 1", ["no price", "mon 12:00"]),
        ("not toml", ["TOML"]),
    ],
)
def test_a_bad_tariff_is_refused_in_one_line(write, text, words):
    """With the file, the zone and key, and what is allowed."""
    path = write(text)
    with pytest.raises(WattlawError) as refused:
        read_tariff(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    for word in words:
        assert word in str(refused.value), str(refused.value)


def test_no_tariff_holds_for_years():
    """A schedule of a century would fill the memory."""
    with pytest.raises(DataError, match="three years"):
        Tariff(zones=(), timezone="UTC", base_price_per_kwh=1).series(0, 1e10)


def test_the_example_and_the_documented_tariff_are_read(write):
    """As they stand there."""
    root = Path(__file__).parents[2]
    example = read_tariff(root / "examples" / "tariff.toml")
    assert [zone.name for zone in example.zones] == ["night", "winter evening"]
    page = (root / "docs" / "footprint.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert read_tariff(write(block)).zones[0].days == (0, 1, 2, 3, 4, 6)


@pytest.mark.parametrize("start_s", [253_402_300_740.0, -1e11, 1e300])
def test_years_beyond_the_calendar_are_refused(start_s):
    """The last minute of 9999 has no tomorrow."""
    tariff = Tariff(zones=(), timezone="Europe/Berlin", base_price_per_kwh=0.3)
    with pytest.raises(DataError, match="start: a time that the calendar does not reach"):
        tariff.series(start_s, start_s + 7200)
