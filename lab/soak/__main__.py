"""Memory of hours: `make soak MINUTES=120 ARGS="--every-s 30 --keys-s 60"`.

The demo, and the game day at 20 times the clock, run side by side, each in a terminal of its own in
which keys go through the views. The resident memory of the app and of its simulator is read from
the system. Growth is the slope of the medians of five minutes, by least squares, from the twentieth
minute on. Figures are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from support.processes.terminal import Terminal

MIB = 2**20
RUNS = {
    "demo": ("demo",),
    "game-day x20": ("demo", "--scenario", "game-day", "--speed", "20"),
}
KEYS = ("1", "2", "3", "4", "5", "6", "\t", "j", "j", "\r", "\x1b", "k")
SETTLED_S = 20 * 60
BUCKET_S = 300


class Soaked:
    """One run, with its processes' memory at each sample."""

    def __init__(self, name: str, folder: Path) -> None:
        log = folder / f"{name.split(maxsplit=1)[0]}.log"
        self.name = name
        self.terminal = Terminal(*RUNS[name], "--log-file", str(log))
        self.terminal.keep = False
        self.samples: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)

    def sample(self, at_s: float) -> None:
        """Read the memory of the app and its children."""
        app = self.terminal.process
        with contextlib.suppress(psutil.NoSuchProcess):
            self.samples["app"].append((at_s, app.memory_info().rss / MIB))
            for child in app.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    name = "broker" if "mosquitto" in child.name() else "simulator"
                    self.samples[name].append((at_s, child.memory_info().rss / MIB))

    def press(self, number: int) -> None:
        """Type the next key of the walk through the views."""
        with contextlib.suppress(OSError):
            self.terminal.send(KEYS[number % len(KEYS)])


def medians(samples: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the middle second and the median of each five minutes."""
    buckets: dict[int, list[float]] = collections.defaultdict(list)
    for at_s, size in samples:
        buckets[int(at_s // BUCKET_S)].append(size)
    return [
        ((number + 0.5) * BUCKET_S, statistics.median(sizes))
        for number, sizes in sorted(buckets.items())
    ]


def growth_mib_per_h(samples: list[tuple[float, float]]) -> float:
    """Return the slope of the settled medians; nan where there are fewer than two."""
    settled = [each for each in medians(samples) if each[0] > SETTLED_S]
    if len(settled) < 2:
        return float("nan")
    slope, _ = np.polyfit([at_s / 3600 for at_s, _ in settled], [size for _, size in settled], 1)
    return float(slope)


def report(runs: list[Soaked]) -> None:
    """Print the medians of each process, and how they grow."""
    for run in runs:
        for process, samples in run.samples.items():
            line = " ".join(f"{at_s / 60:.0f}:{size:.1f}" for at_s, size in medians(samples))
            print(f"{run.name:14}{process:10} {line}")
            print(
                f"{run.name:14}{process:10} growth after 20 min: {growth_mib_per_h(samples):+.2f}"
                " MiB an hour"
            )
    sys.stdout.flush()


def main() -> None:
    """Run, and report every five minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--every-s", type=float, default=30)
    parser.add_argument(
        "--keys-s", type=float, default=60, help="seconds between two keys; 0 types none"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [Soaked(name, Path(folder)) for name in RUNS]
        begin_s = time.monotonic()
        number = 0
        reported = 0
        while (at_s := time.monotonic() - begin_s) < given.minutes * 60:
            for run in runs:
                run.sample(at_s)
                if given.keys_s and int(at_s / given.keys_s) > number:
                    run.press(number)
            number = int(at_s / given.keys_s) if given.keys_s else 0
            if at_s // BUCKET_S > reported:
                reported = int(at_s // BUCKET_S)
                report(runs)
            time.sleep(given.every_s)
        report(runs)
        for run in runs:
            print(f"{run.name}: the screen at the end\n{run.terminal.text}")
            run.terminal.send("q")
            os.waitpid(run.terminal.pid, 0)


if __name__ == "__main__":
    main()
