"""A block of code, metered as one job."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from wattlaw.errors import FileError
from wattlaw.hardware import accelerator
from wattlaw.measure import Reading, measure
from wattlaw.measure.devices import Place
from wattlaw.measure.job import Job
from wattlaw.measure.membership import Membership
from wattlaw.measure.meters.replay import ReplayMeter
from wattlaw.measure.reading import DeviceEnergy
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec, read_records
from wattlaw.workload import Recipe, preset

READING = Reading(
    energies=(
        DeviceEnergy(
            device="GPU-0",
            name="NVIDIA A100-SXM4-40GB",
            boundary="accelerators",
            domain="gpu",
            energy_j=500.0,
            method="counter",
            source="test",
        ),
    ),
    duration_s=5.0,
    requested_s=5.0,
    measured_by="n1",
)
SPEC = RunSpec(
    architecture=preset("bert-base-uncased", head="classification"),
    recipe=Recipe(batch_size=8, seq_len=64, steps=10, precision="fp16"),
    layout=Layout(),
    accelerator=accelerator("a100-sxm4-40gb"),
)


def meter():
    """A meter that tells one reading."""
    return ReplayMeter([READING])


def test_a_block_becomes_one_whole_record(tmp_path):
    """Spec, time, energy and what the block adds are in the store when the block ends."""
    store = tmp_path / "runs" / "r.jsonl"
    with measure(SPEC, output=store, meter=meter()) as job:
        job.observe(tokens_seen=5120)
        job.note("a trial")
    (record,) = read_records(store)
    assert record == job.record
    assert (record.spec, record.status, record.duration_s) == (SPEC, "ok", 5.0)
    assert (record.energies[0].energy_j, record.energies[0].method) == (500.0, "counter")
    assert record.observed["tokens_seen"] == 5120
    assert record.notes == "a trial"
    assert job.reading == READING


def test_without_a_spec_the_record_states_what_the_meter_saw(tmp_path):
    """What was run is unknown and said to be missing; on which GPUs is known."""
    with measure(output=tmp_path / "r.jsonl", meter=meter()) as job:
        pass
    assert job.record.spec is None
    assert job.record.stated == {"hardware": {"gpu": "a100-sxm4-40gb"}}
    assert job.record.missing == ("model", "recipe")


def test_a_block_that_raises_is_recorded_as_failed_with_its_energy(tmp_path):
    """The error goes on as it is; what was spent was spent."""
    store = tmp_path / "r.jsonl"
    with pytest.raises(ZeroDivisionError), measure(SPEC, output=store, meter=meter()):
        _ = 1 / 0
    (record,) = read_records(store)
    assert record.status == "failed"
    assert record.notes == "ZeroDivisionError: division by zero"
    assert record.energies[0].energy_j == 500.0


def test_a_rank_that_does_not_meter_runs_the_block_and_records_nothing(tmp_path):
    """Eight ranks, one record: the seven others leave the store alone."""
    store = tmp_path / "r.jsonl"
    job = Job(store, here=rank(1))
    job.start()
    assert job.finish() is None
    assert (job.meters, job.reading, job.record) == (False, None, None)
    assert not store.exists()


def test_a_rank_that_fails_fails_the_job(tmp_path):
    """The first rank ended well, the second did not: one record, failed, with the second's reason."""
    first, second = Job(tmp_path / "r.jsonl", here=rank(0), meter=meter()), Job(tmp_path / "r.jsonl", here=rank(1))
    first.start()
    second.start()
    second.finish(failure="exit code 3", exit_code=3)
    record = first.finish(exit_code=0)
    assert (record.status, record.notes, record.observed["exit_code"]) == ("failed", "rank 1: exit code 3", 3)


def test_a_failure_that_comes_too_late_is_logged(tmp_path, caplog):
    """The record is written and never changed: the log is what is left."""
    job = Job(tmp_path / "r.jsonl", here=rank(1))
    job.start()
    job.finish(failure="exit code 3")
    assert "failed after the job's record was written" in caplog.text


