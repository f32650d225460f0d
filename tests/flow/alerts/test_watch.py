"""`trnfleet watch` with real brokers and receivers.

Alerts are notified once, after an outage, and by the watch taking over.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.alertmanager import MISSING, AlertmanagerProcess, alertmanager_program
from support.processes.programs import COMMAND, Program, environment, run
from support.processes.waiting import running

from trnfleet.transport.mqtt import MqttSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

CHIPS = ("uc1/us-0001/trn2u-0001-2/chip05", "uc1/us-0001/trn2u-0001-3/chip06")
RULES = """
title = "Test"

[[rules]]
name = "held-back"
scope = "chip"
severity = "{severity}"
figure = "engine_util_pct"
share_of_median_of = "job"
above = 1.25
clear = 1.2
also = [{{ figure = "job_slowdown", above = 1.1 }}]
for = "1s"
keep_firing_for = "1s"
group = "chip"
summary = "{{worst}} busy {{value}} of its peers"
runbook = "Look at it."
"""


class Scene:
    """A broker with a simulated fleet, and its watches."""

    def __init__(self, mosquitto: MosquittoProcess, folder: Path, fleet: str = "demo") -> None:
        self.broker = ("--broker", str(mosquitto.url), "--name", "demo")
        self._folder = folder
        self._url = mosquitto.url
        self._programs: list[Program] = []
        self.set_rules("critical")
        of_fleet = (
            "--broker",
            str(mosquitto.url),
            "--fleet",
            fleet,
            "--seed",
            "7",
            "--client-id",
            "sim-1",
        )
        # A message an instance: reading one a chip takes several times as long, and the rules find
        # the same in both.
        coarse = ("--format", "cbor", "--granularity", "instance")
        self.simulator = self._start("simulate", *of_fleet, *coarse, "--allow-commands")
        self.until(lambda: self.simulator.output.startswith("publishing"))

    def set_rules(self, severity: str) -> None:
        (self._folder / "rules.toml").write_text(RULES.format(severity=severity))

    def _start(self, *arguments: str) -> Program:
        program = Program(self._folder, *arguments)
        self._programs.append(program)
        return program

    def watch(self, *more: str) -> Program:
        """Start a watch, and wait until it has read the presences of others."""
        return self._start(
            "watch", *self.broker, "--rules", str(self._folder / "rules.toml"), *more
        )

    def inject(self, chip: str, lasts: str = "1h") -> None:
        answer = run("inject", "straggler", chip, "--magnitude", "40", "--for", lasts, *self.broker)
        assert answer.returncode == 0, answer.stderr

    def retained(self) -> dict[str, dict[str, Any]]:
        """Return what is retained of alerts, by target."""
        return {each["target"]: each for each in asyncio.run(self._retained("alert"))}

    def silences(self) -> dict[str, dict[str, Any]]:
        """Return what is retained of silences, by id."""
        return {each["id"]: each for each in asyncio.run(self._retained("silence"))}

    async def _retained(self, topic_class: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        source = MqttSource(self._url, [(f"trnfleet/v1/demo/{topic_class}/#", 1)])
        async with running(source.run()):
            await source.wait_connected(5)
            while True:
                try:
                    batch = await asyncio.wait_for(source.take(), 0.3)
                except TimeoutError:
                    return found
                found += [json.loads(each.payload) for each in batch if each.payload]

    def until(self, holds: Callable[[], object], within_s: float = 40) -> None:
        limit = time.monotonic() + within_s
        while not holds():
            outputs = "\n".join(each.output[-2_000:] for each in self._programs)
            assert time.monotonic() < limit, f"not within {within_s:g} s:\n{outputs}"
            time.sleep(0.05)

    def end(self) -> None:
        for program in self._programs:
            program.__exit__()


@pytest.fixture
def scene(mosquitto: MosquittoProcess, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(mosquitto, tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[AlertmanagerProcess]:
    if alertmanager_program() is None:
        pytest.skip(MISSING)
    process = AlertmanagerProcess(tmp_path)
    process.start()
    try:
        yield process
    finally:
        process.kill()


class Hook:
    """A webhook recording requests, or never answering them."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.asked = threading.Event()
        self._go_on = threading.Event()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.asked.set()
                if hangs:
                    hook._go_on.wait(30)
                    return
                hook.bodies.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def told(self) -> list[tuple[str, str]]:
        """Return every posted state and target, in order."""
        return [
            (each["status"], each["labels"]["target"])
            for body in self.bodies
            for each in body["alerts"]
        ]

    def close(self) -> None:
        self._go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def lines(program: Program, chip: str = CHIPS[0]) -> list[str]:
    """Return the states of a chip that a watch has written to stdout, in order."""
    found = []
    for line in program.output.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            if told["target"] == chip:
                found.append(told["state"])
    return found


