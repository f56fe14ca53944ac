"""RAPL on a powercap tree of our own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from wattlaw.measure import Reading, SampledMeter
from wattlaw.measure.meters import rapl

RANGE_UJ = 262_143_328_850


class Tree:
    """A powercap folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.range_uj = RANGE_UJ

    def zone(self, folder: str, name: str, energy_uj: int) -> None:
        """Write one zone."""
        path = self.root / folder
        path.mkdir(parents=True)
        (path / "name").write_text(f"{name}\n")
        (path / "max_energy_range_uj").write_text(f"{self.range_uj}\n")
        self.set(folder, energy_uj)

    def set(self, folder: str, energy_uj: int) -> None:
        """Set a counter, which runs through its range."""
        (self.root / folder / "energy_uj").write_text(f"{energy_uj % self.range_uj}\n")

    def measured(self) -> dict[str, str]:
        """Return device -> domain of the sensors."""
        return {sensor.info.device: sensor.info.domain for sensor in rapl.discover(self.root, host="h").sensors}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty powercap folder."""
    return Tree(tmp_path / "powercap")


def server(tree: Tree) -> None:
    """Write a server of two sockets, with all that overlaps."""
    for socket, energy_uj in ((0, 10**9), (1, 5 * 10**9)):
        tree.zone(f"intel-rapl:{socket}", f"package-{socket}", energy_uj)
        tree.zone(f"intel-rapl:{socket}:0", "core", energy_uj // 2)
        tree.zone(f"intel-rapl:{socket}:1", "dram", energy_uj // 10)
        tree.zone(f"intel-rapl-mmio:{socket}", f"package-{socket}", energy_uj)
    tree.zone("intel-rapl:2", "psys", 7 * 10**9)


def run(tree: Tree, fake: SimpleNamespace, powers_w: dict[str, float], *, seconds: float, step: float) -> Reading:
    """Let zones draw power, in microjoules of the tree, while a meter samples."""
    clock = fake.Clock()
    meter = SampledMeter(rapl.discover(tree.root, host="h").sensors, clock=clock, background=False)
    start = {zone: int((tree.root / zone / "energy_uj").read_text()) for zone in powers_w}
    meter.start()
    for count in range(1, round(seconds / step) + 1):
        clock.sleep(step)
        for zone, watts in powers_w.items():
            tree.set(zone, start[zone] + round(watts * count * step * 1e6))
        meter.poll()
    return meter.stop()


def test_packages_and_dram_count_once(tree: Tree) -> None:
    """Of core, psys and the MMIO copy of the packages nothing is measured, since the packages include it."""
    server(tree)
    assert tree.measured() == {
        "h/intel-rapl:0": "package",
        "h/intel-rapl:1": "package",
        "h/intel-rapl:0:1": "dram",
        "h/intel-rapl:1:1": "dram",
    }
    (finding,) = rapl.discover(tree.root, host="h").findings
    assert finding.state == "works"
    assert "psys" in finding.detail


def test_exact_joules_of_packages_and_dram(tree: Tree, fake: SimpleNamespace) -> None:
    """50 W and 70 W of packages, 5 W and 2.5 W of DRAM, for 20 s: 2400 J and 150 J, apart."""
    server(tree)
    powers = {"intel-rapl:0": 50.0, "intel-rapl:1": 70.0, "intel-rapl:0:1": 5.0, "intel-rapl:1:1": 2.5}
    powers |= {"intel-rapl:2": 200.0, "intel-rapl:0:0": 30.0, "intel-rapl-mmio:0": 50.0}
    reading = run(tree, fake, powers, seconds=20.0, step=0.5)
    assert reading.energy_j("processors") == pytest.approx(2400.0, abs=1e-3)
    assert reading.energy_j("memory") == pytest.approx(150.0, abs=1e-3)
    assert reading.energy_j("processors", "memory") == pytest.approx(2550.0, abs=1e-3)
    assert reading.energy_j("node") is None
    assert {entry.method for entry in reading.energies} == {"counter"}
    assert reading.energies[0].source == "intel-rapl:0/energy_uj (package-0)"
    assert reading.energies[0].peak_power_w == pytest.approx(50.0, rel=0.01)
    assert reading.warnings == ()


def test_wraps_are_undone(tree: Tree, fake: SimpleNamespace) -> None:
    """A counter of 65.5 J range at 50 W wraps 15 times in 20 s, and still counts 1000 J."""
    tree.range_uj = 65_500_000
    tree.zone("intel-rapl:0", "package-0", 65_000_000)
    reading = run(tree, fake, {"intel-rapl:0": 50.0}, seconds=20.0, step=0.05)
    assert reading.energy_j("processors") == pytest.approx(1000.0, abs=1e-3)
    assert reading.warnings == ()


def test_missed_wrap_is_unknown(tree: Tree, fake: SimpleNamespace) -> None:
    """If the process slept longer than the counter takes to wrap, the energy is unknown and not too small."""
    tree.zone("intel-rapl:0", "package-0", 0)
    reading = run(tree, fake, {"intel-rapl:0": 400.0}, seconds=900.0, step=300.0)
    assert reading.energy_j("processors") is None
    assert [warning.kind for warning in reading.warnings] == ["wrap-missed", "not-measured"]


def test_sampling_is_faster_than_a_wrap_at_a_kilowatt(tree: Tree) -> None:
    """The usual range of 262 kJ lasts 262 s at 1000 W: reads are closer than that."""
    tree.zone("intel-rapl:0", "package-0", 0)
    (sensor,) = rapl.discover(tree.root).sensors
    assert sensor.info.wrap_s == pytest.approx(262.143, abs=0.001)


def test_dies_with_counters_of_their_own_are_added(tree: Tree) -> None:
    """Two dies of a package that count apart are both measured."""
    tree.zone("intel-rapl:0", "package-0-die-0", 10**9)
    tree.zone("intel-rapl:1", "package-0-die-1", 4 * 10**9)
    assert list(tree.measured()) == ["h/intel-rapl:0", "h/intel-rapl:1"]


@pytest.mark.parametrize(("second_uj", "said"), [(10**9 + 400_000, "again"), (0, "counts nothing")])
def test_dies_that_show_one_counter_are_one(tree: Tree, second_uj: int, said: str) -> None:
    """A die that repeats the package's counter, or counts nothing, would double it or make it unknown."""
    tree.zone("intel-rapl:0", "package-0-die-0", 10**9)
    tree.zone("intel-rapl:1", "package-0-die-1", second_uj)
    found = rapl.discover(tree.root, host="h")
    assert [sensor.info.device for sensor in found.sensors] == ["h/intel-rapl:0"]
    assert [warning.kind for warning in found.warnings] == ["mirrored-counter"]
    assert said in found.warnings[0].text


