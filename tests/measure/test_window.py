"""From single reads to an energy: counters that count, and every way in which they do not."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.measure.meter import SampledMeter
from wattlaw.measure.reading import DeviceEnergy, Reading
from wattlaw.measure.sensor import DeviceLostError, SensorInfo
from wattlaw.measure.window import CounterPeriod, Track


def measure(sensor: object, clock: object, *, seconds: float = 10.0, step: float = 0.01) -> Reading:
    """Run one window, reading at every step."""
    meter = SampledMeter([sensor], clock=clock, background=False)
    meter.start()
    for _ in range(round(seconds / step)):
        clock.sleep(step)
        meter.poll()
    return meter.stop()


def only(reading: Reading) -> DeviceEnergy:
    """Return the one entry of a reading."""
    (entry,) = reading.energies
    return entry


def kinds(reading: Reading) -> list[str]:
    """Return the kinds of the doubts."""
    return [warning.kind for warning in reading.warnings]


def test_counter_difference_is_the_energy(fake: SimpleNamespace) -> None:
    """100 W for 10 s are 1000 J by the counter, with power integrated to the same, and no doubt."""
    clock = fake.Clock()
    reading = measure(fake.Sensor(clock), clock)
    entry = only(reading)
    assert entry.energy_j == pytest.approx(1000.0, abs=1e-6)
    assert (entry.method, entry.source) == ("counter", "fake counter")
    assert entry.cross_check is not None
    assert entry.cross_check.relative_difference == pytest.approx(0.0, abs=1e-9)
    assert entry.mean_power_w == pytest.approx(100.0)
    assert entry.peak_power_w == 100.0
    assert entry.counter_period_s == pytest.approx(0.02)
    # One update late at an edge: 100 W for 0.02 s.
    assert entry.uncertainty_j == pytest.approx(2.0)
    assert reading.warnings == ()


def test_constant_power_without_a_counter_is_integrated(fake: SimpleNamespace) -> None:
    """A device without counter and with constant power gives watts times seconds, not 0 for want of changes."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, counter=False), clock))
    assert entry.energy_j == pytest.approx(1000.0)
    assert (entry.method, entry.source) == ("integrated", "fake power")
    assert entry.cross_check is None
    assert entry.counter_period_s is None
    assert kinds(reading) == ["counter-unsupported"]


def test_peak_and_mean_are_different_things(fake: SimpleNamespace) -> None:
    """A ramp from 0 to 200 W has mean 100 W and peak 200 W; neither is the last sample of another window."""
    clock = fake.Clock()
    ramp = fake.Sensor(clock, watts=lambda t: 20.0 * t, joules=lambda t: 10.0 * t * t)
    entry = only(measure(ramp, clock))
    assert entry.mean_power_w == pytest.approx(100.0)
    assert entry.peak_power_w == pytest.approx(200.0)


@pytest.mark.parametrize("frozen_from_s", [0.0, 3.0])
def test_frozen_counter_falls_back_to_power(fake: SimpleNamespace, frozen_from_s: float) -> None:
    """A counter that never moves, or stops moving on the way, is not used; power is, and the reading says why."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, freeze_s=frozen_from_s), clock))
    assert entry.energy_j == pytest.approx(1000.0)
    assert entry.method == "integrated"
    assert kinds(reading) == ["counter-frozen"]


def test_frozen_counter_without_power_is_unknown(fake: SimpleNamespace) -> None:
    """With nothing to fall back to the energy is None, and never the 0 J that the counter shows."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, power=False, freeze_s=0.0), clock))
    assert entry.energy_j is None
    assert entry.method is None
    assert reading.energy_j("accelerators") is None
    assert kinds(reading) == ["counter-frozen", "not-measured"]


def test_counter_that_catches_up_is_kept_with_a_warning(fake: SimpleNamespace) -> None:
    """A counter that stood still for 4 s and then went on has the right difference; the pause is reported."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, freeze_s=3.0, thaw_s=7.0), clock))
    assert entry.method == "counter"
    assert entry.energy_j == pytest.approx(1000.0, abs=2.1)
    assert kinds(reading) == ["counter-stalled"]


def test_wrap_is_undone_with_the_counter_range(fake: SimpleNamespace) -> None:
    """A counter of 130 J range that wraps seven times in 1000 J still counts 1000 J."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, range_j=130.0, offset_j=77.0), clock))
    assert entry.energy_j == pytest.approx(1000.0, abs=1e-6)
    assert entry.method == "counter"
    assert reading.warnings == ()


