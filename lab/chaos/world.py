"""A broker, a simulated fleet, two watches with an Alertmanager, the app and a recorder.

Each client is behind a proxy of its own, and Alertmanager is a real one. The broker has the shipped
access list, and each program connects as its user in the list. Two relays send to a top broker with
NATS's list. The watches also have a webhook without a server.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from support.processes.alertmanager import AlertmanagerProcess
from support.processes.mosquitto import MosquittoProcess, free_port
from support.processes.programs import Program, run
from support.processes.proxy import TcpProxy
from support.processes.terminal import Terminal

from lab.brokers.listed import ListedMosquitto, ListedNats, write_mosquitto_list
from lab.brokers.process import HOST, PASSWORD, BrokerProcess
from lab.chaos.received import Receiver
from trnfleet.clock import format_rfc3339

if TYPE_CHECKING:
    from pathlib import Path


CLIENTS = {"simulator": "publisher", "watch-1": "watch", "watch-2": "watch", "app": "viewer"}
"""What is behind a proxy, with its user."""
WATCHES = ("watch-1", "watch-2")
RELAYS = ("relay-1", "relay-2")
CELL = "cell-m"
_TOP_WITHIN_S = 60.0
"""Time until the top shows the fleet after the last disturbance. A returning broker is found within
30 s."""
SECRET = {"TRNFLEET_MQTT_PASSWORD": PASSWORD}
CHIPS = 192
_DISK_MB = 8
_RECORDED_BYTES = 50_000
"""Least size of a readable recording: its header, and some ticks."""
_STEPPED_CLOCK = """\
import pathlib, time
_file, _ns, _seen = pathlib.Path({file!r}), time.time_ns, [0, 0]
def time_ns():
    now = _ns()
    if abs(now - _seen[0]) > 100_000_000:
        _seen[:] = now, int(_file.read_text()) * 1_000_000_000
    return now + _seen[1]
time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9
"""
"""A `sitecustomize` stepping the wall clock of one process. The process reads its clock only
through `trnfleet.clock`. The preloaded library of faketime breaks `time.sleep`: it reads an instant
of the monotonic clock as one of the wall clock."""
_BEGINS_IN_S = 1.0
"""Expected time until a simulator publishes. If it differs, the simulator is restarted with the new
value."""
_MOST_OFF_S = 1.0
"""Error of the fleet's clock unnoticed by rules. Telemetry late by 2 s is lag."""
_MOST_BEGINS = 4
_LONGEST_BEGIN_S = 30.0
_FULL_WITHIN_S = 30.0
"""Time until a recorder has ended after its disk is full. It buffers at most a fraction of a
second."""


class SlowMachineError(Exception):
    """A simulator does not begin in time, so that its fleet's clock would be wrong."""


