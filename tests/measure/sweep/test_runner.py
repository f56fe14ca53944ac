"""The parent of a sweep, with ranks that need no torch."""

from __future__ import annotations

import os
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from wattlaw.errors import ConfigError, DataError, FileError, MeterError
from wattlaw.measure.reading import DeviceEnergy, Reading
from wattlaw.measure.sweep import PoolError, Stop, run_sweep, stop_on_signals
from wattlaw.measure.sweep.metering import first_devices, same_device
from wattlaw.measure.sweep.surroundings import describe_machine
from wattlaw.run import read_records

SINGLE = {"strategy": "single"}
DDP = {"strategy": "ddp", "num_devices": 2}


class Watch:
    """Remembers the progress, and may act on it."""

    def __init__(self, act=lambda _: None) -> None:
        self.seen = []
        self._act = act

    def __call__(self, progress) -> None:
        """Remember."""
        self.seen.append(progress)
        self._act(progress)


@pytest.fixture
def run(tmp_path, fake_rank):
    """A function that runs a sweep with fake ranks; returns the result and the records."""

    def run_it(sweep, **options):
        result = run_sweep(sweep, tmp_path, rank_command=fake_rank, **options)
        path = result.folder / "records.jsonl"
        return result, read_records(path) if path.exists() else ()

    return run_it


def test_every_run_is_one_record(build_sweep, run) -> None:
    """Each planned run has one record, in order, with times, spread, steps and no energy that nobody measured."""
    sweep = build_sweep({"num_layers": [1, 2], **SINGLE}, {"num_layers": [1, 2], **DDP}, control=SINGLE)
    result, records = run(sweep)
    assert [record.record_id for record in records] == [planned.record_id for planned in sweep.runs]
    assert (result.num_ok, result.num_left, result.failed, result.stopped) == (len(sweep.runs), 0, {}, False)
    for record in records:
        assert record.energies == ()
        assert record.observed["step_s"] == 0.01
        assert record.observed["num_steps"] == record.spec.recipe.steps == 8
        assert record.duration_s == pytest.approx(record.observed["num_steps"] * record.observed["step_s"])
        assert record.observed["warmup_steps"] == 3
        assert record.environment["threads_per_rank"] == "1"
    assert {record.environment["role"] for record in records} == {"sample", "control"}


def test_a_divided_run_states_its_loss_check(build_sweep, run) -> None:
    """Runs on several devices say how far their loss was from one device's; runs on one have nothing to say."""
    _, records = run(build_sweep(SINGLE, DDP))
    checks = {record.spec.layout.strategy: record.observed.get("loss_check_difference_fraction") for record in records}
    assert checks == {"single": None, "ddp": 1e-7}


def test_a_wrong_loss_is_refused_with_the_reason(build_sweep, run, monkeypatch) -> None:
    """All runs of a kind whose loss differs are recorded as failed and never measured; other kinds run."""
    monkeypatch.setenv("FAKE_RANK_WRONG", "bert")
    result, records = run(build_sweep({"num_layers": [1, 2], **DDP}, SINGLE))
    refused = [record for record in records if record.status == "failed"]
    assert len(refused) == result.failed["refused"] == 2
    assert all("its loss differs from the loss on one device by 0.01" in record.notes for record in refused)
    assert all("step_s" not in record.observed and record.duration_s is None for record in refused)
    assert result.num_ok == 1


@pytest.mark.parametrize(
    ("num_layers", "reason"), [(7, "rank died"), (9, "out of memory"), (10, "not measured"), (8, "time-out")]
)
def test_a_failure_is_recorded_and_the_sweep_goes_on(build_sweep, run, num_layers, reason) -> None:
    """A rank that dies, memory that runs out, a loss that is no number, a time-out: recorded, and the rest runs."""
    sweep = build_sweep({"num_layers": [1, num_layers, 2], **DDP}, measuring={"timeout_s": 1.0})
    result, records = run(sweep)
    failed = [record for record in records if record.status == "failed"]
    assert [record.spec.architecture.num_layers for record in failed] == [num_layers]
    assert failed[0].notes.startswith(reason)
    assert (result.num_ok, result.failed) == (2, {reason: 1})


