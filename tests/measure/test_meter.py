"""The meter made of sensors, and what every meter promises."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from wattlaw.errors import ConfigError, MeterError
from wattlaw.measure import Meter, MeterWarning, Reading, SampledMeter, machine_meter, metering
from wattlaw.measure.meters.declared import DeclaredPower
from wattlaw.measure.meters.replay import ReplayMeter
from wattlaw.measure.reading import BOUNDARIES


def replaying(_: SimpleNamespace) -> Meter:
    """Build a meter that replays what a meter of a declared power said."""
    meter = SampledMeter([DeclaredPower(65.0)])
    readings = []
    for _ in range(3):
        meter.start()
        readings.append(meter.stop())
    return ReplayMeter(readings)


def scripted(fake: SimpleNamespace, **script: object) -> Meter:
    """Build a meter of one scripted sensor."""
    clock = fake.Clock()
    return SampledMeter([fake.Sensor(clock, **script)], clock=clock, background=False)


MAKERS: dict[str, Callable[[SimpleNamespace], Meter]] = {
    "no sensor": lambda _: SampledMeter([]),
    "declared": lambda _: SampledMeter([DeclaredPower(65.0)]),
    "replay": replaying,
    "counter and power": scripted,
    "counter only": lambda fake: scripted(fake, power=False),
    "power only": lambda fake: scripted(fake, counter=False),
    "frozen counter only": lambda fake: scripted(fake, power=False, freeze_s=0.0),
    "every sensor here": lambda _: machine_meter(),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
class TestEveryMeter:
    """What holds for any meter."""

    def test_measures_window_after_window(
        self, fake: SimpleNamespace, make: Callable[[SimpleNamespace], Meter]
    ) -> None:
        """A meter can be started again after each stop, and says how long each window was."""
        meter = make(fake)
        for _ in range(2):
            meter.start()
            reading = meter.stop()
            assert reading.duration_s > 0
            assert reading.duration_s >= reading.requested_s

    def test_every_energy_has_boundary_method_and_source(
        self, fake: SimpleNamespace, make: Callable[[SimpleNamespace], Meter]
    ) -> None:
        """No energy without saying what it includes, how and where from; none that is 0."""
        meter = make(fake)
        meter.start()
        for entry in meter.stop().energies:
            assert entry.boundary in BOUNDARIES
            assert entry.energy_j is None or entry.energy_j > 0
            assert (entry.method is None) == (entry.energy_j is None)
            assert entry.source
            assert entry.device

    def test_refuses_start_and_stop_out_of_turn(
        self, fake: SimpleNamespace, make: Callable[[SimpleNamespace], Meter]
    ) -> None:
        """Two starts, or a stop without a start, are errors and not readings."""
        meter = make(fake)
        with pytest.raises(ConfigError, match="not running"):
            meter.stop()
        meter.start()
        with pytest.raises(ConfigError, match="is running"):
            meter.start()
        meter.stop()


def test_without_sensors_nothing_is_measured(fake: SimpleNamespace) -> None:
    """No sensor gives no energy at all: not 0 J."""
    meter = SampledMeter([])
    meter.start()
    reading = meter.stop()
    assert reading.energies == ()
    assert reading.totals() == ()
    assert reading.energy_j("accelerators") is None
    assert reading.energy_j("processors", "memory") is None
    del fake


def test_declared_power_is_watts_times_seconds(fake: SimpleNamespace) -> None:
    """65 W for 20 s are 1300 J, labelled as declared, without a bound and without a doubt about counters."""
    clock = fake.Clock()
    meter = SampledMeter([DeclaredPower(65.0, host="h")], clock=clock, background=False)
    meter.start()
    clock.sleep(20.0)
    reading = meter.stop()
    (entry,) = reading.energies
    assert entry.energy_j == pytest.approx(1300.0)
    assert (entry.boundary, entry.method) == ("node", "declared")
    assert entry.source == "declared by the user: 65 W"
    assert entry.uncertainty_j is None
    assert reading.warnings == ()


@pytest.mark.parametrize("known_period", [True, False])
def test_short_window_is_refused(fake: SimpleNamespace, *, known_period: bool) -> None:
    """A window of fewer than ten updates raises and says how long it would have to be."""
    clock = fake.Clock()
    meter = SampledMeter([fake.Sensor(clock)], clock=clock, background=False, short_window="refuse")
    if known_period:
        meter.start()
        for _ in range(500):
            clock.sleep(0.01)
            meter.poll()
        meter.stop()
    needed_s = 0.2 if known_period else 1.0
    assert meter.shortest_window_s == pytest.approx(needed_s)
    meter.start()
    clock.sleep(0.15)
    with pytest.raises(MeterError, match=f"too short.*given 0.15 s; allowed at least {needed_s:g} s"):
        meter.stop()
    meter.start()
    clock.sleep(1.5)
    assert meter.stop().energies[0].energy_j == pytest.approx(150.0, abs=2.1)


def test_short_window_is_widened(fake: SimpleNamespace) -> None:
    """A window of 50 ms goes on until ten updates have passed, and says both lengths."""
    clock = fake.Clock()
    meter = SampledMeter([fake.Sensor(clock)], clock=clock, background=False)
    meter.start()
    clock.sleep(0.05)
    reading = meter.stop()
    assert reading.requested_s == pytest.approx(0.05)
    assert reading.duration_s == pytest.approx(0.2, abs=0.03)
    entry = reading.energies[0]
    assert entry.energy_j == pytest.approx(100.0 * reading.duration_s, abs=2.1)
    assert entry.method == "counter"
    assert [warning.kind for warning in reading.warnings] == ["window-widened"]


def test_what_was_measured_so_far_leaves_the_window_open(fake: SimpleNamespace) -> None:
    """Nothing before ten updates; then the joules until now, not synchronised; the end's reading is of the whole."""
    clock = fake.Clock()
    waits: list[float] = []
    meter = SampledMeter(
        [fake.Sensor(clock)], clock=clock, background=False, synchronize=lambda: waits.append(clock.now())
    )
    assert meter.so_far() is None
    meter.start()
    clock.sleep(0.5)
    assert meter.so_far() is None
    clock.sleep(1.5)
    part = meter.so_far()
    assert part is not None
    assert part.duration_s == pytest.approx(2.0)
    assert part.energies[0].energy_j == pytest.approx(200.0, abs=2.1)
    assert not part.synchronized
    clock.sleep(1.0)
    assert meter.stop().energies[0].energy_j == pytest.approx(300.0, abs=2.1)
    assert waits == [0.0, pytest.approx(3.0)]
    assert meter.so_far() is None


