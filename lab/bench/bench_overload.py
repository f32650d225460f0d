"""A reader under a fitting load, then twice its limit, then a fitting one again.

Measures lag, losses, memory, keys, alerts, and the recovery.

`python -m lab.bench.bench_overload [--shape hosts] [--topics 8000] [--fits 1.0] [--times 2]
[--seconds 60]`

Everything runs on this machine: Mosquitto, a generator with up to a million chips' worth of frames,
and `trnfleet monitor` in a pseudo-terminal. Frames are pre-encoded and written to one socket, so
that the generator's share is small. It counts the sent frames, and the app's own counts are read
from its screen. `--shape blocks` sends frames of 512 chips, `--shape hosts` one of 16 chips a host.
`--ramp` searches for the fitting load. Figures are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import mqtt5
import numpy as np
import psutil
from support.monitor.feed import Feed, ultraservers
from support.processes.mosquitto import MosquittoProcess
from support.processes.terminal import Terminal

from lab.bench.app import (
    account,
    alert_names,
    alerts_in,
    cpu_s,
    quantile,
    shown_lag_s,
    waited_s,
)
from lab.bench.packets import SLICES_PER_S, connect
from trnfleet.clock import format_rfc3339
from trnfleet.transport.url import parse_url
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClockSpec,
    Descriptor,
    InstanceSpec,
    encode_message,
)
from trnfleet.wire.ports import CONTENT_TYPE_CBOR

FLEET = "bench"
BOOT = "boot-1"
ULTRASERVERS = 8
"""In a block: 512 chips."""
LOOK_EVERY_S = 0.25
DESCRIBED_AT_ONCE = 50
"""Descriptors that are published every 50 ms."""


class Phase(NamedTuple):
    """A time with one publishing rate for every topic."""

    name: str
    seconds: float
    rate_hz: float


# Generator


def shape_topics(shape: str, topics: int) -> list[tuple[str, list[str]]]:
    """Return the published paths, each with its instances."""
    if shape == "hosts":
        names = [path for path, _ in ultraservers((topics + 3) // 4)][:topics]
        return [(name, [name]) for name in names]
    members = [path for path, _ in ultraservers(ULTRASERVERS * topics)]
    size = 4 * ULTRASERVERS
    return [
        (f"uc1/block-{number:04d}", members[number * size : (number + 1) * size])
        for number in range(topics)
    ]


def descriptor_of(path: str, instances: list[str], period_s: float) -> bytes:
    """Return a path's descriptor."""
    return encode_message(
        Descriptor(
            path=path,
            publisher="bench",
            boot=BOOT,
            revision=0,
            period_s=period_s,
            clock=ClockSpec(epoch=format_rfc3339(time.time_ns()), speed=1.0),
            origin="neuron",
            instances=tuple(
                InstanceSpec(path=each, type="trn2u.48xlarge", ec2_id="i-0", lnc=2)
                for each in instances
            ),
            columns=STANDARD_COLUMNS,
        )
    )