def test_resume_skips_what_is_recorded(build_sweep, run) -> None:
    """A sweep that was cut off is completed to the same set, and nothing is measured twice."""
    sweep = build_sweep({"num_layers": list(range(1, 7)), **SINGLE})
    stop = Stop()
    first, _ = run(sweep, stop=stop, watch=Watch(lambda progress: progress.num_done == 2 and stop.ask()))
    assert (first.num_ok, first.num_left, first.stopped) == (2, 4, True)
    second, records = run(sweep, resume=True)
    assert (second.num_before, second.num_ok, second.num_left) == (2, 4, 0)
    assert sorted(record.record_id for record in records) == sorted(run.record_id for run in sweep.runs)
    third, _ = run(sweep, resume=True)
    assert (third.num_before, third.num_ok) == (6, 0)


def test_a_record_that_was_cut_short_is_made_again(build_sweep, run, tmp_path) -> None:
    """Half a line at the end of the file is no record: it is measured again and the others are kept."""
    sweep = build_sweep({"num_layers": [1, 2, 3], **SINGLE})
    run(sweep)
    path = tmp_path / "tested" / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-200])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, records = run(sweep, resume=True)
    assert (result.num_before, result.num_ok) == (2, 1)
    assert {record.record_id for record in records} == {planned.record_id for planned in sweep.runs}


def test_records_are_not_mixed_by_accident(build_sweep, run) -> None:
    """A second start without ``resume`` is refused, and the records are left as they were."""
    sweep = replace(build_sweep(SINGLE), text="seed = 1")
    result, before = run(sweep)
    with pytest.raises(ConfigError, match="--resume"):
        run(replace(sweep, text="seed = 2"))
    assert (result.folder / "sweep.toml").read_text() == "seed = 1"
    assert run(sweep, resume=True)[1] == before


def test_ctrl_c_finishes_the_running_configuration(build_sweep, run) -> None:
    """One SIGINT in the middle: the running configuration is recorded, no other starts, handlers come back."""
    sweep = build_sweep({"num_layers": list(range(1, 7)), **SINGLE})
    told: list[str] = []
    handler = signal.getsignal(signal.SIGINT)
    with stop_on_signals(lambda: told.append("told")) as stop:
        act = Watch(lambda progress: progress.num_done == 1 and os.kill(os.getpid(), signal.SIGINT))
        result, records = run(sweep, stop=stop, watch=act)
    assert told == ["told"]
    assert len(records) == result.num_ok == 1
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_or_sigterm_stops_at_once(number) -> None:
    """The second SIGINT, or the first SIGTERM, raises where the program stands."""
    with stop_on_signals() as stop:
        stop.asked = number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_a_time_limit_starts_no_other_configuration(build_sweep, run) -> None:
    """After the time that is given nothing is started, and what is left is told."""
    result, records = run(build_sweep({"num_layers": [1, 2], **SINGLE}), max_duration_s=0.0)
    assert records == ()
    assert (result.num_left, result.stopped) == (2, True)


class FakeMeter:
    """Counts 5 J per second of a window of 2 s."""

    shortest_window_s = 1.0

    def __init__(self, error: MeterError | None = None) -> None:
        self.windows = 0
        self._error = error

    def start(self) -> None:
        """Open."""
        self.windows += 1

    def stop(self) -> Reading:
        """Close."""
        if self._error is not None:
            raise self._error
        energy = DeviceEnergy(device="GPU-0", name="GPU", boundary="accelerators", domain="gpu", energy_j=10.0,
                              method="counter", source="a counter")  # fmt: skip
        return Reading(energies=(energy,), duration_s=2.0, requested_s=2.0)

    def cancel(self) -> None:
        """Nothing is left open."""

    def states(self) -> tuple:
        """Nothing is told."""
        return ()