def test_backward_counter_of_unknown_range_falls_back_to_power(fake: SimpleNamespace) -> None:
    """Where a counter wraps without saying at what, its difference is not used, whatever its sign."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, range_j=600.0, told_range=False), clock))
    assert entry.energy_j == pytest.approx(1000.0)
    assert entry.method == "integrated"
    assert kinds(reading) == ["counter-backward"]


def test_gap_longer_than_a_wrap_makes_the_energy_unknown(fake: SimpleNamespace) -> None:
    """If a whole turn of the counter may have gone by unseen, the energy is None."""
    clock = fake.Clock()
    sensor = fake.Sensor(clock, power=False, range_j=1000.0, wrap_s=5.0)
    entry = only(reading := measure(sensor, clock, seconds=12.0, step=6.0))
    assert entry.energy_j is None
    assert kinds(reading) == ["wrap-missed", "not-measured"]


def test_sampling_is_faster_than_the_wrap(fake: SimpleNamespace) -> None:
    """However rarely one asks for samples, a counter that can wrap in 0.4 s is read at least every 0.1 s."""
    clock = fake.Clock()
    meter = SampledMeter([fake.Sensor(clock, range_j=10.0, wrap_s=0.4)], sample_interval_s=60.0)
    assert meter._sample_interval_s == pytest.approx(0.1)  # noqa: SLF001


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_counter_of_a_wrong_scale_is_not_used(fake: SimpleNamespace, scale: float) -> None:
    """A counter ten times too small or too large is recognised by the power beside it."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, scale=scale), clock))
    assert entry.energy_j == pytest.approx(1000.0)
    assert entry.method == "integrated"
    assert kinds(reading) == ["counter-distrusted"]


def test_disagreement_is_reported_and_the_counter_kept(fake: SimpleNamespace) -> None:
    """A counter 20 % above integrated power is reported with the difference."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, scale=1.25), clock))
    assert entry.method == "counter"
    assert entry.cross_check is not None
    assert entry.cross_check.relative_difference == pytest.approx(-0.2)
    assert kinds(reading) == ["disagreement"]
    assert "-20.0 %" in str(reading.warnings[0])


def test_lost_device_has_no_energy(fake: SimpleNamespace) -> None:
    """A device that goes away has an unknown energy; what it used until then is told, and not summed."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, lost_s=4.0), clock))
    assert entry.energy_j is None
    assert kinds(reading) == ["device-lost"]
    assert "400 J until then" in str(reading.warnings[0])
    assert reading.energy_j("accelerators") is None


def test_a_lost_device_does_not_take_the_others_along(fake: SimpleNamespace) -> None:
    """The other device keeps its energy; the sum of both is unknown."""
    clock = fake.Clock()
    sensors = [fake.Sensor(clock, device="GPU-a", lost_s=4.0), fake.Sensor(clock, device="GPU-b")]
    meter = SampledMeter(sensors, clock=clock, background=False)
    meter.start()
    for _ in range(100):
        clock.sleep(0.1)
        meter.poll()
    reading = meter.stop()
    assert [entry.energy_j for entry in reading.energies] == [None, pytest.approx(1000.0, abs=1e-6)]
    assert reading.energy_j("accelerators") is None


