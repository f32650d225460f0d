"""Trouble of a real host, and what is said of it when: `make hosts SCENE=hang`.

Two fake hosts of 16 chips, fed by a simulator, are on a real Mosquitto: an agent each, a watch, a
recorder, and the app three times, in terminals of 120x40: Fleet, the hierarchy, Alerts. A scene
does something to the first host. The table has the seconds after each deed at which a message came,
or a line of a screen appeared or went.
"""

# ruff: noqa: T201  the table goes to the terminal

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from support.ec2_account import block, part, reading
from support.paths import ROOT
from support.processes.alertmanager import AlertmanagerProcess
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import COMMAND, environment
from support.processes.terminal import Terminal

from lab.hosts.__main__ import FLEET_FILE, TRUTH, Hosts, Programs, until
from trnfleet.bridge.ec2.service import Bridge
from trnfleet.bridge.host.job_mapping import FOLDER
from trnfleet.domain.metrics import BY_NAME
from trnfleet.errors import WireError
from trnfleet.wire.frames import Unit
from trnfleet.wire.messages import Descriptor, decode_message
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.hosts.fake import FakeHost
    from trnfleet.wire.ports import Envelope

FLEET = "lab"
HOST = "uc2/standalone/trn2-0001"
PERIOD_S = 5.0
_ERRORS = "mem_ecc_uncorrected"
_NUMBERS = re.compile(r"[0-9][0-9.,:]*")
_FIGURES = re.compile("[┤┄]|──|mean|now NC util|msg/s|-[0-9]m|^\\[ ]|^no |^. Fleet|^health")
"""Lines with charts and figures of the moment."""