def test_a_meter_s_energy_is_recorded_and_its_window_is_long_enough(build_sweep, run) -> None:
    """One window per run, as long as the meter needs, and its energy with boundary, method and source."""
    meters = {}
    sweep = build_sweep(SINGLE, DDP)
    _, records = run(sweep, meter_of=lambda count: meters.setdefault(count, FakeMeter()))
    assert {count: meter.windows for count, meter in meters.items()} == {1: 1, 2: 1}
    for record in records:
        (energy,) = record.energies
        assert (energy.energy_j, energy.boundary, energy.method, energy.source) == (
            10.0, "accelerators", "counter", "a counter",
        )  # fmt: skip
        # The meter asks for a second, the steps take 0.01 s, and there is a margin.
        assert record.observed["num_steps"] == 130
        assert record.spec.recipe.steps == 130


def test_a_meter_that_fails_leaves_the_time(build_sweep, run) -> None:
    """Without an energy the record has its times, no zero, and says why."""
    _, (record,) = run(build_sweep(SINGLE), meter_of=lambda _: FakeMeter(MeterError("the counter is gone")))
    assert record.status == "ok"
    assert record.energies == ()
    assert "energy not measured: the counter is gone" in record.notes


def test_ranks_that_never_start_end_the_sweep(build_sweep, run, monkeypatch) -> None:
    """A machine on which no rank starts is an error and not three hundred failed configurations."""
    monkeypatch.setenv("FAKE_RANK_BROKEN", "1")
    with pytest.raises(PoolError, match="exit code 1"):
        run(build_sweep({"num_layers": [1, 2, 3], **SINGLE}))


def test_a_text_outside_of_the_vocabulary_is_refused(build_sweep, run, tmp_path) -> None:
    """Tokens that the model has no row for, and files that hold no tokens, are refused before anything starts."""
    text = tmp_path / "text.txt"
    text.write_text("1 2 3 100")
    with pytest.raises(DataError, match="0 to 99"):
        run(build_sweep(SINGLE, measuring={"tokens": str(text)}))
    text.write_text("one two")
    with pytest.raises(FileError, match="not a file of token numbers"):
        run(build_sweep(SINGLE, measuring={"tokens": str(text)}))


def test_another_gpu_is_not_recorded_under_this_name() -> None:
    """What the driver calls the device must be the stated one, by any of its exact names."""
    same_device("NVIDIA A100-SXM4-40GB", ("a100",), "a100")
    with pytest.raises(ConfigError, match="another accelerator"):
        same_device("NVIDIA A100-SXM4-40GB", ("a100",), "NVIDIA H200")


def test_only_the_configuration_s_devices_are_metered() -> None:
    """Two of the visible GPUs, in the user's order, by the driver's numbering."""
    assert first_devices({}, 2)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert first_devices({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}, 1)["CUDA_VISIBLE_DEVICES"] == "GPU-b"


def test_the_machine_is_described_without_its_name(tmp_path) -> None:
    """Processor and governor are read where they can be, and left out where not; the host's name is not told."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nmodel name : Slow CPU 1\ncpu MHz : 1234.5\n")
    described = describe_machine(cpuinfo=cpuinfo, governor=tmp_path / "absent")
    assert (described["cpu_model"], described["cpu_clock_mhz"]) == ("Slow CPU 1", "1234.5")
    assert "cpu_governor" not in described
    assert os.uname().nodename not in described.values()


def test_the_sweep_file_stays_beside_its_records(run, tmp_path) -> None:
    """The folder of the records says what was asked for."""
    from wattlaw.measure.sweep import read_sweep

    example = Path(__file__).resolve().parents[3] / "examples" / "cpu_sweep.toml"
    result, _ = run(read_sweep(example), max_duration_s=0.0)
    assert (result.folder / "sweep.toml").read_text() == example.read_text()
    assert result.folder == tmp_path / "cpu_sweep"
