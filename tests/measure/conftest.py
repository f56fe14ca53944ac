"""A scripted world for meters: a clock and sensors of our own, and the real NVML client on a fake driver library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from wattlaw.measure.reading import MeterWarning
from wattlaw.measure.sensor import DeviceLostError, DeviceState, QueryUnsupportedError, ReadFailedError, SensorInfo

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"


class FakeClock:
    """A clock that moves when it is told to, and when somebody sleeps on it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        """Read the time."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.seconds += seconds


@dataclass
class FakeSensor:
    """A sensor that follows a script; power is ``watts(t)``, its integral ``joules(t)``."""

    clock: FakeClock
    watts: Callable[[float], float] = lambda _: 100.0
    joules: Callable[[float], float] = lambda t: 100.0 * t
    period_s: float = 0.02
    counter: bool = True
    power: bool = True
    freeze_s: float = float("inf")
    thaw_s: float = float("inf")
    range_j: float | None = None
    wrap_s: float | None = None
    told_range: bool = True
    lost_s: float = float("inf")
    fails: Sequence[tuple[float, float]] = ()
    counter_gone_s: float = float("inf")
    scale: float = 1.0
    offset_j: float = 0.0
    device: str = "GPU-fake"
    seen: list[MeterWarning] = field(default_factory=list)

    @property
    def info(self) -> SensorInfo:
        """Describe the script."""
        return SensorInfo(
            device=self.device,
            name="fake",
            boundary="accelerators",
            domain="gpu",
            counter="fake counter" if self.counter else None,
            power="fake power" if self.power else None,
            counter_range_j=self.range_j if self.told_range else None,
            wrap_s=self.wrap_s,
        )

    def energy_j(self) -> float:
        """Read the counter as the script has it."""
        self._answer()
        now = self.clock.now()
        if now >= self.counter_gone_s:
            raise QueryUnsupportedError("gone")
        if self.freeze_s <= now < self.thaw_s:
            now = self.freeze_s
        updated = int(now / self.period_s + 1e-9) * self.period_s
        counted = self.offset_j + self.scale * self.joules(updated)
        return counted % self.range_j if self.range_j else counted

    def power_w(self) -> float:
        """Read the power as the script has it."""
        self._answer()
        return self.watts(self.clock.now())

    def inspect(self) -> Sequence[MeterWarning]:
        """Report what the script puts there."""
        return tuple(self.seen)

    def state(self) -> DeviceState | None:
        """Tell a temperature."""
        return DeviceState(device=self.device, name="fake", temperature_c=40.0)

    def _answer(self) -> None:
        now = self.clock.now()
        if now >= self.lost_s:
            raise DeviceLostError("GPU is lost")
        if any(start <= now < end for start, end in self.fails):
            raise ReadFailedError("busy")


@pytest.fixture
def fake() -> SimpleNamespace:
    """The classes of the scripted world."""
    return SimpleNamespace(Clock=FakeClock, Sensor=FakeSensor)


@dataclass
class FakeDriver:
    """GPUs as files that the fake driver library reads, and Python processes that see them."""

    library: Path
    folder: Path

    def gpu(self, index: int, trace: str = "0 100 1000 100", *, limit_w: int | None = None, **keys: object) -> str:
        """Write the script of one GPU and return its UUID; a list is a key given several times."""
        uuid = f"GPU-{index}{index}{index}{index}-fake"
        lines = [f"uuid {uuid}", f"name {keys.pop('name', 'NVIDIA A100-SXM4-40GB')}"]
        for key, value in keys.items():
            lines += [f"{key} {one}" for one in (value if isinstance(value, list) else [value])]
        (self.folder / f"gpu{index}").write_text("\n".join([*lines, f"trace {trace}", ""]))
        if limit_w is not None:
            (self.folder / f"limit{index}").write_text(f"{limit_w * 1000}\n")
        return uuid

    def limit_w(self, index: int) -> float:
        """Read the power limit that the driver holds."""
        return int((self.folder / f"limit{index}").read_text()) / 1000

    def virtual_time(self) -> None:
        """Stop the clock at 0; the scripts' ``clock`` moves it."""
        (self.folder / "clock").write_text("0")

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment in which a process sees these GPUs."""
        kept = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "RANK")}
        return {
            **kept,
            "LD_LIBRARY_PATH": str(self.library.parent),
            "FAKE_NVML_DIR": str(self.folder),
            "WATTLAW_STATE": str(self.folder / "state"),
            "PYTHONPATH": str(SOURCE),
            **variables,
        }

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        """Start Python on a script; ``show(value)`` prints JSON, ``VirtualClock`` moves the driver's clock."""
        return subprocess.Popen(
            [sys.executable, "-c", PROLOGUE + textwrap.dedent(script)],
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, **variables: str) -> object:
        """Run a script and return what it showed."""
        process = self.start(script, **variables)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return json.loads(output)


PROLOGUE = """
import os, sys, time, msgspec
from pathlib import Path

def show(value):
    sys.stdout.write(msgspec.json.encode(value).decode())
    sys.stdout.flush()

class VirtualClock:
    path = Path(os.environ["FAKE_NVML_DIR"]) / "clock"
    meter = None
    def now(self):
        return float(self.path.read_text())
    def sleep(self, seconds):
        self.path.write_text(repr(round(self.now() + seconds, 6)))
    def pass_time(self, seconds, step):
        for _ in range(round(seconds / step)):
            self.sleep(step)
            self.meter.poll()

def virtual_meter(**options):
    from wattlaw.measure import SampledMeter
    from wattlaw.measure.meters import nvml
    clock = VirtualClock()
    found = nvml.discover()
    clock.meter = SampledMeter(found.sensors, clock=clock, background=False, warnings=found.warnings, **options)
    return clock, clock.meter
"""


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the fake driver library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the fake driver library with")
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = HERE / "fake_nvml" / "nvml.c"
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    subprocess.run([compiler, *options, "-o", str(library), str(source), "-lm"], check=True)
    return library


@pytest.fixture
def driver(driver_library: Path, tmp_path: Path) -> FakeDriver:
    """A machine whose GPUs the test writes."""
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(library=driver_library, folder=folder)
