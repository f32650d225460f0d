"""Killed and stopped processes, while hardware of the fleet is faulty: Alertmanager must end up with the faults' alerts and no others."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from support.chaos.cases import Case, ChaosError
from support.processes.alertmanager import AlertmanagerProcess
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program
from support.processes.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

DISTURBANCES = 6
SETTLE_S = 90.0
"""Longest time after the last disturbance until alerts are right: a broker that comes back is found again after up to 30 s."""
QUIET_S = 15.0
_OWN = {"pipeline", "publisher"}
"""Scopes of alerts about the way of the data, which disturbances do cause."""


class Seen(NamedTuple):
    """What came of a case."""

    disturbances: list[str]
    alerts: list[str]
    settled_s: float

    def __str__(self) -> str:
        return f"{', '.join(self.disturbances)}: right after {self.settled_s:.0f} s: {', '.join(self.alerts)}"


class _World:
    """A broker, a simulated fleet with faults, a watch with an Alertmanager, and the app."""

    def __init__(self, folder: Path, faulty: list[str], stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.broker = MosquittoProcess(folder)
        self.broker.start()
        stack.callback(self.broker.kill)
        self.alertmanager = AlertmanagerProcess(folder)
        self.alertmanager.start()
        stack.callback(self.alertmanager.kill)
        faults = "".join(
            f'[[faults]]\nfault = "link_down"\ntarget = "{each}:east"\nat = "1s"\nfor = "12h"\n'
            for each in faulty
        )
        (folder / "faults.toml").write_text(f'title = "Faults"\nfleet = "demo"\n{faults}', encoding="utf-8")
        url = str(self.broker.url)
        more = ("--broker", url, "--name", "demo")
        self._commands = {
            "simulator": (
                "simulate",
                "--broker",
                url,
                "--scenario",
                str(folder / "faults.toml"),
                "--client-id",
                "sim-1",
            ),
            "watch": ("watch", *more, "--alertmanager", self.alertmanager.url),
        }
        self.running = {name: self._start(name) for name in self._commands}
        self.app = stack.enter_context(
            Terminal("monitor", *more, "--log-file", str(folder / "app.log"), "--past", "0")
        )
        self.app.wait_for("192", within_s=60)

    def _start(self, name: str) -> Program:
        return self._stack.enter_context(Program(self._folder, *self._commands[name]))

    def disturb(self, random: Random) -> str:
        """Do one thing to one process, and return what it was."""
        target = random.choice(("broker", "simulator", "watch", "app"))
        if target in self.running and random.random() < 0.5:
            self.running[target].end(signal.SIGKILL)
            self.running[target] = self._start(target)
            return f"{target} killed"
        if target == "broker" and random.random() < 0.5:
            self.broker.restart()
            return "broker killed"
        pid = {"broker": lambda: self.broker.pid, "app": lambda: self.app.pid}.get(target)
        number = self.running[target].process.pid if pid is None else pid()
        seconds = random.choice((2, 5, 12))
        os.kill(number, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(number, signal.SIGCONT)
        return f"{target} stopped for {seconds} s"

    def alerts(self) -> set[str]:
        """Return Alertmanager's alerts of hardware and jobs, each as its rule and target."""
        labels = [each["labels"] for each in self.alertmanager.alerts()]
        return {f"{each['alertname']} {each['target']}" for each in labels if each["scope"] not in _OWN}


def run_case(case: Case, folder: Path, disturbances: int = DISTURBANCES) -> Seen:
    """Disturb processes, then wait until the alerts are those of the faults.

    Raises:
        ChaosError: a fault's alert is missing, one was invented, or a process has ended.
    """
    random = case.random()
    folder.mkdir(parents=True, exist_ok=True)
    servers = random.sample(
        [f"uc1/us-000{server}/trn2u-000{server}-{place}" for server in (1, 2) for place in range(4)], 2
    )
    faulty = [f"{each}/chip{random.randrange(16):02d}" for each in servers]
    wanted = {f"link-down {each}" for each in servers}
    with contextlib.ExitStack() as stack:
        world = _World(folder, faulty, stack)
        _settle(case, world, wanted, "before anything was disturbed")
        done = []
        for _ in range(disturbances):
            done.append(world.disturb(random))
            time.sleep(random.uniform(1, 4))
        # What the last one might have caused would fire by now.
        time.sleep(QUIET_S)
        begun = time.monotonic()
        _settle(case, world, wanted, f"after {done}")
        settled_s = time.monotonic() - begun
        for name, program in world.running.items():
            if program.process.poll() is not None or "Traceback" in program.output:
                raise ChaosError(case, f"after {done}: {name} has ended: {program.output[-2_000:]}")
        world.app.wait_for("192", "all live", within_s=SETTLE_S)
        return Seen(done, sorted(world.alerts()), settled_s)


def _settle(case: Case, world: _World, wanted: set[str], when: str) -> None:
    """Wait until the alerts of the faults fire, and none about places without a fault."""
    until = time.monotonic() + SETTLE_S
    places = tuple(each.partition(" ")[2] for each in wanted)
    while True:
        found = world.alerts()
        missing = wanted - found
        # A fault may cost its job and its UltraServer something as well; no other instance.
        invented = {
            each
            for each in found - wanted
            if "/trn2u-" in each and not each.partition(" ")[2].startswith(places)
        }
        if not missing and not invented:
            return
        if time.monotonic() > until:
            raise ChaosError(case, f"{when}: missing {sorted(missing)}, invented {sorted(invented)}")
        time.sleep(0.5)
