"""Memory of a monitor and its past: full after twenty minutes."""

from __future__ import annotations

import gc
import tracemalloc

from support.monitor.feed import Feed, standalone

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.replay.marks import MOST_SNAPSHOTS, RecordingIndex

SPANS_S = ((1_200, 20), (3_600, 60))
"""End of each part of the hour, and the seconds between its ticks."""
MOST_GROWTH_BYTES = 64 * 2**10
"""Reserve of growing lists. One object of 32 bytes a second would exceed it."""


async def test_what_is_kept_after_an_hour_is_what_was_kept_after_twenty_minutes() -> None:
    """Charts, means, snapshots and topics' state do not grow after twenty minutes."""
    feed = Feed(standalone(1), period_s=60.0)
    monitor, clock = feed.monitor, feed.clock
    index = RecordingIndex(lambda at_s: round(at_s * NS_PER_S), clock.monotonic_s, every_s=20.0)
    monitor.on_pass.append(lambda: index.take(monitor, round(clock.monotonic_s() * NS_PER_S)))
    feed.scatter()
    feed.describe()
    kept: list[int] = []
    passed_s = 0
    tracemalloc.start()
    try:
        for end_s, step_s in SPANS_S:
            while passed_s < end_s:
                feed.set("power_w", 100.0 + feed.seq % 50)
                feed.tick()
                await clock.advance(step_s)
                passed_s += step_s
            assert len(index.snapshots) == MOST_SNAPSHOTS
            gc.collect()
            kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert kept[1] - kept[0] < MOST_GROWTH_BYTES
