"""Cost of a pass.

`python -m lab.bench.bench_passes [--fleet rainier-1m] [--passes 20] [--against CHECKOUT]
[--hosts]`

Freshness, roll-ups, findings, all shipped rules and samples over a simulated fleet with values
changed between passes: CPU of each, the longest slice, and all together. With `--against` another
checkout's passes are measured alternately with these, ten at a time, on the same values. With
`--missing` some chips lack some values, some instances are stale, and metrics unpublished by real
hosts are not available. With `--hosts` each instance has a publisher of its own, with a message
between two passes. `--offline` is the same with one of them offline, the usual case among many.
Figures are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from support.monitor.alert_run import AlertRun
from support.paths import ROOT

from trnfleet.domain.fleet import Publishing
from trnfleet.domain.metrics import BY_NAME, METRICS, Kind
from trnfleet.monitor.pipeline.traffic import Presence
from trnfleet.monitor.slices import finish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

TICKS = 4
"""Simulator ticks used in turn."""
PARTLY = ("nc_util_pct", "power_w", "temperature_c", "tflops", "hbm_used_bytes")
UNAVAILABLE = (
    "engine_util_pct",
    "hbm_read_bytes_per_s",
    "hbm_write_bytes_per_s",
    "link_tx_bytes_per_s",
    "link_rx_bytes_per_s",
)
STAGES = ("freshness", "roll-ups", "findings", "alerts", "all")
PASSES_A_TURN = 10


class Bench:
    """One fleet and its passes."""

    def __init__(
        self, fleet: str, *, has_missing: bool, has_hosts: bool, has_offline: bool
    ) -> None:
        self._run = AlertRun(fleet=fleet, publishing=Publishing(format="cbor", granularity="block"))
        self._ticks: list[dict[str, NDArray[Any]]] = []
        self._run.on_tick = self._keep
        asyncio.run(self._run.play(TICKS + 1))
        self._run.on_tick = None
        self._random = np.random.default_rng(1)
        self._has_missing = has_missing
        self._spent: dict[str, float] = {}
        self.longest_s = 0.0
        monitor: Any = self._run.monitor
        monitor._stage = self._stage
        self._hosts = self._announce_hosts() if has_hosts or has_offline else np.zeros(0, np.int64)
        if has_offline:
            self._end_host(len(self._hosts) // 2)
        if has_missing:
            for columns in self._ticks:
                for name in UNAVAILABLE:
                    columns[name][:] = BY_NAME[name].top
                for name in PARTLY:
                    rows = self._random.integers(
                        0, len(columns[name]), max(1, len(columns[name]) // 5_000)
                    )
                    columns[name][rows] = BY_NAME[name].top

    def _announce_hosts(self) -> NDArray[np.int64]:
        """Give each instance a publisher of its own, and return their rows in the traffic."""
        ingest = self._run.monitor.ingest
        store = self._run.monitor.store
        publishers = ingest.publishers
        for instance in range(len(store.layout.instances)):
            state = publishers.number(f"host-{instance}", f"{instance:016x}", described=True)
            publishers.announce(state, online=True)
            store.publisher_of[instance] = state.number
        return publishers.rows()[store.publisher_of]

    def _end_host(self, instance: int) -> None:
        """Let the publisher of an instance be offline."""
        publishers = self._run.monitor.ingest.publishers
        state = publishers.number(f"host-{instance}", f"{instance:016x}")
        publishers.announce(state, online=False)
        publishers.traffic.announce(
            int(self._hosts[instance]), Presence.OFFLINE, "", self._run.clock.monotonic_s()
        )

    def _keep(self) -> None:
        """Keep the gauges of a tick, to come again and again."""
        columns = self._run.monitor.store.columns
        self._ticks = [
            *self._ticks[1 - TICKS :],
            {
                metric.name: columns[metric.name].copy()
                for metric in METRICS
                if metric.kind is Kind.GAUGE
            },
        ]

    def _stage(self, name: str, work: Iterator[None]) -> Iterator[None]:
        while True:
            begun_s = time.thread_time()
            try:
                next(work)
            except StopIteration:
                return
            finally:
                took_s = time.thread_time() - begun_s
                self._spent[name] = self._spent.get(name, 0.0) + took_s
                self.longest_s = max(self.longest_s, took_s)
            yield

    def _change(self) -> None:
        """Advance a second with every value changed."""
        store = self._run.monitor.store
        clock = self._run.clock
        asyncio.run(clock.advance(1.0))
        self._ticks.append(self._ticks.pop(0))
        for name, column in self._ticks[-1].items():
            store.columns[name][...] = column
        store.columns["exec_completed"] += np.uint64(1)
        some = self._random.integers(0, store.layout.chips, max(1, store.layout.chips // 5_000))
        store.columns["mem_ecc_corrected"][some] += np.uint32(1)
        store.chip_seen_s[:] = store.instance_seen_s[:] = clock.monotonic_s()
        if self._has_missing:
            store.chip_seen_s[: store.layout.chips // 100] = store.instance_seen_s[:10] = 0.0
        store.chip_ts_ns[:] = clock.wall_ns()
        traffic = self._run.monitor.ingest.publishers.traffic
        hosts = len(self._hosts)
        if hosts:
            sizes, lags_s, behind_s = (np.full(hosts, each) for each in (2_055, 0.02, 0.01))
            traffic.take(self._hosts, sizes, lags_s, behind_s, clock.monotonic_s())
            # Waiting messages are written with the first look, which is no part of a pass.
            traffic.column("messages")
        store.revision += 1
        self._run.monitor.counts.messages += 1

    def measure(self) -> dict[str, float]:
        """Return the CPU seconds of a pass over changed values, by stage."""
        self._change()
        monitor = self._run.monitor
        self._spent = {}
        begun_s = time.thread_time()
        monitor._refresh_states()
        self._spent["freshness"] = time.thread_time() - begun_s
        finish(monitor._pass_slices())
        self._spent["all"] = time.thread_time() - begun_s
        return self._spent

    def serve(self) -> None:
        """Measure ten passes for every input line, and print them as one."""
        for _ in range(3):
            self.measure()
        self.longest_s = 0.0
        # The program collects garbage once a minute, between passes.
        gc.disable()
        print("ready", flush=True)
        for _ in sys.stdin:
            for _ in range(PASSES_A_TURN):
                spent = self.measure()
                print(*(spent.get(stage, 0.0) for stage in STAGES), self.longest_s, flush=True)
                self.longest_s = 0.0


def measured(child: subprocess.Popen[str]) -> list[list[float]]:
    """Let a child measure ten passes, and return them."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return [[float(each) for each in child.stdout.readline().split()] for _ in range(PASSES_A_TURN)]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fleet", default="rainier-1m")
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--hosts", action="store_true", help="a publisher for each instance")
    parser.add_argument(
        "--offline", action="store_true", help="the same, and one of them is offline"
    )
    parser.add_argument(
        "--against", type=Path, action="append", default=[], help="another checkout"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        Bench(
            options.fleet,
            has_missing=options.missing,
            has_hosts=options.hosts,
            has_offline=options.offline,
        ).serve()
        return
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, NumPy {np.__version__}; {options.fleet}"
    )
    # As a file, so that `trnfleet` is that of the checkout.
    command = [sys.executable, __file__, "--serve", "--fleet", options.fleet]
    command += [f"--{name}" for name in ("missing", "hosts", "offline") if getattr(options, name)]
    checkouts = [*options.against, ROOT]
    children = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": f"{each.resolve()}{os.pathsep}{ROOT / 'tests'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in checkouts
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        found: list[list[list[float]]] = [[] for _ in children]
        for _ in range(max(1, options.passes // PASSES_A_TURN)):
            for passes, child in zip(found, children, strict=True):
                passes.extend(measured(child))
    finally:
        for child in children:
            child.terminate()
    print(
        f"{'ms of CPU a pass, median (least)':<34}",
        *(f"{stage:>16}" for stage in STAGES),
        "   longest slice: median, most",
    )
    for each, passes in zip(checkouts, found, strict=True):
        columns = list(zip(*passes, strict=True))
        figures = [
            f"{1e3 * statistics.median(column):8.2f} ({1e3 * min(column):5.2f})"
            for column in columns
        ]
        print(
            f"{each.resolve().name:<34}",
            *(f"{figure:>16}" for figure in figures[:-1]),
            f"   {1e3 * statistics.median(columns[-1]):.2f}, {1e3 * max(columns[-1]):.2f}",
        )


if __name__ == "__main__":
    main()
