"""Cost of history.

`python -m lab.bench.bench_history [--recording FILE] [--chips 1000000]`

First a minute of many chips, without a broker: processor time of a sample (one message of each
chip), of the minute's figures, of its file and of ten minutes. Then a recording (by default made
here: `--minutes` of cluster-10k): processor time of reading it with and without history, bytes of
the files before and after compaction, and five queries, before and after. Timings are printed,
never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from support.monitor.feed import START_NS, ultraservers
from support.processes.programs import run

from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import CHIP_METRICS
from trnfleet.export.history.compact import compact
from trnfleet.export.history.files import day_of
from trnfleet.export.history.query import HistoryFigure, open_history
from trnfleet.export.history.writing import HistoryWriter
from trnfleet.monitor.minutes.minutes import Minutes
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.past_monitor import PastMonitor, PastSource, RecordingClock
from trnfleet.monitor.store.store import Store
from trnfleet.record.read.recording import Recording
from trnfleet.services.files.recordings import fleets_of
from trnfleet.services.files.rules import load_rules
from trnfleet.services.history.write import HistoryProgress, HistoryRequest, write_from_recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.alerts.rules import Rule

SAMPLES = 60
QUERIES: tuple[tuple[str, str | HistoryFigure], ...] = (
    ("power of the fleet, every ten minutes", HistoryFigure("power_w", 600)),
    (
        "power of an UltraServer, every minute",
        HistoryFigure("power_w", at="uc1/us-0001", every_s=60),
    ),
    ("the ten hottest chips", HistoryFigure("temperature_c_max", 600, top=10)),
    (
        "TFLOP/s a watt of each job",
        "SELECT job, sum(tflops) / sum(power_w) FROM chips GROUP BY job ORDER BY 2",
    ),
    (
        "corrected ECC errors by UltraServer",
        (
            "SELECT cluster, ultraserver, sum(mem_ecc_corrected_increase) FROM chips GROUP BY ALL"
            " ORDER BY 3 DESC LIMIT 10"
        ),
    ),
)


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Return the processor seconds and the seconds of a call."""
    cpu_s = time.process_time()
    begun_s = time.perf_counter()
    call()
    return time.process_time() - cpu_s, time.perf_counter() - begun_s


