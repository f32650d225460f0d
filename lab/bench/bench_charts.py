"""Drawing time of the Fleet view's charts, by span and size.

Run by hand, no assertions.

python -m lab.bench.bench_charts
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import statistics
import time

import numpy as np
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.layout import FLEET_NODE
from trnfleet.tui.charts import plot
from trnfleet.tui.charts.chart import draw
from trnfleet.tui.charts.place import ChartPlan
from trnfleet.tui.fleet.view import trend_makers
from trnfleet.tui.state.chart_window import WINDOWS_S
from trnfleet.tui.state.context import UiContext

DRAWN = 40
PUSHED = 4_000
SPACES = ((70, 20), (150, 40))
"""Cells and rows for all charts: of a terminal of 120x40, and of 240x70."""


def watched() -> Feed:
    """Return a feed with a history long enough for roll-ups."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.describe()
    feed.tick()
    monitor = feed.monitor
    random = np.random.default_rng(1)
    for _ in range(PUSHED):
        feed.monitor.store.columns["power_w"][:] = random.integers(900, 4_000, 128)
        monitor.history.push(monitor.store, monitor.rollups)
    return feed


def median_ms(work: object) -> float:
    """Return the median of some runs in milliseconds."""
    taken = []
    for _ in range(DRAWN):
        begun_s = time.perf_counter()
        work()  # type: ignore[operator]  # a function without arguments
        taken.append(1e3 * (time.perf_counter() - begun_s))
    return statistics.median(taken)


def main() -> None:
    feed = watched()
    history, layout = feed.monitor.history, feed.monitor.store.layout
    print(f"history: {history.nbytes / 2**20:.1f} MiB")
    for width, height in SPACES:
        context = UiContext.of(feed.monitor, feed.clock)
        blocks = median_ms(
            lambda width=width, height=height: [
                plot.area(
                    plot.bucket(history.series(layout, FLEET_NODE, "power_w"), width // 3, 1),
                    0,
                    64_000,
                    height // 2,
                )
                for _ in range(6)
            ]
        )
        print(f"{width}x{height}  six charts of blocks {blocks:.2f} ms")
        context.window.step(-len(WINDOWS_S))
        for span_s in WINDOWS_S:

            def draw_all(
                context: UiContext = context, width: int = width, height: int = height
            ) -> None:
                trends = [make() for make in trend_makers(context)]
                plan = ChartPlan.arrange(len(trends), width, height)
                for trend in trends[: plan.columns * plan.rows]:
                    draw(trend.chart, plan.width, height // plan.rows - 2)

            print(f"{width}x{height}  span {span_s or 'all'} s: {median_ms(draw_all):.2f} ms")
            context.window.step(1)


if __name__ == "__main__":
    main()
