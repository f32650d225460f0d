"""Cost of a tick.

`python -m lab.bench.bench_sim [--fleet rainier-1m] [--ticks 30] [--inlet-c 50] [--profile]`

Prints the figures with the machine's; it asserts nothing. A warm inlet makes training chips
throttle, fleet-wide.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import cProfile
import os
import platform
import pstats
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from support.sim.tick_lines import stdout_lines

from trnfleet.config import find_file, load_model
from trnfleet.domain.fleet import FleetFile
from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.publish.partition import partition
from trnfleet.wire.frames import FrameEncoder


def main() -> None:
    """Measure a fleet and the demo's lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleet", default="rainier-1m")
    parser.add_argument("--ticks", type=int, default=30)
    parser.add_argument(
        "--inlet-c",
        type=float,
        help="temperature at the racks' inlets, degC, instead of the fleet's",
    )
    parser.add_argument(
        "--profile", action="store_true", help="show the five functions that cost most"
    )
    options = parser.parse_args()
    print(
        f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy"
        f" {np.__version__}"
    )
    engine = _measure_ticks(options.fleet, options.ticks, options.inlet_c)
    print(f"peak memory of the process with the simulator alone {_peak_mb():.0f} MB")
    if engine.fleet.publish.format == "cbor":
        _measure_frames(engine)
    # Before the lines: they are of another fleet, in the same process.
    print(f"peak memory of the process with frames {_peak_mb():.0f} MB")
    _measure_lines()
    if options.profile:
        _profile(engine, options.ticks)


def _load(name: str, inlet_c: float | None = None) -> Engine:
    fleet = load_model(find_file("fleets", name), FleetFile)
    if inlet_c is not None:
        fleet = fleet.model_copy(update={"inlet_c": inlet_c})
    return Engine(fleet, 1, 1.0, to_ns(fleet.start))


def _measure_ticks(name: str, ticks: int, inlet_c: float | None) -> Engine:
    begin = time.process_time()
    engine = _load(name, inlet_c)
    built_s = time.process_time() - begin
    cpu_ms = []
    wall_ms = []
    for _ in range(ticks + 1):
        cpu = time.process_time()
        wall = time.perf_counter()
        engine.step()
        cpu_ms.append((time.process_time() - cpu) * 1e3)
        wall_ms.append((time.perf_counter() - wall) * 1e3)
    size = sum(column.nbytes for column in engine.columns.values()) / 1e6
    print(
        f"{name}: {engine.layout.chips:,} chips, {len(engine.job_names)} jobs, columns {size:.0f}"
        f" MB, built in {built_s:.2f} s"
    )
    metric = BY_NAME["throttle_pct"]
    throttled = int(np.count_nonzero(engine.columns[metric.name] >= metric.code_of(5.0)))
    print(f"chips that withhold 5 % or more of their peak after the last tick: {throttled:,}")
    # The first tick touches the memory for the first time.
    print(
        f"tick: median of {ticks} {statistics.median(cpu_ms[1:]):.1f} ms CPU,"
        f" {statistics.median(wall_ms[1:]):.1f} ms wall, worst {max(cpu_ms[1:]):.1f}, first"
        f" {cpu_ms[0]:.1f}"
    )
    return engine


def _measure_frames(engine: Engine) -> None:
    encoders = [
        FrameEncoder(
            unit.path,
            "bench",
            revision=0,
            columns=engine.columns,
            chips=unit.chips,
            instances=unit.instances,
        )
        for unit in partition(engine.layout, engine.fleet.publish)
    ]
    runs = []
    for seq in range(10):
        begin = time.process_time()
        size = sum(len(encoder.encode(seq, seq)) for encoder in encoders)
        runs.append((time.process_time() - begin) * 1e3)
    print(
        f"encode: {len(encoders)} frames, {size / 1e6:.1f} MB, median {statistics.median(runs):.1f}"
        " ms CPU"
    )


def _measure_lines() -> None:
    engine = _load("demo")
    begin = time.process_time()
    lines = sum(1 for _ in stdout_lines(engine, ticks=50))
    print(
        f"stdout: {(time.process_time() - begin) / lines * 1e6:.1f} us CPU a line over {lines}"
        " lines"
    )


def _profile(engine: Engine, ticks: int) -> None:
    with cProfile.Profile() as profile:
        for _ in range(ticks):
            engine.step()
    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(5)


def _peak_mb() -> float:
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if "model name" in line]
        if info.exists()
        else []
    )
    return names[0].partition(": ")[2] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
