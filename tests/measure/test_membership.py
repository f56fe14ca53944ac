"""Which job a process belongs to is read from the launcher's variables alone."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError
from wattlaw.measure.membership import membership

TORCHRUN = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "WORLD_SIZE": "4",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
#: As slurmctld 22.05 sets them for ``srun -N2 --ntasks-per-node 2``.
STEP = {
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "3",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_JOB_NUM_NODES": "2",
}
#: As it sets them for the batch script of ``sbatch -N2``, which runs on the first node alone.
BATCH = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "2"}


def other(environ, **changes):
    """The variables of another rank."""
    return {**environ, **changes}


def test_a_process_that_nobody_launched_is_alone():
    """Without a launcher there is no job to share, one node, and this process meters it."""
    found = membership({}, host="n1")
    assert (found.job, found.num_nodes, found.place.meters) == (None, 1, True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TORCHRUN, other(TORCHRUN, RANK="2", GROUP_RANK="1")),
        (STEP, other(STEP, SLURM_PROCID="2", SLURM_NODEID="1")),
    ],
    ids=["torchrun", "slurm"],
)
def test_the_nodes_of_one_job_find_one_another(first, second):
    """The first ranks of two nodes meter under one name, each as a node of its own."""
    here, there = membership(first, host="n1"), membership(second, host="n2")
    assert here.job == there.job
    assert here.num_nodes == there.num_nodes == 2
    assert here.node != there.node
    assert here.place.meters
    assert there.place.meters
    assert here.world_size == 4


def test_the_ranks_of_one_node_share_its_name_and_one_of_them_meters():
    """A node is measured once, not once per rank."""
    ranks = [membership(other(STEP, SLURM_PROCID=rank, SLURM_LOCALID=rank), host="n1") for rank in ("0", "1")]
    assert ranks[0].job == ranks[1].job
    assert ranks[0].node == ranks[1].node
    assert [rank.place.meters for rank in ranks] == [True, False]


def test_jobs_on_two_machines_with_torchruns_default_name_stay_apart():
    """By default torchrun calls a job "none" on port 29500: on one node the host's name tells it from others."""
    alone = other(TORCHRUN, GROUP_WORLD_SIZE="1", WORLD_SIZE="2", MASTER_ADDR="localhost")
    assert membership(alone, host="n1").job != membership(alone, host="n2").job


def test_a_restarted_attempt_is_another_job():
    """What torchrun or Slurm starts again gets a record of its own."""
    again = other(TORCHRUN, TORCHELASTIC_RESTART_COUNT="1")
    assert membership(TORCHRUN, host="n1").job != membership(again, host="n1").job
    assert membership(STEP, host="n1").job != membership(other(STEP, SLURM_RESTART_COUNT="1"), host="n1").job


def test_torchruns_started_by_one_step_each_are_one_job():
    """Nodes whose torchruns were started one by one differ in their Slurm step and are one job all the same."""
    first = {**STEP, **TORCHRUN}
    second = other(first, SLURM_STEP_ID="4", RANK="2", GROUP_RANK="1")
    assert membership(first, host="n1").job == membership(second, host="n2").job


def test_a_batch_script_measures_its_own_node_and_says_so():
    """The script of a job on two nodes runs on one of them: the record must not pass for the whole job's."""
    found = membership(BATCH, host="n1")
    assert found.num_nodes == 1
    assert "only n1 is measured" in found.doubts[0]
    assert membership(other(BATCH, SLURM_JOB_NUM_NODES="1"), host="n1").doubts == ()


def test_nodes_that_nothing_names_are_measured_each_by_itself():
    """Open MPI without a job id gives no name to meet under; WATTLAW_JOB_ID does."""
    mpi = {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "OMPI_COMM_WORLD_SIZE": "4",
    }
    alone = membership(mpi, host="n1")
    assert (alone.job, alone.num_nodes) == (None, 1)
    assert "WATTLAW_JOB_ID" in alone.doubts[0]
    named = membership({**mpi, "WATTLAW_JOB_ID": "night"}, host="n1")
    assert (named.job, named.num_nodes, named.node, named.doubts) == ("night", 2, "n1", ())


def test_a_name_is_safe_as_a_file_name():
    """Whatever a run is called, its name makes no path."""
    assert membership(other(TORCHRUN, TORCHELASTIC_RUN_ID="../a b/c"), host="n1").job == "torchrun-a-b-c-n1-29500"


def test_a_rank_without_a_local_rank_is_refused():
    """Who meters the node would be a guess."""
    with pytest.raises(ConfigError, match="LOCAL_RANK is not"):
        membership({"RANK": "1"}, host="n1")
