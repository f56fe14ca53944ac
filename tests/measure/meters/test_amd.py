"""AMD's meter on a stand-in for amdsmi with the calls that it makes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wattlaw.measure import Reading, SampledMeter
from wattlaw.measure.devices import Place
from wattlaw.measure.meters import amd

HERE = Place(host="h")


class LibraryError(Exception):
    """What amdsmi raises."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code

    def get_error_code(self) -> int:
        """Return the status."""
        return self.code


class FakeAmdsmi:
    """GPUs with a power each; a counter may be frozen, or a die silent."""

    AmdSmiLibraryException = LibraryError

    def __init__(self, clock: Any, *gpus: dict[str, Any]) -> None:
        self.clock = clock
        self.gpus = list(gpus)

    def amdsmi_init(self) -> None:
        """Start."""

    def amdsmi_get_processor_handles(self) -> list[int]:
        """List handles."""
        return list(range(len(self.gpus)))

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, Any]:
        """Name the card."""
        return {"market_name": "AMD Instinct MI300X", "asic_serial": self.gpus[handle].get("serial", f"0x{handle}")}

    def amdsmi_get_gpu_enumeration_info(self, handle: int) -> dict[str, int]:
        """Tell HIP's number."""
        return {"hip_id": self.gpus[handle].get("hip", handle)}

    def amdsmi_get_gpu_device_uuid(self, handle: int) -> str:
        """Tell the UUID."""
        return f"uuid{handle}"

    def amdsmi_get_energy_count(self, handle: int) -> dict[str, float]:
        """Count in units of 15.3 microjoules, as real cards do."""
        gpu = self._answering(handle)
        if gpu.get("no_counter"):
            raise LibraryError(2)
        joules = 0.0 if gpu.get("frozen") or gpu.get("silent") else gpu["watts"] * self.clock.now()
        return {"energy_accumulator": round(joules / 15.3e-6), "counter_resolution": 15.3, "timestamp": 0}

    def amdsmi_get_power_info(self, handle: int) -> dict[str, Any]:
        """Tell power in watts, or that there is none."""
        gpu = self._answering(handle)
        return {"current_socket_power": "N/A", "average_socket_power": "N/A" if gpu.get("silent") else gpu["watts"]}

    def amdsmi_get_gpu_process_list(self, handle: int) -> list[dict[str, int]]:
        """List processes."""
        return [{"pid": pid} for pid in self.gpus[handle].get("pids", [])]

    def amdsmi_get_power_cap_info(self, handle: int) -> dict[str, int]:
        """Tell the limit in microwatts."""
        del handle
        return {"power_cap": 750_000_000}

    def _answering(self, handle: int) -> dict[str, Any]:
        gpu = self.gpus[handle]
        if self.clock.now() >= gpu.get("lost", float("inf")):
            raise LibraryError(31)
        return gpu


def run(fake: SimpleNamespace, *gpus: dict[str, Any], **environ: str) -> Reading:
    """Measure 10 s."""
    clock = fake.Clock()
    clock.sleep(1.0)
    found = amd.discover(environ, here=HERE, library=FakeAmdsmi(clock, *gpus))
    meter = SampledMeter(found.sensors, clock=clock, background=False, warnings=found.warnings)
    meter.start()
    for _ in range(200):
        clock.sleep(0.05)
        meter.poll()
    return meter.stop()


def test_joules_of_two_sockets(fake: SimpleNamespace) -> None:
    """300 W and 500 W for 10 s are 8000 J by the accumulators, whose unit is not the joule."""
    reading = run(fake, {"watts": 300}, {"watts": 500})
    assert reading.energy_j("accelerators") == pytest.approx(8000.0, rel=1e-6)
    assert [entry.device for entry in reading.energies] == ["GPU-uuid0", "GPU-uuid1"]
    assert {entry.method for entry in reading.energies} == {"counter"}
    assert reading.warnings == ()


def test_frozen_accumulator_falls_back_to_power(fake: SimpleNamespace) -> None:
    """The accumulator of some drivers stands still; socket power is integrated instead."""
    reading = run(fake, {"watts": 300, "frozen": True})
    assert reading.energy_j("accelerators") == pytest.approx(3000.0)
    assert reading.energies[0].source == "amdsmi_get_power_info average_socket_power"
    assert [warning.kind for warning in reading.warnings] == ["counter-frozen"]


def test_no_accumulator_is_integrated(fake: SimpleNamespace) -> None:
    """NOT_SUPPORTED is not 0."""
    reading = run(fake, {"watts": 300, "no_counter": True})
    assert reading.energy_j("accelerators") == pytest.approx(3000.0)


@pytest.mark.parametrize("visible", [None, "0", "1"])
def test_card_of_two_dies_counts_once(fake: SimpleNamespace, visible: str | None) -> None:
    """One die tells the whole card's power and the other nothing: whichever is visible, the card is measured once."""
    dies = ({"watts": 400, "serial": "0xc"}, {"watts": 0, "serial": "0xc", "silent": True})
    environ = {} if visible is None else {"HIP_VISIBLE_DEVICES": visible}
    reading = run(fake, *dies, **environ)
    (entry,) = reading.energies
    assert (entry.device, entry.domain) == ("GPU-uuid0", "card")
    assert entry.energy_j == pytest.approx(4000.0, rel=1e-6)
    assert [warning.kind for warning in reading.warnings] == ["scope"]


def test_numbers_are_hips(fake: SimpleNamespace) -> None:
    """HIP may count the GPUs in another order than amdsmi lists them."""
    reading = run(fake, {"watts": 300, "hip": 1}, {"watts": 500, "hip": 0}, HIP_VISIBLE_DEVICES="0")
    assert reading.energy_j("accelerators") == pytest.approx(5000.0, rel=1e-6)


def test_lost_gpu_is_unknown(fake: SimpleNamespace) -> None:
    """A GPU that goes away has no energy."""
    reading = run(fake, {"watts": 300, "lost": 5.0})
    assert reading.energy_j("accelerators") is None
    assert [warning.kind for warning in reading.warnings] == ["device-lost"]


def test_limit_and_foreign_processes(fake: SimpleNamespace) -> None:
    """The power limit comes in watts; process 1 is somebody else's."""
    library = FakeAmdsmi(fake.Clock(), {"watts": 300, "pids": [1]})
    (sensor,) = amd.discover({}, here=HERE, library=library).sensors
    state = sensor.state()
    assert state is not None
    assert state.power_limit_w == 750.0
    assert [warning.kind for warning in sensor.inspect()] == ["foreign-process"]


def test_driver_that_does_not_start_is_a_finding(fake: SimpleNamespace) -> None:
    """No sensor, no exception, one line."""
    library = FakeAmdsmi(fake.Clock())

    def fail() -> None:
        raise LibraryError(34)

    library.amdsmi_init = fail  # type: ignore[method-assign]
    found = amd.discover({}, here=HERE, library=library)
    assert found.sensors == ()
    assert found.findings[0].state == "absent"


def test_library_that_is_not_there_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """The import of amdsmi prints to standard output when its C library is missing; it is not imported then."""
    amd.discover({}, here=HERE)
    assert capfd.readouterr().out == ""
