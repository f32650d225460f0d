"""A fleet of millions of chips on one broker, in cells, or as roll-ups.

`python -m lab.bench.bench_cells direct --chips 1024000 2048000`: one Mosquitto, and the app with
all rules. `python -m lab.bench.bench_cells cells --chips 4096000 --cells 4`: for each cell a
Mosquitto, a generator of its share and a `trnfleet relay`; a top Mosquitto, and the app on it.
`python -m lab.bench.bench_cells rollups --ultraservers 156250 --cells 5`: the top Mosquitto and
the app, with the messages of that many relays. `python -m lab.bench.bench_cells parts`: CPU a
second of app, relay and viewer, without brokers, terminals and readers.

A generator sends a frame of 512 chips a block and second, with values from a running simulator of
ten thousand chips; its CPU is listed separately. The app joins the running fleet in a real
pseudo-terminal, at 120x40 and then at 240x70. Figures are CPU, memory and processor waits of every
process, lag, losses, keys and alerts. They are printed, never asserted.
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
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import psutil
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program
from support.processes.terminal import Terminal

from lab.bench.app import account, alerts_in, cpu_s, key_ms, quantile, shown_lag_s, waited_s
from lab.bench.cell_parts import measure
from lab.bench.large_fleet import (
    CLUSTER_CHIPS,
    FLEET,
    BlockPublisher,
    RollupPublisher,
    Sent,
    publish,
)
from lab.bench.packets import dropped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.transport.url import BrokerUrl

MODES = ("direct", "cells", "rollups", "parts")
SIZES = ((120, 40), (240, 70))
LOOK_EVERY_S = 0.5
BROKER_LINE = "sys_interval 1"


class Generator:
    """A process that publishes frames."""

    def __init__(self, url: BrokerUrl, what: str, *numbers: int) -> None:
        line = [
            sys.executable,
            "-m",
            "lab.bench.bench_cells",
            "--generate",
            str(url),
            "--what",
            what,
            *map(str, numbers),
        ]
        self.process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait_ready(self) -> None:
        """Wait until all state is published."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def ask(self) -> Sent:
        """Return what it has done so far."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return Sent(**json.loads(self.process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def generate(url: str, what: str, first: int, count: int) -> None:
    """Run a generator of some clusters' blocks, or of UltraServers' roll-ups from cells."""
    if what == "blocks":
        publish(url, BlockPublisher(f"generator-{first}", range(first, first + count)))
    else:
        publish(url, RollupPublisher(first, count))


class Sample(NamedTuple):
    """What the processes have used so far."""

    at_s: float
    cpu_s: dict[str, float]
    waited_s: dict[str, float]
    sent: list[Sent]
    dropped: dict[str, int | None]


class Bench:
    """The processes of one run."""

    def __init__(self, folder: Path, stack: ExitStack, lines: Sequence[str]) -> None:
        self._folder = folder
        self._stack = stack
        self._lines = lines
        self.processes = {"this program": psutil.Process()}
        self.generators: list[Generator] = []
        self.brokers: dict[str, BrokerUrl] = {}
        self.relays: dict[str, Program] = {}

    def broker(self, name: str) -> BrokerUrl:
        """Start a Mosquitto, and return its address."""
        broker = MosquittoProcess(self._folder, BROKER_LINE, *self._lines)
        broker.start()
        self._stack.callback(broker.stop)
        self.processes[name] = psutil.Process(broker.pid)
        self.brokers[name] = broker.url
        return broker.url

    def generator(self, name: str, url: BrokerUrl, what: str, first: int, count: int) -> None:
        """Start a generator."""
        generator = self._stack.enter_context(Generator(url, what, first, count))
        self.generators.append(generator)
        self.processes[name] = psutil.Process(generator.process.pid)

    def relay(self, name: str, url: BrokerUrl, top: BrokerUrl) -> None:
        """Start a relay."""
        line = ("relay", "--broker", str(url), "--to", str(top), "--cell", name, "--name", FLEET)
        program = self._stack.enter_context(Program(self._folder, *line))
        self.relays[name] = program
        self.processes[f"relay {name}"] = psutil.Process(program.process.pid)

    def app(self, url: BrokerUrl, past: str) -> Terminal:
        """Start the app."""
        columns, rows = SIZES[0]
        line = ("monitor", "--broker", str(url), "--name", FLEET, "--past", past)
        terminal = self._stack.enter_context(Terminal(*line, columns=columns, rows=rows))
        self.processes["app"] = terminal.process
        return terminal

    def sample(self) -> Sample:
        """Return what the processes have used so far."""
        return Sample(
            time.monotonic(),
            {name: cpu_s(each) for name, each in self.processes.items()},
            {name: waited_s(each.pid) for name, each in self.processes.items()},
            [each.ask() for each in self.generators],
            {name: dropped(url) for name, url in self.brokers.items()},
        )


def run(mode: str, chips: int, options: argparse.Namespace) -> None:
    """Play one run, and print what was seen."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = str(folder)
        bench = Bench(folder, stack, options.broker_line)
        clusters = max(1, round(chips / CLUSTER_CHIPS))
        cells = min(options.cells, clusters)
        if mode == "direct":
            url = bench.broker("broker")
            chips = clusters * CLUSTER_CHIPS
            bench.generator("generator", url, "blocks", 0, clusters)
        elif mode == "cells":
            url = bench.broker("top broker")
            chips = clusters * CLUSTER_CHIPS
            for cell in range(cells):
                first = cell * clusters // cells
                stop = (cell + 1) * clusters // cells
                own = bench.broker(f"broker cell-{cell}")
                bench.generator(f"generator cell-{cell}", own, "blocks", first, stop - first)
        else:
            url = bench.broker("top broker")
            chips = 64 * options.ultraservers
            bench.generator("generator", url, "rollups", options.ultraservers, options.cells)
        for generator in bench.generators:
            generator.wait_ready()
        if mode == "cells":
            for cell in range(cells):
                bench.relay(f"cell-{cell}", bench.brokers[f"broker cell-{cell}"], url)
        print(
            f"{mode}, {chips:,} chips{f' in {options.cells} cells' if mode != 'direct' else ''},"
            f" --past {options.past}",
            flush=True,
        )
        look(bench, bench.app(url, options.past), chips, options)


