"""The meter of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wattlaw.errors import ConfigError, MeterError
from wattlaw.measure import machine_meter

if TYPE_CHECKING:
    from tests.measure.conftest import FakeDriver

WHO = """
    from wattlaw.measure import machine_meter
    meter = machine_meter()
    meter.start()
    time.sleep(0.3)
    reading = meter.stop()
    show({"by": reading.measured_by, "kinds": [warning.kind for warning in reading.warnings]})
"""


def test_gpus_and_packages_are_read_in_one_window(driver: FakeDriver, tmp_path: Path) -> None:
    """GPUs by NVML and a CPU package by RAPL are in one reading, each under its own boundary."""
    driver.gpu(0)
    zone = tmp_path / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True)
    for file, text in (("name", "package-0"), ("energy_uj", "5000000"), ("max_energy_range_uj", "262143328850")):
        (zone / file).write_text(text)
    told: Any = driver.run(
        f"""
        from wattlaw.measure import machine_meter
        zone = Path({str(zone)!r}) / "energy_uj"
        meter = machine_meter(rapl_root=zone.parents[1], declared_power_w=500.0, require=["accelerators", "processors"])
        meter.start()
        for count in range(1, 61):
            time.sleep(0.01)
            zone.write_text(str(5_000_000 + 1_000_000 * count))
        reading = meter.stop()
        show({{total.boundary: [total.energy_j, total.method] for total in reading.totals()}})
        """
    )
    assert told["processors"] == [pytest.approx(60.0), "counter"]
    assert told["accelerators"][0] == pytest.approx(60.0, rel=0.5)
    assert told["accelerators"][1] == "counter"
    assert told["node"][1] == "declared"


def test_reading_says_which_rank_measured(driver: FakeDriver) -> None:
    """Under a launcher the reading names host and rank, and devices that other ranks hide are warned about."""
    driver.gpu(0)
    driver.gpu(1)
    ranks = {"RANK": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    told: Any = driver.run(WHO, CUDA_VISIBLE_DEVICES="0", **ranks)
    assert told["by"].endswith(" rank 4")
    assert told["kinds"] == ["ranks-unmetered"]
    assert driver.run(WHO, CUDA_VISIBLE_DEVICES="0,1", **ranks)["kinds"] == []


def test_rank_of_unknown_place_is_refused() -> None:
    """A process that cannot tell whether it is the node's metering rank gets an error, not a node counted twice."""
    with pytest.raises(ConfigError, match="LOCAL_RANK"):
        machine_meter(environ={"RANK": "1"})


def test_missing_boundary_is_refused_with_the_reasons(tmp_path: Path) -> None:
    """The message lists what was looked for."""
    with pytest.raises(MeterError, match=r"energy of facility.*RAPL.*wattlaw doctor"):
        machine_meter(require=["facility"], rapl_root=tmp_path / "nowhere", environ={})
