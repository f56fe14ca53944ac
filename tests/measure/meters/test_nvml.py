"""NVIDIA's meter: the real nvidia-ml-py, in processes of their own, on a driver library that plays a script."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.measure.conftest import FakeDriver

#: A window of 2.5 s on the driver's own clock, sampled every 50 ms, or more often for what needs it.
WINDOW = """
    clock, meter = virtual_meter()
    meter.start()
    clock.pass_time(2.5, STEP)
    show(meter.stop())
"""
COARSE, FINE = (WINDOW.replace("STEP", step) for step in ("0.05", "0.01"))


def kinds(reading: Any) -> list[str]:
    """Return the kinds of the doubts."""
    return [warning["kind"] for warning in reading["warnings"]]


def test_exact_joules_over_two_gpus(driver: FakeDriver) -> None:
    """100 W, and a ramp of 0 to 200 W with a second at 300 W: 250 J and 325 J, exactly 575.0 J by the counters."""
    driver.virtual_time()
    first = driver.gpu(0, "0 100 100 100")
    second = driver.gpu(1, "0 0 1 200 1 300 1.5 300 1.5 75 100 75")
    reading: Any = driver.run(FINE)
    energies = {entry["device"]: entry for entry in reading["energies"]}
    assert energies[first]["energy_j"] == pytest.approx(250.0, abs=1e-9)
    assert energies[second]["energy_j"] == pytest.approx(325.0, abs=1e-9)
    assert sum(entry["energy_j"] for entry in energies.values()) == pytest.approx(575.0, abs=1e-9)
    for entry in energies.values():
        assert (entry["method"], entry["boundary"]) == ("counter", "accelerators")
        assert entry["source"] == "nvmlDeviceGetTotalEnergyConsumption"
        assert entry["counter_period_s"] == pytest.approx(0.02)
        check = entry["cross_check"]
        assert check["integrated_j"] == pytest.approx(check["counter_j"], rel=0.01)
    assert energies[second]["peak_power_w"] == pytest.approx(300.0)
    assert energies[second]["mean_power_w"] == pytest.approx(130.0)
    assert reading["warnings"] == []
    assert reading["duration_s"] == pytest.approx(2.5)


def test_real_time_and_the_sampling_thread(driver: FakeDriver) -> None:
    """On the machine's clock, with the thread: watts times the window's length, within one update of the counter."""
    driver.gpu(0, "0 60 1000 60")
    driver.gpu(1, "0 240 1000 240", counter=0)
    reading: Any = driver.run(
        """
        from wattlaw.measure import machine_meter
        began = time.perf_counter()
        meter = machine_meter(require=["accelerators"])
        meter.start()
        start_s = time.perf_counter() - began
        time.sleep(1.2)
        reading = msgspec.to_builtins(meter.stop())
        show({**reading, "start_s": start_s})
        """
    )
    counted, integrated = reading["energies"]
    assert counted["energy_j"] == pytest.approx(60 * reading["duration_s"], abs=60 * 0.03)
    assert integrated["energy_j"] == pytest.approx(240 * reading["duration_s"], rel=0.02)
    assert (counted["method"], integrated["method"]) == ("counter", "integrated")


@pytest.mark.parametrize("freeze_s", [0.0, 1.0])
def test_counter_that_freezes(driver: FakeDriver, freeze_s: float) -> None:
    """A counter that stands still is replaced by integrated power; the reading says which and why."""
    driver.virtual_time()
    driver.gpu(0, freeze=freeze_s)
    reading: Any = driver.run(COARSE)
    (entry,) = reading["energies"]
    assert entry["energy_j"] == pytest.approx(250.0)
    assert (entry["method"], entry["source"]) == ("integrated", "NVML_FI_DEV_POWER_INSTANT")
    assert kinds(reading) == ["counter-frozen"]


def test_counter_that_wraps(driver: FakeDriver) -> None:
    """A counter that starts from 0 again gives neither a negative nor a huge energy."""
    driver.virtual_time()
    driver.gpu(0, wrap_mj=200_000, offset_mj=100_000)
    reading: Any = driver.run(COARSE)
    (entry,) = reading["energies"]
    assert entry["energy_j"] == pytest.approx(250.0)
    assert entry["method"] == "integrated"
    assert kinds(reading) == ["counter-backward"]


def test_large_counter_loses_no_millijoule(driver: FakeDriver) -> None:
    """After months of running the counter is large; the difference is still exact to a millijoule."""
    driver.virtual_time()
    driver.gpu(0, offset_mj=10**13)
    reading: Any = driver.run(COARSE)
    assert reading["energies"][0]["energy_j"] == pytest.approx(250.0, abs=2e-3)


def test_gpu_without_counter(driver: FakeDriver) -> None:
    """Constant power on a GPU without counter is integrated: 250 J, where a change detector would give 0."""
    driver.virtual_time()
    driver.gpu(0, counter=0, arch=4)
    reading: Any = driver.run(COARSE)
    (entry,) = reading["energies"]
    assert entry["energy_j"] == pytest.approx(250.0)
    assert entry["method"] == "integrated"
    assert entry["counter_period_s"] is None
    assert kinds(reading) == ["counter-unsupported"]


def test_older_power_query(driver: FakeDriver) -> None:
    """Where the driver has no instantaneous power, its usual one is used and named."""
    driver.virtual_time()
    driver.gpu(0, counter=0, instant=0)
    reading: Any = driver.run(COARSE)
    assert reading["energies"][0]["source"] == "nvmlDeviceGetPowerUsage"
    assert reading["energies"][0]["energy_j"] == pytest.approx(250.0)


def test_counter_without_any_power(driver: FakeDriver) -> None:
    """With a counter only, there is an energy and no cross-check."""
    driver.virtual_time()
    driver.gpu(0, power=0, instant=0)
    reading: Any = driver.run(COARSE)
    (entry,) = reading["energies"]
    assert entry["energy_j"] == pytest.approx(250.0)
    assert entry["cross_check"] is None
    assert entry["peak_power_w"] == pytest.approx(100.0, rel=0.1)


def test_every_query_unsupported(driver: FakeDriver) -> None:
    """A GPU that answers nothing has an unknown energy, and does not keep the other from having one."""
    driver.virtual_time()
    driver.gpu(0, counter=0, power=0, instant=0)
    driver.gpu(1)
    reading: Any = driver.run(COARSE)
    silent, other = reading["energies"]
    assert silent["energy_j"] is None
    assert silent["method"] is None
    assert other["energy_j"] == pytest.approx(250.0)
    assert kinds(reading) == ["counter-unsupported", "not-measured"]


def test_counter_of_a_wrong_scale(driver: FakeDriver) -> None:
    """A counter ten times too small is found out by the power beside it."""
    driver.virtual_time()
    driver.gpu(0, scale=0.1)
    reading: Any = driver.run(COARSE)
    assert reading["energies"][0]["energy_j"] == pytest.approx(250.0)
    assert kinds(reading) == ["counter-distrusted"]


def test_device_that_disappears_mid_run(driver: FakeDriver) -> None:
    """A GPU lost after 1 s has no energy, the other keeps its own, and no exception reaches the training."""
    driver.virtual_time()
    driver.gpu(0, lost=1.0)
    driver.gpu(1)
    reading: Any = driver.run(COARSE)
    lost, kept = reading["energies"]
    assert lost["energy_j"] is None
    assert kept["energy_j"] == pytest.approx(250.0)
    assert kinds(reading) == ["device-lost"]
    assert "GPU is lost" in reading["warnings"][0]["text"]


def test_unknown_errors_are_bridged(driver: FakeDriver) -> None:
    """Reads that fail for 0.2 s with a code that means nothing lose no energy of a counter."""
    driver.virtual_time()
    driver.gpu(0, hiccup=1.0)
    reading: Any = driver.run(COARSE)
    assert reading["energies"][0]["energy_j"] == pytest.approx(250.0)
    assert kinds(reading) == ["reads-failed"]


def test_foreign_process_is_reported_and_our_own_is_not(driver: FakeDriver) -> None:
    """A process of somebody else on the GPU is named; the job's own children are not."""
    driver.virtual_time()
    driver.gpu(0, pid=[1])
    reading: Any = driver.run(COARSE)
    assert kinds(reading) == ["foreign-process"]
    assert "processes 1 are on this GPU" in reading["warnings"][0]["text"]
    own: Any = driver.run(
        """
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
        script = Path(os.environ["FAKE_NVML_DIR"]) / "gpu0"
        script.write_text(script.read_text().replace("pid 1", f"pid {child.pid} pid {os.getpid()}"))
        clock, meter = virtual_meter()
        meter.start()
        clock.pass_time(2.5, 0.05)
        show(meter.stop())
        child.communicate(b"\\n")
        """
    )
    assert kinds(own) == []


