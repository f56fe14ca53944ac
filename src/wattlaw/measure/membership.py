"""Which job a process belongs to, and which of the job's nodes it stands on.

The ranks of a job share no memory and, here, no network: they find one another by the name that their launcher gave
the job, in the folder beside the store. The functions are pure; they read the launcher's variables and ask nobody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from wattlaw.measure.devices import Place, place

#: Names the job where no launcher does; the same on every rank.
JOB_VARIABLE = "WATTLAW_JOB_ID"
#: Set for everything that runs inside of a metered command: the id of the command's own record.
INSIDE_VARIABLE = "WATTLAW_INSIDE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A process's place in its job.

    Attributes:
        place: host and ranks.
        job: a name that all processes of the job know and no other running job has; ``None`` where nothing names it.
        node: this node among those of the job, the same for all ranks on it.
        num_nodes: nodes whose readings make the job's record; 1 where this process's node is measured by itself.
        world_size: processes of the job, if that is known.
        inside: the id of the metered command that this process is part of.
        doubts: what the record must say about its scope.
    """

    place: Place
    job: str | None = None
    node: str = "0"
    num_nodes: int = 1
    world_size: int | None = None
    inside: str | None = None
    doubts: tuple[str, ...] = ()


def membership(environ: Mapping[str, str] | None = None, *, host: str | None = None) -> Membership:
    """Tell from the launcher's variables which job and node this process belongs to.

    Raises:
        ConfigError: the process has a rank but no local rank, so that it cannot be told who meters the node.

    >>> ranks = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1"}
    >>> found = membership({**ranks, "TORCHELASTIC_RUN_ID": "r7", "MASTER_PORT": "29500"}, host="n2")
    >>> found.num_nodes, found.node, found.job
    (2, '1', 'torchrun-r7-29500')
    """
    environ = os.environ if environ is None else environ
    here = place(environ, host=host)
    world_size = _world_size(environ, here)
    num_nodes = _num_nodes(environ, here, world_size)
    job = _job(environ, here)
    doubts: list[str] = []
    if num_nodes is None or (num_nodes > 1 and job is None):
        doubts.append(f"only {here.host} is measured: nothing names the job on its other nodes, {JOB_VARIABLE} would")
        num_nodes = 1
    elif here.launcher == "slurm" and "SLURM_STEP_ID" not in environ and _number(environ, "SLURM_JOB_NUM_NODES") > 1:
        doubts.append(f"only {here.host} is measured: start one 'wattlaw run' per node with srun to measure all")
    if job is not None and num_nodes == 1:
        # Two nodes that run a job each may give it the same name: torchrun's default is "none" on port 29500.
        job = f"{job}-{_plain(here.host)}"
    node = environ.get({"torchrun": "GROUP_RANK", "slurm": "SLURM_NODEID"}.get(here.launcher or "", ""), "")
    return Membership(
        place=here,
        job=job,
        node=(_plain(node) or _plain(here.host)) if num_nodes > 1 else "0",
        num_nodes=num_nodes,
        world_size=world_size,
        inside=environ.get(INSIDE_VARIABLE) or None,
        doubts=tuple(doubts),
    )


#: Launcher -> its variable for the number of processes.
_WORLD_SIZES = {
    "torchrun": "WORLD_SIZE",
    "open mpi": "OMPI_COMM_WORLD_SIZE",
    "mpich": "PMI_SIZE",
    "slurm": "SLURM_STEP_NUM_TASKS",
}


def _world_size(environ: Mapping[str, str], here: Place) -> int | None:
    return _number(environ, _WORLD_SIZES.get(here.launcher or "", "")) or None


def _num_nodes(environ: Mapping[str, str], here: Place, world_size: int | None) -> int | None:
    """Count the nodes on which a process like this one runs; ``None`` if that cannot be told."""
    if here.launcher is None:
        return 1
    if here.launcher == "slurm":
        # A batch script stands on the first of the job's nodes alone; only a step runs on several.
        return _number(environ, "SLURM_STEP_NUM_NODES") or 1
    told = _number(environ, "GROUP_WORLD_SIZE") if here.launcher == "torchrun" else 0
    if told:
        return told
    if world_size is None or world_size == 1:
        return 1
    if here.local_size is None or world_size % here.local_size:
        return None
    return world_size // here.local_size


def _job(environ: Mapping[str, str], here: Place) -> str | None:
    """Put together what names the job: the scheduler's number, the launcher's, and which attempt it is."""
    parts: list[str] = []
    if named := environ.get(JOB_VARIABLE):
        parts.append(named)
    if slurm := environ.get("SLURM_JOB_ID"):
        # A torchrun job may be spread over one step per node, so that its ranks differ in their step.
        step = environ.get("SLURM_STEP_ID") if here.launcher == "slurm" else None
        parts += ["slurm", slurm if step is None else f"{slurm}.{step}"]
        parts += [f"again{again}"] if (again := _number(environ, "SLURM_RESTART_COUNT")) else []
    if here.launcher == "torchrun" and "MASTER_PORT" in environ:
        parts += ["torchrun", *(environ[name] for name in _TORCHRUN_NAMES if environ.get(name))]
        parts += [f"again{again}"] if (again := _number(environ, "TORCHELASTIC_RESTART_COUNT")) else []
    elif here.launcher == "open mpi" and (namespace := environ.get("PMIX_NAMESPACE")):
        parts += ["mpi", namespace]
    if here.launcher is None and JOB_VARIABLE not in environ:
        return None
    return "-".join(_plain(part) for part in parts) or None


_TORCHRUN_NAMES = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")


def _plain(text: str) -> str:
    """Keep what is safe in a file's name on any system."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:60]


def _number(environ: Mapping[str, str], name: str) -> int:
    """Read a count; what is absent, or no count, is 0: a scheduler's text is no reason to fail."""
    text = environ.get(name, "").strip()
    return int(text) if text.isdigit() else 0