def exchange_silences(scene: Scene, alertmanager: AlertmanagerProcess, theirs: str) -> None:
    """Let silences of both sides be seen and ended on the other one."""
    taken = f"alertmanager-{theirs}"
    scene.until(lambda: taken in scene.silences())
    assert (scene.silences()[taken]["who"], scene.silences()[taken]["source"]) == (
        "bob",
        "alertmanager",
    )
    added = run(
        "silence",
        "add",
        "target=nothing",
        "--for",
        "1h",
        "--why",
        "swap",
        "--owner",
        "ann",
        "--yes",
        *scene.broker,
    )
    assert added.returncode == 0, added.stderr
    own = added.stdout.split()[1]
    scene.until(lambda: len(alertmanager.silences()) == 2)
    (there,) = [each for each in alertmanager.silences() if each["id"] != theirs]
    assert there["createdBy"] == "ann"
    assert there["comment"] == f"swap [trnfleet demo silence {own} 1]"
    alertmanager.expire(there["id"])
    ended = run("silence", "expire", taken, *scene.broker)
    assert ended.returncode == 0, ended.stderr
    scene.until(lambda: not alertmanager.silences())
    scene.until(lambda: all("withdrawn_until" in each for each in scene.silences().values()))


def test_alertmanager_receives_groups_and_resolves(
    scene: Scene, alertmanager: AlertmanagerProcess
) -> None:
    """Alertmanager has firing alerts with labels and texts by instance, and no resolved ones.

    Meanwhile silences go both ways: made on either side, visible on the other with their owner, and
    ended from the other.
    """
    theirs = alertmanager.silence("bob", alertname="held-back", target="none")
    scene.inject(CHIPS[0], "9s")
    scene.inject(CHIPS[1])
    scene.watch("--alertmanager", alertmanager.url, "--runbook-base", "https://wiki.example/rules")

    def targets() -> set[str]:
        return {each["labels"]["target"] for each in alertmanager.alerts()}

    scene.until(lambda: set(CHIPS) <= targets())
    (alert,) = [each for each in alertmanager.alerts() if each["labels"]["target"] == CHIPS[0]]
    assert alert["labels"]["alertname"] == "held-back"
    assert alert["labels"]["severity"] == "critical"
    assert alert["annotations"]["summary"].startswith(f"{CHIPS[0]} busy 1")
    assert alert["annotations"]["runbook"] == "Look at it."
    assert 150 <= int(alert["annotations"]["value"].removesuffix(" %")) < 190
    assert alert["annotations"]["runbook_url"] == "https://wiki.example/rules#held-back"
    scene.until(lambda: len(alertmanager.groups()) == 2)
    assert sorted(group["labels"]["instance"] for group in alertmanager.groups()) == sorted(
        chip.rpartition("/")[0] for chip in CHIPS
    )
    exchange_silences(scene, alertmanager, theirs)
    scene.until(lambda: targets() == {CHIPS[1]})
    (other,) = alertmanager.alerts()
    acknowledged = run(*shlex.split(other["annotations"]["ack"])[1:], *scene.broker)
    assert acknowledged.returncode == 0, acknowledged.stderr


def test_alertmanager_that_was_away_has_everything(
    scene: Scene, alertmanager: AlertmanagerProcess
) -> None:
    """A returning Alertmanager has the alerts fired meanwhile, and earlier ones once repeated."""
    scene.watch("--alertmanager", alertmanager.url)
    scene.inject(CHIPS[0])
    scene.until(lambda: len(alertmanager.alerts()) == 1)
    alertmanager.kill()
    scene.inject(CHIPS[1])
    scene.until(lambda: CHIPS[1] in scene.retained())
    assert "alertmanager" not in scene.retained()[CHIPS[1]]["told"]
    alertmanager.start()
    scene.until(lambda: CHIPS[1] in {each["labels"]["target"] for each in alertmanager.alerts()})
    scene.until(lambda: "alertmanager" in scene.retained()[CHIPS[1]]["told"])


def test_a_second_watch_stands_by_and_takes_over(scene: Scene, hook: Hook) -> None:
    """The later watch is silent.

    After kill -9 of the first it notifies new alerts only.
    """
    scene.inject(CHIPS[0])
    first = scene.watch("--webhook", hook.url)
    scene.until(lambda: hook.told() == [("firing", CHIPS[0])])
    second = scene.watch("--webhook", hook.url)
    scene.until(lambda: "standby: trnfleet-watch-" in second.output)
    scene.until(lambda: "webhook" in scene.retained()[CHIPS[0]]["told"])
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    scene.until(lambda: "leader for demo" in second.output)
    scene.inject(CHIPS[1])
    scene.until(lambda: len(hook.told()) >= 2)
    assert hook.told() == [("firing", CHIPS[0]), ("firing", CHIPS[1])]


