"""Many commands at once, forked from one process with the imports done.

A fork takes a fraction of the time of a start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, Self

import psutil

from support.processes.programs import environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Each line of stdin is a request, and each answer a line of stdout.
_LAUNCHER = """
import gc, json, os, resource, signal, sys, time
import trnfleet.services.alerts_client, trnfleet.services.record, trnfleet.services.replay
import trnfleet.services.simulator.publish, trnfleet.services.watch, trnfleet.services.files.rules
from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.cli.main import run
for name in COMMANDS:
    load_command(name)
gc.freeze()
# A shell that starts the tests in the background leaves it ignored, and so would each command.
signal.signal(signal.SIGINT, signal.default_int_handler)
children = {}

def waited_s(pid):
    # The time in which a process was ready and had no processor; 0 where the kernel does not say.
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0.0

while line := sys.stdin.readline():
    request = json.loads(line)
    if "start" in request:
        pid = os.fork()
        if pid == 0:
            output = os.open(request["output"], os.O_CREAT | os.O_WRONLY)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_s"], request["cpu_s"] + 1))
            sys.exit(run(request["start"]))
        children[pid] = request["output"]
        continue
    begun = time.monotonic()
    before = {pid: waited_s(pid) for pid in [*children, "self"]}
    for pid in children:
        os.kill(pid, request["signal"])
    ended = {}
    while children:
        pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        after_s = time.monotonic() - begun
        starved_s = waited_s(pid) - before[pid] + waited_s("self") - before["self"]
        _, status, used = os.wait4(pid, 0)
        busy_s, peak_mb = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        ended[children.pop(pid)] = os.waitstatus_to_exitcode(status), after_s, busy_s, peak_mb, starved_s
    print(json.dumps(ended), flush=True)
"""  # noqa: E501


class Ended(NamedTuple):
    """The end of a command."""

    status: int
    """Exit status; a signal's number below zero for a death by it."""
    after_s: float
    """Time from the signal on."""
    output: str
    busy_s: float
    """Processor time."""
    peak_mb: float
    """Peak memory, including the memory shared at the fork."""
    starved_s: float
    """Part of `after_s` spent ready but without a processor. It counts this process and the one
    waiting for it."""


class ForkedCommands:
    """Commands of the program, started, signalled and awaited together."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(**variables),
            start_new_session=True,
        )

    def start(self, name: str, *arguments: str, cpu_s: int = 600) -> None:
        """Start a command.

        It dies by SIGXCPU after `cpu_s` of processor time.
        """
        output = str(self._folder / f"forked-{len(self._names)}")
        self._names[output] = name
        self._ask({"start": arguments, "output": output, "cpu_s": cpu_s})

    def wait_for(self, said: dict[str, str], within_s: float = 40.0) -> None:
        """Wait until commands, by their names, have printed something."""
        until = time.monotonic() + within_s
        while silent := [name for name, text in said.items() if text not in self.output_of(name)]:
            assert time.monotonic() < until, [(name, self.output_of(name)) for name in silent]
            time.sleep(0.02)

    def wait_connecting(self, within_s: float = 40.0) -> None:
        """Wait until every running command has opened a connection."""
        until = time.monotonic() + within_s
        launcher = psutil.Process(self._process.pid)
        while sum(map(_has_connection, launcher.children())) < len(self._names):
            assert time.monotonic() < until, [
                each for each in launcher.children() if not _has_connection(each)
            ]
            time.sleep(0.02)

    def output_of(self, name: str) -> str:
        """Return a command's output so far."""
        path = next(path for path, each in self._names.items() if each == name)
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123  the name is what the launcher knows
                return file.read()
        except FileNotFoundError:
            return ""

    def end(self, number: signal.Signals = signal.SIGTERM) -> dict[str, Ended]:
        """Send all of them a signal and return, by their names, how they have ended."""
        return self._finish(number)

    def wait(self) -> dict[str, Ended]:
        """Wait until all of them have ended by themselves."""
        return self._finish(0)

    def _finish(self, number: int) -> dict[str, Ended]:
        self._ask({"signal": number})
        assert self._process.stdout is not None
        ended: dict[str, Sequence[float]] = json.loads(self._process.stdout.readline())
        return {
            self._names[path]: Ended(int(status), after_s, self.output_of(self._names[path]), *more)
            for path, (status, after_s, *more) in ended.items()
        }

    def _ask(self, request: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            if self._process.poll() is None:
                # With what it has forked, whose process group is its own.
                os.killpg(self._process.pid, signal.SIGKILL)


def _has_connection(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE or bool(process.net_connections("tcp"))
    except psutil.NoSuchProcess:
        return True
