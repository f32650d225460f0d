"""What the app may cost: `python tests/bench/bench_budget.py [--part demo] [--part large] [--part paced]`.

`demo` is the app of `trnfleet demo` at 120x40, without its simulator and broker. `large` is the app at 240x70 over 62,500 instances
(1,000,000 chips) whose values change ten times a second inside the same process, without messages; what changing them takes is left out.
`paced` is the same in a terminal that takes 500 KB/s. Figures are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from support.monitor.feed import Feed, SilentSource, ultraservers
from support.processes.terminal import Terminal

from trnfleet.clock import SystemClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.run import run_app

if TYPE_CHECKING:
    import psutil

    from trnfleet.wire.ports import Envelope

MIB = 2**20
ULTRASERVERS = 15_625
CHANGED = ("nc_util_pct", "power_w", "temperature_c", "tflops", "hbm_used_bytes")
EVERY_S = 0.1
PACE_BYTES_PER_S = 500_000
NOTE = b"charts show"
"""What the keys of this benchmark bring onto the screen."""


class BareTerminal(Terminal):
    """A terminal that draws nothing itself, which would take the processor that is measured, and may be slow."""

    pace_bytes_per_s = 0

    def _read(self) -> None:
        every_s = 0.01
        most = int(self.pace_bytes_per_s * every_s) or 65_536
        while True:
            try:
                data = os.read(self._fd, most)
            except OSError:
                return
            if not data:
                return
            self.raw += data
            if self.pace_bytes_per_s:
                time.sleep(every_s)


class PacedTerminal(BareTerminal):
    """A terminal behind a slow line."""

    pace_bytes_per_s = PACE_BYTES_PER_S


class QuietSource(SilentSource):
    """A source of which nothing ever comes."""

    async def take(self) -> list[Envelope]:
        await asyncio.Event().wait()
        return []


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds that a process has used, without its children's."""
    times = process.cpu_times()
    return times.user + times.system


def demo(seconds: float) -> None:
    """Print what the demo's app costs."""
    with tempfile.TemporaryDirectory() as folder:
        states = {"XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder}
        with BareTerminal("demo", "--seed", "1", columns=120, rows=40, **states) as terminal:
            time.sleep(30)
            begun, before, size = time.monotonic(), cpu_s(terminal.process), len(terminal.raw)
            time.sleep(seconds)
            elapsed = time.monotonic() - begun
            share = (cpu_s(terminal.process) - before) / elapsed * 100
            output = (len(terminal.raw) - size) / elapsed / 1e3
            time.sleep(max(0.0, 120 - (time.monotonic() - terminal.started_s)))
            memory = terminal.process.memory_full_info()
            terminal.end(keys="q")
    print(f"demo, 120x40: {share:.1f} % of a core over {elapsed:.0f} s, output {output:.1f} KB/s;", end=" ")
    print(f"after 120 s {memory.rss / MIB:.0f} MiB, {memory.uss / MIB:.0f} MiB of them its own")


def large(seconds: float, kind: type[BareTerminal]) -> None:
    """Print what the app costs over a large fleet, and how long keys take."""
    with tempfile.TemporaryDirectory() as folder:
        spent = Path(folder) / "spent"
        program = [sys.executable, __file__, "--app", str(spent)]
        with kind(columns=240, rows=70, program=program, XDG_STATE_HOME=folder) as terminal:
            until = time.monotonic() + 60
            while not spent.exists() and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(15)
            fed = float(spent.read_text())
            begun, before, size = time.monotonic(), cpu_s(terminal.process), len(terminal.raw)
            time.sleep(seconds)
            elapsed = time.monotonic() - begun
            used = cpu_s(terminal.process) - before
            feeding = float(spent.read_text()) - fed
            output = (len(terminal.raw) - size) / elapsed / 1e3
            keys = [key_ms(terminal, number) for number in range(60)]
            memory = terminal.process.memory_info().rss / MIB
            terminal.end(keys="q")
    print(f"{ULTRASERVERS * 4:,} instances at {1 / EVERY_S:g} Hz, 240x70", end="")
    print(f", {PACE_BYTES_PER_S // 1000} KB/s" if kind.pace_bytes_per_s else "", end=": ")
    print(
        f"{(used - feeding) / elapsed * 100:.1f} % of a core (changing values: {feeding / elapsed * 100:.1f} %),",
        end=" ",
    )
    print(f"output {output:.0f} KB/s, {memory:.0f} MiB")
    low, middle, high = np.percentile(keys, [5, 50, 95])
    print(f"  key to screen: median {middle:.0f} ms, p95 {high:.0f} ms, p5 {low:.0f} ms ({len(keys)} keys)")


def key_ms(terminal: Terminal, number: int) -> float:
    """Press a key that shows a note, and return how long its first byte took."""
    time.sleep(0.31)
    size = len(terminal.raw)
    begun = time.perf_counter()
    terminal.send("v" if number % 2 == 0 else "V")
    while terminal.raw.find(NOTE, size) < 0 and time.perf_counter() - begun < 5:
        time.sleep(0.0005)
    return (time.perf_counter() - begun) * 1e3


async def app(spent: Path) -> None:
    """Show a large fleet whose values change all the time, and write what changing them takes into a file."""
    clock = SystemClock()
    monitor = Monitor(QuietSource(), "bench", clock=clock, rules=load_rules(()))
    store, feed = monitor.store, Feed(ultraservers(ULTRASERVERS))
    feed.scatter()
    store.replace_layout(feed.layout)
    for name, column in feed.columns.items():
        store.columns[name][...] = column

    async def change() -> None:
        taken_s = 0.0
        while True:
            begun_s = time.thread_time()
            for name in CHANGED:
                store.columns[name] ^= 1
            store.chip_seen_s[:] = store.instance_seen_s[:] = clock.monotonic_s()
            store.chip_ts_ns[:] = clock.wall_ns()
            store.revision += 1
            monitor.counts.messages += 1
            taken_s += time.thread_time() - begun_s
            spent.write_text(f"{taken_s:.3f}")  # noqa: ASYNC240  ten bytes
            await clock.sleep(EVERY_S)

    running = {"monitor": monitor.run(), "change": change()}
    await run_app(monitor, running, clock=clock, log_file=spent.with_suffix(".log"))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=("demo", "large", "paced"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--app", type=Path, help="only show the large fleet; what changing it takes goes here"
    )
    given = parser.parse_args()
    if given.app is not None:
        asyncio.run(app(given.app))
        return
    parts = given.part or ["demo", "large", "paced"]
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}")
    if "demo" in parts:
        demo(given.seconds)
    if "large" in parts:
        large(given.seconds, BareTerminal)
    if "paced" in parts:
        large(given.seconds, PacedTerminal)


if __name__ == "__main__":
    main()
