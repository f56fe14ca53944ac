"""Numbers as people read them: three digits and the unit that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wattlaw.law.interval import Interval
from wattlaw.units import SI_PER_UNIT

#: Ends that would be less or more than this in the middle's unit have their own.
LEAST_SHARED, MOST_SHARED = 0.01, 10_000
_ENERGY = ("J", "Wh", "kWh", "MWh")
_TIME = ("ms", "s", "min", "h", "d")


def energy(joules: float) -> str:
    """Write an energy, in Wh and up where it is one or more.

    >>> energy(9.2e5)
    '256 Wh'
    """
    return _scaled(joules, _ENERGY)


def duration(seconds: float) -> str:
    """Write a duration.

    >>> duration(5400)
    '1.50 h'
    """
    return _scaled(seconds, _TIME)


def power(watts: float) -> str:
    """Write a power.

    >>> power(1234)
    '1.23 kW'
    """
    return _scaled(watts, ("W", "kW"))


def mass(grams: float) -> str:
    """Write a mass.

    >>> mass(1250)
    '1.25 kg'
    """
    return _scaled(grams, ("g", "kg", "t"))


def change(fraction: float) -> str:
    """Write by how much something is more or less, in per cent.

    >>> change(0.0132), change(-0.17), change(2.93)
    ('+1.3 %', '-17 %', '+293 %')
    """
    per_cent = 100 * fraction
    return f"{per_cent:+.2g} %" if abs(per_cent) < 99.5 else f"{per_cent:+,.0f} %"


def counted(number: int, thing: str) -> str:
    """Write how many of a thing there are.

    >>> counted(1, "record"), counted(2, "record")
    ('1 record', '2 records')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def interval(ends: Interval, write: Callable[[float], str]) -> str:
    """Write an interval's ends with one of the functions above, in the unit of its middle unless they are far from it.

    >>> interval(Interval(low=1800, mid=7200, high=10800, level=0.95), duration)
    '0.500 to 3.00 h'
    >>> interval(Interval(low=1, mid=7200, high=10800, level=0.95), duration)
    '1.00 s to 3.00 h'
    """
    _, _, unit = write(ends.mid).partition(" ")
    if not unit:
        return f"{write(ends.low)} to {write(ends.high)}"
    low, high = ends.low / SI_PER_UNIT[unit], ends.high / SI_PER_UNIT[unit]
    if low >= LEAST_SHARED and high < MOST_SHARED:
        return f"{digits(low)} to {digits(high)} {unit}"
    return f"{write(ends.low)} to {write(ends.high)}"


def digits(value: float) -> str:
    """Write three significant digits, without an exponent from 0.001 up to a million.

    >>> digits(0.01234), digits(12345.6), digits(3.0)
    ('0.0123', '12,346', '3.00')
    """
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        return f"{value:.2e}"
    if size >= 100:
        return f"{value:,.0f}"
    decimals = 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4 if size >= 0.01 else 5
    return f"{value:.{decimals}f}"


def _scaled(value: float, units: Sequence[str]) -> str:
    fitting = [unit for unit in units if abs(value) >= SI_PER_UNIT[unit]]
    chosen = fitting[-1] if fitting else units[0]
    return f"{digits(value / SI_PER_UNIT[chosen])} {chosen}"