def peak_mb() -> float:
    """Return the process's peak memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


def one_minute(chips: int) -> None:
    """Print what a minute of many chips costs."""
    chance = np.random.default_rng(1)
    store = Store()
    store.replace_layout(Layout.of(ultraservers(chips // 64)))
    chips = store.layout.chips
    for metric in CHIP_METRICS:
        column = store.columns[metric.name]
        column[...] = chance.integers(0, min(metric.top, 4_000), column.shape)
    for name in (
        "mem_ecc_corrected",
        "mem_ecc_uncorrected",
        "sram_ecc_corrected",
        "sram_ecc_uncorrected",
        "exec_errors",
    ):
        store.columns[name][:] = 0
    minutes = Minutes()
    before_mb = peak_mb()
    times = []
    for sample in range(SAMPLES):
        store.chip_ts_ns[:] = START_NS + sample * NS_PER_S
        store.columns["exec_completed"] += 3
        times.append(
            timed(
                lambda: minutes.take(
                    store, now_s=0.0, speed=1.0, job_of=store.job_of, jobs=("train",)
                )
            )[0]
            * 1e3
        )
    print(f"a minute of {chips:,} chips, {SAMPLES} samples; {os.cpu_count()} processors")
    print(
        f"  a sample             {np.median(times):8.1f} ms of processor time (first"
        f" {times[0]:.0f}, p95 {np.percentile(times, 95):.1f})"
    )
    print(f"  share of a core      {np.median(times) / 10:8.1f} % at a message a second")
    made: list[Any] = []
    print(
        "  the minute's figures"
        f" {timed(lambda: made.extend(minutes.close(0.0, 1.0, at_end=True)))[0] * 1e3:8.0f} ms"
    )
    with tempfile.TemporaryDirectory() as name:
        writer = HistoryWriter(Path(name), "bench", "main", "bench")
        cpu_s, wall_s = timed(lambda: writer.write_chips(made))
        print(
            f"  its file             {cpu_s * 1e3:8.0f} ms of processor time, {wall_s:.2f} s;"
            f" {writer.file_bytes / chips:.1f} bytes a chip (values at random)"
        )
        for later in range(1, 10):
            writer.write_chips(
                [each._replace(minute=START_NS // MINUTE_NS + later) for each in made]
            )
        cpu_s, wall_s = timed(lambda: writer.roll_up(START_NS // MINUTE_NS))
        print(f"  ten minutes of all   {cpu_s * 1e3:8.0f} ms of processor time, {wall_s:.2f} s")
        writer.close()
        mb = peak_mb() - before_mb
        cpu_s, wall_s = timed(lambda: _compact(Path(name)))
        print(f"  ten files to one     {cpu_s * 1e3:8.0f} ms of processor time, {wall_s:.2f} s")
    print(f"  memory beyond the store, without compaction: {mb:,.0f} MB at most")


def _compact(folder: Path) -> None:
    compact(
        folder,
        today=day_of(0),
        holder="bench",
        memory_bytes=2**30,
        threads=2,
        report=lambda line: print(f"  {line}"),
    )


class Silent:
    """A reporter that says nothing."""

    def began(self, fleet: str) -> None:
        """Take the beginning."""

    def progressed(self, progress: HistoryProgress, elapsed_s: float) -> None:
        """Take the totals."""

    def failed(self, problem: str) -> None:
        """Print what waits."""
        print(problem)


def read_alone(recording: Recording, fleet: str, rules: tuple[Rule, ...]) -> None:
    """Play a recording into a monitor, as history does, and keep nothing."""
    place = RecordingClock(SystemClock(), recording.start_ns, 0.0, recording.start_ns)
    monitor = Monitor(
        PastSource("a recording"), fleet, clock=place, root=recording.root, rules=rules
    )
    past = PastMonitor(recording, monitor, place)
    for _ in past.begin():
        pass
    for _ in past.advance(recording.end_ns):
        pass


def queries(folder: Path) -> list[tuple[float, float, int]]:
    """Return processor seconds, seconds and rows of each query's second run.

    The listing of files and the views are included.
    """
    made = []
    for _, asked in QUERIES:
        with open_history(folder) as history:
            ask = (
                partial(history.figure, asked)
                if isinstance(asked, HistoryFigure)
                else partial(history.query, asked)
            )
            rows = len(ask().rows)
            made.append((*timed(ask), rows))
    return made


def one_recording(path: Path, folder: Path, *, has_alerts: bool) -> None:
    """Print the cost and the answers of a recording's history."""
    recording = Recording.open([path])
    fleet = fleets_of(recording)[0]
    rules = load_rules() if has_alerts else ()
    length_s = (recording.end_ns - recording.start_ns) / NS_PER_S
    totals: list[HistoryProgress] = []
    alone_s, _ = timed(lambda: read_alone(recording, fleet, rules))
    request = HistoryRequest(folder, "main", "bench", rules)
    with_s, wall_s = timed(
        lambda: totals.append(
            write_from_recording(
                recording,
                fleet,
                request,
                Silent(),
                clock=SystemClock(),
                from_ns=recording.start_ns,
                to_ns=recording.end_ns,
            )
        )
    )
    recording.close()
    [total] = totals
    print(
        f"{path.name}: {fleet}, {length_s / 60:.0f} minutes, {path.stat().st_size / 2**20:,.0f} MiB"
        f" recorded, {len(rules)} rules"
    )
    print(f"  read by a monitor alone  {alone_s:7.1f} s of processor time")
    print(
        f"  and written as history   {with_s:7.1f} s, {wall_s:.0f} s of time:"
        f" {(with_s - alone_s) / total.minutes * 1e3:.0f} ms a minute more"
    )
    print(
        f"  {total.minutes:,} minutes, {total.chips:,} rows of chips, {total.files:,} files,"
        f" {total.file_bytes / 2**20:.2f} MiB, {total.file_bytes / total.chips:.1f} bytes a row"
    )
    before = queries(folder)
    cpu_s, wall_s = timed(lambda: _compact(folder))
    sizes = {each.name.partition("-")[0]: each.stat().st_size for each in folder.rglob("*.parquet")}
    print(
        f"  compacted in {cpu_s:.1f} s of processor time, {wall_s:.1f} s:"
        f" {sum(sizes.values()) / 2**20:.2f} MiB, chips {sizes['chips'] / total.chips:.1f} bytes"
        " a row"
    )
    print("  bytes " + ", ".join(f"{name} {size:,}" for name, size in sorted(sizes.items())))
    after = queries(folder)
    print(f"  {'query':<40}{'rows':>6}{'many files: CPU, time':>26}{'compacted: CPU, time':>26}")
    for (name, _), old, new in zip(QUERIES, before, after, strict=True):
        print(
            f"  {name:<40}{new[2]:>6}{old[0]:>16.2f} s,{old[1]:>6.2f} s{new[0]:>16.2f}"
            f" s,{new[1]:>6.2f} s"
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", type=int, default=1_000_000)
    parser.add_argument(
        "--minutes", type=int, default=10, help="of cluster-10k, where no recording is given"
    )
    parser.add_argument("--recording", type=Path)
    parser.add_argument("--no-alerts", action="store_true", help="without rules")
    chosen = parser.parse_args()
    if chosen.chips:
        one_minute(chosen.chips)
    with tempfile.TemporaryDirectory() as name:
        path = chosen.recording or Path(name) / "cluster-10k.mcap"
        if chosen.recording is None:
            made = run(
                "simulate",
                "--fleet",
                "cluster-10k",
                "--record",
                str(path),
                "--duration",
                f"{chosen.minutes}m",
                timeout_s=3_600,
            )
            if made.returncode:
                raise SystemExit(made.stderr)
        one_recording(path, Path(name) / "history", has_alerts=not chosen.no_alerts)


if __name__ == "__main__":
    main()
