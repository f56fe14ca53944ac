"""Which devices a process sees, by UUID, and which process of a job is the one that meters.

NVML lists every GPU of the machine; a job uses those that ``CUDA_VISIBLE_DEVICES`` leaves it. The functions here
are pure: they take the environment and the list of GPUs, and ask no driver.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.measure.reading import MeterWarning


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU as the driver lists it.

    Attributes:
        index: the driver's index (order of the PCI bus).
        uuid: ``GPU-...``.
        slices: UUIDs of its MIG devices, ``MIG-...``; empty without MIG.
    """

    index: int
    uuid: str
    name: str
    pci_bus_id: str = ""
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleGpu:
    """One device as the process sees it.

    Attributes:
        position: what the process calls it (``cuda:0`` is 0).
        gpu: the physical GPU.
        asked: the entry of ``CUDA_VISIBLE_DEVICES``; ``None`` if the variable is not set.
        slice_uuid: the MIG device, if only a slice is visible.
    """

    position: int
    gpu: Gpu
    asked: str | None = None
    slice_uuid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """The devices that a process sees, and what is doubtful about the list."""

    devices: tuple[VisibleGpu, ...]
    warnings: tuple[MeterWarning, ...] = ()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The distinct physical GPUs behind the devices."""
        return tuple({device.gpu.uuid: device.gpu for device in self.devices}.values())


#: Entries that stand for "no device"; CUDA ignores what follows them.
_NO_DEVICE = {"-1", "none", "nodevfiles", "void"}


def visible_gpus(gpus: Sequence[Gpu], asked: str | None, *, order: str | None = None) -> Visible:
    """Resolve ``CUDA_VISIBLE_DEVICES`` the way CUDA does.

    Args:
        gpus: all GPUs of the machine, by their driver index.
        asked: the variable: integers, UUIDs or unique beginnings of UUIDs, MIG ids; empty means no device,
            ``None`` (not set) means all.
        order: ``CUDA_DEVICE_ORDER``; CUDA's integers are the driver's only under ``PCI_BUS_ID``, or if all GPUs
            are of one kind.

    Returns:
        The visible devices in the process's order. As in CUDA an entry that names no device ends the list;
        a warning then says what was left out.

    Raises:
        UnknownNameError: an entry begins more than one UUID.
        ConfigError: a device is named twice, for which CUDA shows none.

    >>> two = [Gpu(index=0, uuid="GPU-aa", name="A100"), Gpu(index=1, uuid="GPU-bb", name="A100")]
    >>> [device.gpu.uuid for device in visible_gpus(two, "1,0").devices]
    ['GPU-bb', 'GPU-aa']
    >>> visible_gpus(two, "").devices
    ()
    """
    if asked is None:
        return Visible(devices=tuple(VisibleGpu(position=place, gpu=gpu) for place, gpu in enumerate(gpus)))
    devices: list[VisibleGpu] = []
    warnings: list[MeterWarning] = []
    entries = [entry.strip() for entry in asked.split(",")] if asked.strip() else []
    for entry in entries:
        if entry.lower() in _NO_DEVICE:
            break
        found = _find(gpus, entry)
        if found is None:
            text = f"CUDA_VISIBLE_DEVICES={asked}: {entry!r} is no device here, so CUDA ignores it and what follows"
            warnings.append(MeterWarning(kind="device-unknown", text=text))
            break
        gpu, slice_uuid = found
        devices.append(VisibleGpu(position=len(devices), gpu=gpu, asked=entry, slice_uuid=slice_uuid))
    named = [device.slice_uuid or device.gpu.uuid for device in devices]
    if len(set(named)) < len(named):
        raise ConfigError("a device is listed twice, so that CUDA shows none", given=f"CUDA_VISIBLE_DEVICES={asked}")
    by_number = any(entry.isdigit() for entry in entries)
    if by_number and order != "PCI_BUS_ID" and len({gpu.name for gpu in gpus}) > 1:
        text = "GPUs of several kinds are chosen by number: CUDA_DEVICE_ORDER=PCI_BUS_ID or UUIDs make sure which"
        warnings.append(MeterWarning(kind="device-order", text=text))
    return Visible(devices=tuple(devices), warnings=tuple(warnings))


def _find(gpus: Sequence[Gpu], entry: str) -> tuple[Gpu, str | None] | None:
    """Find the GPU, and the slice of it, that one entry names."""
    if entry.isdigit():
        return next(((gpu, None) for gpu in gpus if gpu.index == int(entry)), None)
    if entry.startswith("MIG-GPU-"):
        # The form of drivers before R470: MIG-<UUID of the GPU>/<instance>/<compute instance>.
        uuid = entry.removeprefix("MIG-").split("/")[0]
        return next(((gpu, entry) for gpu in gpus if gpu.uuid == uuid), None)
    known = {gpu.uuid: (gpu, None) for gpu in gpus} | {mig: (gpu, mig) for gpu in gpus for mig in gpu.slices}
    matches = [uuid for uuid in known if uuid == entry] or [uuid for uuid in known if uuid.startswith(entry)]
    if len(matches) > 1:
        raise UnknownNameError.among("GPU; the beginning fits several", entry, matches, hint="more of the UUID")
    return known[matches[0]] if matches else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process stands in its job.

    Attributes:
        launcher: who numbered the processes; ``None`` outside of a job.
        rank: among all processes of the job.
        local_rank: among those of this node.
        local_size: how many there are on this node, if that is known.
    """

    host: str
    launcher: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    local_size: int | None = None

    @property
    def meters(self) -> bool:
        """Whether this process is the one of its node that meters: a node is measured once, not once per rank."""
        return self.local_rank in (None, 0)

    def __str__(self) -> str:
        return self.host if self.rank is None else f"{self.host} rank {self.rank}"


