"""Messages through a real Mosquitto to the app in a terminal and to `watch`.

A small simulator runs beside them, and its fleet must stay visible. A case is `A_CASE` messages of
every class, some retained, in rounds. In one round of `CONTRADICTS_EVERY` they use the simulator's
own paths and name; it announces itself again after the last. Programs started while the bad state
is still retained must show its fleet, and so must all once the state is cleared.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

import paho.mqtt.client as mqtt
import psutil
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program, run
from support.processes.terminal import Terminal

from lab.chaos.cases import Case, ChaosError, percentile
from lab.chaos.messages import Mutator
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from pathlib import Path

A_CASE = 20_000
A_ROUND = 250
CONTRADICTS_EVERY = 4
RATE = 1_500.0
"""Messages a second: the load of a publisher gone wild. A reader on a shared core receives it
without shedding."""
CHIPS = 192
GROWTH_MB = 20.0
KEYS_P95_S = 0.1
FILLS_IN_S = 80.0
"""Time until an app and a watch have filled their history. A sample a second makes 13 MB, whatever
comes."""
QUIET_KEYS = 20
SETTLE_S = 60.0
"""Longest time until the fleet is shown again. Changes of a publisher with many of them are delayed
by up to 20 s."""
LIMIT_S = 30.0
_VIEWS = ((b"2", b"last 90 s"), (b"8", b"history"))
"""Keys of views, each with a text unique among them."""
_ACTED = re.compile(
    rb"\x1b\](?:0;x|52)|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]|Traceback"
)
"""Titles, clipboards, control characters and direction overrides. They occur in messages' texts,
and our program draws none."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f+#\ud800-\udfff]")
"""Topic characters at which Mosquitto closes a publisher's connection."""
_LONGEST_TOPIC = 60_000


class Seen(NamedTuple):
    """What came of a case."""

    messages: int
    undecodable: str
    """As the app's status line has it."""
    busy_keys_s: list[float]
    quiet_keys_s: list[float]
    keys_cpu_s: list[float]
    """Processor time of the quiet keys: the cost of a key on an idle machine."""
    grown_mb: dict[str, float]
    cpu_s: dict[str, float]
    took_s: float

    def __str__(self) -> str:
        def keys(values: list[float]) -> str:
            return (
                f"p50 {1e3 * percentile(values, 0.5):.0f} p95"
                f" {1e3 * percentile(values, 0.95):.0f} ms"
            )

        both = ", ".join(
            f"{name} {self.grown_mb[name]:+.1f} MB, {self.cpu_s[name]:.1f} s of processor time"
            for name in self.cpu_s
        )
        return (
            f"{self.messages} messages, {self.undecodable} undecodable, keys meanwhile"
            f" {keys(self.busy_keys_s)}, quiet {keys(self.quiet_keys_s)} (processor time"
            f" {keys(self.keys_cpu_s)}), {both}, {self.took_s:.0f} s"
        )


class _Sender:
    """A client publishing given messages, and clearing its retained ones at the end."""

    def __init__(self, port: int) -> None:
        self.left: set[str] = set()
        """Topics with a message that the broker retains."""
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id="hostile", protocol=mqtt.MQTTv5
        )
        self._client.max_queued_messages_set(0)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def send(self, batch: list[Envelope], rate: float) -> int:
        """Publish messages at a rate, and return how many the broker accepted."""
        begun = time.monotonic()
        sent = 0
        for envelope in batch:
            topic = envelope.topic
            if not topic or _FORBIDDEN.search(topic) or len(topic) > _LONGEST_TOPIC:
                continue
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho's properties have no types
            if envelope.content_type is not None:
                properties.ContentType = envelope.content_type
            self._client.publish(topic, envelope.payload, envelope.qos, envelope.retain, properties)
            if envelope.retain:
                (self.left.add if envelope.payload else self.left.discard)(topic)
            sent += 1
            time.sleep(max(0.0, begun + sent / rate - time.monotonic()) if sent % 50 == 0 else 0.0)
        return sent

    def clear(self) -> None:
        """Clear all that is left."""
        for topic in sorted(self.left):
            self._client.publish(topic, b"", 1, retain=True)
        self.left.clear()

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


