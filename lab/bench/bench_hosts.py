"""Cost of one message per host for the whole app.

`python -m lab.bench.bench_hosts [--hosts 10000 30000 62500] [--past 1GB 0]`

Every host publishes a frame a second, with a name and a boot of its own, and its descriptor each
minute, as agents do. They are one process with pre-encoded messages, so that it uses little of the
machine; values are from two alternating ticks of a simulated fleet. The app joins the running
fleet, through Mosquitto on its default configuration, in a real pseudo-terminal. Figures are CPU of
each process, memory, losses, alerts, and the time of keys. `--one` has one publisher for all hosts,
like a simulator. `--record` runs `trnfleet record` in the app's place. Figures are printed, never
asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mqtt5
import psutil
from support.monitor.feed import SilentSource
from support.processes.mosquitto import MosquittoProcess
from support.processes.terminal import Terminal

from lab.bench.app import cpu_s, quantile, usage
from lab.bench.packets import (
    AT_ONCE,
    REPEAT_S,
    SLICES_PER_S,
    await_answers,
    connect,
    cut_frame,
    send_state,
    stamp,
)
from trnfleet.clock import SystemClock
from trnfleet.domain.fleet import Publishing
from trnfleet.domain.metrics import SIMULATED, Kind
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.slices import DONE, batch_slices
from trnfleet.services.files.rules import load_rules
from trnfleet.services.simulator.engine import make_engine
from trnfleet.services.simulator.run import load_run
from trnfleet.sim.publish.partition import partition
from trnfleet.sim.publish.state import descriptor, presence
from trnfleet.transport.url import parse_url
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FLEET = "rainier-1m"
SIZES = (120, 40), (240, 70)
VARIANTS = 2
"""Ticks whose values come in turn."""
CONNECTIONS = 8


class Hosts:
    """The messages of all hosts, encoded beforehand."""

    def __init__(self, count: int, *, is_one: bool) -> None:
        run = load_run(
            {"period", "speed", "fleet"},
            fleet=FLEET,
            scenario=None,
            seed=7,
            period_s=1.0,
            speed=1.0,
            start=None,
            random_faults=False,
        )
        engine = make_engine(run, run.fleet)
        engine.restart_at(time.time_ns())
        engine.begin()
        units = partition(engine.layout, Publishing(format="cbor", granularity="instance"))[:count]
        names = ["hosts" if is_one else f"host-{n:05d}" for n in range(len(units))]
        boots = [f"{0 if is_one else n:016x}" for n in range(len(units))]
        state = {
            (name, boot): presence(FLEET, name, boot, "online")
            for name, boot in zip(names, boots, strict=True)
        }
        described = [
            descriptor(engine, unit, name, boot)
            for unit, name, boot in zip(units, names, boots, strict=True)
        ]
        self.state = [(each.topic, each.payload) for each in (*state.values(), *described)]
        """All that is retained."""
        self.described = [(each.topic, each.payload) for each in described]
        self.frames: list[list[tuple[bytes, bytes]]] = []
        """Of each variant and host the packet before its number, and after its time."""
        topics = [build_topic(FLEET, TopicClass.TELEMETRY, unit.path) for unit in units]
        encoders = [
            FrameEncoder(
                unit.path,
                boot,
                revision=0,
                columns=engine.columns,
                chips=unit.chips,
                instances=unit.instances,
            )
            for unit, boot in zip(units, boots, strict=True)
        ]
        counters = [metric.name for metric in SIMULATED if metric.kind is Kind.COUNTER]
        counted: dict[str, Any] = {}
        for _ in range(VARIANTS):
            engine.step()
            for name in counters:
                # A counter that fell every other tick would make rules fire again and again.
                engine.columns[name][...] = counted.setdefault(name, engine.columns[name].copy())
            self.frames.append(
                [
                    cut_frame(topic, each.encode(0, 0))
                    for topic, each in zip(topics, encoders, strict=True)
                ]
            )


def publish(url: str, count: int, *, is_one: bool) -> None:
    """Publish all state, report it, then every host's frames each second until stopped."""
    hosts = Hosts(count, is_one=is_one)
    broker = parse_url(url)
    connections = [connect(broker, f"bench-hosts-{n}") for n in range(CONNECTIONS)]
    for part in _parts(hosts.state, AT_ONCE):
        send_state(connections[0], part)
        await_answers(connections[0], len(part))
    # Each slice's packets, with places for number and time in between.
    slices: list[list[list[list[bytes]]]] = []
    for frames in hosts.frames:
        of_variant: list[list[list[bytes]]] = []
        for part in range(SLICES_PER_S):
            first = part * count // SLICES_PER_S
            stop = (part + 1) * count // SLICES_PER_S
            of_variant.append(
                [
                    list(
                        itertools.chain.from_iterable(
                            (before, b"", after) for before, after in frames[n:stop:CONNECTIONS]
                        )
                    )
                    for n in range(first, min(stop, first + CONNECTIONS))
                ]
            )
        slices.append(of_variant)
    hosts.frames.clear()
    print("ready", flush=True)
    owed = [0] * CONNECTIONS
    described = 0
    began_s = time.perf_counter()
    for tick in itertools.count():
        time.sleep(max(0.0, began_s + tick / SLICES_PER_S - time.perf_counter()))
        seq, part = divmod(tick, SLICES_PER_S)
        between = stamp(seq, time.time_ns() // 1_000_000 * 1_000_000)
        for connection, packets in zip(connections, slices[seq % VARIANTS][part], strict=False):
            packets[1::3] = [between] * (len(packets) // 3)
            connection.sendall(b"".join(packets))
        due = int((tick + 1) * count / SLICES_PER_S / REPEAT_S)
        for number, few in enumerate(
            _parts([hosts.described[n % count] for n in range(described, due)], AT_ONCE)
        ):
            at = number % CONNECTIONS
            await_answers(connections[at], owed[at])
            send_state(connections[at], few)
            owed[at] = len(few)
        described = due


def _parts(items: Sequence[Any], size: int) -> list[Any]:
    return [items[n : n + size] for n in range(0, len(items), size)]


@contextlib.contextmanager
def publishing(
    hosts: int, options: argparse.Namespace
) -> Iterator[tuple[MosquittoProcess, psutil.Process, Path]]:
    """Run broker and hosts, and yield them with a folder for files."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = folder
        broker = MosquittoProcess(Path(folder), *options.broker_line)
        broker.start()
        publisher = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lab.bench.bench_hosts",
                "--publish",
                str(broker.url),
                "--hosts",
                str(hosts),
                *(["--one"] if options.one else []),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert publisher.stdout is not None
            assert publisher.stdout.readline() == "ready\n"
            time.sleep(3)
            yield broker, psutil.Process(publisher.pid), Path(folder)
        finally:
            publisher.kill()
            publisher.wait()
            broker.stop()


def measure(hosts: int, options: argparse.Namespace, past: str) -> None:
    """Print the figures of one run."""
    with publishing(hosts, options) as (broker, publisher, _):
        look(hosts, options, past, broker, publisher)


def record(hosts: int, options: argparse.Namespace) -> None:
    """Print the cost of `trnfleet record` for these messages, its output and losses."""
    with publishing(hosts, options) as (broker, _, folder):
        file = folder / "hosts.mcap"
        recorder = subprocess.Popen(
            [sys.executable, "-m", "trnfleet", "record", str(file), "--broker", str(broker.url)],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            processes = {
                "record": psutil.Process(recorder.pid),
                "broker": psutil.Process(broker.pid),
            }
            time.sleep(options.settle)
            before = {name: cpu_s(each) for name, each in processes.items()}
            begun_s = time.monotonic()
            size_bytes = file.stat().st_size
            time.sleep(options.seconds)
            elapsed_s = time.monotonic() - begun_s
            used = {name: cpu_s(each) - before[name] for name, each in processes.items()}
            size_bytes = file.stat().st_size - size_bytes
            memory = processes["record"].memory_info().rss / 2**20
        finally:
            recorder.send_signal(signal.SIGINT)
            said = recorder.communicate()[1].splitlines()
    print(f"{hosts:,} hosts, record, {elapsed_s:.0f} s after {options.settle:.0f} s")
    print(
        "  CPU, % of a core: "
        + ", ".join(f"{name} {value / elapsed_s * 100:.1f}" for name, value in used.items())
        + f"; us a message: record {used['record'] / elapsed_s / hosts * 1e6:.2f}; memory"
        f" {memory:.0f} MiB; {size_bytes / elapsed_s / 1e6:.1f} MB/s in the file"
    )
    # Every 10 s, and at the end.
    print("  " + "\n  ".join(said[1:]), flush=True)


def measured(
    hosts: int, seconds: float, terminal: Terminal, processes: dict[str, psutil.Process]
) -> str:
    """Return each process's usage over some seconds, the app's lag, and the time of keys."""
    used = usage(terminal, processes, seconds)
    return "; ".join(
        (
            "CPU, % of a core "
            + ", ".join(f"{name} {share:.1f}" for name, share in used.cpu_pct.items()),
            f"us a message of the app {used.cpu_pct['app'] * 1e4 / hosts:.2f}",
            "MiB " + ", ".join(f"{name} {size:.0f}" for name, size in used.memory_mib.items()),
            (
                f"lag, ms: p50 {quantile(used.lags_ms, 0.5):.0f}, p95"
                f" {quantile(used.lags_ms, 0.95):.0f} ({len(used.lags_ms)} looks)"
            ),
            (
                f"key to screen, ms: p50 {quantile(used.keys_ms, 0.5):.0f}, p95"
                f" {quantile(used.keys_ms, 0.95):.0f} ({len(used.keys_ms)} keys)"
            ),
            " ".join(terminal.lines[-1].split()),
        )
    )


def look(
    hosts: int,
    options: argparse.Namespace,
    past: str,
    broker: MosquittoProcess,
    publisher: psutil.Process,
) -> None:
    """Open the app, and print its figures over some seconds."""
    pasts = () if past == "default" else ("--past", past)
    log = Path(os.environ["XDG_STATE_HOME"]) / "app.log"
    with Terminal(
        "monitor",
        "--broker",
        str(broker.url),
        "--name",
        FLEET,
        *pasts,
        "--log-file",
        str(log),
        "--log-level",
        "info",
        columns=120,
        rows=40,
    ) as terminal:
        begun_s = time.monotonic()
        found = -1.0
        while time.monotonic() - begun_s < options.settle:
            time.sleep(0.1)
            if found < 0 and f"{hosts:,} instances" in terminal.text:
                found = time.monotonic() - begun_s
        first = terminal.text
        processes = {
            "app": terminal.process,
            "broker": psutil.Process(broker.pid),
            "publisher": publisher,
        }
        print(
            f"{hosts:,} hosts, --past {past}, from {options.settle:.0f} s on; all instances shown"
            f" after {found:.1f} s"
        )
        for columns, rows in SIZES:
            terminal.resize(columns, rows)
            time.sleep(1)
            print(f"  {columns}x{rows}: {measured(hosts, options.seconds, terminal, processes)}")
        last = terminal.text
        terminal.end(keys="q", within_s=30)
        if options.screens:
            print(first, last, sep="\n")
        if options.screens:
            print(log.read_text()[-6000:])
    for when, text in (("before", first), ("after", last)):
        lines = text.splitlines()
        print(f"  {when}: {' '.join(lines[0].split())} | {' '.join(lines[-1].split())}")
    sys.stdout.flush()


def _of_slices(took_s: list[float]) -> str:
    return f"ms of the layout {sum(took_s) * 1e3:.0f}, its longest slice {max(took_s) * 1e3:.0f}"


def parts(count: int) -> None:
    """Print a monitor's CPU for the first messages and for later ticks.

    In this process and without a broker.
    """
    hosts, clock = Hosts(count, is_one=False), SystemClock()
    rules = load_rules()
    monitor = Monitor(SilentSource(), FLEET, clock=clock, rules=rules)
    gc.set_threshold(100_000, 20, 100)
    gc.freeze()

    def spent_s(work: Callable[[], object]) -> float:
        begun_s = time.process_time()
        work()
        return time.process_time() - begun_s

    def apply(batch: list[Envelope]) -> None:
        for part in batch_slices(batch):
            monitor.ingest.apply(part, clock.monotonic_s(), clock.wall_ns())

    names: dict[str, str] = {}

    def tick(seq: int) -> list[Envelope]:
        stamps = [stamp(seq, time.time_ns() + 20_000_000 * n) for n in range(SLICES_PER_S)]
        batch = []
        for n, (before, after) in enumerate(hosts.frames[seq % VARIANTS]):
            between = stamps[n * SLICES_PER_S // count]
            packet: Any = mqtt5.read(memoryview(before + between + after))[0]
            topic = names.setdefault(packet.topic, packet.topic)
            batch.append(
                Envelope(
                    topic,
                    packet.payload,
                    content_type=CONTENT_TYPE_CBOR,
                    received_s=clock.monotonic_s(),
                )
            )
        return batch

    def layout_slices_s(*, is_new: bool) -> list[float]:
        if not is_new:
            monitor.ingest.note_layout_due("hosts", is_change=False)
        work = monitor.ingest.rebuilding(clock.monotonic_s(), clock.wall_ns())
        took_s: list[float] = []
        is_done = False
        while not is_done:
            begun_s = time.process_time()
            is_done = next(work, DONE) is DONE
            took_s.append(time.process_time() - begun_s)
        return took_s

    state = [Envelope(topic, payload, 1, retain=True) for topic, payload in hosts.state]
    described, announced = state[-count:], state[:-count]
    print(
        f"{count:,} hosts: us a descriptor {spent_s(lambda: apply(described)) / count * 1e6:.1f}, "
        f"a presence {spent_s(lambda: apply(announced)) / count * 1e6:.1f}, "
        f"{_of_slices(layout_slices_s(is_new=True))}"
    )
    ticks = []
    for seq in range(6):
        batch = tick(seq)
        ticks.append(spent_s(lambda batch=batch: apply(batch)) / count * 1e6)  # type: ignore[misc]  # at once
    print(
        f"  us a frame: the first of each {ticks[0]:.1f}, later {statistics.median(ticks[2:]):.1f}"
    )
    print(f"  with all hosts live, {_of_slices(layout_slices_s(is_new=False))}")
    passes = []
    for seq in range(6, 10):
        apply(tick(seq))
        passes.append(spent_s(monitor.compute) * 1e3)
    print(
        f"  ms of a pass with all rules: {statistics.median(passes[1:]):.0f}; "
        f"of the fleet's time {spent_s(monitor.moment) * 1e3:.2f}, "
        f"of the pipeline {spent_s(lambda: monitor.pipeline(at_once=True)) * 1e3:.1f}"
    )
    counts = monitor.counts
    print(
        f"  applied {counts.messages:,}, lost {counts.lost}, rejected {counts.rejected}",
        flush=True,
    )


def main() -> None:
    """Measure the rows, or be the hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[10_000, 30_000, 62_500])
    parser.add_argument("--past", nargs="+", default=["default", "0"])
    parser.add_argument("--seconds", type=float, default=25.0, help="at each size of the terminal")
    parser.add_argument(
        "--settle", type=float, default=20.0, help="seconds between the app's start and the figures"
    )
    parser.add_argument("--one", action="store_true", help="one publisher for all hosts")
    parser.add_argument(
        "--screens", action="store_true", help="show the first and the last screen, too"
    )
    parser.add_argument(
        "--broker-line", nargs="*", default=[], help="lines for Mosquitto's configuration"
    )
    parser.add_argument("--publish", help=argparse.SUPPRESS)
    parser.add_argument(
        "--parts",
        action="store_true",
        help="only the CPU of a monitor's parts, without broker and app",
    )
    parser.add_argument(
        "--record", action="store_true", help="only `trnfleet record`, instead of the app"
    )
    options = parser.parse_args()
    if options.publish:
        publish(options.publish, options.hosts[0], is_one=options.one)
        return
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; load"
        f" {os.getloadavg()[0]:.1f}"
    )
    for hosts in options.hosts:
        if options.parts:
            parts(hosts)
            continue
        if options.record:
            record(hosts, options)
            continue
        for past in options.past:
            measure(hosts, options, past)


if __name__ == "__main__":
    main()
