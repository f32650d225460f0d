"""Cost of alert rules.

`python -m lab.bench.bench_alerts [--fleet rainier-1m] [--ticks 30] [--rules 25] [--profile]`

The shipped pack (its first rules, up to the number) is evaluated over a simulated fleet, tick by
tick and in memory. A pass of roll-ups over the same store is the measure of the machine. The
longest slice is a key's longest wait. Figures are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import platform
import pstats
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from support.monitor.alert_run import AlertRun

from trnfleet.services.files.rules import load_rules

if TYPE_CHECKING:
    from collections.abc import Iterator


async def measure(fleet: str, ticks: int, count: int, *, storm: bool, profile: bool) -> None:
    """Print what evaluations cost."""
    run = AlertRun("steady-training", fleet=fleet, rules=load_rules()[:count])
    monitor = run.monitor
    own: list[float] = []
    slices: list[float] = []
    rollups: list[float] = []
    profiler = cProfile.Profile()
    evaluate = monitor.alerts.evaluate

    def timed(readings: Any, jobs: Any, *counts: Any) -> Iterator[None]:
        if storm and len(own) >= ticks // 2:
            # Everything is hot at once: a million targets of one rule.
            monitor.store.columns["temperature_c"][:] = 1_000
        begun = time.thread_time()
        for _ in monitor.rollups.passes(monitor.store):
            pass
        rollups.append(time.thread_time() - begun)
        total = 0.0
        going = evaluate(readings, jobs, *counts)
        while True:
            if profile:
                profiler.enable()
            begun = time.thread_time()
            try:
                next(going)
            except StopIteration:
                break
            finally:
                took = time.thread_time() - begun
                profiler.disable()
                total += took
                slices.append(took)
            yield
        own.append(total)

    watched: Any = monitor.alerts
    watched.evaluate = timed
    await run.play(ticks)
    after = own[2 : ticks // 2] if storm else own[2:]
    print(
        f"{fleet}: {monitor.store.layout.chips:,} chips, {count} rules, {len(own)} evaluations, "
        f"{len(monitor.alerts.active()):,} alerts active"
    )
    print(
        f"  an evaluation, ms of CPU: median {1e3 * statistics.median(after):.1f}, p95"
        f" {1e3 * quantile(after, 0.95):.1f}, most {1e3 * max(after):.1f}; a pass of roll-ups"
        f" {1e3 * statistics.median(rollups[2:]):.1f}, ratio"
        f" {statistics.median(after) / statistics.median(rollups[2:]):.2f}"
    )
    if storm:
        print(
            f"  in the storm: first {1e3 * own[ticks // 2]:.0f} ms, then"
            f" {1e3 * statistics.median(own[ticks // 2 + 1 :]):.0f}"
        )
    print(
        f"  slices, ms: p99 {1e3 * quantile(slices, 0.99):.1f}, longest"
        f" {1e3 * max(slices[len(slices) // 10 :]):.1f}"
    )
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(12)


def quantile(values: list[float], share: float) -> float:
    """Return a quantile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fleet", default="rainier-1m")
    parser.add_argument("--ticks", type=int, default=30)
    parser.add_argument("--rules", type=int, default=25)
    parser.add_argument(
        "--storm", action="store_true", help="let every chip be too hot from the middle on"
    )
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, NumPy {np.__version__}"
    )
    asyncio.run(
        measure(
            options.fleet,
            options.ticks,
            options.rules,
            storm=options.storm,
            profile=options.profile,
        )
    )


if __name__ == "__main__":
    main()
