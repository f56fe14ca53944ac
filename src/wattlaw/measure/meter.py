"""Meters: start, stop, and a reading of what happened in between.

:class:`SampledMeter` makes a meter of any sensors. A daemon thread samples them through the window; the window's
edges are read by the caller's own thread, at the moment of ``start`` and ``stop``, so that a short window is not
at the mercy of the thread's timing.

    start()              thread                       stop()
    synchronize          fast reads until every       synchronize
    read every sensor    counter's period is known,   read every sensor
    start the thread     then one per interval        widen if too short, decide, report
"""

from __future__ import annotations

import atexit
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args

from wattlaw.errors import ConfigError, MeterError
from wattlaw.measure.reading import MeterWarning, Reading
from wattlaw.measure.sensor import DeviceState, Sensor
from wattlaw.measure.window import ASSUMED_PERIOD_S, Clock, CounterPeriod, MonotonicClock, Track

ShortWindow = Literal["refuse", "widen"]
SHORT_WINDOWS: tuple[ShortWindow, ...] = get_args(ShortWindow)

#: Time between reads: of power that is to be integrated, and of counters that need no samples for their energy.
POWER_INTERVAL_S = 0.1
COUNTED_INTERVAL_S = 0.25
#: While a counter's period is unknown it is read this often, for at most this long.
LEARNING_INTERVAL_S = 0.005
LEARNING_S = 1.0
#: A sensor that does not answer for this long is hung.
HUNG_S = 10.0


class Meter(Protocol):
    """What measures one window after another."""

    def start(self) -> None:
        """Open a window."""
        ...

    def stop(self) -> Reading:
        """Close the window and tell what was measured in it."""
        ...


