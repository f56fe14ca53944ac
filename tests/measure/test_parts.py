"""The parts of a job become one record, once, whoever dies in between."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from wattlaw.measure.parts import Part, Parts, RankFailure, new_record_id, origin, record_of
from wattlaw.measure.reading import DeviceEnergy, MeterWarning, Reading
from wattlaw.run import RunRecord, read_records
from wattlaw.run.record import record_to_mapping


def reading(*energies, duration_s=10.0, warnings=()):
    """A reading of devices given as ``(device, boundary, joules)``."""
    return Reading(
        energies=tuple(
            DeviceEnergy(
                device=device,
                name="A100",
                boundary=boundary,
                domain="gpu",
                energy_j=energy_j,
                method=None if energy_j is None else "counter",
                source="test",
            )
            for device, boundary, energy_j in energies
        ),
        duration_s=duration_s,
        requested_s=duration_s,
        measured_by="host",
        warnings=warnings,
    )


def part(node, *energies, num_nodes=2, closed=True, **changes):
    """A part of a job on two nodes."""
    record_id = f"job-{node}"
    made = Part(
        record_id=record_id,
        node=str(node),
        num_nodes=num_nodes,
        host=f"n{node}",
        origin=origin(),
        draft=record_to_mapping(RunRecord(record_id=record_id, source="test")),
        closed=closed,
        reading=reading(*energies) if closed else None,
    )
    return replace(made, **changes)


GPU_0 = ("GPU-0", "accelerators", 100.0)
GPU_1 = ("GPU-1", "accelerators", 30.0)


class TestMerging:
    """``record_of``."""

    def test_energies_of_two_nodes_are_added_and_the_longer_time_counts(self):
        """Two nodes with a GPU each: the joules add up, the time is the longer one."""
        record = record_of([part(0, GPU_0), part(1, GPU_1, reading=reading(GPU_1, duration_s=12.0))])
        assert record.status == "ok"
        assert record.energies[0].energy_j == 130.0
        assert record.duration_s == 12.0
        assert record.observed["num_nodes"] == 2

    def test_a_device_that_two_parts_measured_counts_once(self):
        """Two agents on one machine read the same GPU: its UUID tells."""
        record = record_of([part(0, GPU_0), part(1, GPU_0)])
        assert record.energies[0].energy_j == 100.0

    @pytest.mark.parametrize(
        ("second", "note"),
        [
            ((), "energy of accelerators measured on 1 of 2 nodes"),
            ((("GPU-1", "accelerators", None),), "energy of accelerators measured on 1 of 2 nodes"),
        ],
        ids=["no sensor", "device lost"],
    )
    def test_an_energy_that_one_node_lacks_is_unknown(self, second, note):
        """Half of a job's energy is not its energy."""
        record = record_of([part(0, GPU_0), part(1, *second)])
        assert record.energies == ()
        assert "accelerators_energy_uncertainty_j" not in record.observed
        assert note in record.notes
        assert record.status == "ok"

    def test_other_boundaries_stay_known(self):
        """CPU packages that both nodes measured are kept beside GPUs that one lacks."""
        record = record_of([part(0, GPU_0, ("n0/p", "processors", 5.0)), part(1, ("n1/p", "processors", 6.0))])
        assert record.observed["processors_energy_j"] == 11.0
        assert record.energies == ()

    def test_ranks_whose_devices_the_meter_does_not_see_make_the_energy_unknown(self):
        """A scheduler that shows each rank its own GPU leaves the metering rank with one of them."""
        doubt = MeterWarning(kind="ranks-unmetered", text="2 ranks but 1 visible")
        lone = part(0, num_nodes=1, reading=reading(GPU_0, warnings=(doubt,)))
        record = record_of([lone])
        assert record.energies == ()
        assert "2 ranks but 1 visible" in record.notes

    def test_a_node_that_was_killed_fails_the_job(self):
        """An open part is all that is left of it."""
        record = record_of([part(0, GPU_0), part(1, closed=False)])
        assert record.status == "failed"
        assert record.duration_s == 10.0
        assert record.energies == ()
        assert "node 1: killed" in record.notes

    def test_a_job_that_was_killed_keeps_what_it_had_measured(self):
        """What its only node last wrote down is its energy, for a time that is said; half of two nodes is nothing."""
        record = record_of([part(0, num_nodes=1, closed=False, reading=reading(GPU_0))])
        assert (record.status, record.duration_s) == ("failed", 10.0)
        assert record.energy("accelerators").energy_j == 100.0
        assert "known of its first 10 s only" in record.notes
        assert record_of([part(0, GPU_0), part(1, closed=False, reading=reading(GPU_1))]).energies == ()

    def test_a_node_that_never_came_fails_the_job(self):
        """One part of two is not the job."""
        record = record_of([part(1, GPU_1)])
        assert record.status == "failed"
        assert "1 of 2 nodes reported" in record.notes

    def test_the_rank_that_failed_by_itself_gives_the_exit_code(self):
        """The launcher ended the others with SIGTERM: that is not the cause."""
        ended = part(0, GPU_0, num_nodes=1, status="failed", exit_code=143, reason="ended by SIGTERM")
        record = record_of([ended], [RankFailure(rank=1, reason="exit code 5", exit_code=5)])
        assert record.observed["exit_code"] == 5
        assert record.notes == "ended by SIGTERM; rank 1: exit code 5"

    def test_an_exit_code_is_told_only_if_every_node_told_its_own(self):
        """0 from one node says nothing about one that was killed."""
        record = record_of([part(0, GPU_0, exit_code=0), part(1, closed=False)])
        assert "exit_code" not in record.observed
        assert record_of([part(0, GPU_0, num_nodes=1, exit_code=0)]).observed["exit_code"] == 0

    def test_ten_nodes_stand_in_the_order_of_their_numbers(self):
        """Node 2 comes before node 10: the record is the first node's."""
        assert record_of([part(10, GPU_0), part(2, GPU_1)]).record_id == "job-2"