class _World:
    """A broker, a simulated fleet, a watch, the app, and a hostile sender."""

    def __init__(
        self, case: Case, folder: Path, stack: contextlib.ExitStack, published: tuple[str, ...]
    ) -> None:
        self.case = case
        self._pressed = 0
        broker = MosquittoProcess(folder, "max_queued_messages 4000")
        broker.start()
        stack.callback(broker.kill)
        self.url = str(broker.url)
        more = ("--broker", self.url, "--name", "demo")
        simulate = ("simulate", "--broker", self.url, "--fleet", "demo", "--client-id", "feed")
        self.simulator = stack.enter_context(Program(folder, *simulate, *published))
        self.watch = stack.enter_context(Program(folder, "watch", *more, "--log-level", "info"))
        self._log = folder / "app.log"
        self.app = stack.enter_context(
            Terminal(
                "monitor",
                *more,
                "--log-file",
                str(self._log),
                "--past",
                "0",
                XDG_STATE_HOME=str(folder),
            )
        )
        self.app.wait_for(f"{CHIPS}", "all live", within_s=LIMIT_S)
        self.sender = _Sender(broker.port)
        stack.callback(self.sender.close)
        self.processes = {"app": self.app.process, "watch": psutil.Process(self.watch.process.pid)}

    def memory_mb(self) -> dict[str, float]:
        """Return the resident memory of app and watch."""
        return {name: each.memory_info().rss / 2**20 for name, each in self.processes.items()}

    def cpu_s(self) -> dict[str, float]:
        """Return the processor time of app and watch."""
        times = {name: each.cpu_times() for name, each in self.processes.items()}
        return {name: each.user + each.system for name, each in times.items()}

    def press(self) -> float:
        """Press another view's key, and return the seconds until its text appears."""
        self._pressed += 1
        key, shows = _VIEWS[self._pressed % len(_VIEWS)]
        size = len(self.app.raw)
        begun = time.perf_counter()
        self.app.send(key)
        while self.app.raw.find(shows, size) < 0:
            if time.perf_counter() - begun > LIMIT_S:
                raise ChaosError(self.case, f"key {key!r} shows nothing: {self.app.text}")
            time.sleep(0.001)
        return time.perf_counter() - begun

    def look(self) -> None:
        """Check that both processes live and have printed nothing forbidden."""
        for name, each in self.processes.items():
            if not each.is_running() or each.status() == psutil.STATUS_ZOMBIE:
                raise ChaosError(
                    self.case, f"{name} has ended: {self.watch.output[-2_000:]} {self.app.text}"
                )
        found = _ACTED.search(self.app.raw)
        if found is not None:
            raise ChaosError(self.case, f"{found[0]!r} came to the terminal: {self.app.text}")
        # Its modes are set at the beginning, and no more needed.
        del self.app.raw[: max(0, len(self.app.raw) - 65_536)]

    def look_at_logs(self) -> None:
        """Look whether either process has logged a bug."""
        for said in (self._log.read_text("utf-8"), self.watch.output):
            at = max(said.find("Traceback"), said.find("stage_failed"))
            if at >= 0:
                raise ChaosError(self.case, said[max(0, at - 500) : at + 3_000])

    def announce(self) -> None:
        """Let the simulator publish all its state again, and wait until it has agreed to.

        Otherwise its state comes back by itself within a minute, and hides a refusal.
        """
        name = f"again-{time.monotonic_ns()}"
        command = {
            "v": 1,
            "id": name,
            "client": "chaos",
            "action": "rebirth",
            "target": "fleet",
            "args": {},
            "expires": format_rfc3339(time.time_ns() + int(LIMIT_S) * NS_PER_S),
        }
        topic = build_topic("demo", TopicClass.COMMAND, "fleet")
        self.sender.send([Envelope(topic, json.dumps(command).encode(), 1)], RATE)
        done = f'published again" client="chaos" id="{name}"'
        self.simulator.wait_for(done, within_s=LIMIT_S)

    def status(self, *, whole: bool) -> dict[str, int]:
        """Return a new program's view of the fleet.

        All good chips must be live. If `whole`, there must be no others.
        """
        until = time.monotonic() + SETTLE_S
        while True:
            ended = run("status", "--broker", self.url, "--name", "demo", "--json", "--wait", "1s")
            if "Traceback" in ended.stderr:
                raise ChaosError(self.case, ended.stderr)
            found: dict[str, int] = json.loads(ended.stdout) if ended.stdout else {}
            live = found.get("live_chips", 0)
            chips = found.get("chips", 0)
            if live == chips == CHIPS if whole else live >= CHIPS:
                return found
            if time.monotonic() > until:
                raise ChaosError(
                    self.case, f"a new status shows {live} of {chips} live: {ended.stderr}"
                )


