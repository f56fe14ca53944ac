"""The parent of a probe on ranks without torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.measure import SampledMeter
from wattlaw.measure.probe import Options, Probe, run_probe
from wattlaw.measure.probe.runner import PARTS, _budgets

FAKE_RANK = (sys.executable, str(Path(__file__).with_name("fake_rank.py")))
A100 = {"device": "cuda", "device_name": "NVIDIA A100-SXM4-40GB", "num_visible_devices": "4"}


@pytest.fixture
def probed(monkeypatch):
    """A function that probes a machine of scripted ranks."""

    def run(script: dict | None = None, *, meter=None, watch=lambda _: None, **options: object) -> Probe:
        monkeypatch.setenv("FAKE_PROBE", json.dumps(script or {}))
        return run_probe(Options(**options), meter_of=lambda _: meter, watch=watch, rank_command=FAKE_RANK)

    return run


def test_figures_are_gathered_and_the_rest_is_null(probed) -> None:
    """What ranks answer is there, rank 0's first; what nobody measured is null, with a reason."""
    probe = probed()
    assert probe.accelerator == "generic-cpu"
    assert probe.measured["matrix_fp32_flop_per_s"].value == 1.0
    assert probe.measured["collective_2_latency_s"].value == 1.0
    assert probe.measured["accelerators_idle_power_w"] is None
    assert "wattlaw doctor" in probe.unavailable["accelerators_idle_power_w"]
    assert probe.measured["launch_step_s"] is None
    assert probe.unavailable.keys() == {name for name, figure in probe.measured.items() if figure is None}


def test_a_part_that_fails_leaves_the_others(probed) -> None:
    """An error in one part is its reason; every other part is measured."""
    probe = probed({"fails": "bandwidth"})
    assert probe.measured["copy_bytes_per_s"] is None
    assert probe.unavailable["copy_bytes_per_s"] == "RuntimeError: no such operation"
    assert probe.measured["launch_kernel_s"] is not None
    assert probe.measured["collective_2_bytes_per_s"] is not None
    assert any("no such operation" in warning for warning in probe.warnings)


def test_a_rank_that_dies_leaves_the_others(probed) -> None:
    """The end of a rank is known and told; the next part starts a new one."""
    probe = probed({"dies": "matrix"})
    assert "exit code 7" in probe.unavailable["matrix_fp32_flop_per_s"]
    assert probe.measured["launch_kernel_s"] is not None


def test_a_gpu_is_known_by_its_drivers_name(probed) -> None:
    """The data sheet is the one with the driver's name among its aliases; collectives go up to all that is visible."""
    probe = probed({"environment": A100})
    assert probe.accelerator == "a100-sxm4-40gb"
    assert probe.num_devices == 4
    assert probe.measured["matrix_bf16_flop_per_s"] is not None
    assert {"collective_2_latency_s", "collective_4_latency_s"} <= probe.figures.keys()
    assert probe.environment["device_name"] == A100["device_name"]


def test_one_device_has_no_collectives(probed) -> None:
    """With one device there is nobody to talk to: the figures are null for that reason."""
    probe = probed(num_devices=1)
    assert probe.unavailable["collective_2_latency_s"] == "needs two devices"


def test_another_device_than_stated_is_refused(probed) -> None:
    """One device's figures are not filed under another one's name."""
    with pytest.raises(ConfigError, match="another accelerator"):
        probed({"environment": A100}, gpu="h100-sxm5-80gb")


def test_an_unknown_device_is_refused(probed) -> None:
    """Without a data sheet there is nothing that shares could be of; the message lists the nearest names."""
    with pytest.raises(UnknownNameError, match="Tesla X9000"):
        probed({"environment": {**A100, "device_name": "Tesla X9000"}})


def test_more_devices_than_there_are_are_refused(probed) -> None:
    """A collective over eight of four GPUs cannot be measured."""
    with pytest.raises(ConfigError, match="fewer devices are visible"):
        probed({"environment": A100}, num_devices=8)


@pytest.mark.parametrize(
    ("option", "value"), [("seconds", 0.0), ("threads", 0), ("num_devices", -1), ("device", "tpu")]
)
def test_wrong_options_are_refused(option: str, value: object) -> None:
    """Each is told by its name."""
    with pytest.raises(ConfigError, match=option if option != "device" else "unknown device"):
        Options(**{option: value})


def test_power_is_metered_while_the_device_is_busy(probed, fake) -> None:
    """Each state has its figure from the window that the rank's two messages bound; an idle one comes before."""
    clock = fake.Clock()

    class Ticking(SampledMeter):
        """Time passes between start and stop only."""

        def stop(self):
            clock.sleep(5.0)
            return super().stop()

    meter = Ticking([fake.Sensor(clock, watts=lambda _: 120.0, counter=False)], clock=clock, background=False)
    probe = probed({"environment": {**A100, "num_visible_devices": "1"}}, meter=meter, seconds=1.0)
    states = {name for name in probe.figures if name.endswith("_power_w")}
    assert states == {f"accelerators_{state}_power_w" for state in ("idle", "launch", "matrix", "memory")}
    assert probe.measured["accelerators_matrix_power_w"].value == pytest.approx(120.0)


def test_an_idle_gpu_beside_a_busy_cpu_is_not_its_power(probed, fake) -> None:
    """On a CPU the sensors of a GPU are not of what was loaded: no accelerator's power comes out."""
    clock = fake.Clock()
    meter = SampledMeter([fake.Sensor(clock, counter=False)], clock=clock, background=False, short_window="widen")
    probe = probed(meter=meter, seconds=1.0)
    assert not [name for name in probe.figures if name.startswith("accelerators")]


def test_progress_goes_from_start_to_end(probed) -> None:
    """Every part is announced once, in order, and the share that is done never falls."""
    seen = []
    probed(watch=seen.append)
    assert [one.part for one in seen] == ["start", *PARTS, "end"]
    shares = [one.done_fraction for one in seen]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_time_is_shared_among_the_parts_that_are_measured() -> None:
    """What remains after the starts is shared out in full, and a part that cannot be measured gets none of it."""
    budgets = _budgets(50.0, 2, metered=True)
    assert sum(budgets.values()) == pytest.approx(50.0)
    assert budgets.keys() == PARTS.keys()
    alone = _budgets(55.0, 1, metered=False)
    assert sum(alone.values()) == pytest.approx(55.0)
    assert alone.keys() == {"matrix", "bandwidth", "launch", "layer"}
    assert sum(_budgets(-9.0, 2, metered=False).values()) > 0
