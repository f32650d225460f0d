"""Charts of the past: the other monitor's samples up to the past's time, its own beyond, and gaps where nobody looked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone

from trnfleet.domain.layout import Layout, Node
from trnfleet.monitor.replay.charted import ChartedHistory

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor

SECONDS = 10


async def watched(seconds: int = SECONDS, instances: int = 1) -> Feed:
    """Return a feed whose chips were one degree hotter each second."""
    feed = Feed(standalone(instances))
    feed.describe()
    for second in range(seconds):
        await feed.clock.advance(1.0)
        feed.set("temperature_c", 40.0 + second)
        feed.tick()
    return feed


def fleet_of(layout: Layout) -> Node:
    """Return the node that stands for the fleet."""
    node = layout.find("")
    assert node is not None
    return node


def series(history: ChartedHistory, monitor: Monitor) -> list[float]:
    """Return the fleet's temperatures, gaps as -1."""
    layout = monitor.store.layout
    values = history.series(layout, fleet_of(layout), "temperature_c")
    return [round(each) for each in np.nan_to_num(values, nan=-1.0).tolist()]


def behind(feed: Feed, seconds: float) -> ChartedHistory:
    """Return the history of a past that is so long before the feed's last sample; after it where that is negative."""
    return ChartedHistory(feed.monitor, lambda: feed.monitor.history_s - seconds)


@pytest.mark.parametrize("seconds", [0, 1, 4, SECONDS, 1_000])
async def test_nothing_is_shown_of_what_came_later(seconds: int) -> None:
    feed = await watched()
    whole = series(behind(feed, 0), feed.monitor)
    assert len(whole) == SECONDS
    assert whole == sorted(set(whole))
    assert series(behind(feed, seconds), feed.monitor) == whole[: max(0, SECONDS - seconds)]


async def test_a_past_that_is_ahead_of_the_other_goes_on_with_its_own_samples_and_a_gap() -> None:
    feed = await watched()
    whole = series(behind(feed, 0), feed.monitor)
    history = behind(feed, -5)
    assert series(history, feed.monitor) == [*whole, -1, -1, -1, -1, -1]
    for _ in range(2):
        history.push(feed.monitor.store, feed.monitor.rollups)
    assert series(history, feed.monitor) == [*whole, -1, -1, -1, whole[-1], whole[-1]]


async def test_the_other_ones_samples_are_not_taken_twice() -> None:
    feed = await watched()
    history = behind(feed, 3)
    before = history.samples
    history.push(feed.monitor.store, feed.monitor.rollups)
    assert history.samples == before + 1
    assert history.nbytes == 0


async def test_a_node_is_found_by_its_path_where_the_layout_is_another() -> None:
    feed = await watched(instances=2)
    history = behind(feed, 2)
    other = Layout.of(standalone(3)[1:])
    path = standalone(3)[1][0]
    node, own = other.find(path), feed.monitor.store.layout.find(path)
    assert node is not None
    assert own is not None
    assert node.number != own.number
    found = history.series(other, node, "temperature_c")
    expected = feed.monitor.history.series(feed.monitor.store.layout, own, "temperature_c")
    np.testing.assert_array_equal(found, expected[:-2])
    gone = other.find(standalone(3)[2][0])
    assert gone is not None
    assert len(history.series(other, gone, "temperature_c")) == 0


async def test_a_chart_is_as_long_as_the_other_ones() -> None:
    feed = await watched()
    history = behind(feed, 0)
    level = fleet_of(feed.monitor.store.layout).level
    assert history.seconds(level) == feed.monitor.history.seconds(level) > 0


async def test_a_past_that_took_no_sample_yet_has_the_other_ones() -> None:
    """Views draw charts only where there are samples; one that was resumed a moment ago has taken none itself."""
    feed = await watched()
    history = behind(feed, 4)
    assert history.samples == feed.monitor.history.samples == SECONDS
