"""Sums over devices and boundaries."""

from __future__ import annotations

import pytest

from wattlaw.measure import DeviceEnergy, MeterWarning, Reading, merge


def energy(device: str, joules: float | None, **fields: object) -> DeviceEnergy:
    """Build one entry."""
    method = None if joules is None else "counter"
    given = {"boundary": "accelerators", "domain": "gpu", "method": method, "source": "s", "uncertainty_j": 1.0}
    return DeviceEnergy(device=device, name="n", energy_j=joules, **(given | fields))


def reading(*energies: DeviceEnergy, duration_s: float = 1.0, **fields: object) -> Reading:
    """Build a reading."""
    return Reading(energies=energies, duration_s=duration_s, requested_s=duration_s, **fields)


def test_a_device_counts_once() -> None:
    """The same UUID twice, as two ranks would give it, is one device."""
    total = reading(energy("GPU-a", 10.0), energy("GPU-b", 5.0), energy("GPU-a", 10.0)).total("accelerators")
    assert total is not None
    assert total.energy_j == 15.0
    assert total.devices == ("GPU-a", "GPU-b")
    assert total.uncertainty_j == 2.0


def test_an_unknown_part_makes_the_sum_unknown() -> None:
    """A sum without one of its devices would be too small and look right."""
    total = reading(energy("GPU-a", 10.0), energy("GPU-b", None)).total("accelerators")
    assert total is not None
    assert total.energy_j is None
    assert total.method is None


def test_boundaries_are_kept_apart() -> None:
    """Packages and DRAM are added only if one asks for both."""
    both = reading(energy("h/0", 7.0, boundary="processors"), energy("h/0:0", 2.0, boundary="memory"))
    assert [total.boundary for total in both.totals()] == ["processors", "memory"]
    assert both.energy_j("processors") == 7.0
    assert both.energy_j("processors", "memory") == 9.0
    assert both.energy_j("processors", "accelerators") is None


def test_parts_of_one_device_are_distinct() -> None:
    """A chip's GPU and its neural engine have one device name and two domains."""
    chip = reading(energy("h/soc", 3.0), energy("h/soc", 4.0, domain="neural engine"))
    assert chip.energy_j("accelerators") == 7.0


def test_different_methods_are_mixed() -> None:
    """One device by counter and one integrated give a total of method mixed, with both sources."""
    total = reading(energy("a", 1.0), energy("b", 1.0, method="integrated", source="t")).total("accelerators")
    assert total is not None
    assert (total.method, total.source) == ("mixed", "s; t")


def test_merge_counts_each_node_once() -> None:
    """Two ranks of one node and one of another: each device once, from the longer window."""
    doubt = MeterWarning(kind="scope", text="t")
    ranks = [
        reading(energy("GPU-a", 10.0), duration_s=1.0, measured_by="n1 rank 0", warnings=(doubt,), synchronized=True),
        reading(energy("GPU-a", 20.0), duration_s=2.0, measured_by="n1 rank 1", warnings=(doubt,)),
        reading(energy("GPU-c", 5.0), duration_s=1.5, measured_by="n2 rank 2"),
    ]
    merged = merge(ranks)
    assert merged.energy_j("accelerators") == 25.0
    assert merged.duration_s == 2.0
    assert merged.measured_by == "n1 rank 0; n1 rank 1; n2 rank 2"
    assert merged.warnings == (doubt,)
    assert not merged.synchronized


def test_merging_nothing_measures_nothing() -> None:
    """No readings give no energy."""
    assert merge([]).totals() == ()


def test_warning_names_its_device() -> None:
    """People see which device a doubt is about."""
    assert str(MeterWarning(kind="scope", text="t", device="GPU-a")) == "GPU-a: t"
    assert str(MeterWarning(kind="scope", text="t")) == "t"


@pytest.mark.parametrize("boundary", ["node", "facility"])
def test_node_is_not_made_of_parts(boundary: str) -> None:
    """GPUs and CPUs together are not the node's energy: what nobody measured stays unknown."""
    parts = reading(energy("g", 1.0), energy("c", 1.0, boundary="processors"))
    assert parts.total(boundary) is None
