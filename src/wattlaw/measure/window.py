"""One window of one sensor: from single reads to an energy and the doubts about it.

Running sums only, so that a window of weeks takes no more memory than one of seconds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from wattlaw.measure.reading import CrossCheck, DeviceEnergy, MeterWarning, WarningKind
from wattlaw.measure.sensor import DeviceLostError, QueryUnsupportedError, ReadFailedError, Sensor
from wattlaw.run.record import Method

#: A window must hold this many updates of its sensor, so that an edge that is one update late is at most a tenth.
PERIODS_PER_WINDOW = 10
#: Update period of a sensor that has not shown its own: NVML's is 20-100 ms (Yang et al. 2023, arXiv 2312.02741).
ASSUMED_PERIOD_S = 0.1
#: The peak of a counter without power beside it is taken over spans of this length, not over single updates.
PEAK_SPAN_S = 0.1
#: A counter that has not moved for this long, and for this many reads, is frozen.
FROZEN_AFTER_S = 1.0
FROZEN_AFTER_READS = 4
#: How far counter and integrated power may differ beyond their own bounds before that is reported.
TOLERATED_DIFFERENCE_FRACTION = 0.1
#: Beyond this ratio the counter is wrong (a wrong scale, a shared counter) and is not used.
DISTRUST_RATIO = 2.0
#: How many gaps between updates are enough to know a counter's period.
PERIOD_GAPS = 8


class Clock(Protocol):
    """A clock that never goes back, and a way to wait on it."""

    def now(self) -> float:
        """Read the time in seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class MonotonicClock:
    """The machine's monotonic clock: not moved by daylight saving, NTP or a user."""

    def now(self) -> float:
        """Read the time in seconds since some moment in the past."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class CounterPeriod:
    """How often a counter is updated, learnt from the times at which it was seen to have moved.

    The estimate is the median of the first gaps, bounded below by how often one looked: it is never 0, and
    too long rather than too short if one looked rarely.
    """

    def __init__(self, known_s: float | None = None) -> None:
        self._known_s = known_s
        self._gaps_s: list[float] = []

    @property
    def learnt(self) -> bool:
        """Whether looking more often would teach nothing new."""
        return self._known_s is not None or len(self._gaps_s) >= PERIOD_GAPS

    def saw_gap(self, gap_s: float) -> None:
        """Take in the time between two updates."""
        if len(self._gaps_s) < PERIOD_GAPS and gap_s > 0:
            self._gaps_s.append(gap_s)

    @property
    def seconds(self) -> float | None:
        """The period; ``None`` before three gaps were seen."""
        if self._known_s is not None:
            return self._known_s
        return statistics.median(self._gaps_s) if len(self._gaps_s) >= 3 else None


@dataclass(slots=True)
class _Counter:
    """Running sums of an energy counter."""

    first_s: float | None = None
    last_s: float = 0.0
    last_j: float = 0.0
    counted_j: float = 0.0
    changed_s: float | None = None
    num_changes: int = 0
    reads_since_change: int = 0
    longest_stall_s: float = 0.0
    mark_s: float | None = None
    mark_j: float = 0.0
    peak_power_w: float | None = None
    backward: bool = False
    wrap_missed_s: float | None = None
    unsupported: bool = False


@dataclass(slots=True)
class _Power:
    """Running sums of power samples."""

    first_s: float | None = None
    last_s: float = 0.0
    last_w: float = 0.0
    integrated_j: float = 0.0
    bound_j: float = 0.0
    peak_w: float | None = None
    longest_gap_s: float = 0.0
    num_samples: int = 0
    unsupported: bool = False


class Track:
    """Follows one sensor through one window."""

    def __init__(self, sensor: Sensor, period: CounterPeriod, clock: Clock) -> None:
        self._sensor = sensor
        self._clock = clock
        self._counter = _Counter(unsupported=sensor.info.counter is None)
        self._power = _Power(unsupported=sensor.info.power is None)
        self._lost: tuple[float, str] | None = None
        self._failed_reads = 0
        self._last_failure = ""
        self.period = period

    @property
    def alive(self) -> bool:
        """Whether reading goes on."""
        return self._lost is None and not (self._counter.unsupported and self._power.unsupported)

    @property
    def needed_s(self) -> float:
        """The shortest window that this sensor can measure."""
        seconds = self.period.seconds
        if self._counter.unsupported and self._sensor.info.period_s is None:
            seconds = ASSUMED_PERIOD_S
        return PERIODS_PER_WINDOW * (ASSUMED_PERIOD_S if seconds is None else seconds) if self.alive else 0.0

    def poll(self) -> None:
        """Read the sensor once. Never raises for what a device does; the result tells it."""
        if self._lost is None and not self._counter.unsupported:
            self._read(self._sensor.energy_j, self._take_energy, self._counter)
        if self._lost is None and not self._power.unsupported:
            self._read(self._sensor.power_w, self._take_power, self._power)

    def _read(self, query: Callable[[], float], take: Callable[[float, float], None], sums: _Counter | _Power) -> None:
        before = self._clock.now()
        try:
            value = query()
        except DeviceLostError as error:
            self._lost = (before, str(error))
        except QueryUnsupportedError:
            sums.unsupported = True
        except ReadFailedError as error:
            self._failed_reads += 1
            self._last_failure = str(error)
        else:
            # A read may take milliseconds under load: the value belongs to the middle of it.
            take((before + self._clock.now()) / 2, value)

    def _take_energy(self, now: float, energy_j: float) -> None:
        counter, info = self._counter, self._sensor.info
        if counter.first_s is None:
            counter.first_s = counter.last_s = now
            counter.last_j = energy_j
            return
        step_j, step_s = energy_j - counter.last_j, now - counter.last_s
        if info.wrap_s is not None and step_s >= info.wrap_s:
            counter.wrap_missed_s = max(step_s, counter.wrap_missed_s or 0.0)
        if step_j < 0 and info.counter_range_j is not None:
            step_j += info.counter_range_j
        if step_j < 0:
            counter.backward = True
        elif step_j > 0:
            counter.counted_j += step_j
            self._moved(now)
        else:
            counter.reads_since_change += 1
        counter.last_s, counter.last_j = now, energy_j

    def _moved(self, now: float) -> None:
        counter = self._counter
        if counter.changed_s is not None:
            self.period.saw_gap(now - counter.changed_s)
        if counter.reads_since_change >= FROZEN_AFTER_READS:
            since = counter.changed_s if counter.changed_s is not None else counter.first_s
            counter.longest_stall_s = max(counter.longest_stall_s, now - (since if since is not None else now))
        if counter.mark_s is None:
            counter.mark_s, counter.mark_j = now, counter.counted_j
        elif now - counter.mark_s >= PEAK_SPAN_S:
            power_w = (counter.counted_j - counter.mark_j) / (now - counter.mark_s)
            counter.peak_power_w = max(counter.peak_power_w or 0.0, power_w)
            counter.mark_s, counter.mark_j = now, counter.counted_j
        counter.changed_s = now
        counter.num_changes += 1
        counter.reads_since_change = 0

    def _take_power(self, now: float, power_w: float) -> None:
        power = self._power
        if power.first_s is None:
            power.first_s = now
        else:
            step_s = now - power.last_s
            power.integrated_j += step_s * (power_w + power.last_w) / 2
            # Power that is monotonic between two samples lies between them: half the difference bounds the error.
            power.bound_j += step_s * abs(power_w - power.last_w) / 2
            power.longest_gap_s = max(power.longest_gap_s, step_s)
        power.last_s, power.last_w = now, power_w
        power.peak_w = max(power.peak_w or 0.0, power_w)
        power.num_samples += 1

    # ---------------------------------------------------------------- the result

    def result(self, sample_interval_s: float) -> tuple[DeviceEnergy, list[MeterWarning]]:
        """Decide what the window's energy is, and say what is to be doubted about it."""
        warnings: list[MeterWarning] = []

        def warn(kind: WarningKind, text: str) -> None:
            warnings.append(MeterWarning(kind=kind, device=self._sensor.info.device, text=text))

        if self._lost is not None:
            warn("device-lost", self._loss(*self._lost))
            return self._unmeasured(), warnings
        if self._failed_reads:
            warn(
                "reads-failed", f"{self._failed_reads} reads failed ({self._last_failure}); bridged by their neighbours"
            )
        check = self._cross_check()
        if self._counter_holds(check, warn):
            self._compare(check, warn)
            return self._counted(check), warnings
        if self._power.num_samples < 2:
            warn("not-measured", "no power samples either: the energy of this device is unknown")
            return self._unmeasured(), warnings
        gap_s = self._power.longest_gap_s
        declared = self._sensor.info.power_method == "declared"
        if gap_s > max(FROZEN_AFTER_S, 10 * sample_interval_s) and not declared:
            warn("sampling-gap", f"power was not sampled for {gap_s:.1f} s, in which it is interpolated")
        return self._integrated(check), warnings

    def _counter_holds(self, check: CrossCheck | None, warn: Callable[[WarningKind, str], None]) -> bool:
        """Tell whether the counter's difference is the window's energy, and why not."""
        counter, info = self._counter, self._sensor.info
        fallback = "power is integrated instead" if self._power.num_samples >= 2 else "nothing else can be read"
        if counter.unsupported or counter.first_s is None:
            if info.power_method != "declared":
                warn("counter-unsupported", f"no energy counter answers: {fallback}")
            return False
        if counter.backward:
            warn("counter-backward", f"the energy counter fell (wrapped or reset): {fallback}")
            return False
        if counter.wrap_missed_s is not None:
            warn(
                "wrap-missed",
                f"{counter.wrap_missed_s:.0f} s passed between two reads of a counter that can wrap "
                f"in {info.wrap_s:.0f} s: a wrap may be missed",
            )
            return False
        still_s = counter.last_s - (counter.changed_s if counter.changed_s is not None else counter.first_s)
        patience_s = max(FROZEN_AFTER_S, PERIODS_PER_WINDOW * (self.period.seconds or 0.0))
        frozen = still_s >= patience_s and counter.reads_since_change >= FROZEN_AFTER_READS
        if frozen or counter.num_changes == 0:
            warn("counter-frozen", f"the energy counter has not moved for {still_s:.2f} s: {fallback}")
            return False
        if check is not None and self._out_of_scale(check):
            warn(
                "counter-distrusted",
                f"the counter says {check.counter_j:.6g} J where integrated power says "
                f"{check.integrated_j:.6g} J: {fallback}",
            )
            return False
        if counter.longest_stall_s >= patience_s:
            warn("counter-stalled", f"the energy counter stood still for {counter.longest_stall_s:.2f} s, then went on")
        return True

    def _out_of_scale(self, check: CrossCheck) -> bool:
        tolerated_j = self._power.bound_j + self._edge_bound_j()
        low_j, high_j = sorted((check.counter_j, check.integrated_j))
        return high_j > DISTRUST_RATIO * low_j + tolerated_j

    def _compare(self, check: CrossCheck | None, warn: Callable[[WarningKind, str], None]) -> None:
        if check is None:
            return
        tolerated_j = TOLERATED_DIFFERENCE_FRACTION * check.counter_j + self._power.bound_j + self._edge_bound_j()
        difference = check.relative_difference
        if difference is not None and abs(check.integrated_j - check.counter_j) > tolerated_j:
            warn("disagreement", f"integrated power differs from the counter by {100 * difference:+.1f} %")

    def _edge_bound_j(self) -> float:
        peak_w = self._power.peak_w if self._power.peak_w is not None else self._counter.peak_power_w
        return (self.period.seconds or ASSUMED_PERIOD_S) * (peak_w or 0.0)

    def _cross_check(self) -> CrossCheck | None:
        counter, power = self._counter, self._power
        if counter.unsupported or counter.first_s is None or counter.backward or power.num_samples < 2:
            return None
        return CrossCheck(counter_j=counter.counted_j, integrated_j=power.integrated_j)

    def _counted(self, check: CrossCheck | None) -> DeviceEnergy:
        counter, info = self._counter, self._sensor.info
        span_s = counter.last_s - (counter.first_s or 0.0)
        return self._entry(
            energy_j=counter.counted_j,
            method=info.counter_method,
            source=info.counter or "",
            uncertainty_j=self._edge_bound_j(),
            span_s=span_s,
            check=check,
        )

    def _integrated(self, check: CrossCheck | None) -> DeviceEnergy:
        power, info = self._power, self._sensor.info
        return self._entry(
            energy_j=power.integrated_j,
            method=info.power_method,
            source=info.power or "",
            uncertainty_j=power.bound_j if info.power_method == "integrated" else None,
            span_s=power.last_s - (power.first_s or 0.0),
            check=check,
        )

    def _entry(
        self,
        *,
        energy_j: float,
        method: Method,
        source: str,
        uncertainty_j: float | None,
        span_s: float,
        check: CrossCheck | None,
    ) -> DeviceEnergy:
        info = self._sensor.info
        return DeviceEnergy(
            device=info.device,
            name=info.name,
            boundary=info.boundary,
            domain=info.domain,
            energy_j=energy_j,
            method=method,
            source=source,
            uncertainty_j=uncertainty_j,
            mean_power_w=energy_j / span_s if span_s > 0 else None,
            peak_power_w=self._power.peak_w if self._power.peak_w is not None else self._counter.peak_power_w,
            counter_period_s=None if self._counter.unsupported else self.period.seconds,
            cross_check=check,
        )

    def _unmeasured(self) -> DeviceEnergy:
        info = self._sensor.info
        return DeviceEnergy(
            device=info.device,
            name=info.name,
            boundary=info.boundary,
            domain=info.domain,
            energy_j=None,
            method=None,
            source=info.counter or info.power or "",
        )

    def _loss(self, lost_s: float, reason: str) -> str:
        counter, power = self._counter, self._power
        first_s = counter.first_s if counter.first_s is not None else power.first_s
        if first_s is None:
            return f"lost before the first read ({reason}): its energy is unknown"
        known_j = power.integrated_j if counter.first_s is None or counter.backward else counter.counted_j
        return f"lost after {lost_s - first_s:.2f} s ({reason}); {known_j:.6g} J until then, unknown in all"
