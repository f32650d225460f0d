"""Time of a heat map frame, by fleet and zoom level.

Run by hand, no assertions.

python -m lab.bench.bench_heatmap [chips]
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time

os.environ["COLORTERM"] = "truecolor"

import numpy as np
from support.monitor.feed import START_NS, SilentSource, ultraservers

from trnfleet.clock import ManualClock
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.monitor import Monitor
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.fleet.heatmap_grid import MapGrid, zooms_of
from trnfleet.tui.fleet.view import FleetView

FRAMES = 12
SIZES = ((120, 40), (240, 70))


def filled_monitor(count: int) -> Monitor:
    """Return a monitor over `count` UltraServers with values in its store, without a wire."""
    monitor = Monitor(
        SilentSource(), "bench", clock=ManualClock(wall_ns=START_NS, monotonic_s=1_000.0)
    )
    monitor.store.replace_layout(Layout.of(ultraservers(count)))
    monitor.store.chip_seen_s[:] = 1_000.0
    monitor.store.chip_ts_ns[:] = START_NS
    change(monitor, np.random.default_rng(1))
    for name in (
        "hbm_used_bytes",
        "hbm_read_bytes_per_s",
        "hbm_write_bytes_per_s",
        "link_tx_bytes_per_s",
    ):
        monitor.store.columns[name][:] = 9_000
    monitor.store.columns["links_up"][:] = 0b111111
    monitor.store.columns["temperature_c"][:] = 600
    for name in ("mem_ecc_uncorrected", "sram_ecc_uncorrected", "health", "throttle_pct"):
        monitor.store.columns[name][:] = 0
    monitor.compute()
    return monitor


def change(monitor: Monitor, random: np.random.Generator) -> None:
    """Give every chip another utilisation and power."""
    store = monitor.store
    busy = random.uniform(0.2, 1.0, store.layout.chips)
    store.columns["nc_util_pct"][:] = (200 * busy)[:, None]
    store.columns["power_w"][:] = BY_NAME["power_w"].encode(90 + 400 * busy)
    store.revision += 1


async def measure(monitor: Monitor, size: tuple[int, int]) -> None:
    """Print the ms of making a frame, and of making and painting it.

    For every zoom level.
    """
    app = FleetApp(monitor, clock=monitor.clock)
    random = np.random.default_rng(2)
    async with app.run_test(size=size) as pilot:
        view = app.page
        assert isinstance(view, FleetView)
        heat = view.map
        while heat.level > 0:
            await pilot.press("plus")
        for level, zoom in enumerate(zooms_of(4)):
            made = []
            painted = []
            shown = heat.scrollable_content_region.size
            for _ in range(FRAMES):
                change(monitor, random)
                if zoom.chips >= 4:
                    for _slice in monitor.rollups.passes(monitor.store):
                        pass
                started = time.thread_time()
                lines = heat.lines(heat.top, shown.height, shown.width)
                made.append(time.thread_time() - started)
                for line in lines:
                    line.make()
                started = time.thread_time()
                heat.tick()
                await pilot.pause()
                painted.append(time.thread_time() - started)
            print(
                f"  {level} {zoom.title:18} {shown.width:3}x{shown.height:2}  "
                f"make {1e3 * statistics.median(made):6.2f} ms   "
                f"with paint {1e3 * statistics.median(painted):6.2f} ms"
            )
            if level < len(zooms_of(4)) - 1:
                await pilot.press("underscore")


def main() -> None:
    """Measure fleets of 192, 10,240 and 1,000,000 chips, or of the one named."""
    fleets = [int(sys.argv[1])] if len(sys.argv) > 1 else [192, 10_240, 1_000_000]
    for chips in fleets:
        layout = Layout.of(ultraservers(chips // 64))
        started = time.perf_counter()
        MapGrid.build(layout)
        print(f"{layout.chips:,} chips: grid {1e3 * (time.perf_counter() - started):.1f} ms")
        monitor = filled_monitor(chips // 64)
        for size in SIZES:
            print(f" {size[0]}x{size[1]}")
            asyncio.run(measure(monitor, size))


if __name__ == "__main__":
    main()
