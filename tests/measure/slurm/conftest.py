"""A real Slurm of two pretended nodes on this machine, for as long as the tests of this folder take.

It needs slurmctld, slurmd, slurm-client and munge (Debian's names) and root; where they are absent the tests are
skipped with that reason. Nothing outside of a temporary folder is configured.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "munged")
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")


def pytest_configure(config):
    """Name the marker where it is used."""
    config.addinivalue_line("markers", "slurm: needs Slurm's daemons and root")


@dataclass
class Cluster:
    """Two nodes of two CPUs."""

    config: Path

    def run(self, *arguments, **environ):
        """Run one of Slurm's commands to its end."""
        return subprocess.run(
            arguments,
            env={**os.environ, "SLURM_CONF": str(self.config), **environ},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def wait_until_idle(self):
        """Wait for both nodes."""
        for _ in range(100):
            if self.run("sinfo", "--noheader", "-o", "%t %D").stdout.split() == ["idle", "2"]:
                return
            time.sleep(0.1)
        pytest.fail("the nodes did not come up")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Start the daemons, and stop them afterwards."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"no Slurm here: {', '.join(missing) or 'its daemons need root'}")
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("one cluster per machine: pytest tests/measure/slurm, without -n")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("ctld", "n1", "n2"):
        (folder / name).mkdir()
    config = folder / "slurm.conf"
    config.write_text(_configuration(folder))
    started_munge = _start_munge()
    found = Cluster(config=config)
    try:
        for daemon in (["slurmctld"], ["slurmd", "-N", "n1"], ["slurmd", "-N", "n2"]):
            done = found.run(*daemon)
            assert done.returncode == 0, done.stderr
        found.wait_until_idle()
        yield found
        # What a step has to report must find somebody to report to, or its daemon stays.
        found.wait_until_idle()
    finally:
        for name in ("n1", "n2", "ctld"):
            _stop(folder / f"{name}.pid")
        if started_munge:
            _stop(MUNGE_SOCKET.with_name("munged.pid"))


def _configuration(folder):
    host, (control, *nodes) = socket.gethostname().split(".")[0], _free_ports(3)
    return f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={nodes[0]} CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={nodes[1]} CPUs=2 RealMemory=1000
PartitionName=cpu Nodes=ALL Default=YES State=UP
"""


def _free_ports(count):
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _start_munge():
    if MUNGE_SOCKET.exists():
        return False
    MUNGE_SOCKET.parent.mkdir(exist_ok=True)
    shutil.chown(MUNGE_SOCKET.parent, "munge", "munge")
    subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", shutil.which("munged")], check=True)
    return True


def _stop(pid_file):
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(pid_file.read_text()), signal.SIGTERM)
