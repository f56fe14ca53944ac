"""Power of a probe on scripted sensors."""

from __future__ import annotations

import pytest

from wattlaw.measure import Reading, SampledMeter
from wattlaw.measure.meters.declared import DeclaredPower
from wattlaw.measure.probe.power import PowerProbe, figures_of
from wattlaw.measure.reading import CrossCheck, DeviceEnergy


def metered(clock, *sensors) -> PowerProbe:
    """A probe on these sensors, read at the window's ends only."""
    return PowerProbe(meter=SampledMeter(sensors, clock=clock, background=False, short_window="refuse"))


def window(clock, duration_s: float):
    """A state that lasts for some time on the clock."""

    def run(start, stop) -> None:
        start()
        clock.sleep(duration_s)
        stop()

    return run


def test_power_is_energy_over_time(fake) -> None:
    """A counter that rises by 100 J each second is 100 W, within the bound that its period gives."""
    clock = fake.Clock()
    power = metered(clock, fake.Sensor(clock, period_s=0.02))
    power.measure("matrix", window(clock, 10.0))
    figure = power.figures["accelerators_matrix_power_w"]
    assert figure.value == pytest.approx(100.0, rel=0.003)
    assert 0 < figure.spread < 0.02
    assert figure.unit == "W"


def test_states_are_kept_apart(fake) -> None:
    """Idle and busy power are two figures."""
    clock = fake.Clock()
    sensor = fake.Sensor(clock, counter=False, watts=lambda t: 60.0 if t <= 20 else 300.0)
    power = metered(clock, sensor)
    power.measure("idle", window(clock, 20.0))
    clock.sleep(5)
    power.measure("memory", window(clock, 20.0))
    values = {name: figure.value for name, figure in power.figures.items()}
    assert values == pytest.approx({"accelerators_idle_power_w": 60.0, "accelerators_memory_power_w": 300.0})


def test_declared_power_is_no_measurement() -> None:
    """What the user states about the node does not come back as a figure of a probe."""
    meter = SampledMeter([DeclaredPower(65.0)], background=False)
    meter.start()
    assert figures_of(meter.stop(), "idle") == {}


def test_a_window_that_is_too_short_is_a_doubt(fake) -> None:
    """The meter refuses; the probe has no figure, says why, and the meter can be used again."""
    clock = fake.Clock()
    power = metered(clock, fake.Sensor(clock))
    power.measure("idle", window(clock, 0.1))
    assert power.figures == {}
    assert "too short" in power.warnings[0]
    power.measure("idle", window(clock, 10.0))
    assert power.figures


def test_without_a_meter_nothing_is_run() -> None:
    """No sensor, no load, no figure."""
    power = PowerProbe(meter=None)
    power.measure("idle", lambda *_: pytest.fail("there is nothing to measure"))
    assert power.figures == {}
    assert power.shortest_window_s == 0


def test_counter_and_integrated_power_are_compared() -> None:
    """Their ratio is a figure: here the power readings say 5 % more than the counter."""
    entry = DeviceEnergy(
        device="GPU-a", name="fake", boundary="accelerators", domain="gpu", energy_j=200.0, method="counter",
        source="counter", cross_check=CrossCheck(counter_j=200.0, integrated_j=210.0),
    )  # fmt: skip
    found = figures_of(Reading(energies=(entry,), duration_s=2.0, requested_s=2.0), "matrix")
    assert found["integrated_over_counter_matrix"].value == pytest.approx(1.05)
    assert found["accelerators_matrix_power_w"].value == pytest.approx(100.0)