def run_case(
    case: Case, folder: Path, messages: int = A_CASE, published: tuple[str, ...] = ()
) -> Seen:
    """Run a case; `published` are the simulator's options for its messages.

    Raises:
        ChaosError: a process has ended, logged a bug, grew, was slow, or shows the good fleet no
            more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    random = case.random()
    mutator = Mutator(random)
    rounds = max(2, messages // A_ROUND)
    whole = messages >= A_CASE
    busy: list[float] = []
    with contextlib.ExitStack() as stack:
        world = _World(case, folder, stack, published)
        before: dict[str, float] = {}
        cpu = world.cpu_s()
        sent = 0
        for number in range(rounds):
            contradicts = whole and number % CONTRADICTS_EVERY == CONTRADICTS_EVERY - 1
            batch = mutator.batch(A_ROUND, about_others=contradicts)
            sent += world.sender.send(batch + mutator.feed.telemetry(), RATE)
            if contradicts:
                world.announce()
            busy.append(world.press())
            world.look()
            is_filled = number >= rounds // 5 and time.monotonic() - begun > FILLS_IN_S
            if not before and (is_filled or number >= rounds * 4 // 5):
                # Every class has been met and every buffer filled once.
                before = world.memory_mb()
        grown = {name: each - before[name] for name, each in world.memory_mb().items()}
        used = {name: each - cpu[name] for name, each in world.cpu_s().items()}
        # What is worse, such as two processes under one name, may leave no room for counts.
        shown = world.app.wait_for_match(r"undecodable \d|\+\d+ more", within_s=LIMIT_S)
        undecodable = "".join(re.findall(r"undecodable (\S+)", shown))
        world.announce()
        world.status(whole=False)
        world.sender.clear()
        world.announce()
        world.app.wait_for_match(rf" {CHIPS} chips +all live", within_s=SETTLE_S)
        quiet = []
        keys_cpu = []
        for _ in range(QUIET_KEYS if whole else 2):
            time.sleep(0.3)
            used_before = world.cpu_s()["app"]
            quiet.append(world.press())
            keys_cpu.append(world.cpu_s()["app"] - used_before)
        if whole:
            world.status(whole=True)
        world.look()
        status = world.app.end(signal.SIGTERM)
        world.look_at_logs()
        if status not in {0, 143} or world.watch.end() not in {0, 143}:
            raise ChaosError(
                case, f"the app ended with {status}, watch: {world.watch.output[-2_000:]}"
            )
    seen = Seen(sent, undecodable, busy, quiet, keys_cpu, grown, used, time.monotonic() - begun)
    if whole:
        _limits(case, seen)
    return seen


def _limits(case: Case, seen: Seen) -> None:
    for name, grown_mb in seen.grown_mb.items():
        if grown_mb > GROWTH_MB:
            raise ChaosError(case, f"{name} grew by {grown_mb:.1f} MB, over {GROWTH_MB:g}: {seen}")
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    # Of a machine that does other things, too, only what keys typically take of the processor says
    # something.
    keys_s = percentile(seen.keys_cpu_s, 0.5) if is_busy else percentile(seen.quiet_keys_s, 0.95)
    if keys_s > KEYS_P95_S:
        raise ChaosError(case, f"keys are slow: {seen}")