def test_mig_is_measured_as_the_whole_gpu(driver: FakeDriver) -> None:
    """A slice has no meter: the parent is measured once for two slices, and its scope is stated."""
    driver.virtual_time()
    driver.gpu(0)
    parent = driver.gpu(1, mig=["MIG-aaaa-1", "MIG-bbbb-2"])
    reading: Any = driver.run(COARSE, CUDA_VISIBLE_DEVICES="MIG-aaaa-1,MIG-bbbb-2")
    (entry,) = reading["energies"]
    assert entry["device"] == parent
    assert kinds(reading) == ["mig-parent"]
    assert "whole GPU" in reading["warnings"][0]["text"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("1", [1]), ("2,0", [2, 0]), ("GPU-2222-fake", [2]), ("GPU-11", [1]), ("", []), ("-1", []), ("0,7", [0])],
)
def test_only_visible_gpus_are_measured(driver: FakeDriver, asked: str, expected: list[int]) -> None:
    """Of three GPUs those count that CUDA_VISIBLE_DEVICES leaves, by UUID."""
    driver.virtual_time()
    uuids = [driver.gpu(index) for index in range(3)]
    reading: Any = driver.run(COARSE, CUDA_VISIBLE_DEVICES=asked)
    assert [entry["device"] for entry in reading["energies"]] == [uuids[index] for index in expected]