def test_a_restart_neither_loses_nor_repeats(scene: Scene) -> None:
    """Nothing is notified twice; the next watch notifies what fired and resolved while none ran."""
    scene.inject(CHIPS[0], "10s")
    first = scene.watch("--stdout")
    scene.until(lambda: lines(first) == ["firing"])
    scene.until(lambda: "stdout" in scene.retained()[CHIPS[0]]["told"])
    assert first.end() == 0
    scene.inject(CHIPS[1])
    second = scene.watch("--stdout")
    scene.until(lambda: lines(second) == ["resolved"])
    scene.until(lambda: lines(second, CHIPS[1]) == ["firing"])
    assert lines(second) == ["resolved"]


def test_a_crash_repeats_nothing_that_was_noted(scene: Scene) -> None:
    """After kill -9 the same watch continues from the retained state."""
    scene.inject(CHIPS[0])
    first = scene.watch("--stdout")
    scene.until(lambda: lines(first) == ["firing"])
    scene.until(lambda: "stdout" in scene.retained()[CHIPS[0]]["told"])
    first.process.kill()
    first.process.wait()
    second = scene.watch("--stdout")
    scene.until(lambda: "leader for demo" in second.output)
    scene.inject(CHIPS[1])
    scene.until(lambda: lines(second, CHIPS[1]) == ["firing"])
    assert lines(second) == []


def test_exit_on_a_severity(scene: Scene) -> None:
    """The watch ends with status 3 at an alert of the severity, even as standby.

    Less severe alerts do not end it.
    """
    scene.inject(CHIPS[0])
    scene.set_rules("warning")
    patient = scene.watch("--stdout", "--exit-on", "critical", "--exit-after", "9s")
    scene.until(lambda: lines(patient) == ["firing"])
    ended = scene.watch("--stdout", "--exit-on", "warning")
    assert ended.process.wait(timeout=15) == 3
    assert f"warning: {CHIPS[0]} busy 1" in ended.output
    assert patient.process.wait(timeout=15) == 0
    assert lines(patient) == ["firing"]


def test_sigterm_ends_it_while_a_webhook_hangs(scene: Scene) -> None:
    """A hanging receiver delays no end: status 0 within 2 s.

    Its alert is not marked notified.
    """
    hook = Hook(hangs=True)
    try:
        watch = scene.watch("--webhook", hook.url, "--exec", "sleep 60")
        scene.inject(CHIPS[0])
        assert hook.asked.wait(15)
        begun_s = time.monotonic()
        assert watch.end() == 0
        assert time.monotonic() - begun_s < 2
        assert scene.retained()[CHIPS[0]]["told"] == {}
    finally:
        hook.close()


_SLOW_NAMES = """
import socket, sys, time
known = socket.getaddrinfo
def look_up(host, *rest, **more):
    if host in {"hook.invalid", b"hook.invalid"}:
        print("looking up", flush=True)
        time.sleep(60)
    return known(host, *rest, **more)
socket.getaddrinfo = look_up
from trnfleet.cli.main import main
main(sys.argv[1:])
"""


def test_sigterm_ends_it_while_a_name_is_looked_up(scene: Scene, tmp_path: Path) -> None:
    """A thread in an uninterruptible call delays the end by no more than 2 s."""
    scene.inject(CHIPS[0])
    arguments = (
        "watch",
        *scene.broker,
        "--rules",
        str(tmp_path / "rules.toml"),
        "--webhook",
        "http://hook.invalid/",
    )
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW_NAMES, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"looking up\n"
        begun_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        assert time.monotonic() - begun_s < 2


def test_a_reader_may_leave(scene: Scene, tmp_path: Path) -> None:
    """A watch without its only reader ends with 1, so a service manager restarts it."""
    scene.inject(CHIPS[0])
    scene.inject(CHIPS[1])
    arguments = ("watch", *scene.broker, "--rules", str(tmp_path / "rules.toml"), "--stdout")
    command = f"set -o pipefail; {shlex.join([*COMMAND, *arguments])} | head -n 1"
    piped = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment(),
        check=False,
    )
    assert piped.returncode == 1
    assert piped.stdout.count("\n") == 1
    assert piped.stderr.splitlines()[-1].startswith("trnfleet: nobody can be notified: stdout: ")
    assert "Traceback" not in piped.stderr