def look(bench: Bench, terminal: Terminal, chips: int, options: argparse.Namespace) -> None:
    """Wait until the app shows all, watch it at both sizes, and print the table."""
    begun_s = time.monotonic()
    found_s: float | None = None
    while (passed_s := time.monotonic() - begun_s) < options.settle or (
        found_s is None and passed_s < options.within
    ):
        time.sleep(0.2)
        if found_s is None and re.search(rf"\b{chips:,} chips +all live", terminal.text):
            found_s = time.monotonic() - begun_s
    when = "not shown as live" if found_s is None else f"live on the screen after {found_s:.1f} s"
    print(f"  all chips {when}; header: {' '.join(terminal.lines[0].split())}", flush=True)
    before_account = account(terminal)
    terminal.send("1")
    whole = bench.sample()
    alerts: set[str] = set()
    lags: list[float] = []
    for columns, rows in SIZES:
        terminal.resize(columns, rows)
        time.sleep(2)
        keys: list[float] = []
        begun_s = time.monotonic()
        first = cpu_s(terminal.process)
        while time.monotonic() - begun_s < options.seconds:
            time.sleep(LOOK_EVERY_S)
            text = terminal.text
            shown_s = shown_lag_s(text)
            if shown_s is not None:
                lags.append(shown_s * 1e3)
            alerts |= alerts_in(text)
            keys.append(key_ms(terminal, len(keys)))
        app = (cpu_s(terminal.process) - first) / (time.monotonic() - begun_s)
        print(
            f"  {columns}x{rows}: key to screen, ms: p50 {quantile(keys, 0.5):.0f}, p95"
            f" {quantile(keys, 0.95):.0f} ({len(keys)} keys); app {app:.1%}"
        )
        if options.screens:
            print(terminal.text)
    end = bench.sample()
    memory = {name: each.memory_info().rss / 2**20 for name, each in bench.processes.items()}
    report(whole, end, memory)
    print(
        f"  lag, ms: median {quantile(lags, 0.5):.0f}, p95 {quantile(lags, 0.95):.0f} ({len(lags)}"
        " looks)"
    )
    after = account(terminal)
    print(
        "  app's account of that time: "
        + ", ".join(f"{name} {after[name] - before_account[name]:,}" for name in after)
        + "; since its start: "
        + ", ".join(f"{name} {count:,}" for name, count in after.items())
    )
    print(
        f"  alerts seen: {', '.join(sorted(alerts)) or 'none'};"
        f" {' '.join(terminal.lines[-1].split())}"
    )
    terminal.end(keys="q", within_s=30)
    for name, relay in bench.relays.items():
        relay.end()
        print(f"  relay {name}: {relay.output.strip().splitlines()[-1]}")
    sys.stdout.flush()


