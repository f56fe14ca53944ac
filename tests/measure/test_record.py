"""From readings to records."""

from __future__ import annotations

import platform

import pytest

from wattlaw.measure import (
    CrossCheck,
    DeviceEnergy,
    DeviceState,
    MeterWarning,
    Reading,
    energies_of,
    environment_of,
    observed_of,
)


def entry(joules: float | None, boundary: str = "accelerators", **fields: object) -> DeviceEnergy:
    """Build one entry."""
    method = None if joules is None else "counter"
    given = {"device": boundary, "name": "n", "domain": "d", "method": method, "source": "s"}
    return DeviceEnergy(energy_j=joules, boundary=boundary, **(given | fields))


def reading(*energies: DeviceEnergy, **fields: object) -> Reading:
    """Build a reading."""
    return Reading(energies=energies, duration_s=1.0, requested_s=1.0, **fields)


def test_energies_keep_boundary_method_and_source() -> None:
    """Accelerators and node become energies of the record; a declared one stays declared."""
    energies = energies_of(reading(entry(10.0), entry(40.0, "node", method="declared", source="65 W")))
    assert [(one.energy_j, one.boundary, one.method, one.source) for one in energies] == [
        (10.0, "accelerators", "counter", "s"),
        (40.0, "node", "declared", "65 W"),
    ]


def test_what_was_not_measured_is_absent() -> None:
    """Unknown and zero energies do not become energies of a record."""
    assert energies_of(reading(entry(None))) == ()
    assert energies_of(reading(entry(0.0))) == ()
    assert energies_of(reading()) == ()
    assert observed_of(reading(entry(None))) == {}


def test_parts_of_the_host_are_observed() -> None:
    """Packages and DRAM are no boundary of a record and are kept as numbers of their own."""
    check = CrossCheck(counter_j=100.0, integrated_j=90.0)
    gpu = entry(100.0, uncertainty_j=2.0, peak_power_w=300.0, cross_check=check)
    observed = observed_of(reading(gpu, entry(5.0, "processors"), entry(1.0, "memory")))
    assert observed == {
        "accelerators_energy_uncertainty_j": 2.0,
        "processors_energy_j": 5.0,
        "memory_energy_j": 1.0,
        "largest_accelerator_power_w": 300.0,
        "counter_against_power_fraction": pytest.approx(0.1),
    }


def test_environment_says_what_the_numbers_depend_on() -> None:
    """Versions, who measured, devices, their state and the doubts are texts of the record."""
    state = DeviceState(device="GPU-a", name="n", temperature_c=61.0, power_limit_w=250.0, throttled_by="power cap")
    doubt = MeterWarning(kind="scope", device="GPU-a", text="whole module")
    measured = reading(entry(1.0, device="GPU-a"), measured_by="n1 rank 0", warnings=(doubt,))
    environment = environment_of(measured, [state], {"nvidia_driver": "555"})
    assert environment["python"] == platform.python_version()
    assert environment["measured_by"] == "n1 rank 0"
    assert environment["nvidia_driver"] == "555"
    assert environment["device_0"] == "GPU-a d, n"
    assert environment["state_0"] == "GPU-a, 61 degC, limit 250 W, slowed by power cap"
    assert environment["meter_warnings"] == "scope: GPU-a: whole module"
    assert all(isinstance(text, str) for text in environment.values())


def test_unknown_conditions_are_left_out() -> None:
    """A device that tells nothing has an entry with its name only."""
    environment = environment_of(reading(), [DeviceState(device="GPU-a", name="n")])
    assert environment["state_0"] == "GPU-a"
    assert "meter_warnings" not in environment
