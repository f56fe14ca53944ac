"""A sweep on GPUs that the fake driver library shows to the real NVML client; the ranks only pretend."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from wattlaw.run import read_records

FAKE_RANK = Path(__file__).with_name("fake_rank.py")
SWEEP = """
    from wattlaw.measure.sweep import MachineMeters, run_sweep, sweep_from_mapping
    options = json.loads(os.environ["SWEEP"])
    model = {"family": "bert", "head": "classification", "precision": "bf16", "vocab_size": 100, "num_layers": 1,
             "hidden_size": 32, "num_heads": 4, "ffn_size": 64, "seq_len": 16, "batch_size": 2}
    sweep = sweep_from_mapping({"hardware": {"gpu": "NVIDIA A100-SXM4-40GB"}, "grid": [{**model, **options}]})
    command = (sys.executable, os.environ["RANK_FILE"])
    result = run_sweep(sweep, os.environ["FOLDER"], meter_of=MachineMeters("cuda"), rank_command=command)
    show(str(result.folder))
"""


@pytest.fixture
def run(driver, tmp_path):
    """A function that runs a sweep on the fake driver's GPUs and returns its records."""

    def run_it(options: dict, *, seconds: float):
        folder = driver.run(
            "\nimport json" + textwrap.dedent(SWEEP),
            SWEEP=json.dumps(options), FOLDER=str(tmp_path / "runs"), RANK_FILE=str(FAKE_RANK),
            FAKE_RANK_S=str(seconds),
        )  # fmt: skip
        return read_records(Path(folder) / "records.jsonl")

    return run_it


def test_a_configuration_is_metered_on_its_own_devices(driver, run) -> None:
    """One GPU of 100 W for single, both for DDP, the third never; the counter's energy is watts times the window."""
    uuids = [driver.gpu(number, "0 100 1000 100") for number in range(3)]
    layouts = [{"strategy": "single"}, {"strategy": "ddp", "num_devices": 2}]
    for record in run({"layouts": layouts}, seconds=1.6):
        count = record.spec.layout.num_devices
        (energy,) = record.energies
        assert (energy.boundary, energy.method) == ("accelerators", "counter")
        assert energy.energy_j == pytest.approx(100 * count * record.observed["metered_s"], rel=0.15)
        told = " ".join(record.environment.values())
        assert [uuid in told for uuid in uuids] == [True, count == 2, False]


def test_a_power_limit_holds_for_its_runs_and_comes_back(driver, run) -> None:
    """Each run is measured under its limit, as the driver tells it, and the limit of before is there at the end."""
    driver.gpu(0, limit_w=310)
    records = run({"strategy": "single", "power_limit_w": [200, 250]}, seconds=1.4)
    told = {record.spec.power_limit_w: record.environment["state_0"] for record in records}
    assert {limit: f"limit {limit:g} W" in state for limit, state in told.items()} == {200.0: True, 250.0: True}
    assert driver.limit_w(0) == 310


def test_a_limit_that_the_gpu_does_not_allow_is_a_failed_run(driver, run) -> None:
    """A limit above the GPU's most is recorded with the reason; nothing was set and nothing was run."""
    driver.gpu(0, limit_w=310)
    (record,) = run({"strategy": "single", "power_limit_w": 5000}, seconds=0.0)
    assert record.status == "failed"
    assert record.notes.startswith("power limit not set: the GPU does not allow")
    assert driver.limit_w(0) == 310


def test_a_window_that_was_too_short_has_no_energy(driver, run) -> None:
    """Ranks that took less time than they said leave the meter without a reading: no energy, and why."""
    driver.gpu(0)
    (record,) = run({"strategy": "single"}, seconds=0.0)
    assert record.status == "ok"
    assert record.energies == ()
    assert record.notes.startswith("energy not measured: the window is too short")
