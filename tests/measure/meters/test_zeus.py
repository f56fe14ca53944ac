"""Chips that zeus reads, on a stand-in for its object."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wattlaw.measure import Reading, SampledMeter
from wattlaw.measure.meters import zeus


class Chip:
    """A chip whose parts draw constant power."""

    def __init__(self, clock: Any, **watts: float) -> None:
        self.clock = clock
        self.watts = watts

    def get_available_metrics(self) -> set[str]:
        """Name the parts, of which some are inside of others."""
        return {*self.watts, "efficiency_cores_mj"}

    def get_total_energy_consumption(self) -> SimpleNamespace:
        """Tell millijoules."""
        return SimpleNamespace(**{part: 1e3 * watts * self.clock.now() for part, watts in self.watts.items()})


def run(fake: SimpleNamespace, **watts: float) -> Reading:
    """Measure 10 s."""
    clock = fake.Clock()
    found = zeus.discover(soc=Chip(clock, **watts), host="h")
    meter = SampledMeter(found.sensors, clock=clock, background=False)
    meter.start()
    for _ in range(100):
        clock.sleep(0.1)
        meter.poll()
    return meter.stop()


def test_parts_of_apple_silicon(fake: SimpleNamespace) -> None:
    """GPU, neural engine, CPU and DRAM go to their boundaries; single cores are inside of the CPU."""
    reading = run(fake, gpu_mj=20.0, ane_mj=5.0, cpu_total_mj=10.0, dram_mj=2.0)
    assert reading.energy_j("accelerators") == pytest.approx(250.0)
    assert reading.energy_j("processors") == pytest.approx(100.0)
    assert reading.energy_j("memory") == pytest.approx(20.0)
    assert {entry.method for entry in reading.energies} == {"counter"}


def test_jetson_is_integrated_by_zeus(fake: SimpleNamespace) -> None:
    """Jetson's rails have power only, so its energies are labelled as integrated; the module is the node."""
    reading = run(fake, gpu_energy_mj=10.0, total_energy_mj=30.0)
    node = reading.total("node")
    assert node is not None
    assert (node.energy_j, node.method) == (pytest.approx(300.0), "integrated")
    assert reading.energy_j("accelerators") == pytest.approx(100.0)


def test_part_that_tells_nothing_is_unknown(fake: SimpleNamespace) -> None:
    """A field that becomes None is a failed read, and not 0."""
    clock = fake.Clock()
    chip = Chip(clock, gpu_mj=20.0)
    found = zeus.discover(soc=chip, host="h")
    chip.watts = {}
    chip.get_total_energy_consumption = lambda: SimpleNamespace(gpu_mj=None)  # type: ignore[method-assign]
    meter = SampledMeter(found.sensors, clock=clock, background=False)
    meter.start()
    clock.sleep(2.0)
    reading = meter.stop()
    assert reading.energies[0].energy_j is None
    assert [warning.kind for warning in reading.warnings] == ["reads-failed", "counter-unsupported", "not-measured"]


def test_other_machines_do_not_import_zeus() -> None:
    """On a machine that is neither, zeus is not asked, and the finding says so."""
    found = zeus.discover(host="h")
    assert found.sensors == ()
    assert found.findings[0].state in ("absent", "not installed")