def packets_of(paths: list[str], instances: int) -> tuple[np.ndarray[Any, Any], int, int]:
    """Return all topics' packets, one a row, and the offsets of sequence number and time."""
    feed = Feed(ultraservers(max(1, instances // 4))[:instances])
    feed.scatter()
    rows: list[bytes] = []
    for path in paths:
        encoder = FrameEncoder(
            path,
            BOOT,
            revision=0,
            columns=feed.columns,
            chips=slice(0, 16 * instances),
            instances=slice(0, instances),
        )
        payload = encoder.encode(0, 0)
        rows.append(
            mqtt5.PublishPacket(
                f"trnfleet/v1/{FLEET}/telemetry/{path}", payload, content_type=CONTENT_TYPE_CBOR
            ).write()
        )
    marked = encoder.encode(2**64 - 1, 2**64 - 1)
    head = len(rows[-1]) - len(payload)
    differs = np.flatnonzero(np.frombuffer(marked, np.uint8) != np.frombuffer(payload, np.uint8))
    assert len({len(row) for row in rows}) == 1
    assert len(differs) == 16
    size = len(rows[0])
    table = np.frombuffer(bytearray().join(rows), np.uint8).reshape(len(rows), size)
    return table, head + int(differs[0]), head + int(differs[8])


def generate(url: str, shape: str, topics: int, period_s: float, phases: list[Phase]) -> None:
    """Publish descriptors, then telemetry by phases.

    Each phase begins with an input line, and is reported when it is over.
    """
    broker = parse_url(url)
    described = shape_topics(shape, topics)
    table, seq_at, ts_at = packets_of([path for path, _ in described], len(described[0][1]))
    with connect(broker, "bench-generator") as connection:
        sys.stdin.readline()
        online = json.dumps({"client": "bench", "state": "online", "boot": BOOT}).encode()
        retained = [("publisher/bench", online)]
        retained += [
            (f"node/{path}", descriptor_of(path, members, period_s)) for path, members in described
        ]
        # At a pace at which a reader that is there already gets all of them.
        for number, (topic, payload) in enumerate(retained):
            connection.sendall(
                mqtt5.PublishPacket(f"trnfleet/v1/{FLEET}/{topic}", payload, retain=True).write()
            )
            if not (number + 1) % DESCRIBED_AT_ONCE:
                time.sleep(0.05)
        seq = np.zeros(topics, np.uint64)
        next_row = 0
        sent = 0
        late_s = 0.0
        say({"ready": True, "frame_bytes": int(table.shape[1])})
        for phase in phases:
            sys.stdin.readline()
            begun_s = time.perf_counter()
            cpu_s = time.process_time()
            owed = 0.0
            before = sent
            for part in range(round(phase.seconds * SLICES_PER_S)):
                wait_s = begun_s + part / SLICES_PER_S - time.perf_counter()
                late_s = max(late_s, -wait_s)
                time.sleep(max(0.0, wait_s))
                owed += phase.rate_hz * topics / SLICES_PER_S
                while owed >= 1:
                    count = min(int(owed), topics - next_row)
                    rows = table[next_row : next_row + count]
                    numbers = seq[next_row : next_row + count]
                    rows[:, seq_at : seq_at + 8] = (
                        numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
                    )
                    rows[:, ts_at : ts_at + 8] = np.frombuffer(
                        time.time_ns().to_bytes(8, "big"), np.uint8
                    )
                    connection.sendall(rows.reshape(-1).data)
                    numbers += np.uint64(1)
                    owed = owed - count
                    sent = sent + count
                    next_row = (next_row + count) % topics
            wall_s = time.perf_counter() - begun_s
            say(
                {
                    "phase": phase.name,
                    "sent": sent - before,
                    "total": sent,
                    "per_s": (sent - before) / wall_s,
                    "cpu": (time.process_time() - cpu_s) / wall_s,
                    "late_s": late_s,
                }
            )
        sys.stdin.readline()


def say(facts: dict[str, Any]) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


# Measurement


class Looks:
    """Observations of the app over a phase."""

    def __init__(self) -> None:
        self.lags_s: list[float] = []
        self.keys_ms: list[float] = []
        self.rss_mib: list[float] = []
        self.alerts: set[str] = set()
        self.names: set[str] = set()
        """Names of the fired rules."""
        self.stale: set[str] = set()

    def look(self, terminal: Terminal, *, key: int | None) -> None:
        """Look once, and press a key where a number is given."""
        text = terminal.text
        lag_s = shown_lag_s(text)
        if lag_s is not None:
            self.lags_s.append(lag_s)
        self.rss_mib.append(terminal.process.memory_info().rss / 2**20)
        header = "\n".join(text.splitlines()[:2])
        shown = alerts_in(text)
        is_other = any("pending" not in each for each in shown - self.alerts)
        self.alerts |= shown
        if is_other and HELP not in text:
            # Read each number of firing alerts once: another view costs time that is measured.
            self.names |= alert_names(terminal)
        self.stale |= set(re.findall(r"[\d,.]+k? (?:stale|offline)", header))
        if key is not None:
            self.keys_ms.append(help_ms(terminal, key))

    @property
    def line(self) -> str:
        """The figures."""
        return (
            f"lag median {quantile(self.lags_s, 0.5):.2f} s, most {quantile(self.lags_s, 1):.2f} s"
            f" | RSS {quantile(self.rss_mib, 0.5):.0f}, most {quantile(self.rss_mib, 1):.0f} MiB |"
            f" keys median {quantile(self.keys_ms, 0.5):.0f}, p95"
            f" {quantile(self.keys_ms, 0.95):.0f}, most {quantile(self.keys_ms, 1):.0f} ms"
            f" ({len(self.keys_ms)}) | alerts {self._alerts} |"
            f" {', '.join(sorted(self.stale)) or 'none stale'}"
        )

    @property
    def _alerts(self) -> str:
        if not self.alerts:
            return "none"
        names = f" ({', '.join(sorted(self.names))})" if self.names else ""
        return ", ".join(sorted(self.alerts)) + names


def help_ms(terminal: Terminal, number: int) -> float:
    """Open or close the help, and return the ms until its title appears or disappears."""
    begun = time.perf_counter()
    terminal.send("?" if number % 2 == 0 else "\x1b")
    wanted = number % 2 == 0
    while (HELP in terminal.text) is not wanted and time.perf_counter() - begun < 5:
        time.sleep(0.002)
    return (time.perf_counter() - begun) * 1e3


HELP = " Keys and words "


def run(options: argparse.Namespace, phases: list[Phase]) -> None:
    """Play the phases once, and print the observations."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = os.environ[
            "XDG_CONFIG_HOME"
        ] = folder
        broker = MosquittoProcess(Path(folder), *options.broker_line)
        broker.start()
        url = str(broker.url)
        arguments = [
            sys.executable,
            "-m",
            "lab.bench.bench_overload",
            "--generate",
            url,
            "--shape",
            options.shape,
            "--topics",
            str(options.topics),
            "--period",
            str(options.period),
            "--phases",
            json.dumps(phases),
        ]
        generator = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert generator.stdin is not None
        assert generator.stdout is not None
        monitor = (
            "monitor",
            "--broker",
            url,
            "--name",
            FLEET,
            "--past",
            options.past,
            "--client",
            options.client,
        )
        with Terminal(*monitor, columns=120, rows=40) as terminal:
            terminal.keep = False
            # It is there first, and all are described before the first message, so that none of
            # them goes uncounted.
            terminal.wait_for("msg/s", within_s=60)
            time.sleep(1)
            generator.stdin.write("\n")
            generator.stdin.flush()
            print(f"  {generator.stdout.readline().strip()}")
            time.sleep(options.settle)
            key = 0
            normal_mib = 0.0
            for phase in phases:
                looks = Looks()
                processes = {"app": terminal.process, "broker": psutil.Process(broker.pid)}
                before = {name: cpu_s(each) for name, each in processes.items()}
                waited = waited_s(terminal.pid)
                begun = time.perf_counter()
                generator.stdin.write("\n")
                generator.stdin.flush()
                back_s: float | None = None
                count = 0
                while (passed_s := time.perf_counter() - begun) < phase.seconds:
                    count += 1
                    wants_key = count % 4 == 0
                    looks.look(terminal, key=key if wants_key else None)
                    key += wants_key
                    status = terminal.lines[-1]
                    lag_s = shown_lag_s(terminal.text)
                    is_normal = lag_s is not None and lag_s < 1.0 and "overloaded" not in status
                    back_s = (passed_s if back_s is None else back_s) if is_normal else None
                    if options.trace and count % 8 == 0:
                        print(
                            f"    {passed_s:5.1f} {looks.rss_mib[-1]:.0f} MiB"
                            f" {terminal.lines[0].strip()} | {status.strip()}",
                            flush=True,
                        )
                    time.sleep(max(0.0, begun + count * LOOK_EVERY_S - time.perf_counter()))
                said = json.loads(generator.stdout.readline())
                wall_s = time.perf_counter() - begun
                shares = ", ".join(
                    f"{name} {(cpu_s(each) - before[name]) / wall_s:.0%}"
                    for name, each in processes.items()
                )
                waited = (waited_s(terminal.pid) - waited) / wall_s
                print(
                    f"  {phase.name}: {said['per_s']:,.0f} messages/s, generator {said['cpu']:.0%}"
                    f" (late {said['late_s']:.2f} s), {shares}; the app waited {waited:.0%} of it"
                    " for a processor"
                )
                print(f"    {looks.line}")
                print(
                    f"    as usual since {'no time' if back_s is None else f'{back_s:.1f} s'}:"
                    f" {terminal.lines[-1].strip()}",
                    flush=True,
                )
                normal_mib = normal_mib or quantile(looks.rss_mib, 1)
                print(
                    f"    memory {quantile(looks.rss_mib, 1) / normal_mib:.2f} of the first phase's"
                )
            time.sleep(3)
            if key % 2:
                terminal.send("\x1b")
                time.sleep(0.5)
            if options.trace:
                terminal.send("8")
                time.sleep(1)
                print(terminal.text)
            found = account(terminal)
            if options.trace:
                print(terminal.text)
            total = said["total"]
            parts = found["came"] + found["mended"] + found["lost"] + found["passed_over"]
            print(
                f"  sent {total:,}; the app: {found}; published beyond what it knows of"
                f" {total - found['published']:,}, unaccounted {found['published'] - parts:,}"
            )
            terminal.end(keys="q")
        generator.stdin.close()
        generator.wait()
        broker.stop()


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=("hosts", "blocks"), default="hosts")
    parser.add_argument("--topics", type=int, default=4_000)
    parser.add_argument(
        "--fits", type=float, default=1.0, help="messages a second of each topic that fit"
    )
    parser.add_argument("--times", type=float, default=2.0, help="how many times as many come then")
    parser.add_argument(
        "--period", type=float, default=1.0, help="period that descriptors tell, in s"
    )
    parser.add_argument("--before", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--after", type=float, default=30)
    parser.add_argument("--settle", type=float, default=5)
    parser.add_argument(
        "--ramp", type=float, nargs="*", default=None, help="rates in Hz to try for 10 s each"
    )
    parser.add_argument("--client", default="mqtt5")
    parser.add_argument("--past", default="0")
    parser.add_argument(
        "--broker-line", action="append", default=[], help="a line of Mosquitto's configuration"
    )
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--generate", help=argparse.SUPPRESS)
    parser.add_argument("--phases", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        phases = [Phase(*each) for each in json.loads(options.phases)]
        generate(options.generate, options.shape, options.topics, options.period, phases)
        return
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()};"
        f" {options.shape}, {options.topics:,} topics, {options.client}"
    )
    if options.ramp is not None:
        phases = [Phase(f"{hz:g} Hz", 10, hz) for hz in options.ramp]
    else:
        phases = [
            Phase("what fits", options.before, options.fits),
            Phase(f"{options.times:g} times that", options.seconds, options.fits * options.times),
            Phase("what fits again", options.after, options.fits),
        ]
    run(options, phases)


if __name__ == "__main__":
    main()