def test_failed_reads_are_bridged_and_counted(fake: SimpleNamespace) -> None:
    """Reads that fail for half a second change no energy at constant power, and are reported."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, counter=False, fails=[(5.0, 5.5)]), clock))
    assert entry.energy_j == pytest.approx(1000.0)
    assert kinds(reading) == ["reads-failed", "counter-unsupported"]


def test_long_gap_in_samples_is_reported(fake: SimpleNamespace) -> None:
    """Four seconds without a sample are interpolated, and the reading says so."""
    clock = fake.Clock()
    reading = measure(fake.Sensor(clock, counter=False, fails=[(4.0, 8.0)]), clock)
    assert "sampling-gap" in kinds(reading)


def test_counter_that_stops_answering_falls_back(fake: SimpleNamespace) -> None:
    """A query that becomes unsupported on the way is like a counter that never was."""
    clock = fake.Clock()
    entry = only(reading := measure(fake.Sensor(clock, counter_gone_s=5.0), clock))
    assert entry.method == "integrated"
    assert entry.energy_j == pytest.approx(1000.0)
    assert kinds(reading) == ["counter-unsupported"]


def test_peak_of_a_counter_without_power_is_no_spike(fake: SimpleNamespace) -> None:
    """Reading a 20 ms counter every 1 ms must not show one update's energy as if drawn in 1 ms."""
    clock = fake.Clock()
    sensor = fake.Sensor(clock, power=False)
    entry = only(measure(sensor, clock, seconds=1.0, step=0.001))
    assert entry.peak_power_w == pytest.approx(100.0, rel=0.05)


class Trace:
    """Power that is linear between points, read exactly at given times."""

    info = SensorInfo(device="d", name="n", boundary="node", domain="d", power="trace")

    def __init__(self, clock: object, points: list[tuple[float, float]]) -> None:
        self.clock = clock
        self.points = points

    def power_w(self) -> float:
        """Interpolate."""
        now = self.clock.now()
        for (t0, w0), (t1, w1) in pairwise(self.points):
            if t0 <= now <= t1:
                return w0 + (w1 - w0) * (now - t0) / (t1 - t0)
        raise DeviceLostError("outside of the trace")


segments = st.lists(st.tuples(st.floats(0.01, 5.0), st.floats(0.0, 1000.0)), min_size=1, max_size=8)


@given(first=st.floats(0.0, 1000.0), segments=segments)
def test_integral_is_exact_where_power_is_linear(first: float, segments: list[tuple[float, float]]) -> None:
    """Sampling a piecewise linear power at its corners gives the integral, and the bound covers any staircase."""
    clock = SimpleNamespace(seconds=0.0)
    clock.now = lambda: clock.seconds
    points = [(0.0, first)]
    for step, watts in segments:
        points.append((points[-1][0] + step, watts))
    track = Track(Trace(clock, points), CounterPeriod(), clock)
    for time_s, _ in points:
        clock.seconds = time_s
        track.poll()
    entry, _ = track.result(0.1)
    pairs = list(pairwise(points))
    exact = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairs)
    assert entry.energy_j == pytest.approx(exact, rel=1e-9, abs=1e-9)
    largest = sum((b[0] - a[0]) * max(a[1], b[1]) for a, b in pairs)
    assert entry.uncertainty_j == pytest.approx(largest - exact, rel=1e-6, abs=1e-6)


@given(range_j=st.floats(50.0, 5000.0), offset=st.floats(0.0, 1.0), steps=st.lists(st.floats(0.0, 49.0), min_size=2))
def test_any_wrapping_counter_is_unwrapped(range_j: float, offset: float, steps: list[float]) -> None:
    """Whatever the range and the start, steps below the range add up to what was counted."""
    clock = SimpleNamespace(seconds=0.0)
    clock.now = lambda: clock.seconds
    counter = SimpleNamespace(
        info=SensorInfo(
            device="d", name="n", boundary="node", domain="d", counter="c", counter_range_j=range_j, period_s=0.01
        ),
        joules=offset * range_j,
    )
    counter.energy_j = lambda: counter.joules % range_j
    track = Track(counter, CounterPeriod(0.01), clock)
    track.poll()
    for step in [*steps, 1.0]:
        clock.seconds += 1.0
        counter.joules += step
        track.poll()
    entry, _ = track.result(0.1)
    assert entry.energy_j == pytest.approx(sum(steps) + 1.0, rel=1e-6, abs=1e-6)


def test_period_is_never_zero() -> None:
    """Gaps of zero length teach nothing, and three are needed before a period is told."""
    period = CounterPeriod()
    for gap in (0.0, 0.0, 0.02, 0.02):
        period.saw_gap(gap)
    assert period.seconds is None
    period.saw_gap(0.02)
    assert period.seconds == 0.02
    assert not period.learnt