def test_two_nodes_write_one_record_with_both_energies(tmp_path):
    """Each node has a meter; the last to finish writes for both."""
    other = replace(READING, energies=(replace(READING.energies[0], device="GPU-1", energy_j=700.0),))
    jobs = [
        Job(tmp_path / "r.jsonl", here=rank(2 * node, node=node, num_nodes=2), meter=ReplayMeter([seen]))
        for node, seen in enumerate((READING, other))
    ]
    for job in jobs:
        job.start()
    assert [job.finish() is None for job in jobs] == [True, False]
    (record,) = read_records(tmp_path / "r.jsonl")
    assert record.energies[0].energy_j == 1200.0
    assert "waits for the other nodes" in jobs[0].summary()


def test_a_meter_that_fails_costs_the_energy_and_not_the_record(tmp_path):
    """Whatever a driver does, the run was made: time known, energy unknown, reason told."""

    class Broken:
        def start(self):
            """Do nothing."""

        def stop(self):
            """Fail."""
            raise OSError("driver gone")

    with measure(SPEC, output=tmp_path / "r.jsonl", meter=Broken()) as job:
        pass
    assert (job.record.status, job.record.energies) == ("ok", ())
    assert job.record.duration_s > 0
    assert "driver gone" in job.record.notes


def test_a_store_that_cannot_be_written_is_told_before_the_block(tmp_path):
    """Better at the start than after a week."""
    (tmp_path / "runs").write_text("")
    ran = False
    with pytest.raises((FileError, OSError)), measure(output=tmp_path / "runs" / "r.jsonl", meter=meter()):
        ran = True
    assert not ran


def test_a_record_that_cannot_be_written_at_the_end_stays_in_log_and_part(tmp_path, caplog):
    """The block's result is worth more than its record: no error, and the next job writes it."""
    store = tmp_path / "r.jsonl"
    with measure(SPEC, output=store, meter=meter()):
        store.mkdir()
    assert "not recorded" in caplog.text
    assert "500.0" in caplog.text
    store.rmdir()
    with measure(output=store, meter=meter()) as job:
        pass
    assert [record.spec for record in job.recovered] == [SPEC]
    assert [record.status for record in read_records(store)] == ["ok", "ok"]


KILLED = """
import sys, time
import wattlaw.measure.job
wattlaw.measure.job.RENEW_S = 0.2
with wattlaw.measure.job.measure(output=sys.argv[1], declared_power_w=65.0):
    print("open", flush=True)
    time.sleep(60)
"""


def test_a_job_that_is_killed_leaves_what_it_had_measured(tmp_path):
    """SIGKILL asks nobody: the next job of the store records it, with the energy that was last written down."""
    store = tmp_path / "r.jsonl"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(store)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        (folder,) = tmp_path.glob(".*.open")
        (file,) = folder.rglob("*.json")
        deadline = time.monotonic() + 30
        while json.loads(file.read_text())["reading"] is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    with measure(output=store, meter=meter()) as job:
        pass
    (left,) = job.recovered
    assert left.status == "failed"
    assert "killed before it could report: what it used is known of its first" in left.notes
    assert left.energy("node").energy_j == pytest.approx(65.0 * left.duration_s, rel=0.01)


def test_each_run_logs_one_line(tmp_path, caplog, capsys):
    """One line through logging, nothing on the standard streams."""
    caplog.set_level(logging.INFO, logger="wattlaw")
    with measure(SPEC, output=tmp_path / "r.jsonl", meter=meter()):
        pass
    (record,) = read_records(tmp_path / "r.jsonl")
    assert caplog.messages == [f"{record.record_id} ok: 5 s, accelerators 500 J (counter); in {tmp_path / 'r.jsonl'}"]
    assert capsys.readouterr() == ("", "")


def test_power_that_is_declared_is_labelled(tmp_path):
    """Watts times seconds, on request only, and named for what it is."""
    with measure(output=tmp_path / "r.jsonl", declared_power_w=65.0) as job:
        time.sleep(0.1)
    energy = job.record.energy("node")
    assert energy.method == "declared"
    assert energy.energy_j == pytest.approx(65.0 * job.record.duration_s, rel=0.2)


def rank(number, *, node=0, num_nodes=1):
    """A rank of a job of two ranks per node."""
    place = Place(host=f"n{node}", launcher="torchrun", rank=number, local_rank=number % 2, local_size=2)
    return Membership(place=place, job="job", node=str(node), num_nodes=num_nodes, world_size=2 * num_nodes)
