"""Services as under systemd: real processes, broker and notification socket."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import pytest
from support.paths import ROOT
from support.processes.notify_socket import NotifySocket
from support.processes.programs import Program

from trnfleet.cli.command_table import load_command

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

SERVICES = ("agent", "bridge", "record", "scrape", "simulate", "watch")
UNITS = sorted((ROOT / "config" / "systemd").glob("*.service"))
WATCHDOG_USEC = "400000"


class Service:
    """A command with a notification socket and a watchdog."""

    def __init__(self, folder: Path, *arguments: str, is_abstract: bool = False) -> None:
        self.channel = NotifySocket(None if is_abstract else folder)
        self.program = Program(
            folder, *arguments, NOTIFY_SOCKET=self.channel.address, WATCHDOG_USEC=WATCHDOG_USEC
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.__exit__()
        self.channel.close()


def test_services_are_ready_when_connected_and_outlive_their_broker(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """Services report readiness and status, and feed the watchdog even without the broker.

    The status then has the reason.
    """
    broker = ("--broker", str(mosquitto.url))
    with ExitStack() as stack:
        simulator = stack.enter_context(Service(tmp_path, "simulate", *broker, is_abstract=True))
        simulator.channel.wait_for("READY=1")
        simulator.channel.wait_for("STATUS=192 chips, 1 tick")
        recorder = stack.enter_context(
            Service(tmp_path, "record", str(tmp_path / "a.mcap"), *broker)
        )
        watch = stack.enter_context(Service(tmp_path, "watch", *broker))
        services = (simulator, recorder, watch)
        for each in (recorder, watch):
            each.channel.wait_for("READY=1")
        watch.channel.wait_for("STATUS=leader; 192 chips, 0 firing alerts")
        mosquitto.kill()
        for each in services:
            each.channel.wait_for("STATUS=no connection: ")
            each.channel.wait_for("WATCHDOG=1")
        mosquitto.start()
        for each in services:
            assert each.program.end() == 0, each.program.output
            each.channel.wait_for("STOPPING=1")


def test_a_service_that_holds_still_does_not_feed_its_watchdog(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    with Service(tmp_path, "simulate", "--broker", str(mosquitto.url)) as service:
        service.channel.wait_for("WATCHDOG=1")
        service.program.process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        service.channel.read()
        time.sleep(2 * int(WATCHDOG_USEC) / 1e6)
        assert service.channel.read() == []
        service.program.process.send_signal(signal.SIGCONT)
        service.channel.wait_for("WATCHDOG=1")


def test_every_unit_runs_a_command_that_reports_to_its_manager() -> None:
    """Units wait for READY and have a watchdog; commands and settings exist in the program."""
    assert [unit.name for unit in UNITS] == [f"trnfleet-{name}@.service" for name in SERVICES]
    for unit, name in zip(UNITS, SERVICES, strict=True):
        text = unit.read_text(encoding="utf-8")
        lines = text.splitlines()
        assert {"Type=notify", "DynamicUser=yes", "ProtectSystem=strict", "WatchdogSec=60"} <= set(
            lines
        )
        assert f"trnfleet {name}" in next(line for line in lines if line.startswith("ExecStart="))
        named = set(re.findall(r"TRNFLEET_[A-Z_]+(?==)", text))
        assert named <= {each.envvar for each in load_command(name).params}


def test_systemd_understands_every_line_of_the_units(tmp_path: Path) -> None:
    """An unknown key or a wrong value is a line of its output."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed: the units are not verified")
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8")
        # It looks for programs in systemd's path.
        text = text.replace("ExecStart=trnfleet", "ExecStart=env trnfleet")
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    command = (program, "verify", "--man=no", *map(str, tmp_path.iterdir()))
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_the_agent_reads_its_host_and_writes_its_queue() -> None:
    """It sees devices, /proc and the journal; sysfs is read-only, memory and CPU are limited."""
    lines = set((UNITS[0]).read_text(encoding="utf-8").splitlines())
    assert {
        "DeviceAllow=char-neuron rw",
        "SupplementaryGroups=systemd-journal",
        "ProtectKernelTunables=yes",
        "StateDirectory=trnfleet/agent-%i",
        "Environment=TRNFLEET_QUEUE=%S/trnfleet/agent-%i/queue",
        "MemoryMax=512M",
        "CPUQuota=100%",
        "Restart=always",
    } <= lines
    assert lines & {"PrivateDevices=yes", "ProcSubset=pid", "ProtectProc=invisible"} == set()


def test_a_service_that_cannot_connect_never_says_that_it_is_ready(tmp_path: Path) -> None:
    """Systemd then starts it again later."""
    with Service(tmp_path, "watch", "--broker", "mqtt://127.0.0.1:1") as service:
        assert service.program.process.wait(timeout=20) == 1
        assert service.channel.read() == []