#: Launcher -> its variables for rank, local rank and local size, the innermost launcher first: torchrun may run
#: inside mpirun inside srun.
_LAUNCHERS = {
    "torchrun": ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "open mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "mpich": ("PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "slurm": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
}


def place(environ: Mapping[str, str] | None = None, *, host: str | None = None) -> Place:
    """Tell from the launcher's variables where this process stands.

    Raises:
        ConfigError: the process has a rank but no local rank, so that it cannot be told who meters the node.

    >>> place({"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, host="n2").meters
    False
    """
    environ = os.environ if environ is None else environ
    host = socket.gethostname() if host is None else host
    for launcher, (rank_name, local_name, size_name) in _LAUNCHERS.items():
        rank, local_rank = _whole(environ.get(rank_name)), _whole(environ.get(local_name))
        if rank is None and local_rank is None:
            continue
        if local_rank is None:
            raise ConfigError(
                f"{rank_name} is set but {local_name} is not: which rank meters this node is unknown",
                given=f"{rank_name}={rank}",
                hint=f"set {local_name}, or start the ranks with torchrun",
            )
        size = _whole(environ.get(size_name, "").split("(")[0])
        return Place(host=host, launcher=launcher, rank=rank, local_rank=local_rank, local_size=size)
    return Place(host=host)


def _whole(text: str | None) -> int | None:
    """Read a number out of a scheduler's variable; whatever else is in there is no number, and no reason to fail."""
    return int(text) if text is not None and text.strip().isdigit() else None


def ranks_unmetered(here: Place, visible: Visible) -> tuple[MeterWarning, ...]:
    """Warn if the metering rank sees fewer devices than its node has ranks: the others' would not be measured."""
    restricted = any(device.asked is not None for device in visible.devices)
    if not restricted or here.local_size is None or here.local_size <= len(visible.devices):
        return ()
    text = (
        f"{here.local_size} ranks on this node but {len(visible.devices)} visible to the one that meters: "
        f"only {', '.join(gpu.uuid for gpu in visible.gpus)} is measured"
    )
    return (MeterWarning(kind="ranks-unmetered", text=text),)