class World:
    """All processes of a case."""

    def __init__(
        self,
        folder: Path,
        stack: contextlib.ExitStack,
        *,
        records: bool = True,
        published: tuple[str, ...] = (),
    ) -> None:
        self._folder = folder
        self._stack = stack
        self._published = published
        self.broker = MosquittoProcess(folder, f"acl_file {write_mosquitto_list(folder)}")
        self.broker.start()
        stack.callback(self.broker.kill)
        kind = ListedMosquitto if ListedNats.version() is None else ListedNats
        self.top = stack.enter_context(kind(folder))
        self._nobody = f"http://{HOST}:{free_port()}/"
        self.receiver = stack.enter_context(Receiver())
        self.alertmanager = AlertmanagerProcess(folder, self.receiver.url)
        self.alertmanager.start()
        stack.callback(self.alertmanager.kill)
        self.proxies = {name: stack.enter_context(TcpProxy(self.broker.port)) for name in CLIENTS}
        for name in (*CLIENTS, *RELAYS):
            self.step_clock(name, 0)
        self.start_s = float(int(time.time()) + 1)
        """The fleet's start by the wall clock; its scenario, `faults.toml`, is there already."""
        self.programs: dict[str, Program] = {}
        self.why_slow = ""
        """Reason for a wrong fleet time: a simulator's restart was slower than before."""
        self._begins_in_s = _BEGINS_IN_S
        self._begin()
        for name in WATCHES:
            self.start(name)
            # The first of the watches is to lead.
            time.sleep(0.5)
        for name in RELAYS:
            self.start(name)
        app = (
            "monitor",
            *self._broker("app"),
            "--name",
            "demo",
            "--log-file",
            str(folder / "app.log"),
        )
        self.app = stack.enter_context(
            Terminal(
                *app,
                "--past",
                "0",
                PYTHONPATH=self._environment("app")["PYTHONPATH"],
                TRNFLEET_MQTT_PASSWORD=PASSWORD,
            )
        )
        self.disk = self._disk() if records else None
        self.recorder: Program | None = None
        if self.disk is not None:
            where = (
                "record",
                str(self.disk / "fleet.mcap"),
                *self._cell("viewer"),
                "--name",
                "demo",
            )
            self.recorder = stack.enter_context(Program(folder, *where, **SECRET))
        try:
            self.app.wait_for("192", within_s=30)
        except AssertionError as error:
            said = "".join(each.output for each in self.programs.values())
            raise AssertionError(f"{error}\n{said}") from None

    def now_s(self) -> float:
        """Return the seconds since the fleet's start."""
        return time.time() - self.start_s

    def start(self, name: str) -> None:
        """Start a simulator, a watch or a relay."""
        if name == "simulator":
            # What is done to others goes on meanwhile.
            threading.Thread(
                target=self._note_begin, args=self._start_simulator(), daemon=True
            ).start()
            return
        if name in RELAYS:
            self._run(name, *self._relay(self._cell("relay")[1], self._top("relay"), CELL))
            return
        how = ("--name", "demo", "--alertmanager", self.alertmanager.url, "--webhook", self._nobody)
        self._run(name, "watch", *self._broker(name), *how)

    def _run(self, name: str, *arguments: str) -> Program:
        program = Program(self._folder, *arguments, **self._environment(name))
        self.programs[name] = self._stack.enter_context(program)
        return program

    def _start_simulator(self) -> tuple[Program, float]:
        """Start a simulator at the fleet's time after its start, and return it.

        The time of its start is returned, too.
        """
        fleet = ("--scenario", str(self._folder / "faults.toml"), "--client-id", "sim-1")
        start = ("--start", format_rfc3339(round(self.start_s) * 1_000_000_000))
        begun_s = self.now_s()
        jump = ("--jump", f"{max(1.0, begun_s + self._begins_in_s):.2f}s")
        return (
            self._run(
                "simulator",
                "simulate",
                *self._broker("simulator"),
                *fleet,
                *start,
                *jump,
                *self._published,
            ),
            begun_s,
        )

    def _wait_for_simulator(self, program: Program, begun_s: float) -> float:
        """Wait until a simulator publishes, and return the seconds.

        Infinite if it does not.
        """
        while "publishing" not in program.output:
            if program.process.poll() is not None or self.now_s() - begun_s > _LONGEST_BEGIN_S:
                return math.inf
            time.sleep(0.02)
        return self.now_s() - begun_s

    def _begin(self) -> None:
        """Start a simulator with the right fleet time.

        Start another one if it needed longer than the one before.

        Raises:
            SlowMachineError: the time differs on each try.
        """
        took_s = math.inf
        for _ in range(_MOST_BEGINS):
            program, begun_s = self._start_simulator()
            took_s = self._wait_for_simulator(program, begun_s)
            if abs(took_s - self._begins_in_s) <= _MOST_OFF_S:
                return
            program.end(signal.SIGKILL)
            self._begins_in_s = min(took_s, _LONGEST_BEGIN_S)
        raise SlowMachineError(
            f"a simulator took {took_s:.1f} s to begin, and each time another time"
        )

    def _note_begin(self, program: Program, begun_s: float) -> None:
        """Record the fleet's clock error after a simulator's restart."""
        took_s = self._wait_for_simulator(program, begun_s)
        if math.isfinite(took_s) and abs(took_s - self._begins_in_s) > _MOST_OFF_S:
            self.why_slow = (
                f"a simulator took {took_s:.1f} s to begin, and before {self._begins_in_s:.1f} s"
            )

    @property
    def pids(self) -> dict[str, int]:
        """The processes that alerts depend on, by name."""
        return {name: each.process.pid for name, each in list(self.programs.items())}

    def _broker(self, name: str) -> tuple[str, str]:
        return "--broker", f"mqtt://{CLIENTS[name]}@{HOST}:{self.proxies[name].port}"

    def _cell(self, user: str) -> tuple[str, str]:
        return "--broker", f"mqtt://{user}@{HOST}:{self.broker.port}"

    def _top(self, user: str) -> str:
        return f"mqtt://{user}@{HOST}:{self.top.port}"

    def _relay(self, broker: str, to: str, cell: str) -> tuple[str, ...]:
        return ("relay", "--broker", broker, "--name", "demo", "--to", to, "--cell", cell)

    def _environment(self, name: str) -> dict[str, str]:
        folder = self._folder / f"clock-{name}"
        return {
            "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
            **SECRET,
        }

    def step_clock(self, name: str, seconds: int) -> None:
        """Put the wall clock of a process so far before or behind the others'."""
        folder = self._folder / f"clock-{name}"
        folder.mkdir(exist_ok=True)
        file = folder / "seconds"
        new = folder / "new"
        new.write_text(f"{seconds:d}", encoding="utf-8")
        new.replace(file)
        (folder / "sitecustomize.py").write_text(
            _STEPPED_CLOCK.format(file=str(file)), encoding="utf-8"
        )

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a process a signal."""
        if name in self.programs:
            self.programs[name].process.send_signal(number)
        else:
            os.kill(self.app.pid if name == "app" else self._broker_of(name).pid, number)

    def _broker_of(self, name: str) -> MosquittoProcess | BrokerProcess:
        return self.top if name == "top" else self.broker

    def kill(self, name: str) -> None:
        """Kill a process with -9."""
        if name in {"broker", "top"}:
            self._broker_of(name).kill()
        else:
            self.programs[name].end(signal.SIGKILL)

    def revive(self, name: str) -> None:
        """Start a killed process again."""
        if name in {"broker", "top"}:
            self._broker_of(name).start()
        else:
            self.start(name)

    def active(self) -> dict[str, str]:
        """Return the alerts firing in Alertmanager, with their scopes."""
        labels = [each["labels"] for each in self.alertmanager.alerts()]
        return {f"{each['alertname']} {each['target']}": each["scope"] for each in labels}

    def relay_faults(self) -> list[str]:
        """Return the faults of the top, and of a relay closing a ring from there."""
        until = time.monotonic() + _TOP_WITHIN_S
        look = ("--broker", self._top("viewer"), "--name", "demo")
        while True:
            ended = run("status", *look, "--json", TRNFLEET_MQTT_PASSWORD=PASSWORD)
            found = json.loads(ended.stdout) if ended.stdout else {}
            chips = [found.get(key) for key in ("chips", "live_chips", "rolled_chips")]
            relays = [bool(each["active"]) for each in found.get("relays", ())]
            if chips == [CHIPS] * 3 and relays == [True]:
                break
            if time.monotonic() > until:
                return [
                    f"the top shows {chips} chips (all, live, from roll-ups): {ended.stdout}{ended.stderr}"  # noqa: E501
                ]
        ring = run(
            *self._relay(self._top("relay"), self._cell("relay")[1], "back"),
            TRNFLEET_MQTT_PASSWORD=PASSWORD,
        )
        is_refused = ring.returncode == 1 and "a ring of relays" in ring.stderr
        return (
            [] if is_refused else [f"a ring of relays ended with {ring.returncode}: {ring.stderr}"]
        )

    def _disk(self) -> Path | None:
        """Return a disk of a few megabytes, where such a one can be mounted."""
        if os.geteuid() != 0:
            return None
        disk = self._folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs", str(disk)],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            return None
        self._stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
        return disk

    def fill_disk(self) -> None:
        """Leave no byte of the recorder's disk."""
        assert self.disk is not None
        until = time.monotonic() + _FULL_WITHIN_S
        while sum(each.stat().st_size for each in self.disk.iterdir()) < _RECORDED_BYTES:
            assert time.monotonic() < until, "nothing is recorded"
            time.sleep(0.05)
        with (self.disk / "filler").open("wb", buffering=0) as file:
            for size in (65_536, 512, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def check_recorder(self) -> str:
        """Return the recorder's faults at a full disk.

        Empty if none.
        """
        assert self.recorder is not None
        assert self.disk is not None
        try:
            status = self.recorder.process.wait(timeout=_FULL_WITHIN_S)
        except subprocess.TimeoutExpired:
            return f"the recorder goes on {_FULL_WITHIN_S:g} s after its disk was full"
        output = self.recorder.output
        if (
            status != 1
            or os.strerror(errno.ENOSPC).lower() not in output.lower()
            or "Traceback" in output
        ):
            return f"the recorder ended with {status}: {output[-1_000:]}"
        read = run("info", str(self.disk / "fleet.mcap"))
        return (
            ""
            if read.returncode == 0
            else f"the recording cannot be read: {read.stdout}{read.stderr}"
        )