def test_widening_ends_with_a_counter_that_never_moves(fake: SimpleNamespace) -> None:
    """Waiting for ten updates of a frozen counter ends after a second."""
    clock = fake.Clock()
    meter = SampledMeter([fake.Sensor(clock, freeze_s=0.0)], clock=clock, background=False)
    meter.start()
    reading = meter.stop()
    assert reading.duration_s == pytest.approx(1.0, abs=0.05)
    assert reading.energies[0].method == "integrated"


def test_device_work_is_waited_for_at_both_ends(fake: SimpleNamespace) -> None:
    """The devices are synchronised before the first and before the last read, and the reading says so."""
    clock = fake.Clock()

    def finish_work() -> None:
        clock.sleep(3.0)

    meter = SampledMeter([fake.Sensor(clock)], clock=clock, background=False, synchronize=finish_work)
    meter.start()
    started_s = clock.now()
    assert started_s == 3.0
    clock.sleep(1.0)
    reading = meter.stop()
    assert reading.duration_s == pytest.approx(4.0)
    assert reading.energies[0].energy_j == pytest.approx(400.0, abs=2.1)
    assert reading.synchronized


def test_doubts_at_either_end_are_in_the_reading(fake: SimpleNamespace) -> None:
    """A foreign process that came during the window is reported, one that was there throughout once."""
    clock = fake.Clock()
    sensor = fake.Sensor(clock)
    first = MeterWarning(kind="foreign-process", device="GPU-fake", text="processes 1")
    later = MeterWarning(kind="foreign-process", device="GPU-fake", text="processes 1, 2")
    standing = MeterWarning(kind="mig-parent", text="a slice")
    meter = SampledMeter([sensor], clock=clock, background=False, warnings=[standing])
    sensor.seen = [first]
    meter.start()
    sensor.seen = [first, later]
    clock.sleep(2.0)
    assert meter.stop().warnings == (standing, first, later)


