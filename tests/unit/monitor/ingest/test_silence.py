from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.ingest.silence import speaking
from trnfleet.monitor.store.store import Freshness, stored_equal

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOOTING = "uc1/us-0001/trn2u-0001-2"
ROWS = slice(32, 48)
"""Its chips."""


def fed(*, json: bool = False) -> Feed:
    feed = Feed(ultraservers(2), grouped=not json, json=json)
    feed.scatter()
    feed.describe()
    feed.tick()
    return feed


async def quiet(feed: Feed, seconds: int) -> None:
    """Let the instance boot, and publish on for seconds."""
    feed.silence(BOOTING)
    for _ in range(seconds):
        await feed.clock.advance(1)
        feed.tick()


@pytest.mark.parametrize("json", [False, True])
async def test_an_instance_without_a_value_turns_stale(json: bool) -> None:
    """In a living frame, rows that are all n/a are no news: last values stay with their age, and none is live."""
    feed = fed(json=json)
    store = feed.monitor.store
    before = store.columns["power_w"][ROWS].copy()
    seen_s, ts_ns = store.chip_seen_s[ROWS].copy(), store.chip_ts_ns[ROWS].copy()
    await quiet(feed, 2)
    assert store.count(Freshness.LIVE) == 128
    await quiet(feed, 2)
    assert (store.chip_state[ROWS] == Freshness.STALE).all()
    assert store.count(Freshness.LIVE) == 112
    assert np.array_equal(store.columns["power_w"][ROWS], before)
    assert np.array_equal(store.chip_seen_s[ROWS], seen_s)
    assert np.array_equal(store.chip_ts_ns[ROWS], ts_ns)
    assert not store.instance_fresh[2]
    assert [(finding.path, finding.what) for finding in feed.monitor.findings.shown] == [(BOOTING, "stale")]
    feed.scatter()
    feed.tick()
    assert store.count(Freshness.LIVE) == 128


async def test_both_encodings_go_silent_alike() -> None:
    """Frames and JSON of the same ticks lead to the same store."""
    frames, json = fed(), fed(json=True)
    for feed in (frames, json):
        await quiet(feed, 4)
    assert stored_equal(frames.monitor.store, json.monitor.store) == []
    assert np.array_equal(frames.monitor.store.chip_state, json.monitor.store.chip_state)


async def test_a_whole_frame_of_nothing() -> None:
    """A frame in which nobody speaks is no loss, and nothing of it is live."""
    feed = fed()
    for path in feed.layout.instances:
        feed.silence(path)
    for _ in range(4):
        await feed.clock.advance(1)
        feed.tick()
    assert feed.monitor.store.count(Freshness.STALE) == 128
    assert (feed.monitor.counts.lost, feed.monitor.counts.undecodable) == (0, 0)


def test_one_value_is_enough() -> None:
    """A source that knows a single metric is live by it, and the others stay n/a."""
    feed = fed()
    feed.silence(BOOTING)
    feed.set("power_w", 123.0, ROWS)
    feed.tick()
    store = feed.monitor.store
    assert store.count(Freshness.LIVE) == 128
    assert (store.values(BY_NAME["power_w"], ROWS) == 123.0).all()
    assert np.isnan(store.values(BY_NAME["tflops"], ROWS)).all()


def test_rows_are_found_in_slices_and_lists() -> None:
    """What speaks keeps its place in the store, whether the rows follow each other or not."""
    numbers = np.array([255, 1, 255], np.uint8)
    lanes = np.array([[65535] * 2, [65535] * 2, [65535, 7]], np.uint16)
    codes: dict[str, NDArray[Any]] = {"a": numbers, "b": lanes}
    told = speaking(codes, slice(10, 13))
    assert np.asarray(told.rows).tolist() == [11, 12]
    assert told.of(numbers).tolist() == [1, 255]
    assert np.asarray(speaking(codes, np.array([4, 9, 2])).rows).tolist() == [9, 2]
    assert speaking({"a": np.zeros(3, np.uint8)}, slice(0, 3)).mask is None
    assert speaking({}, slice(0, 3)).mask is None
