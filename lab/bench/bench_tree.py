"""Cost of the tree-table on large fleets: `python -m lab.bench.bench_tree`.

Timings are printed, never asserted.
"""

from __future__ import annotations

import asyncio
import functools
import platform
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from support.monitor.feed import SilentSource, standalone, ultraservers
from support.tui.pilot import ViewHost

from trnfleet.clock import SystemClock
from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import METRICS, Kind
from trnfleet.monitor.monitor import Monitor
from trnfleet.tui.chip.view import ChipView
from trnfleet.tui.hierarchy.index import Expansion, TreeIndex
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.state.context import UiContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def took_ms(action: Callable[[], object], times: int = 20) -> str:
    """Return median and worst CPU time of an action."""
    took: list[float] = []
    for _ in range(times):
        begun = time.thread_time()
        action()
        took.append(1_000 * (time.thread_time() - begun))
    return f"median {np.median(took):8.3f} ms, worst {max(took):8.3f} ms"


def filled(monitor: Monitor, layout: Layout) -> None:
    """Put a fleet with random values into a monitor's store."""
    store = monitor.store
    random = np.random.default_rng(1)
    store.replace_layout(layout)
    for metric in METRICS:
        column = store.columns[metric.name]
        column[...] = (
            0 if metric.kind is Kind.COUNTER else random.integers(1, metric.top // 2, column.shape)
        )
    store.chip_seen_s[:] = monitor.clock.monotonic_s()
    store.chip_ts_ns[:] = monitor.clock.wall_ns()


def anywhere(index: TreeIndex, random: np.random.Generator) -> None:
    """Take a window from somewhere in the tree."""
    index.window(int(random.integers(0, index.rows - 70)), 70)


def index_costs(servers: int) -> None:
    """Print what the index alone costs."""
    layout = Layout.of(ultraservers(servers))
    random = np.random.default_rng(2)
    for depth in (Level.INSTANCE, Level.CHIP, Level.CORE):
        index = TreeIndex(layout, Expansion({"": depth}))
        window = functools.partial(anywhere, index, random)
        say(f"  {index.rows:>10,} rows, 70 of them anywhere: {took_ms(window, 200)}")
    expansion = Expansion({"": Level.CORE})
    for number in random.integers(0, len(layout.instances), 500).tolist():
        expansion.toggle(layout.instances[number])
    say(
        "  index rebuilt with 500 toggled instances:"
        f" {took_ms(lambda: TreeIndex(layout, expansion))}"
    )
    index = TreeIndex(layout, expansion)
    say(f"  refresh after a key:                   {took_ms(index.refresh)}")


async def view_costs(servers: int, size: tuple[int, int]) -> None:
    """Print the cost of the views with every value changing."""
    monitor = Monitor(SilentSource(), "bench", clock=SystemClock())
    filled(monitor, Layout.of(ultraservers(servers)))
    monitor.compute()

    class Host(ViewHost):
        def compose(self) -> ComposeResult:
            self.rows = HierarchyView(UiContext.of(monitor, monitor.clock))
            self.chip = ChipView(UiContext.of(monitor, monitor.clock))
            yield self.rows
            yield self.chip

        def on_mount(self) -> None:
            self.chip.display = False

    app = Host()
    async with app.run_test(size=size) as pilot:
        tree = app.rows.table
        tree.show_address("uc1")
        # The cluster begins open: close it, then open all of it.
        tree.action_all()
        tree.action_all()
        tree.point(tree.index.rows // 2)
        random = np.random.default_rng(3)

        def change() -> None:
            for metric in METRICS:
                if metric.kind is Kind.GAUGE:
                    column = monitor.store.columns[metric.name]
                    column += random.integers(0, 2, 1, dtype=np.uint8).astype(column.dtype)

        def live() -> None:
            app.rows.tick()

        def resort() -> None:
            tree._resort()
            tree.tick()

        def type_in(text: str) -> None:
            for end in range(1, len(text) + 1):
                app.rows.filter(text[:end])
            app.rows.filter("")

        shown = len(tree.index.window(tree.top, tree.size.height))
        say(
            f"  {size[0]}x{size[1]} tree of {tree.index.rows:,} rows, {shown} on the screen, row"
            f" {tree.row:,} selected"
        )
        took: list[float] = []
        for _ in range(20):
            change()
            begun = time.thread_time()
            live()
            took.append(1_000 * (time.thread_time() - begun))
        say(
            f"  {size[0]}x{size[1]} tree open to cores, tick: median {np.median(took):.2f} ms,"
            f" worst {max(took):.2f} ms"
        )
        say(
            f"  {size[0]}x{size[1]} a key down:              "
            f" {took_ms(lambda: tree.action_move(1))}"
        )
        say(
            f"  {size[0]}x{size[1]} a page down:             "
            f" {took_ms(lambda: tree.action_page(1))}"
        )
        tree.sort_by("nc_util_pct")
        say(f"  {size[0]}x{size[1]} sorted, with resort:      {took_ms(resort)}")
        for text in ("7-3", "power>450", "util>90 & us-0007"):
            keys = len(text) + 1
            typed = functools.partial(type_in, text)
            say(f"  {size[0]}x{size[1]} /{text}, {keys} keys: {took_ms(typed, 6)}")
        app.rows.display = False
        app.chip.display = True
        await pilot.pause()
        app.chip.show_place("uc1/us-0001/trn2u-0001-1/chip05")
        say(f"  {size[0]}x{size[1]} chip view, tick:          {took_ms(app.chip.tick)}")


async def sort_costs(instances: int) -> None:
    """Print the cost of sorting with all instances as siblings."""
    monitor = Monitor(SilentSource(), "bench", clock=SystemClock())
    filled(monitor, Layout.of(standalone(instances)))
    monitor.compute()

    class Host(ViewHost):
        def compose(self) -> ComposeResult:
            self.rows = HierarchyView(UiContext.of(monitor, monitor.clock))
            yield self.rows

    app = Host()
    async with app.run_test(size=(240, 70)):
        table = app.rows.table
        table.show_address("uc1/standalone/trn2-0007")
        table.sort_by("nc_util_pct")

        def resort() -> None:
            table._resort()
            table.tick()

        say(
            f"  {table.index.rows:,} rows, all instances siblings, sorted again and painted:"
            f" {took_ms(resort)}"
        )


async def main() -> None:
    """Print everything."""
    say(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    for servers in (2_500, 15_625):
        say(f"{servers * 4:,} instances, {servers * 64:,} chips")
        index_costs(servers)
        for size in ((80, 24), (240, 70)):
            await view_costs(servers, size)
        await sort_costs(servers * 4)


if __name__ == "__main__":
    asyncio.run(main())
