"""Cost of going back in time.

`python -m lab.bench.bench_seek [--minutes 60] [--ultraservers 16] [--format cbor]`

A simulated fleet (16 UltraServers are 1,024 chips) is recorded at 1 Hz as fast as possible. Then
random places of the whole recording are sought: by keyframe, the wait of a key, and exactly, with
alerts, from the nearest snapshot. Figures are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.marks import RecordingIndex
from trnfleet.monitor.replay.past_monitor import PastMonitor, PastSource, RecordingClock
from trnfleet.record.read.recording import Recording
from trnfleet.services.files.rules import load_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

FLEET = """name = "bench"
title = "For a benchmark"
jobs = [{{ kind = "training", name = "pretrain", on = ["uc1/us-0001..us-{half:04d}"] }}]

[publish]
format = "{format}"
granularity = "{granularity}"

[[clusters]]
name = "uc1"
ultraservers = [{{ count = {count} }}]
"""
GRANULARITY = {"cbor": "instance", "json": "chip"}


def main() -> None:
    """Record, seek, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--ultraservers", type=int, default=16)
    parser.add_argument("--format", choices=["cbor", "json"], default="cbor")
    parser.add_argument("--seeks", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder) / "bench.toml"
        count = options.ultraservers
        text = FLEET.format(
            half=max(1, count // 2),
            count=count,
            format=options.format,
            granularity=GRANULARITY[options.format],
        )
        fleet.write_text(text, encoding="utf-8")
        path = Path(folder) / "bench.mcap"
        print(
            f"{platform.python_version()} on {platform.machine()}, {count * 64:,} chips,"
            f" {options.format}"
        )
        begun = time.perf_counter()
        arguments = ["simulate", "--record", str(path), "--fleet", str(fleet)]
        subprocess.run(
            [sys.executable, "-m", "trnfleet", *arguments, "--duration", f"{options.minutes}m"],
            check=True,
        )
        size = path.stat().st_size
        print(
            f"recorded {options.minutes} min in {time.perf_counter() - begun:.0f} s,"
            f" {size / 2**20:.0f} MiB"
        )
        begun = time.perf_counter()
        recording = Recording.open([path])
        print(f"opened in {1e3 * (time.perf_counter() - begun):.0f} ms")
        seek(recording, options.seeks)
        recording.close()


def seek(recording: Recording, seeks: int) -> None:
    """Look through a recording, then seek at random."""
    draw = random.Random(7)  # noqa: S311  places to go to
    rules = load_rules()
    clock = SystemClock()
    (fleet,) = recording.fleets

    def past() -> PastMonitor:
        recording_clock = RecordingClock(clock, recording.start_ns, 0.0, recording.start_ns)
        return PastMonitor(
            recording,
            Monitor(PastSource("bench"), fleet, clock=recording_clock, rules=rules),
            recording_clock,
        )

    surveyor = past()
    timeline = RecordingIndex(
        lambda at_s: recording.start_ns + round(at_s * NS_PER_S), time.monotonic, every_s=10.0
    )
    surveyor.monitor.on_pass.append(lambda: timeline.take(surveyor.monitor, surveyor.position_ns))
    begun = time.perf_counter()
    longest = 0.0
    for work in (surveyor.begin(), surveyor.advance(recording.end_ns)):
        longest = max(longest, exhaust(work))
    spent_s = time.perf_counter() - begun
    span_s = (recording.end_ns - recording.start_ns) / NS_PER_S
    print(
        f"looked through at {span_s / spent_s:.0f} times its speed, longest slice"
        f" {1e3 * longest:.0f} ms, {len(timeline.snapshots)} snapshots, {len(timeline.marks)} marks"
    )
    places = [draw.randrange(recording.start_ns, recording.end_ns) for _ in range(seeks)]
    times = []
    slices = []
    for place in places:
        begun = time.perf_counter()
        slices.append(exhaust(past().rebuild(place)))
        times.append(time.perf_counter() - begun)
    tell("seek by keyframe", times, slices)
    times = []
    slices = []
    for place in places[: seeks // 4]:
        found = timeline.snapshot(place)
        if found is None:
            continue
        begun = time.perf_counter()
        exact = past()
        exact.resume(found[1].unpack(), found[0])
        slices.append(max(exhaust(exact.advance(place)), exhaust(exact.settle())))
        times.append(time.perf_counter() - begun)
    if times:
        tell("seek exactly, with alerts", times, slices)


def exhaust(work: Iterator[None]) -> float:
    """Do work to its end and return the longest slice."""
    longest = 0.0
    begun = time.perf_counter()
    for _ in work:
        now = time.perf_counter()
        longest = max(longest, now - begun)
        begun = now
    return max(longest, time.perf_counter() - begun)


def tell(what: str, times: list[float], slices: list[float]) -> None:
    """Print quantiles."""
    ordered = sorted(times)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    print(
        f"{what}: p50 {1e3 * statistics.median(ordered):.1f} ms, p95 {1e3 * p95:.1f} ms, "
        f"longest slice {1e3 * max(slices):.1f} ms"
    )


if __name__ == "__main__":
    main()