def report(before: Sample, after: Sample, memory: dict[str, float]) -> None:
    """Print each process's usage, and the output of generators and brokers."""
    elapsed_s = after.at_s - before.at_s
    print(
        f"  {'process':24}{'CPU, %':>8}{'waited, %':>11}{'RSS, MiB':>10}   over {elapsed_s:.0f} s"
    )
    ours = 0.0
    for name, size in memory.items():
        used = (after.cpu_s[name] - before.cpu_s[name]) / elapsed_s
        waited = (after.waited_s[name] - before.waited_s[name]) / elapsed_s
        ours += 0.0 if name == "this program" or name.startswith("generator") else used
        print(f"  {name:24}{used * 100:8.1f}{waited * 100:11.1f}{size:10.0f}")
    print(f"  {'without the bench':24}{ours * 100:8.1f}")
    for was, now in zip(before.sent, after.sent, strict=True):
        print(
            f"  a generator sent {now.frames - was.frames:,} frames in {now.seconds - was.seconds}"
            f" s, left {now.left_out - was.left_out} s out, was late by {now.late_s:.2f} s at most"
        )
    lost = []
    for name, count in after.dropped.items():
        since = before.dropped[name]
        lost.append(
            f"{name} {'unknown' if count is None or since is None else f'{count - since:,}'}"
        )
    print(f"  dropped by brokers: {', '.join(lost)}")


def parts(options: argparse.Namespace) -> None:
    """Print the CPU of an app, a relay and a roll-up viewer, part by part."""
    for chips in options.chips:
        clusters = range(max(1, round(chips / CLUSTER_CHIPS)))
        for name in ("app", "relay"):
            print(f"{name} of {len(clusters) * CLUSTER_CHIPS:,} chips", flush=True)
            print_parts(measure(BlockPublisher(name, clusters), is_relay=name == "relay"))
    print(f"viewer of {options.ultraservers:,} UltraServers", flush=True)
    print_parts(measure(RollupPublisher(options.ultraservers, options.cells), is_relay=False))


def print_parts(found: dict[str, float]) -> None:
    """Print some parts and their sum."""
    each = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    print(f"  ms of CPU a second: {each}; together {sum(found.values()):.0f}", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "modes",
        nargs="*",
        metavar="MODE",
        default=MODES,
        help="direct, cells, rollups, parts; all by default",
    )
    parser.add_argument(
        "--chips",
        type=int,
        nargs="+",
        default=[4 * CLUSTER_CHIPS],
        help=f"in steps of {CLUSTER_CHIPS:,}",
    )
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--ultraservers", type=int, default=156_250, help="of rollups")
    parser.add_argument("--seconds", type=float, default=20, help="at each size of the terminal")
    parser.add_argument(
        "--settle",
        type=float,
        default=20,
        help="least time between the app's start and the figures",
    )
    parser.add_argument(
        "--within", type=float, default=90, help="longest wait until all chips are live"
    )
    parser.add_argument("--past", default="0")
    parser.add_argument("--screens", action="store_true", help="show the screens, too")
    parser.add_argument(
        "--broker-line",
        action="append",
        default=[],
        help="a line of every Mosquitto's configuration",
    )
    parser.add_argument("--generate", help=argparse.SUPPRESS)
    parser.add_argument("--what", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        what, first, count = options.what
        generate(options.generate, what, int(first), int(count))
        return
    for mode in options.modes:
        if mode not in MODES:
            parser.error(f"no mode {mode!r}; there are {', '.join(MODES)}")
    load = os.getloadavg()[0]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; load"
        f" {load:.1f}"
    )
    for mode in options.modes:
        if mode == "parts":
            parts(options)
            continue
        for chips in options.chips if mode != "rollups" else options.chips[:1]:
            run(mode, chips, options)


if __name__ == "__main__":
    main()