def test_dram_of_a_repeated_die_is_not_read(tree: Tree) -> None:
    """What lies under a die that is one counter with another would be counted twice as well."""
    for die in (0, 1):
        tree.zone(f"intel-rapl:{die}", f"package-0-die-{die}", 10**9)
        tree.zone(f"intel-rapl:{die}:0", "dram", 10**8)
    assert list(tree.measured()) == ["h/intel-rapl:0", "h/intel-rapl:0:0"]


def test_equal_counters_of_two_sockets_are_two(tree: Tree) -> None:
    """Only dies of one package can be one counter; two sockets are never."""
    tree.zone("intel-rapl:0", "package-0", 10**9)
    tree.zone("intel-rapl:1", "package-1", 10**9)
    assert len(tree.measured()) == 2


def test_mmio_alone_is_used(tree: Tree) -> None:
    """Where the packages are shown only by the MMIO driver, they are measured there."""
    tree.zone("intel-rapl-mmio:0", "package-0", 10**9)
    assert list(tree.measured()) == ["h/intel-rapl-mmio:0"]


def test_absent_tree_measures_nothing(tmp_path: Path) -> None:
    """Without powercap there is no sensor, and the finding says where to look; nothing is estimated."""
    found = rapl.discover(tmp_path / "nowhere")
    assert found.sensors == ()
    assert found.findings[0].state == "absent"
    assert found.findings[0].remedy is not None


def test_psys_alone_is_not_the_cpu(tree: Tree) -> None:
    """The platform's counter is not taken for the packages'."""
    tree.zone("intel-rapl:0", "psys", 10**9)
    assert rapl.discover(tree.root).sensors == ()


def test_zone_that_vanishes_is_lost(tree: Tree, fake: SimpleNamespace) -> None:
    """If the driver is unloaded during a window, the energy is unknown."""
    tree.zone("intel-rapl:0", "package-0", 10**9)
    clock = fake.Clock()
    meter = SampledMeter(rapl.discover(tree.root).sensors, clock=clock, background=False)
    meter.start()
    (tree.root / "intel-rapl:0" / "energy_uj").unlink()
    clock.sleep(2.0)
    reading = meter.stop()
    assert reading.energies[0].energy_j is None
    assert [warning.kind for warning in reading.warnings] == ["device-lost"]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up root's right to read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_permission_denied_tells_what_to_do() -> None:
    """Counters that only root may read give no sensor, no 0, and the command that changes it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        tree = Tree(Path(folder) / "powercap")
        tree.zone("intel-rapl:0", "package-0", 10**9)
        (tree.root / "intel-rapl:0" / "energy_uj").chmod(0o000)
        with unprivileged():
            found = rapl.discover(tree.root)
    assert found.sensors == ()
    assert found.findings[0].state == "denied"
    assert found.findings[0].remedy is not None
    assert found.findings[0].remedy.startswith("sudo chmod a+r")
    assert [warning.kind for warning in found.warnings] == ["permission"]
