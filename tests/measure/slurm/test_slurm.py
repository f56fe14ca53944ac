"""``wattlaw run`` under a real Slurm: one record per job step, one meter per node."""

from __future__ import annotations

import shlex
import sys

import pytest

from wattlaw.run import read_records

pytestmark = pytest.mark.slurm

COMMAND_LINE = "import sys; from wattlaw.cli.run import command as c; sys.exit(c.main(standalone_mode=False))"
JOB = ("srun", "-N2", "--ntasks-per-node=2")


@pytest.fixture
def task(driver, tmp_path):
    """Start a shell line under ``wattlaw run``, on a node with two GPUs of its own, of 100 W each."""
    for node in (0, 1):
        folder = driver.folder / f"node{node}"
        folder.mkdir()
        for gpu in (0, 1):
            lines = f"uuid GPU-{node}{gpu}-fake\nname NVIDIA A100-SXM4-40GB\ntrace 0 100 1000 100\n"
            (folder / f"gpu{gpu}").write_text(lines)
    (tmp_path / "run.py").write_text(COMMAND_LINE)
    store = tmp_path / "records.jsonl"
    script = tmp_path / "task.sh"
    script.write_text(
        f"export LD_LIBRARY_PATH={driver.library.parent} PYTHONPATH={driver.environment()['PYTHONPATH']}\n"
        f"export FAKE_NVML_DIR={driver.folder}/node$SLURM_NODEID\n"
        f'exec {sys.executable} {tmp_path}/run.py -o {store} -- sh -c "$1"\n'
    )
    return store, script


def test_a_step_on_two_nodes_is_one_record_with_every_gpu_once(cluster, task):
    """Two nodes of two ranks: four GPUs at 100 W, counted once each, and the step's name."""
    store, script = task
    done = cluster.run(*JOB, "bash", str(script), "sleep 1.5")
    assert done.returncode == 0, done.stderr
    (record,) = read_records(store)
    assert record.status == "ok"
    assert record.energy("accelerators").energy_j == pytest.approx(400.0 * record.duration_s, rel=0.05)
    assert record.observed["num_nodes"] == 2
    assert record.environment["world_size"] == "4"
    assert sum(name.startswith("device_") for name in record.environment) == 4


def test_one_failing_rank_of_four_fails_the_job(cluster, task):
    """Rank 3 does not meter; its exit code is srun's and the record's."""
    store, script = task
    done = cluster.run(*JOB, "bash", str(script), "sleep 1.2; [ $SLURM_PROCID != 3 ] || exit 9; sleep 0.5")
    assert done.returncode == 9
    (record,) = read_records(store)
    assert (record.status, record.observed["exit_code"], record.notes) == ("failed", 9, "rank 3: exit code 9")


def test_a_step_that_is_cancelled_is_recorded(cluster, task):
    """Slurm ends the tasks with SIGTERM, as at a time limit: each node still writes what it measured."""
    store, script = task
    line = "sleep 1.2; [ $SLURM_PROCID != 0 ] || scancel $SLURM_JOB_ID; sleep 30"
    cluster.run(*JOB, "bash", str(script), line)
    (record,) = read_records(store)
    assert record.status == "failed"
    assert "ended by SIGTERM" in record.notes
    assert record.energy("accelerators").energy_j == pytest.approx(400.0 * record.duration_s, rel=0.1)


def test_a_node_that_is_killed_leaves_a_failed_record_without_energy(cluster, task):
    """One node's meter is killed outright: half an energy is not the job's; the next job of the store records it."""
    store, script = task
    line = "sleep 1.2; [ $SLURM_PROCID != 1 ] || kill -9 $PPID; sleep 0.5"
    cluster.run("srun", "-N2", "--ntasks-per-node=1", "--no-kill", "bash", str(script), line)
    cluster.run("srun", "-N1", "bash", str(script), "sleep 1.2")
    killed, after = read_records(store)
    assert (killed.status, killed.energies) == ("failed", ())
    assert "node 1: killed before it could report" in killed.notes
    assert after.status == "ok"


def test_a_batch_script_measures_its_own_node_and_says_so(cluster, task, tmp_path):
    """A batch script on two nodes runs on the first one."""
    store, script = task
    batch = tmp_path / "batch.sh"
    batch.write_text(f"#!/bin/bash\nSLURM_NODEID=0 bash {shlex.quote(str(script))} 'sleep 1.2'\n")
    done = cluster.run("sbatch", "--wait", "-N2", "-o", str(tmp_path / "log"), str(batch))
    assert done.returncode == 0, (tmp_path / "log").read_text()
    (record,) = read_records(store)
    assert "is measured: start one 'wattlaw run' per node with srun" in record.notes
    assert record.energy("accelerators").energy_j == pytest.approx(200.0 * record.duration_s, rel=0.05)