class TestFiles:
    """``Parts``."""

    def test_whoever_closes_last_writes_the_record(self, tmp_path):
        """The first to close writes nothing, the last one all, and nothing is left of the parts."""
        parts = Parts(tmp_path / "r.jsonl")
        for node in (0, 1):
            parts.put("job", part(node, closed=False))
        parts.put("job", part(1, GPU_1))
        assert parts.finish("job") is None
        parts.put("job", part(0, GPU_0))
        record = parts.finish("job")
        assert read_records(tmp_path / "r.jsonl") == (record,)
        assert list((tmp_path / ".r.jsonl.open").iterdir()) == []

    def test_two_that_close_at_once_write_one_record(self, tmp_path):
        """Both see all parts: one claims them, the other finds nothing."""
        parts = Parts(tmp_path / "r.jsonl")
        for node, gpu in ((0, GPU_0), (1, GPU_1)):
            parts.put("job", part(node, gpu))
        assert [parts.finish("job") is None, parts.finish("job") is None] == [False, True]
        assert len(read_records(tmp_path / "r.jsonl")) == 1

    def test_a_living_job_is_left_alone(self, tmp_path):
        """Its process runs: recovery takes nothing away."""
        parts = Parts(tmp_path / "r.jsonl")
        parts.put("job", part(0, closed=False, num_nodes=1))
        assert parts.recover() == []
        assert not (tmp_path / "r.jsonl").exists()

    def test_a_killed_job_is_recorded_as_failed_once(self, tmp_path):
        """The process that wrote the part is gone: the next one to come records it."""
        parts = Parts(tmp_path / "r.jsonl")
        parts.put("job", part(0, closed=False, num_nodes=1, origin=origin_of_the_dead()))
        (record,) = parts.recover()
        assert (record.status, record.duration_s, record.energies) == ("failed", None, ())
        assert parts.recover() == []
        assert read_records(tmp_path / "r.jsonl") == (record,)

    def test_a_part_of_another_machine_is_dead_when_nobody_renews_it(self, tmp_path):
        """Process numbers of other machines mean nothing here: the age of the file tells."""
        parts = Parts(tmp_path / "r.jsonl")
        path = parts.put("job", part(0, closed=False, num_nodes=1, origin="other/boot/pid/1"))
        assert parts.recover() == []
        os.utime(path, (0, 0))
        assert [record.status for record in parts.recover()] == ["failed"]

    def test_a_job_waits_for_its_living_nodes(self, tmp_path):
        """One node was killed, another still works: the record must wait for what that one measures."""
        parts = Parts(tmp_path / "r.jsonl")
        parts.put("job", part(0, closed=False, origin=origin_of_the_dead()))
        parts.put("job", part(1, closed=False))
        assert parts.recover() == []
        parts.put("job", part(1, GPU_1))
        assert parts.finish("job") is None
        (record,) = parts.recover()
        assert "node 0: killed" in record.notes

    @pytest.mark.parametrize("written", [True, False])
    def test_a_merge_that_was_killed_is_made_good_and_never_twice(self, tmp_path, written):
        """Killed between claim and deletion: the record is there afterwards, exactly once."""
        parts = Parts(tmp_path / "r.jsonl")
        parts.put("job", part(0, GPU_0, num_nodes=1))
        if written:
            parts.finish("job")
            parts.put("job", part(0, GPU_0, num_nodes=1))
        folder = tmp_path / ".r.jsonl.open"
        claimed = (folder / "job").rename(folder / "job.claimed.00000000")
        assert parts.recover() == []
        os.utime(claimed, (0, 0))
        assert len(parts.recover()) == (0 if written else 1)
        assert [record.record_id for record in read_records(tmp_path / "r.jsonl")] == ["job-0"]

    def test_what_a_former_job_of_the_same_name_left_is_recorded_apart(self, tmp_path):
        """A default name such as torchrun's comes again: the killed attempt must not be mixed with the new one."""
        parts = Parts(tmp_path / "r.jsonl")
        parts.put("job", part(0, closed=False, record_id="old", origin=origin_of_the_dead()))
        parts.put("job", part(1, closed=False, record_id="new"))
        left = parts.recover_node("job", "0")
        assert (left.record_id, left.status) == ("old", "failed")
        parts.put("job", part(0, GPU_0))
        parts.put("job", part(1, GPU_1))
        assert parts.finish("job").status == "ok"

    def test_a_failure_after_the_record_is_refused(self, tmp_path):
        """There is no folder to leave word in: the caller is told."""
        parts = Parts(tmp_path / "r.jsonl")
        assert not parts.put_failure("job", RankFailure(rank=1, reason="exit code 1"))

    def test_nothing_was_run_leaves_nothing(self, tmp_path):
        """A command that could not be started leaves no part to recover."""
        parts = Parts(tmp_path / "r.jsonl")
        parts.put("job", part(0, closed=False, num_nodes=1))
        parts.drop("job", "0")
        assert list((tmp_path / ".r.jsonl.open").iterdir()) == []

    def test_a_foreign_file_stops_nothing(self, tmp_path):
        """Rubbish in the folder is passed over."""
        parts = Parts(tmp_path / "r.jsonl")
        parts.put("job", part(0, GPU_0, num_nodes=1))
        (tmp_path / ".r.jsonl.open" / "job" / "x.json").write_text("{")
        assert parts.finish("job").energies[0].energy_j == 100.0


def test_record_ids_do_not_repeat():
    """Jobs that start in one second are told apart."""
    assert len({new_record_id() for _ in range(100)}) == 100


def origin_of_the_dead():
    """The origin of a process on this machine that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f"{origin().rpartition('/')[0]}/{process.pid}"