class Stage:
    """Everything that a scene needs, and the lines of its table."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, period_s: float) -> None:
        self.folder = folder
        self.period_s = period_s
        self.has_screens = False
        self.truth = MosquittoProcess(folder)
        self.broker = MosquittoProcess(folder)
        for broker in (self.truth, self.broker):
            broker.start()
            stack.callback(broker.stop)
        self.url = f"mqtt://127.0.0.1:{self.broker.port}"
        self.programs = Programs(folder)
        stack.callback(self.programs.end)
        file = folder / "truth.toml"
        file.write_text(FLEET_FILE.format(name=TRUTH, count=2, last=2))
        truth = f"mqtt://127.0.0.1:{self.truth.port}"
        self.programs.start(
            "truth",
            *("simulate", "--fleet", str(file), "--broker", truth, "--period", f"{period_s:g}s"),
        )
        self.hosts = Hosts(folder)
        self.hosts.truth.listen(self.truth.port)
        stack.callback(self.hosts.truth.end)
        until(lambda: len(self.hosts.by_path) == 2, 60, "two hosts from the truth")
        self.recording = folder / "scene.mcap"
        self.counts: Counter[str] = Counter()
        """Messages by class since the deed."""
        self._lines: list[tuple[float, str, str]] = []
        self._told: set[str] = set()
        self._unit: Unit | None = None
        """Layout of the host's telemetry; None before its descriptor."""
        self._shown: dict[str, dict[str, str]] = {}
        """Lines of each screen, by what stays of them where figures change."""
        self._began_s = time.monotonic()
        self._client = self._listen()
        stack.callback(self._client.loop_stop)
        self._start("record", "record", str(self.recording))
        self._start("watch", "watch", "--stdout")
        for path in sorted(self.hosts.by_path):
            self.start_agent(path)
        self.screens = {
            name: stack.enter_context(
                Terminal("monitor", "--broker", self.url, "--name", FLEET, columns=120, rows=40)
            )
            for name in ("Fleet", "Hierarchy", "Alerts")
        }
        for terminal, keys in zip(self.screens.values(), ("1", "2", "8"), strict=True):
            terminal.wait_for("32 chips", within_s=120)
            terminal.send(keys)
        self._is_over = threading.Event()
        stack.callback(self._is_over.set)
        threading.Thread(target=self._watch_screens, daemon=True).start()

    def _start(self, name: str, command: str, *arguments: str, path: Path | None = None) -> None:
        self.programs.start(
            name, command, "--broker", self.url, "--name", FLEET, *arguments, path=path
        )

    @property
    def fake(self) -> FakeHost:
        """The host of the scene."""
        return self.hosts.by_path[HOST]

    def publish(self, envelope: Envelope) -> None:
        """Publish a message beside the hosts."""
        self._client.publish(envelope.topic, envelope.payload, envelope.qos, envelope.retain)

    def restart_watch(self, *arguments: str) -> None:
        """Start the watch again with more arguments."""
        process = self.programs.running["watch"]
        process.terminate()
        process.wait()
        self._start("watch", "watch", "--stdout", *arguments)

    def show(self, name: str, view: str, key: str) -> None:
        """Show another view on a screen."""
        self.screens[name].send(key)
        # Another thread goes through them.
        self.screens = {
            view if former == name else former: terminal
            for former, terminal in self.screens.items()
        }

    def start_agent(self, path: str, *, address: str = "") -> None:
        """Start the agent of a host."""
        fake = self.hosts.by_path[path]
        self._start(
            f"agent-{path[-4:]}",
            *("agent", "--period", f"{self.period_s:g}s", "--path", address or path),
            *("--host-root", str(fake.root), "--imds", "none"),
            *("--queue", str(self.folder / f"queue-{path[-4:]}")),
            path=fake.programs,
        )

    def kill_agent(self) -> None:
        """Kill the host's agent with -9."""
        process = self.programs.running[f"agent-{HOST[-4:]}"]
        process.kill()
        process.wait()

    def _listen(self) -> mqtt.Client:
        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        client.reconnect_delay_set(1, 1)
        client.on_message = lambda _client, _data, message: self._see(message)
        client.on_connect = lambda client, *_: client.subscribe(f"trnfleet/v1/{FLEET}/#", 1)
        client.connect("127.0.0.1", self.broker.port)
        client.loop_start()
        return client

    def _see(self, message: mqtt.MQTTMessage) -> None:
        with contextlib.suppress(WireError):
            topic = parse_topic(message.topic)
            kind = topic.topic_class
            self.counts[kind] += 1
            if topic.path == HOST:
                self._count_errors(kind, bytes(message.payload))
            if kind in {TopicClass.TELEMETRY, TopicClass.BACKLOG}:
                self.note(kind, f"first of {topic.path}", f"{kind} {topic.path}")
                return
            text = _summary(kind, topic.path, bytes(message.payload))
            if text:
                self.note(kind, text)

    def _count_errors(self, kind: str, payload: bytes) -> None:
        """Note the host's uncorrectable HBM errors in its telemetry."""
        if kind == TopicClass.NODE and payload:
            self._unit = Unit.of(decode_message(payload, Descriptor))
        elif kind == TopicClass.TELEMETRY and self._unit is not None:
            codes = self._unit.codes(self._unit.decode(payload)).get(_ERRORS)
            count = 0 if codes is None else np.nansum(BY_NAME[_ERRORS].decode(codes))
            if count:
                self.note("broker", f"sum of {_ERRORS} in telemetry is {count:.0f}")

    def note(self, where: str, text: str, key: str = "") -> None:
        """Add a line to the table, unless it has it already."""
        key = key or f"{where} {text}"
        if key not in self._told:
            self._told.add(key)
            self._lines.append((time.monotonic() - self._began_s, where, text))

    def _watch_screens(self) -> None:
        log = self.folder / "watch.log"
        read = 0
        while not self._is_over.wait(0.1):
            for name, terminal in self.screens.items():
                shown = {_key(text): text for text in map(_words, terminal.lines) if text}
                before = self._shown.get(name, {})
                for key in shown.keys() - before.keys():
                    self.note(name, f"+ {shown[key]}", f"{name} + {key}")
                for key in before.keys() - shown.keys():
                    self.note(name, f"- {before[key]}", f"{name} - {key}")
                self._shown[name] = shown
            lines = log.read_text().splitlines()
            for line in lines[read:]:
                if line.startswith("{"):
                    told = json.loads(line)
                    self.note(
                        "notified", f"{told.get('status', told.get('state'))}: {told['summary']}"
                    )
            read = len(lines)

    def deed(self, text: str) -> None:
        """Print the table of the last deed; the time of the next one begins."""
        self.print()
        self.clear()
        print(f"\n== {text}", flush=True)

    def clear(self) -> None:
        """Begin an empty table."""
        self._lines.clear()
        self._told.clear()
        self.counts.clear()
        self._began_s = time.monotonic()

    def print_hops(self, pattern: str) -> None:
        """Print the first line of each place that has a pattern."""
        hops: dict[str, tuple[float, str]] = {}
        for at_s, where, text in sorted(self._lines):
            if re.search(pattern, text):
                hops.setdefault(where, (at_s, text))
        print("\n-- hops")
        for where, (at_s, text) in hops.items():
            print(f"{at_s:7.1f}  {where:12} {text}"[:120])

    def print(self) -> None:
        """Print the lines since the last deed."""
        for at_s, where, text in sorted(self._lines):
            print(f"{at_s:7.1f}  {where:10} {text}"[:170])
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        if counts:
            print(f"         messages: {counts}", flush=True)

    def info(self) -> None:
        """Print what the recording has."""
        ended = subprocess.run(
            [*COMMAND, "info", str(self.recording)],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        print(ended.stdout, flush=True)

    def wait(self, seconds: float) -> None:
        """Let time pass, and print the screens."""
        time.sleep(seconds)
        if self.has_screens:
            for name, terminal in self.screens.items():
                print("\n".join((f"--- {name}", *terminal.lines)), flush=True)


def _summary(kind: str, path: str, payload: bytes) -> str:
    """Return a message in a few words; empty for one that says nothing new."""
    if not payload:
        return f"cleared {path}"
    message = json.loads(payload)
    if kind == TopicClass.EVENT:
        return f"{message['name']} {message['path']}: {message['text']}"
    if kind == TopicClass.PUBLISHER:
        problems = "; ".join(message.get("problems", ()))
        return f"{message['client']} {message['state']} {problems}"
    if kind == TopicClass.NODE:
        spec = message["instances"][0]
        return f"{path} {spec['ec2_id']} LNC {spec['lnc']}, boot {message['boot'][:4]}"
    if kind == TopicClass.JOB:
        return f"{message['job']} {message['state']}"
    if kind == TopicClass.ALERT:
        return f"{message['state']} {message['severity']} {message['rule']} {message['target']}"
    return ""


def _words(line: str) -> str:
    """Return a line of a screen without charts; empty if it only has figures, or is no finding."""
    text = " ".join(re.sub(r"[\u2800-\u28ff▁▂▃▄▅▆▇█]", "", line).split())
    return "" if _FIGURES.search(text) or not re.search("[a-z]{3}", text) else text


def _key(text: str) -> str:
    return re.sub(r"(# ?(ms|s|m|min|h|d)?\b ?)+", "# ", _NUMBERS.sub("#", text))


def kill_agent(stage: Stage) -> None:
    """The agent is killed, and started again after a minute."""
    stage.deed("agent killed with -9")
    stage.kill_agent()
    stage.wait(60)
    stage.deed("agent started again")
    stage.start_agent(HOST)
    stage.wait(60)


def kill_monitor(stage: Stage) -> None:
    """neuron-monitor is killed, later it ends at once for 40 s."""
    stage.deed("neuron-monitor killed with -9")
    stage.fake.kill_monitor()
    stage.wait(30)
    stage.deed("neuron-monitor ends at every start")
    stage.fake.break_monitor()
    stage.wait(60)
    stage.deed("neuron-monitor can start")
    stage.fake.mend_monitor()
    stage.wait(75)


def hang(stage: Stage) -> None:
    """Chip 5 does not answer."""
    stage.deed("device 5 hangs")
    stage.fake.hang(5)
    stage.wait(60)
    stage.deed("device 5 answers")
    stage.fake.unhang(5)
    stage.wait(60)


def reload(stage: Stage) -> None:
    """The driver is unloaded, and loaded with LNC 1 instead of 2."""
    stage.deed("driver unloaded")
    stage.fake.unload()
    stage.wait(30)
    stage.deed("driver loaded with LNC 1")
    stage.fake.load(1)
    stage.wait(75)


def replace(stage: Stage) -> None:
    """The instance dies, and another one has its path; then another one with a new path."""
    stage.deed("instance gone")
    stage.kill_agent()
    stage.wait(45)
    stage.deed("another instance, same path")
    stage.fake.replace("i-0aaaaaaaaaaaaaaaa")
    stage.start_agent(HOST)
    stage.wait(60)
    stage.deed("instance gone again")
    stage.kill_agent()
    stage.wait(45)
    stage.deed("another instance, new path")
    stage.fake.replace("i-0bbbbbbbbbbbbbbbb")
    stage.start_agent(HOST, address="uc2/standalone/trn2-0009")
    stage.wait(90)


def away(stage: Stage, seconds: float = 60.0) -> None:
    """The broker is away for a minute."""
    stage.deed(f"broker stopped, for {seconds:g} s")
    stage.broker.stop()
    stage.wait(seconds)
    stage.deed("broker started")
    stage.broker.start()
    stage.wait(120)


def away_long(stage: Stage) -> None:
    """The broker is away for 20 minutes, more than the queue's 15."""
    away(stage, 20 * 60.0)


def job(stage: Stage) -> None:
    """The loop of docs/examples on the host, killed after a minute."""
    folder = stage.fake.root / FOLDER.relative_to("/")
    folder.mkdir(parents=True)
    for chip in range(16):
        (folder / str(chip)).write_text("pretrain\n")
    stage.deed("training loop started")
    example = ROOT / "docs/examples/report_job.py"
    loop = subprocess.Popen([sys.executable, example, "pretrain", f"127.0.0.1:{stage.broker.port}"])
    stage.wait(60)
    stage.deed("training loop killed with -9")
    loop.kill()
    loop.wait()
    stage.wait(60)


def ecc(stage: Stage) -> None:
    """An uncorrectable HBM error of a chip in a Capacity Block, hop by hop to Alertmanager."""
    now = datetime.now(UTC)
    dates: dict[str, Any] = {
        "StartDate": now - timedelta(days=1),
        "CreateDate": now - timedelta(days=2),
    }
    account = reading(
        blocks=[block(UltraserverType=None, EndDate=now + timedelta(days=3), **dates)],
        statuses=[],
        reservations=[
            part(
                **dates,
                InstanceType="trn2.48xlarge",
                TotalInstanceCount=1,
                AvailableInstanceCount=0,
            )
        ],
        instances=[{"InstanceId": stage.fake.host.ec2_id, "CapacityReservationId": "cr-1"}],
    )
    bridge = Bridge(FLEET, client_id="bridge-1", boot="1")
    for envelope in (*bridge.apply(account, time.time_ns()), bridge.presence("online")):
        stage.publish(envelope)
    alertmanager = AlertmanagerProcess(stage.folder)
    alertmanager.start()
    try:
        stage.restart_watch("--alertmanager", alertmanager.url)
        stage.show("Fleet", "Reservations", "7")
        stage.wait(45)
        stage.deed("an uncorrectable HBM error of device 5")
        stage.fake.fail_memory(5)
        stage.note("sysfs", f"{_ERRORS} of device 5 is 1")
        limit_s = time.monotonic() + 45
        while time.monotonic() < limit_s:
            for alert in alertmanager.alerts():
                stage.note("Alertmanager", alert["labels"]["alertname"])
            time.sleep(0.1)
    finally:
        alertmanager.kill()
    stage.print_hops(r"is 1$|hbm-uncorrectable|trn2-0001 ✖|^\+ alerts ✖|^firing:")


SCENES: dict[str, Callable[[Stage], None]] = {
    "agent": kill_agent,
    "monitor": kill_monitor,
    "hang": hang,
    "reload": reload,
    "replace": replace,
    "away": away,
    "away-long": away_long,
    "job": job,
    "ecc": ecc,
}


def main() -> None:
    """Parse options, and play scenes."""
    parser = argparse.ArgumentParser(description=__doc__)
    short = [name for name in SCENES if name != "away-long"]
    parser.add_argument("scenes", nargs="+", choices=[*SCENES, "all"], help="all but away-long")
    parser.add_argument("--screens", action="store_true", help="print the screens, too")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for name in short if given.scenes == ["all"] else given.scenes:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stage = Stage(folder, stack, PERIOD_S)
            stage.has_screens = given.screens
            stage.wait(30)
            print(f"\n#### {name}: {SCENES[name].__doc__}")
            stage.clear()
            SCENES[name](stage)
            stage.print()
            stage.info()


if __name__ == "__main__":
    main()
