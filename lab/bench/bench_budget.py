"""Cost of the app.

`python -m lab.bench.bench_budget [--part demo|large|paced]... [--view KEY] [--against CHECKOUT]`

`demo` is the app of `trnfleet demo` at 120x40, without its simulator and broker: user and system
CPU after a minute, and its memory. `--against` runs another checkout at the same time, so that
figures compare on a busy machine. `large` is the app at 240x70 over 62,500 instances (1,000,000
chips) with values changed ten times a second inside the same process, without messages; the cost of
the changes is left out. `paced` is the same in a terminal accepting 500 KB/s. Figures are printed,
never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from support.monitor.feed import Feed, SilentSource, ultraservers
from support.paths import ROOT
from support.processes.terminal import Terminal

from lab.bench.app import cpu_s
from trnfleet.clock import SystemClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.run import run_app

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psutil

    from trnfleet.wire.ports import Envelope

MIB = 2**20
WARM_UP_S = 60.0
ULTRASERVERS = 15_625
CHANGED = ("nc_util_pct", "power_w", "temperature_c", "tflops", "hbm_used_bytes")
JOBS = 48
EVERY_S = 0.1
PACE_BYTES_PER_S = 500_000
FLEET = "1"
NOTE = b"charts show"
"""Text shown by this benchmark's keys."""


class BareTerminal(Terminal):
    """A terminal without drawing, optionally slow.

    Drawing would use the measured processor.
    """

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


class Memory(NamedTuple):
    """Memory of a process in MiB."""

    rss: float
    pss: float
    """Each page divided by the number of processes sharing it."""
    uss: float
    """Pages that no other process has."""


def memory_of(process: psutil.Process) -> dict[str, Memory]:
    """Return a process's memory by kind, and all of it as `all`."""
    sums = dict.fromkeys(("all", "files", "heap", "other"), np.zeros(3))
    for part in process.memory_maps(grouped=False):
        own = part.private_clean + part.private_dirty
        kind = (
            "files" if part.path.startswith("/") else "heap" if part.path == "[heap]" else "other"
        )
        for each in ("all", kind):
            sums[each] = sums[each] + np.array([part.rss, part.pss, own]) / MIB
    return {kind: Memory(*each.tolist()) for kind, each in sums.items()}


class Demo:
    """The app of a demo in a terminal, from one checkout."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.checkout = checkout
        settings = folder / "settings.toml"
        settings.touch()
        # A new interpreter: one that is forked from another shares its memory.
        self.terminal = BareTerminal(
            "demo",
            "--seed",
            "1",
            columns=120,
            rows=40,
            PYTHONPATH=str(checkout),
            PYTHONSAFEPATH="1",
            XDG_STATE_HOME=str(folder),
            XDG_CACHE_HOME=str(folder),
            TRNFLEET_CONFIG=str(settings),
        )
        self._begun = self._used = 0.0
        self._size = 0

    def begin(self) -> None:
        """Note what it has used so far."""
        self._begun, self._used = time.monotonic(), cpu_s(self.terminal.process)
        self._size = len(self.terminal.raw)

    def report(self) -> str:
        """Return its CPU since then, and its memory."""
        elapsed = time.monotonic() - self._begun
        share = (cpu_s(self.terminal.process) - self._used) / elapsed * 100
        output = (len(self.terminal.raw) - self._size) / elapsed / 1e3
        memory = memory_of(self.terminal.process)
        sizes = "; ".join(
            f"{kind} {each.rss:.1f} / {each.pss:.1f} / {each.uss:.1f}"
            for kind, each in memory.items()
        )
        return (
            f"{share:.2f} % of a core over {elapsed:.0f} s, output {output:.1f} KB/s; RSS / PSS /"
            f" USS, MiB: {sizes}"
        )


def demo(seconds: float, checkouts: Sequence[Path]) -> None:
    """Print the cost of the demo's app in some checkouts, all running at once."""
    with contextlib.ExitStack() as stack:
        demos = []
        for checkout in checkouts:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            demos.append(Demo(checkout, folder))
            stack.enter_context(demos[-1].terminal)
        time.sleep(WARM_UP_S)
        for each in demos:
            each.begin()
        time.sleep(seconds)
        for each in demos:
            print(f"demo of {each.checkout.name}, 120x40: {each.report()}", flush=True)
            each.terminal.end(keys="q")