@pytest.mark.parametrize(
    ("outlet", "why"), [("full", "No space left on device"), ("closed", "closed the pipe")]
)
def test_a_stdout_that_fails_fails_alone(
    scene: Scene, hook: Hook, tmp_path: Path, outlet: str, why: str
) -> None:
    """A full disk or closed pipe is logged and in the presence.

    A webhook gets every alert.
    """
    (tmp_path / "watch.err").touch()
    errors = shlex.quote(str(tmp_path / "watch.err"))
    rules = ("--rules", str(tmp_path / "rules.toml"))
    command = shlex.join(
        [*COMMAND, "watch", *scene.broker, *rules, "--stdout", "--webhook", hook.url]
    )
    outlets = {
        "full": f"exec {command} 2>{errors} >/dev/full",
        "closed": f"exec {command} 2>{errors} > >(:)",
    }
    with subprocess.Popen(["bash", "-c", outlets[outlet]], env=environment()) as watch:
        try:
            scene.inject(CHIPS[0])
            scene.until(lambda: hook.told() == [("firing", CHIPS[0])])
            scene.until(lambda: why in run("status", "--json", *scene.broker).stdout)
            assert set(scene.retained()[CHIPS[0]]["told"]) == {"webhook"}
            assert watch.poll() is None
        finally:
            watch.send_signal(signal.SIGTERM)
            status = watch.wait(timeout=10)
    assert status == 0
    assert "receiver_failed" in (tmp_path / "watch.err").read_text()


def test_a_broker_that_comes_back_has_all_again(scene: Scene, mosquitto: MosquittoProcess) -> None:
    """A broker without its retained messages gets them from the watch, silences included.

    Nothing is notified again.
    """
    scene.inject(CHIPS[0])
    watch = scene.watch("--stdout")
    scene.until(lambda: lines(watch) == ["firing"])
    silenced = run("silence", "add", "a=b", "--for", "1h", "--why", "swap", "--yes", *scene.broker)
    assert silenced.returncode == 0
    mosquitto.restart()
    scene.until(lambda: watch.output.count("leader for demo") == 2, 18)
    scene.until(lambda: scene.retained().get(CHIPS[0], {}).get("state") == "firing")
    assert lines(watch) == ["firing"]
    scene.until(
        lambda: "restored 1 acknowledgements and silences that the broker had lost" in watch.output
    )
    (silence,) = json.loads(run("silence", "list", "--json", *scene.broker).stdout)
    assert silence["why"] == "swap"


def test_people_acknowledge_and_silence(scene: Scene) -> None:
    """A firing alert is listed with status 3 until acknowledged."""
    scene.inject(CHIPS[0])
    watch = scene.watch("--stdout")
    scene.until(lambda: lines(watch) == ["firing"])
    listed = run("alerts", *scene.broker)
    assert listed.returncode == 3
    assert f"held-back: {CHIPS[0]} busy 1" in listed.stdout
    taken = run("ack", f"held-back {CHIPS[0]}", "--note", "mine", "--owner", "ann", *scene.broker)
    assert taken.returncode == 0
    listed = run("alerts", *scene.broker)
    assert "[ann: mine]" in listed.stdout
    assert listed.returncode == 0


def test_alerts_without_a_watch_are_unknown(scene: Scene) -> None:
    """Without a watch alerts are unknown, status 1.

    After its kill -9 they are last known.
    """
    asked = run("alerts", *scene.broker)
    assert asked.returncode == 1
    assert asked.stdout == "no watch publishes alerts of fleet demo; start `trnfleet watch`\n"
    scene.inject(CHIPS[0])
    watch = scene.watch("--stdout")
    scene.until(lambda: lines(watch) == ["firing"])
    assert run("alerts", *scene.broker).returncode == 3
    watch.process.kill()
    watch.process.wait()
    asked = run("alerts", *scene.broker)
    assert asked.returncode == 1
    assert "has gone); start `trnfleet watch`; as last known:" in asked.stdout
    assert "firing (last known)" in asked.stdout
    assert json.loads(run("alerts", "--json", *scene.broker).stdout)["watched"] is False


def test_people_silence_alerts(scene: Scene) -> None:
    """A silence is previewed and made.

    Ending it notifies alerts still firing.
    """
    watch = scene.watch("--stdout")
    quiet = ("silence", "add", f"chip={CHIPS[1]}", "--for", "1h", "--why", "swap", *scene.broker)
    assert "matches, with --yes: 0 firing alerts" in run(*quiet).stdout
    assert run(*quiet, "--yes").returncode == 0
    scene.inject(CHIPS[1])
    scene.until(lambda: CHIPS[1] in scene.retained())
    assert lines(watch, CHIPS[1]) == []
    (silence,) = json.loads(run("silence", "list", "--json", *scene.broker).stdout)
    assert silence["hides"] == 1
    assert run("silence", "expire", silence["id"], *scene.broker).returncode == 0
    scene.until(lambda: lines(watch, CHIPS[1]) == ["firing"])
