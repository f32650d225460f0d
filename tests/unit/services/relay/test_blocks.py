"""Rows of a relay: their hardware, and their worst chip."""

from __future__ import annotations

import pytest
from support.monitor.feed import DEMO, Feed, ultraservers

from trnfleet.services.relay.blocks import Rows
from trnfleet.wire.rollups import MOST_INSTANCES
from trnfleet.wire.telemetry import Head


def worst(feed: Feed, rows: Rows) -> dict[str, str]:
    """Return the worst chip of each row."""
    feed.tick()
    heads = {block.path: Head("b", 0, 1) for block in rows.blocks}
    frames = rows.frames(feed.monitor.store, feed.monitor.rollups, (), heads)
    return {
        row.path: chip
        for block in rows.blocks
        for row, chip in zip(block.rows, frames[block.path].worst, strict=True)
    }


@pytest.mark.parametrize("instances", [ultraservers(2), DEMO])
def test_the_hottest_live_chip_of_each_row_is_its_worst(instances: list[tuple[str, str]]) -> None:
    """The first of several equally hot chips is a row's worst, until another is hotter.

    Without known temperatures there is none.
    """
    feed = Feed(instances)
    feed.scatter()
    feed.set("temperature_c", 50.0)
    feed.describe()
    rows = Rows(feed.monitor.store.layout, "cell-a")
    first, second = rows.blocks[0].rows[-2:]
    size = 16 * first.instances
    begin = feed.layout.chip_start[feed.layout.instance_index[f"{first.path}/trn2u-0001-0"]]
    assert worst(feed, rows)[first.path] == "trn2u-0001-0/chip00"
    feed.set("temperature_c", 70.0, slice(begin + 20, begin + 22))
    assert worst(feed, rows)[first.path] == "trn2u-0001-1/chip04"
    feed.set("temperature_c", 71.0, begin + size - 1)
    found = worst(feed, rows)
    assert (found[first.path], found[second.path]) == ("trn2u-0001-3/chip15", "trn2u-0002-0/chip00")
    feed.set("temperature_c", float("nan"), slice(begin, begin + size))
    found = worst(feed, rows)
    assert (found[first.path], found[second.path]) == ("", "trn2u-0002-0/chip00")


def test_more_instances_than_a_row_may_stand_for_have_a_row_each() -> None:
    """A publisher with too many instances in one UltraServer ends no relay."""
    feed = Feed(
        [
            (f"uc1/us-0001/host-{number:02}", "trn2u.48xlarge")
            for number in range(MOST_INSTANCES + 1)
        ]
    )
    feed.describe()
    rows = Rows(feed.monitor.store.layout, "cell-a")
    assert [row.instances for block in rows.blocks for row in block.rows] == [1] * (
        MOST_INSTANCES + 1
    )
    assert rows.row_of("uc1/us-0001/host-64/chip03") == "uc1/us-0001/host-64"
