"""SI inside, everyday units only at the door.

Every quantity in wattlaw is in SI and says so at the end of its name (``energy_j``, ``duration_s``,
``traffic_bytes``); temperatures are in degrees Celsius. The factors below convert what people and files
write into that, and back, where text is read or shown and nowhere else.

GB is 10^9 bytes and GiB 2^30; TFLOP/s is 10^12 operations per second (never 2^40).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: A number, or a column of numbers with one entry per run: the arithmetic of ``workload`` and
    #: ``parallel`` is written once and serves both.
    Quantity: TypeAlias = float | NDArray[Any]
else:
    Quantity: TypeAlias = Any

JOULES_PER_KWH = 3.6e6
SECONDS_PER_HOUR = 3600.0
BYTES_PER_GB = 1e9
BYTES_PER_GIB = 2.0**30
FLOP_PER_TFLOP = 1e12

#: More than any price, PUE or intensity, and small enough that its products with any energy stay finite.
LARGEST_FIGURE = 1e12
#: Ten times more devices than stand in any one place.
MOST_DEVICES = 10_000_000
#: Energy of a facility over that of its machines: old server rooms have 3, and none ten.
MOST_PUE = 10.0

#: What one of each everyday unit is in ours (SI, and grams of carbon), for files and options that name their unit.
SI_PER_UNIT = {
    "J": 1.0,
    "kJ": 1e3,
    "MJ": 1e6,
    "mJ": 1e-3,
    "uJ": 1e-6,
    "Wh": 3600.0,
    "kWh": JOULES_PER_KWH,
    "MWh": 1e3 * JOULES_PER_KWH,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "min": 60.0,
    "h": SECONDS_PER_HOUR,
    "d": 24 * SECONDS_PER_HOUR,
    "W": 1.0,
    "kW": 1e3,
    "mW": 1e-3,
    "B": 1.0,
    "GB": BYTES_PER_GB,
    "GiB": BYTES_PER_GIB,
    "g": 1.0,
    "kg": 1e3,
    "t": 1e6,
    "1": 1.0,
}


def every(condition: Any) -> bool:
    """Tell whether a comparison holds: of two numbers, or of every entry of two columns."""
    return bool(condition.all()) if hasattr(condition, "all") else bool(condition)
