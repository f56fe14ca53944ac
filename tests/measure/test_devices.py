"""Visible devices, and who of a job's processes meters."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.measure.devices import Gpu, place, ranks_unmetered, visible_gpus

FOUR = [
    Gpu(index=0, uuid="GPU-8932f937-d72c", name="A100"),
    Gpu(index=1, uuid="GPU-89aa0000-1111", name="A100"),
    Gpu(index=2, uuid="GPU-c0ffee00-2222", name="A100", slices=("MIG-5a5a", "MIG-6b6b")),
    Gpu(index=3, uuid="GPU-d00d0000-3333", name="A100"),
]


def seen(asked: str | None) -> list[int]:
    """Return the driver's indices of the visible devices, in the process's order."""
    return [device.gpu.index for device in visible_gpus(FOUR, asked).devices]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("  ", []),
        ("0,1", [0, 1]),
        ("3,0", [3, 0]),
        (" 2 , 1 ", [2, 1]),
        ("GPU-8932f937-d72c", [0]),
        ("GPU-8932", [0]),
        ("GPU-d00d,GPU-c0ff", [3, 2]),
        ("MIG-5a5a", [2]),
        ("MIG-5a5a,MIG-6b6b", [2, 2]),
        ("MIG-GPU-c0ffee00-2222/1/0", [2]),
        ("-1", []),
        ("none", []),
        ("NoDevFiles", []),
        ("0,-1,1", [0]),
    ],
)
def test_visible_devices_are_resolved_as_cuda_does(asked: str | None, expected: list[int]) -> None:
    """Integers, UUIDs, beginnings of UUIDs, both forms of MIG ids, and the ways to say none."""
    assert seen(asked) == expected


@pytest.mark.parametrize("asked", ["0,9,1", "0,GPU-ffff,1", "0,MIG-GPU-ffff/1/0,1", "0,x"])
def test_unknown_entry_ends_the_list_with_a_warning(asked: str) -> None:
    """CUDA ignores an unknown device and all after it, in silence; we say so."""
    visible = visible_gpus(FOUR, asked)
    assert [device.gpu.index for device in visible.devices] == [0]
    assert [warning.kind for warning in visible.warnings] == ["device-unknown"]


def test_ambiguous_beginning_is_an_error() -> None:
    """A beginning that fits two UUIDs names neither."""
    with pytest.raises(UnknownNameError, match="GPU-8932f937-d72c"):
        seen("GPU-89")


@pytest.mark.parametrize("asked", ["1,1", "1,GPU-89aa", "MIG-5a5a,MIG-5a5a"])
def test_device_listed_twice_is_an_error(asked: str) -> None:
    """CUDA shows no device at all then, so a reading of one would be of somebody else's work."""
    with pytest.raises(ConfigError, match="twice"):
        seen(asked)


def test_two_slices_are_one_gpu() -> None:
    """Slices of one GPU have one meter, which is read once."""
    visible = visible_gpus(FOUR, "MIG-5a5a,MIG-6b6b")
    assert [device.slice_uuid for device in visible.devices] == ["MIG-5a5a", "MIG-6b6b"]
    assert [gpu.index for gpu in visible.gpus] == [2]


def test_numbers_among_unlike_gpus_are_doubtful_without_the_bus_order() -> None:
    """CUDA numbers the fastest GPU first unless told otherwise, and NVML by the bus."""
    unlike = [Gpu(index=0, uuid="GPU-a", name="T4"), Gpu(index=1, uuid="GPU-b", name="A100")]
    assert [warning.kind for warning in visible_gpus(unlike, "0").warnings] == ["device-order"]
    assert visible_gpus(unlike, "0", order="PCI_BUS_ID").warnings == ()
    assert visible_gpus(unlike, "GPU-a").warnings == ()
    assert visible_gpus(unlike, None).warnings == ()


@pytest.mark.parametrize(
    ("environ", "launcher", "rank", "local_rank", "size"),
    [
        ({}, None, None, None, None),
        ({"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, "torchrun", 5, 1, 4),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, "open mpi", 2, 0, None),
        ({"PMI_RANK": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, "mpich", 3, 1, 2),
        ({"SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}, "slurm", 6, 2, 4),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "??"}, "slurm", 0, 0, None),
        # torchrun started by srun: the inner launcher numbers the processes.
        (
            {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "RANK": "3", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"},
            "torchrun", 3, 3, 4,
        ),
    ],
)  # fmt: skip
def test_place_follows_the_launcher(
    environ: dict[str, str], launcher: str | None, rank: int | None, local_rank: int | None, size: int | None
) -> None:
    """Each launcher's variables are understood, and nonsense in them is no reason to fail."""
    here = place(environ, host="n1")
    assert (here.launcher, here.rank, here.local_rank, here.local_size) == (launcher, rank, local_rank, size)
    assert here.meters == (local_rank in (None, 0))


def test_rank_without_local_rank_is_refused() -> None:
    """If each rank took itself for the node's first, the node would be counted once per rank."""
    with pytest.raises(ConfigError, match="RANK is set but LOCAL_RANK is not"):
        place({"RANK": "1"}, host="n1")


def test_place_names_host_and_rank() -> None:
    """Readings say who measured."""
    assert str(place({"RANK": "5", "LOCAL_RANK": "1"}, host="n2")) == "n2 rank 5"
    assert str(place({}, host="n2")) == "n2"


def test_devices_of_the_other_ranks_are_missed_with_a_warning() -> None:
    """One GPU per rank, bound by the scheduler: the metering rank sees its own only."""
    four_ranks = place({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "4"}, host="n1")
    (warning,) = ranks_unmetered(four_ranks, visible_gpus(FOUR, "0"))
    assert warning.kind == "ranks-unmetered"
    assert FOUR[0].uuid in warning.text
    assert ranks_unmetered(four_ranks, visible_gpus(FOUR, "0,1,2,3")) == ()
    assert ranks_unmetered(four_ranks, visible_gpus(FOUR[:1], None)) == ()
