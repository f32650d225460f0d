from __future__ import annotations

import asyncio
import contextlib

from support.feed import Feed, ultraservers

from trnfleet.clock import ManualClock
from trnfleet.monitor.monitor import Monitor, _slices
from trnfleet.monitor.store import Freshness
from trnfleet.wire.ports import Envelope, LinkStatus


class QueueSource:
    """A source that a test puts batches into."""

    def __init__(self) -> None:
        self.status = LinkStatus(connected=True)
        self.batches: asyncio.Queue[list[Envelope]] = asyncio.Queue()

    async def take(self) -> list[Envelope]:
        """Wait for the next batch."""
        return await self.batches.get()


async def test_run_reads_and_computes() -> None:
    """The running monitor builds the layout, applies telemetry and rolls up, by its clock alone."""
    feed, source, clock = Feed(ultraservers(1)), QueueSource(), ManualClock(monotonic_s=50.0)
    feed.scatter()
    monitor = Monitor(source, "demo", clock=clock)
    running = asyncio.create_task(monitor.run())
    source.batches.put_nowait(feed.announcements())
    await clock.advance(0.5)
    source.batches.put_nowait(feed.telemetry())
    await clock.advance(1.0)
    assert monitor.summary().live_chips == 64
    assert monitor.summary().power_w is not None
    await clock.advance(4.0)
    assert monitor.store.count(Freshness.STALE) == 64
    assert monitor.summary().findings == 1
    assert monitor.history.samples >= 4
    source.batches.put_nowait([])
    await clock.advance(0.1)
    assert monitor.ended
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def test_the_summary_of_nothing() -> None:
    """Before anything has come, figures are None and counts are zero."""
    feed = Feed(ultraservers(1))
    feed.monitor.compute()
    summary = feed.monitor.summary()
    assert summary.chips == summary.lost == 0
    assert summary.power_w is None


def test_transport_drops_are_in_the_counts() -> None:
    """What the transport dropped before it was read is told as dropped."""
    feed = Feed(ultraservers(1))
    feed.monitor.link.dropped = 3
    feed.monitor.link.oversize = 2
    assert feed.monitor.summary().dropped == 5


def test_batches_are_cut_by_messages_and_bytes() -> None:
    """A large batch becomes parts that take about a millisecond each, in order."""
    small = [Envelope(str(number), b"x") for number in range(100)]
    large = [Envelope(str(number), b"x" * 800_000) for number in range(5)]
    assert [len(part) for part in _slices(small)] == [32, 32, 32, 4]
    assert [len(part) for part in _slices(large)] == [2, 2, 1]
    assert [each for part in _slices(small) for each in part] == small