def test_superchip_names_its_scope(driver: FakeDriver) -> None:
    """On a GPU that shares a module with a CPU the reading says what may be included."""
    driver.virtual_time()
    driver.gpu(0, c2c=1)
    assert kinds(driver.run(COARSE)) == ["scope"]


def test_conditions_for_the_record(driver: FakeDriver) -> None:
    """Temperature, clocks, power limit, what slows the GPU down, and versions can be read, in SI."""
    uuid = driver.gpu(0, limit_w=250)
    told: Any = driver.run(
        """
        from wattlaw.measure import machine_meter
        from wattlaw.measure.meters.nvml import Nvml
        nvml = Nvml()
        show({"states": machine_meter().states(), "versions": nvml.versions()})
        """
    )
    assert told["states"] == [
        {
            "device": uuid,
            "name": "NVIDIA A100-SXM4-40GB",
            "temperature_c": 40,
            "core_clock_hz": 1.4e9,
            "memory_clock_hz": 1.4e9,
            "power_limit_w": 250.0,
            "throttled_by": "power cap",
        }
    ]
    assert told["versions"] == {"nvidia_driver": "555.42.01", "nvml": "12.555.42.01"}


def test_without_a_driver_nothing_is_measured(driver: FakeDriver) -> None:
    """No library, or a library without a driver: a finding with a remedy, no sensor and no exception."""
    script = """
        from wattlaw.measure.meters import nvml
        found = nvml.discover()
        show({"sensors": len(found.sensors), "findings": found.findings})
    """
    for hidden in ({"LD_LIBRARY_PATH": ""}, {"FAKE_NVML_BROKEN": "1"}):
        found: Any = driver.run(script, **hidden)
        assert found["sensors"] == 0
        (finding,) = found["findings"]
        assert finding["state"] == "absent"
        assert "install the driver" in finding["remedy"]


def test_without_the_package_the_extra_is_named(driver: FakeDriver) -> None:
    """Without nvidia-ml-py the finding says what to install."""
    found: Any = driver.run(
        """
        sys.modules["pynvml"] = None
        from wattlaw.measure.meters import nvml
        show(nvml.discover().findings)
        """
    )
    assert found[0]["state"] == "not installed"
    assert "wattlaw[measure]" in found[0]["remedy"]


def test_required_accelerators_that_are_not_there(driver: FakeDriver) -> None:
    """Asking for what nothing here measures is one line that says why and what to do."""
    line: Any = driver.run(
        """
        from wattlaw.errors import MeterError
        from wattlaw.measure import machine_meter
        try:
            machine_meter(require=["accelerators"], rapl_root=Path("/nowhere"))
        except MeterError as error:
            show(str(error))
        """,
        LD_LIBRARY_PATH="",
    )
    assert line.startswith("nothing here measures the energy of accelerators")
    assert "NVML" in line
    assert "wattlaw doctor" in line


@pytest.mark.skipif(importlib.util.find_spec("zeus") is None, reason="zeus is not installed")
def test_zeus_reads_the_same_energy(driver: FakeDriver) -> None:
    """Zeus, driven through the same driver library, finds the same joules on two GPUs."""
    driver.virtual_time()
    driver.gpu(0, "0 100 100 100")
    driver.gpu(1, "0 0 1 200 1 300 1.5 300 1.5 75 100 75")
    told: Any = driver.run(
        """
        import warnings
        from zeus.monitor import ZeusMonitor
        clock, meter = virtual_meter()
        monitor = ZeusMonitor(cpu_indices=[])
        meter.start()
        monitor.begin_window("w", sync_execution=False)
        clock.pass_time(2.5, 0.05)
        theirs = monitor.end_window("w", sync_execution=False)
        ours = meter.stop()
        show({"ours": [entry.energy_j for entry in ours.energies], "theirs": list(theirs.gpu_energy.values())})
        """
    )
    assert told["theirs"] == pytest.approx([250.0, 325.0], abs=1e-6)
    assert told["ours"] == pytest.approx(told["theirs"], abs=1e-6)