def large(seconds: float, kind: type[BareTerminal], view: str = FLEET) -> None:
    """Print the cost of a view over a large fleet; of Fleet also the time of keys."""
    with tempfile.TemporaryDirectory() as folder:
        spent = Path(folder) / "spent"
        program = [sys.executable, "-m", "lab.bench.bench_budget", "--app", str(spent)]
        with kind(columns=240, rows=70, program=program, XDG_STATE_HOME=folder) as terminal:
            until = time.monotonic() + 60
            while not (spent.exists() and spent.stat().st_size) and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(15)
            terminal.send(view)
            time.sleep(15)
            fed = float(spent.read_text())
            begun = time.monotonic()
            before = cpu_s(terminal.process)
            size = len(terminal.raw)
            time.sleep(seconds)
            elapsed = time.monotonic() - begun
            used = cpu_s(terminal.process) - before
            feeding = float(spent.read_text()) - fed
            output = (len(terminal.raw) - size) / elapsed / 1e3
            keys = [key_ms(terminal, number) for number in range(60 * (view == FLEET))]
            memory = terminal.process.memory_info().rss / MIB
            terminal.end(keys="q")
    print(f"{ULTRASERVERS * 4:,} instances at {1 / EVERY_S:g} Hz, 240x70, view {view}", end="")
    print(f", {PACE_BYTES_PER_S // 1000} KB/s" if kind.pace_bytes_per_s else "", end=": ")
    print(
        f"{(used - feeding) / elapsed * 100:.1f} % of a core (changing values:"
        f" {feeding / elapsed * 100:.1f} %),",
        end=" ",
    )
    print(f"output {output:.0f} KB/s, {memory:.0f} MiB")
    if not keys:
        return
    low, middle, high = np.percentile(keys, [5, 50, 95])
    print(
        f"  key to screen: median {middle:.0f} ms, p95 {high:.0f} ms, p5 {low:.0f} ms ({len(keys)}"
        " keys)"
    )


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
    """Show a large, constantly changing fleet, and write the changes' cost to a file."""
    clock = SystemClock()
    monitor = Monitor(QuietSource(), "bench", clock=clock, rules=load_rules(()))
    store, feed = monitor.store, Feed(ultraservers(ULTRASERVERS))
    feed.scatter()
    # A job has one UltraServer of each run of them.
    places = feed.layout.ultraservers
    feed.jobs = {f"job-{job:02d}": places[job::JOBS] for job in range(JOBS)}
    store.replace_layout(feed.layout)
    for name, column in feed.columns.items():
        store.columns[name][...] = column
    monitor.apply(feed.announcements([]))

    # Of a fixed width and over what was there: a reader meanwhile finds the whole of a figure.
    file = os.open(spent, os.O_WRONLY | os.O_CREAT)

    async def change() -> None:
        taken_s = 0.0
        while True:
            begun_s = time.thread_time()
            for name in CHANGED:
                store.columns[name] ^= 1
            # Without it all of them stand still while busy, and alert.
            store.columns["exec_completed"] += np.uint64(1)
            store.chip_seen_s[:] = store.instance_seen_s[:] = clock.monotonic_s()
            store.chip_ts_ns[:] = clock.wall_ns()
            store.revision += 1
            monitor.counts.messages += 1
            taken_s += time.thread_time() - begun_s
            os.pwrite(file, f"{taken_s:012.3f}".encode(), 0)
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
    parser.add_argument("--view", default=FLEET, help="key of the view that `large` shows")
    parser.add_argument(
        "--app", type=Path, help="only show the large fleet; what changing it takes goes here"
    )
    parser.add_argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        help="another checkout whose demo runs beside",
    )
    given = parser.parse_args()
    if given.app is not None:
        asyncio.run(app(given.app))
        return
    parts = given.part or ["demo", "large", "paced"]
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}")
    if "demo" in parts:
        demo(given.seconds, [ROOT, *(each.resolve() for each in given.against)])
    if "large" in parts:
        large(given.seconds, BareTerminal, given.view)
    if "paced" in parts:
        large(given.seconds, PacedTerminal)


if __name__ == "__main__":
    main()