def test_thread_samples_and_ends(fake: SimpleNamespace) -> None:
    """In real time a daemon thread learns the counter's period, and is gone after the window."""

    class RealClock:
        def now(self) -> float:
            return time.monotonic()

        def sleep(self, seconds: float) -> None:
            time.sleep(seconds)

    meter = SampledMeter([fake.Sensor(RealClock())], sample_interval_s=0.02)
    meter.start()
    threads = [thread for thread in threading.enumerate() if thread.name == "wattlaw-meter"]
    assert [thread.daemon for thread in threads] == [True]
    time.sleep(0.5)
    reading = meter.stop()
    (entry,) = reading.energies
    assert entry.energy_j == pytest.approx(100.0 * reading.duration_s, abs=4.0)
    assert entry.counter_period_s == pytest.approx(0.02, abs=0.015)
    assert not threads[0].is_alive()


def test_fault_in_the_thread_comes_out_of_stop(fake: SimpleNamespace) -> None:
    """A mistake of ours in the thread is not lost: stop raises it."""

    class Broken(fake.Sensor):
        reads = 0

        def power_w(self) -> float:
            self.reads += 1
            if threading.current_thread() is not threading.main_thread():
                raise ZeroDivisionError
            return 1.0

    clock = fake.Clock()
    meter = SampledMeter([Broken(clock)], sample_interval_s=0.001)
    meter.start()
    time.sleep(0.1)
    with pytest.raises(ZeroDivisionError):
        meter.stop()
    meter.cancel()


def test_metering_keeps_the_reading_of_a_block_that_raises() -> None:
    """The energy of a failed run was spent too; the block's own exception comes through."""
    meter = SampledMeter([DeclaredPower(65.0)])
    with pytest.raises(KeyError), metering(meter) as metered:
        raise KeyError
    assert metered.reading is not None
    assert metered.reading.energies[0].method == "declared"


def test_failing_meter_does_not_hide_the_block_error() -> None:
    """If the block raises and the meter then refuses the window, the block's exception is the one seen."""
    with pytest.raises(KeyError), metering(ReplayMeter([])) as metered:
        raise KeyError
    assert metered.reading is None


def test_states_come_from_the_sensors(fake: SimpleNamespace) -> None:
    """Temperatures are read from sensors that tell them, and only from those."""
    meter = SampledMeter([fake.Sensor(fake.Clock()), DeclaredPower(1.0)])
    assert [state.temperature_c for state in meter.states()] == [40.0]


@pytest.mark.parametrize("options", [{"short_window": "ignore"}, {"sample_interval_s": 0.0}])
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    """Unknown policies and intervals that are no time are errors."""
    with pytest.raises(ConfigError):
        SampledMeter([], **options)


def test_running_meter_keeps_no_process_alive() -> None:
    """A process that fails while a meter runs ends at once and with its own exit code."""
    script = inspect.cleandoc(
        """
        from wattlaw.measure import SampledMeter
        from wattlaw.measure.meters.declared import DeclaredPower
        SampledMeter([DeclaredPower(65.0)], sample_interval_s=0.01).start()
        raise SystemExit(7)
        """
    )
    finished = subprocess.run([sys.executable, "-c", script], check=False, timeout=20, capture_output=True)
    assert finished.returncode == 7, finished.stderr
    assert finished.stderr == b""


def test_import_loads_no_driver_and_no_heavy_library() -> None:
    """``import wattlaw.measure`` loads no vendor's library, no torch and no numpy."""
    script = (
        "import sys, wattlaw.measure\n"
        "print([name for name in ('pynvml', 'amdsmi', 'zeus', 'torch', 'numpy', 'pandas', 'click', 'rich')"
        " if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert finished.stdout.strip() == "[]"


def test_reading_survives_json(fake: SimpleNamespace) -> None:
    """A reading written as JSON is the same reading when read."""
    import msgspec

    clock = fake.Clock()
    meter = SampledMeter([fake.Sensor(clock)], clock=clock, background=False)
    meter.start()
    clock.sleep(2.0)
    reading = meter.stop()
    assert msgspec.json.decode(msgspec.json.encode(reading), type=Reading) == reading


def test_hung_sensor_does_not_hang_the_training(fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a driver never answers the thread, stop ends with a MeterError instead of waiting for ever."""
    monkeypatch.setattr("wattlaw.measure.meter.HUNG_S", 0.05)
    asked, answer = threading.Event(), threading.Event()

    class Hung(fake.Sensor):
        def power_w(self) -> float:
            if threading.current_thread() is not threading.main_thread():
                asked.set()
                answer.wait()
            return 1.0

    meter = SampledMeter([Hung(fake.Clock())], sample_interval_s=0.001)
    meter.start()
    assert asked.wait(5)
    with pytest.raises(MeterError, match="does not answer"):
        meter.stop()
    answer.set()
