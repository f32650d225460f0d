"""The shipped prolog and epilog under a real Slurm: slurmctld, slurmd and munge of one node."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from support.paths import ROOT
from support.processes.mosquitto import free_port

from trnfleet.bridge.host.job_mapping import read_job_mapping
from trnfleet.bridge.neuron.fields import Doubts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trnfleet.bridge.neuron.telemetry import Holder

MISSING = (
    "SLURM MISSING: run as root and install slurmctld, slurmd, slurm-client and munge (.ci/programs"
    " slurm); the shipped prolog and epilog were not tried"
)
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel")
_CONFIG = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
Prolog={folder}/prolog
Epilog={folder}/epilog
NodeName={host} NodeAddr=127.0.0.1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Yield a function that runs Slurm's commands; `tmp_path/jobs` is the mapping directory."""
    if os.geteuid() or not all(map(shutil.which, _PROGRAMS)):
        pytest.skip(MISSING)
    host = socket.gethostname().partition(".")[0]
    for kind in ("prolog", "epilog"):
        script = tmp_path / kind
        script.write_text(
            f"#!/bin/sh\nTRNFLEET_JOB_MAPPING={tmp_path}/jobs TRNFLEET_DEVICES=16"
            f" exec {ROOT}/config/slurm/{kind}.sh\n"
        )
        script.chmod(0o755)
    (tmp_path / "state").mkdir()
    (tmp_path / "slurm.conf").write_text(
        _CONFIG.format(host=host, controller=free_port(), daemon=free_port(), folder=tmp_path)
    )
    (tmp_path / "munge.key").write_bytes(secrets.token_bytes(1024))
    (tmp_path / "munge.key").chmod(0o600)
    environment = os.environ | {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    munge = [
        f"--{name}={tmp_path}/munge.{name.partition('-')[0]}"
        for name in ("key-file", "socket", "pid-file", "log-file", "seed-file")
    ]

    def command(*arguments: str) -> str:
        done = subprocess.run(
            arguments, check=False, env=environment, capture_output=True, text=True, timeout=30
        )
        return done.stdout

    with contextlib.ExitStack() as stack, (tmp_path / "daemons.log").open("wb") as log:
        for daemon in (
            ["munged", "--force", "--foreground", *munge],
            ["slurmctld", "-D"],
            ["slurmd", "-D"],
        ):
            process = stack.enter_context(
                subprocess.Popen(daemon, env=environment, stdout=log, stderr=log)
            )
            stack.callback(process.terminate)
            if daemon[0] == "munged":
                wait_until((tmp_path / "munge.socket").exists)
        wait_until(lambda: "idle" in command("sinfo", "--noheader"))
        yield command


def wait_until(holds: Callable[[], object], within_s: float = 60.0) -> None:
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_job_has_all_devices_of_its_node_until_it_ends(
    slurm: Callable[..., str], tmp_path: Path
) -> None:
    """A file that a crash has left is replaced, and one of another job stays at the end."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "3").write_text("99\n")
    devices = {device: device for device in range(16)}

    def holders() -> tuple[Holder, ...]:
        return read_job_mapping(folder, devices, Doubts())

    number = slurm("sbatch", "--parsable", "--output=/dev/null", "--wrap=exec sleep 120").strip()
    wait_until(lambda: len(holders()[0].chips) == 16)
    [holder] = holders()
    assert (holder.name, holder.source, holder.chips) == (number, "job-mapping", frozenset(devices))
    assert holder.since is not None
    (folder / "5").write_text("100\n")
    slurm("scancel", number)
    wait_until(lambda: {each.name for each in holders()} == {"100"})
    assert [path.name for path in folder.iterdir()] == ["5"]
