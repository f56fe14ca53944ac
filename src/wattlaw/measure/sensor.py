"""What a file in ``meters`` offers: sensors, and findings about what is there and what is not.

A sensor answers two questions, how much energy it has counted and what power it draws, or one of them.
:mod:`wattlaw.measure.meter` makes readings from sensors; a new kind of device is one file with one ``discover``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from wattlaw.errors import MeterError
from wattlaw.measure.reading import Boundary, MeterWarning
from wattlaw.run.record import Method


class DeviceLostError(MeterError):
    """The device went away, or must be reset: no later read will succeed."""


class QueryUnsupportedError(MeterError):
    """The device does not answer this query and never will."""


class ReadFailedError(MeterError):
    """This read failed; the next one may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorInfo:
    """What one sensor measures.

    Attributes:
        device: unique name: a UUID, or host and domain.
        name: what people call it.
        boundary: what kind of energy it is part of.
        domain: which part of the device.
        counter: the query of the energy counter; ``None`` if it has none.
        power: the query of power; ``None`` if it has none.
        counter_range_j: where the counter starts again from zero; ``None`` if it should never fall.
        wrap_s: the shortest time in which the counter can run through its range.
        period_s: how often the sensor is updated; ``None`` if that must be found out.
        counter_method: how an energy from ``counter`` is to be labelled, which a library may have integrated.
        power_method: how an energy from ``power`` is to be labelled.
    """

    device: str
    name: str
    boundary: Boundary
    domain: str
    counter: str | None = None
    power: str | None = None
    counter_range_j: float | None = None
    wrap_s: float | None = None
    period_s: float | None = None
    counter_method: Method = "counter"
    power_method: Method = "integrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """Conditions of a device at one moment, for the record's environment; unknown is ``None``."""

    device: str
    name: str
    temperature_c: float | None = None
    core_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    power_limit_w: float | None = None
    throttled_by: str | None = None


class Sensor(Protocol):
    """One energy counter, one power reading, or both."""

    @property
    def info(self) -> SensorInfo:
        """Tell what is measured."""
        ...

    def energy_j(self) -> float:
        """Read the counter, in joules since some moment in the past (only if ``info.counter``)."""
        ...

    def power_w(self) -> float:
        """Read the power (only if ``info.power``)."""
        ...

    def inspect(self) -> Sequence[MeterWarning]:
        """Look for what spoils a reading, such as other people's processes; called at the window's ends."""
        ...

    def state(self) -> DeviceState | None:
        """Read temperature, clocks and power limit, if the device tells them."""
        ...


#: Whether a sensor can be used: it works, works with a doubt, may not be read, does not exist here, or would
#: need an optional package.
FindingState = Literal["works", "doubtful", "denied", "absent", "not installed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out about one possible sensor.

    Attributes:
        subject: which sensor.
        state: whether it can be used.
        detail: what is there.
        meaning: what a number from it will mean.
        remedy: what to do about what is missing; ``None`` if there is nothing to do.
        device: which device of the readings it is about, if it is about one.
    """

    subject: str
    state: FindingState
    detail: str
    meaning: str
    remedy: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The sensors of one kind on this machine, and what was found out on the way."""

    sensors: tuple[Sensor, ...] = ()
    findings: tuple[Finding, ...] = ()
    warnings: tuple[MeterWarning, ...] = ()