class SampledMeter:
    """A meter made of sensors.

    Args:
        sensors: what to read; none gives readings with a duration and no energy.
        synchronize: waits for work that was handed to the devices and is not done; called at both ends.
        short_window: what to do with a window of fewer than ten updates of a sensor: ``refuse`` raises on
            ``stop``, ``widen`` goes on measuring until there are ten and says so.
        sample_interval_s: time between reads by the thread; ``None`` is 0.1 s, and 0.25 s if every sensor has a
            counter, so that samples serve the peak and the cross-check only.
        background: ``False`` reads at the edges and on ``poll`` only.
        measured_by: who measures, for the reading.
        warnings: doubts that every reading is to carry.
        clock: replaced in tests.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        *,
        synchronize: Callable[[], None] | None = None,
        short_window: ShortWindow = "widen",
        sample_interval_s: float | None = None,
        background: bool = True,
        measured_by: str | None = None,
        warnings: Sequence[MeterWarning] = (),
        clock: Clock | None = None,
    ) -> None:
        if short_window not in SHORT_WINDOWS:
            raise ConfigError("unknown short_window", given=repr(short_window), allowed=", ".join(SHORT_WINDOWS))
        if sample_interval_s is not None and not sample_interval_s > 0:
            raise ConfigError("sample_interval_s must be above zero", given=sample_interval_s)
        self._sensors = tuple(sensors)
        self._synchronize = synchronize
        self._short_window = short_window
        self._sample_interval_s = self._fast_enough(sample_interval_s)
        self._background = background
        self._measured_by = socket.gethostname() if measured_by is None else measured_by
        self._standing_warnings = tuple(warnings)
        self._clock: Clock = MonotonicClock() if clock is None else clock
        # Learnt once and kept from window to window.
        self._periods = [CounterPeriod(sensor.info.period_s) for sensor in self._sensors]
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._tracks: list[Track] | None = None
        self._started_s = 0.0
        self._seen: tuple[MeterWarning, ...] = ()
        self._fault: Exception | None = None

    def _fast_enough(self, wanted_s: float | None) -> float:
        """Sample at least four times within the time in which the fastest counter can wrap."""
        if wanted_s is None:
            counted = all(sensor.info.counter is not None for sensor in self._sensors)
            wanted_s = COUNTED_INTERVAL_S if counted else POWER_INTERVAL_S
        wraps_s = [sensor.info.wrap_s for sensor in self._sensors if sensor.info.wrap_s is not None]
        return min([wanted_s, *(wrap_s / 4 for wrap_s in wraps_s)])

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        """What is read."""
        return self._sensors

    @property
    def shortest_window_s(self) -> float:
        """The shortest window that needs no widening, as far as the sensors' periods are known by now."""
        tracks = self._tracks if self._tracks is not None else self._new_tracks()
        return max((track.needed_s for track in tracks), default=0.0)

    def states(self) -> tuple[DeviceState, ...]:
        """Read temperatures, clocks and power limits of the devices that tell them."""
        states = (sensor.state() for sensor in self._sensors)
        return tuple(state for state in states if state is not None)

    def start(self) -> None:
        """Open a window.

        Raises:
            ConfigError: a window is open.
        """
        if self._tracks is not None:
            raise ConfigError("the meter is running", hint="stop() before the next start()")
        self._seen = self._inspect()
        self._fault = None
        self._ended = threading.Event()
        tracks = self._new_tracks()
        if self._synchronize is not None:
            self._synchronize()
        for track in tracks:
            track.poll()
        self._tracks = tracks
        self._started_s = self._clock.now()
        if self._background and self._sensors:
            # A thread must not keep a finished or failed job alive, nor read a driver that is being torn down.
            self._thread = threading.Thread(target=self._sample, args=(self._ended,), name="wattlaw-meter", daemon=True)
            atexit.register(self._ended.set)
            self._thread.start()

    def poll(self) -> None:
        """Read every sensor once; what the thread does, for callers who run without it."""
        with self._reading():
            for track in self._tracks or ():
                track.poll()

    def so_far(self) -> Reading | None:
        """Tell what was measured since the window was opened; it stays open.

        Work that the devices were given and have not done is not waited for. ``None`` if no window is open, or if it
        is too short yet.

        Raises:
            MeterError: a sensor hangs.
        """
        tracks = self._tracks
        if tracks is None or self._fault is not None:
            return None
        self.poll()
        duration_s = self._clock.now() - self._started_s
        if duration_s < max((track.needed_s for track in tracks), default=0.0):
            return None
        with self._reading():
            return replace(self._report(tracks, duration_s, duration_s), synchronized=False)

    def stop(self) -> Reading:
        """Close the window.

        Raises:
            ConfigError: no window is open.
            MeterError: the window is too short and is to be refused, or a sensor hangs.
        """
        if self._tracks is None:
            raise ConfigError("the meter is not running", hint="start() before stop()")
        tracks = self._tracks
        try:
            if self._synchronize is not None:
                self._synchronize()
            requested_s = self._clock.now() - self._started_s
            self.poll()
            self._end_thread()
            duration_s = self._widen(tracks, requested_s)
        finally:
            self._end_thread()
            self._tracks = None
        return self._report(tracks, duration_s, requested_s)

    def cancel(self) -> None:
        """Close the window, if one is open, without a reading."""
        self._end_thread()
        self._tracks = None

    # ---------------------------------------------------------------- inside

    def _new_tracks(self) -> list[Track]:
        return [Track(*pair, self._clock) for pair in zip(self._sensors, self._periods, strict=True)]

    def _inspect(self) -> tuple[MeterWarning, ...]:
        return tuple(warning for sensor in self._sensors for warning in sensor.inspect())

    @contextmanager
    def _reading(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=HUNG_S):
            raise MeterError("a sensor does not answer", given=f"no value for {HUNG_S:.0f} s", hint="wattlaw doctor")
        try:
            yield
        finally:
            self._lock.release()

    def _sample(self, ended: threading.Event) -> None:
        """Run in the thread: learn the periods, then sample until the window ends."""
        learning_until_s = self._clock.now() + LEARNING_S
        try:
            while not ended.wait(self._next_interval(learning_until_s)):
                self.poll()
        except Exception as error:  # noqa: BLE001 - a thread cannot raise to its owner: stop() does it for it
            self._fault = error

    def _next_interval(self, learning_until_s: float) -> float:
        learning = self._clock.now() < learning_until_s and any(
            not period.learnt and sensor.info.counter is not None
            for sensor, period in zip(self._sensors, self._periods, strict=True)
        )
        return min(LEARNING_INTERVAL_S, self._sample_interval_s) if learning else self._sample_interval_s

    def _end_thread(self) -> None:
        self._ended.set()
        atexit.unregister(self._ended.set)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=HUNG_S)
            self._thread = None

    def _widen(self, tracks: Sequence[Track], requested_s: float) -> float:
        """Measure on until every sensor had its ten updates; return the window's length."""
        duration_s = requested_s
        while duration_s < (needed_s := max((track.needed_s for track in tracks), default=0.0)):
            if self._short_window == "refuse":
                raise MeterError(
                    "the window is too short to be measured",
                    given=f"{requested_s:.3g} s",
                    allowed=f"at least {needed_s:.3g} s, ten updates of the slowest sensor",
                    hint="more steps in one window, or short_window='widen'",
                )
            self._clock.sleep(min(needed_s - duration_s, ASSUMED_PERIOD_S / 10))
            duration_s = self._clock.now() - self._started_s
            self.poll()
        return duration_s

    def _report(self, tracks: Sequence[Track], duration_s: float, requested_s: float) -> Reading:
        if self._fault is not None:
            raise self._fault
        results = [track.result(self._sample_interval_s) for track in tracks]
        warnings = [*self._standing_warnings, *self._seen, *self._inspect()]
        if duration_s > requested_s:
            text = f"{requested_s:.3g} s were asked for and {duration_s:.3g} s measured, ten updates of a sensor"
            warnings.append(MeterWarning(kind="window-widened", text=text))
        warnings += [warning for _, doubts in results for warning in doubts]
        return Reading(
            energies=tuple(energy for energy, _ in results),
            duration_s=duration_s,
            requested_s=requested_s,
            synchronized=self._synchronize is not None,
            measured_by=self._measured_by,
            warnings=tuple(dict.fromkeys(warnings)),
        )


@dataclass(slots=True)
class Metered:
    """Holds the reading of a ``metering`` block once the block has ended."""

    reading: Reading | None = None


@contextmanager
def metering(meter: Meter) -> Iterator[Metered]:
    """Meter a block of code.

    The reading is there after the block, also if the block raised: its energy was spent all the same. An error
    of the meter itself never hides the block's own.

    >>> from wattlaw.measure.meters.replay import ReplayMeter
    >>> meter = ReplayMeter([Reading(energies=(), duration_s=2.0, requested_s=2.0)])
    >>> with metering(meter) as metered:
    ...     pass
    >>> metered.reading.duration_s
    2.0
    """
    metered = Metered()
    meter.start()
    try:
        yield metered
    except BaseException:
        try:
            metered.reading = meter.stop()
        except MeterError:
            metered.reading = None
        raise
    metered.reading = meter.stop()
