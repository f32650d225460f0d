"""Memory under churn: `make churn MINUTES=60`.

A steady fleet of 192 chips, and three new names a second of every class of message, each cleared
after a minute, go through a Mosquitto to the app in a terminal, `watch`, `relay`, `history write`
and `record`. Each minute a table shows the least resident memory of each program, the entries of
all its objects' collections, and the number of publishers in a new `status`. Entries are counted
each fifth minute, because a program pauses meanwhile. The end names growth after the twentieth
minute. Figures are printed, never asserted. The programs store a fifth of their events, alert
transitions and roll-ups of 10 s, and the app a past of 32 MiB, so all of these are full by then.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as mqtt
import psutil
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support.monitor.churn import Churn, fields, grown, size
from support.monitor.feed import DEMO, Feed
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program, run
from support.processes.terminal import Terminal

from trnfleet.clock import SystemClock, format_rfc3339
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 2**20
SETTLED = 20
"""Minutes after which nothing may grow."""
SHORTER = 5
"""How many times shorter lists are in programs under test."""
SAMPLED_EVERY_S = 5
COUNTED_EVERY = 5
"""Minutes between two counts of entries."""
ANSWER_S = 20.0
"""Longest wait for a program to count its objects."""
COUNTS_TO = "CHURN_COUNTS"
"""Variable with the output file for counts of a program under test."""
FLEET = "demo"
PROGRAMS = ("monitor", "watch", "relay", "history", "record")
KEYS = ("1", "2", "3", "5", "6", "7", "8", "9")


def count_objects() -> Counter[str]:
    """Return the entries of every container in the program, by class and attribute.

    Nested containers count as one, such as the deques of a dict.
    """
    gc.unfreeze()
    counts: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        if not str(kind.__module__).startswith("trnfleet"):
            continue
        for name, value in fields(each):
            entries = size(value)
            if isinstance(value, dict):
                entries += sum(map(size, value.values()))
            elif isinstance(value, list | deque) and value and not hasattr(value[0], "_fields"):
                entries += sum(map(size, value))
            counts[f"{kind.__module__.removeprefix('trnfleet.')}.{kind.__name__}{name}"] += entries
    return +counts


def probe() -> None:
    """Run `trnfleet` in this process.

    It writes its counts on SIGUSR1.
    """
    target = Path(os.environ.pop(COUNTS_TO))

    def answer(*_: object) -> None:
        part = target.with_suffix(".part")
        part.write_text(json.dumps(count_objects()))
        part.rename(target)

    signal.signal(signal.SIGUSR1, answer)
    record: Any = importlib.import_module("trnfleet.monitor.store.rings.record")
    short, *long = record.TIERS
    record.TIERS = (short._replace(length=short.length // SHORTER), *long)
    record.Record.__init__.__kwdefaults__["tiers"] = record.TIERS
    events: Any = importlib.import_module("trnfleet.monitor.store.events")
    kept = events.KEPT
    events.Events.__init__.__defaults__ = (kept // SHORTER,)
    for name, module in list(sys.modules.items()):
        if name.startswith("trnfleet.") and getattr(module, "KEPT", None) == kept:
            module.KEPT = kept // SHORTER  # type: ignore[attr-defined]
    sys.argv = ["trnfleet", *sys.argv[2:]]
    runpy.run_module("trnfleet", run_name="__main__")


class Watched:
    """One program under test."""

    def __init__(self, name: str, folder: Path, *arguments: str, in_terminal: bool = False) -> None:
        self.name = name
        self.counts: list[Counter[str]] = []
        self.rss_mib: list[float] = []
        self._samples: list[float] = []
        self._answer = folder / f"{name}.json"
        program = (sys.executable, "-m", "lab.soak.churn", "--probe")
        answer = str(self._answer)
        self.terminal: Terminal | None = None
        self.program: Program | None = None
        if in_terminal:
            self.terminal = Terminal(*arguments, program=program, CHURN_COUNTS=answer)
            self.terminal.keep = False
            pid = self.terminal.pid
        else:
            self.program = Program(folder, *arguments, program=program, CHURN_COUNTS=answer)
            pid = self.program.process.pid
        self.process = psutil.Process(pid)

    def sample(self) -> None:
        """Read its memory.

        A minute's figure is the least of its samples: a change of the layout copies its arrays,
        up to 50 MiB for a moment.
        """
        self._samples.append(self.process.memory_info().rss / MIB)

    def end_minute(self) -> None:
        """Keep the minute's memory."""
        self.rss_mib.append(min(self._samples))
        self._samples.clear()

    def count(self) -> None:
        """Make it count its objects, and wait for the result."""
        self._answer.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        until_s = time.monotonic() + ANSWER_S
        while not self._answer.exists() and time.monotonic() < until_s:
            time.sleep(0.1)
        found: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self._answer.read_text())
        self.counts.append(Counter(found))

    def end(self) -> None:
        """End it in an orderly way."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.send_signal(signal.SIGTERM)
        if self.program is not None:
            self.program.end()

    def report(self) -> None:
        """Print what grew after the twentieth minute."""
        settled = self.rss_mib[SETTLED:]
        if len(settled) < 4:
            print(f"{self.name:8} ran for too short a time to say")
            return
        few = max(1, min(len(KEYS), len(settled) // 4))
        grown_mib = statistics.median(settled[-few:]) - statistics.median(settled[:few])
        print(f"{self.name:8} {grown_mib:+.1f} MiB after minute {SETTLED}")
        for way, (before, after) in sorted(grown(self.counts, SETTLED // COUNTED_EVERY).items()):
            print(f"{'':8} grew from {before:,} to {after:,}: {way}")


class Publishing:
    """What publishes the steady fleet and the churn."""

    def __init__(self, port: int) -> None:
        self._clock = SystemClock()
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id="churn", protocol=mqtt.MQTTv5
        )
        self._client.max_inflight_messages_set(1_000)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._steady = Feed(DEMO, fleet=FLEET)
        self._steady.origin = "neuron"
        self._steady.epoch = format_rfc3339(self._clock.wall_ns())
        self._steady.scatter()
        self._churn = Churn(FLEET)
        self._ticks = 0

    def step(self, names: int) -> None:
        """Publish what is due in a second."""
        wall_ns = self._clock.wall_ns()
        messages = self._steady.announcements() if self._ticks % 60 == 0 else []
        messages += self._steady.telemetry(ts_ns=wall_ns)
        messages += self._churn.step(self._clock.monotonic_s(), wall_ns, names)
        self._ticks += 1
        for each in messages:
            self._publish(each)

    def _publish(self, envelope: Envelope) -> None:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types there
        if envelope.content_type == CONTENT_TYPE_CBOR:
            properties.ContentType = CONTENT_TYPE_CBOR
        self._client.publish(
            envelope.topic, envelope.payload, envelope.qos, envelope.retain, properties
        )

    def end(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


def publishers_seen(url: str) -> str:
    """Return how many publishers a new `status` sees, online and in all."""
    with contextlib.suppress(ValueError, KeyError):
        seen: dict[str, Any] = json.loads(
            run("status", "--broker", url, "--name", FLEET, "--json").stdout
        )
        found = seen["pipeline"]["publishers"]
        return " ".join(f"{key} {value}" for key, value in found.items() if value)
    return "?"


def table(minute: int, programs: list[Watched], publishers: str) -> None:
    """Print the figures of a minute."""
    parts = [f"{minute:4} min"]
    for each in programs:
        counts = each.counts[-1]
        boots = counts.get("monitor.sources.publishers.Publishers._boots", 0)
        parts.append(
            f"{each.name} {each.rss_mib[-1]:.1f} MiB, {counts.total():,} entries, {boots} boots"
        )
    print(" | ".join(parts), f"| status: publishers {publishers}", flush=True)


def churn(minutes: float, names: int, folder: Path, tested: Sequence[str]) -> None:
    """Run, and print a table each minute."""
    cell = MosquittoProcess(folder)
    top = MosquittoProcess(folder)
    cell.start()
    top.start()
    publishing = Publishing(cell.port)
    publishing.step(names)
    broker = ("--broker", f"mqtt://127.0.0.1:{cell.port}", "--name", FLEET)
    files = str(folder / "churn.mcap")
    to_top = ("--to", f"mqtt://127.0.0.1:{top.port}", "--cell", "cell-m")
    commands = {
        "monitor": ("monitor", *broker, "--past", "32MiB"),
        "watch": ("watch", *broker),
        "relay": ("relay", *broker, *to_top),
        "history": ("history", "write", str(folder / "history"), *broker),
        "record": ("record", files, *broker, "--split", "32MiB", "--keep", "10m"),
    }
    programs = [
        Watched(name, folder, *commands[name], in_terminal=name == "monitor") for name in tested
    ]
    try:
        began_s = time.monotonic()
        seconds = 0
        minute = 0
        while minute < minutes:
            publishing.step(names)
            seconds += 1
            for each in programs if seconds % SAMPLED_EVERY_S == 0 else ():
                each.sample()
            if seconds // 60 > minute:
                minute = seconds // 60
                for each in programs:
                    if each.terminal is not None:
                        each.terminal.send(KEYS[minute % len(KEYS)])
                    each.end_minute()
                for each in programs if minute % COUNTED_EVERY == 1 else ():
                    each.count()
                table(minute, programs, publishers_seen(broker[1]))
            time.sleep(max(0.0, began_s + seconds - time.monotonic()))
        for each in programs:
            each.report()
        if programs[0].terminal is not None:
            print(programs[0].terminal.text)
    finally:
        for each in programs:
            each.end()
        publishing.end()
        for broker_process in (cell, top):
            broker_process.stop()


def main() -> None:
    """Parse options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--names", type=int, default=3, help="new names of each class a second")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="only this one")
    parser.add_argument(
        "--folder", type=Path, help="folder for logs and recordings; else a new one"
    )
    given = parser.parse_args()
    # What was started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        churn(given.minutes, given.names, folder, given.program or PROGRAMS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--probe"]:
        probe()
    else:
        main()
