"""An hour of names of every class coming and going does not grow readers' memory."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from support.monitor.churn import Churn, entries, grown, kept_by_modules
from support.monitor.feed import Feed, SilentSource, standalone
from support.monitor.relays import Top

from trnfleet.clock import NS_PER_S
from trnfleet.errors import WireError
from trnfleet.export.election import LISTEN_S, Election
from trnfleet.export.notification_log import NotificationLog
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.store.events import Events
from trnfleet.record.format.metadata import About
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.files.rules import load_rules
from trnfleet.services.files.sequence_gaps import SequenceGaps
from trnfleet.services.history.collector import Collector, HistoryMonitor
from trnfleet.services.record import MissingDescriptors
from trnfleet.services.relay.clearings import MissedClearings
from trnfleet.services.watch.identity import Connections, Identity
from trnfleet.services.watch.run import PEERS
from trnfleet.services.watch.service import Role, WatchService
from trnfleet.tasks import Ending
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import DEFAULT_ROOT, parse_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

STEP_S = 150.0
STEPS = 24
COUNTED_EVERY = 4
SETTLED = 2
"""Counts until nothing may grow: 20 minutes."""
NAMES = 3
KEPT = 8
"""Scaled-down number limits, in proportion to the names of a real hour."""


def fleet(kind: type[Monitor] = Monitor, **options: Any) -> Feed:
    """Return a permanent instance, and a monitor with all shipped rules."""
    feed = Feed(standalone(1))
    feed.monitor = kind(SilentSource(), "demo", clock=feed.clock, rules=load_rules(()), **options)
    scale(feed.monitor)
    feed.scatter()
    feed.describe()
    return feed


def scale(monitor: Monitor) -> None:
    """Scale a monitor's number limits down to the number of names."""
    ingest = monitor.ingest
    ingest.events = Events(KEPT)
    ingest.alert_events._ring = deque(maxlen=KEPT)
    ingest.alerts._store.history = deque(maxlen=KEPT)
    ingest.alerts._store.resolved = deque(maxlen=KEPT)
    # A step is a gap in the charts.
    monitor.history._gaps._kept = deque(maxlen=KEPT)


def take(feed: Feed, batch: list[Envelope]) -> None:
    """Let a monitor have a batch."""
    feed.monitor.apply(batch)
    feed.monitor.compute()
    feed.monitor.ingest.request_missing(feed.monitor._source, feed.clock.monotonic_s())


async def an_hour(
    feed: Feed,
    apply: Callable[[list[Envelope]], Awaitable[None]],
    *,
    has_hosts: bool = True,
    **roots: object,
) -> dict[str, tuple[int, int]]:
    """Let an hour of churn pass, and return what grew after the first 20 minutes."""
    churn = Churn(steady=feed.layout.instances[0], life_s=2 * STEP_S, has_hosts=has_hosts)
    counts = []
    for step in range(1, STEPS + 1):
        await feed.clock.advance(STEP_S)
        batch = churn.step(feed.clock.monotonic_s(), feed.clock.wall_ns(), NAMES)
        await apply([*batch, *feed.telemetry()])
        if step % COUNTED_EVERY == 0:
            counts.append(entries(**roots, **kept_by_modules()))
    assert counts[-1].total() > 1_000
    return grown(counts, SETTLED)


async def test_a_monitor_whose_layout_stays() -> None:
    """A monitor with all shipped rules, as in the app, stays flat.

    Its publishers are constant.
    """
    feed = fleet()

    async def apply(batch: list[Envelope]) -> None:
        take(feed, batch)

    assert await an_hour(feed, apply, has_hosts=False, monitor=feed.monitor) == {}
    seen = feed.monitor.pipeline(at_once=True).publishers
    # The steady one, the one that restarts, and of each name one online, one offline and a host's.
    assert len(seen) <= 2 + 3 * NAMES * 2


class Broker:
    """The connection of a watch to a broker: what it publishes reaches its own monitor."""

    def __init__(self, feed: Feed) -> None:
        self.status = LinkStatus(connected=True, connects=1)
        self.waiting = 0
        self._feed = feed

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        sent = [each._replace(received_s=self._feed.clock.monotonic_s()) for each in batch]
        self._feed.monitor.apply(sent)
        return PublishResult(len(sent))


async def test_a_watch() -> None:
    """A leading watch with published alerts, other watches and history stays flat."""
    feed = fleet(HistoryMonitor, adopts_alerts=True)
    collector = Collector(cast("HistoryMonitor", feed.monitor))
    collector._minutes._given = deque(maxlen=KEPT)
    broker: Any = Broker(feed)
    identity = Identity("demo", DEFAULT_ROOT, "watch-1", "boot-1", feed.clock.wall_ns())
    watch = WatchService(
        identity,
        feed.monitor,
        Connections(broker, broker, broker),
        NotificationLog("demo", "watch-1", ()),
        Election("watch-1", feed.clock.wall_ns()),
        clock=feed.clock,
        exit_on=None,
        ending=Ending(),
        report=lambda _line: None,
    )
    watch._choose_role(feed.clock.monotonic_s())
    watch._peers.is_complete = True
    await feed.clock.advance(LISTEN_S)
    fired = 0

    async def apply(batch: list[Envelope]) -> None:
        nonlocal fired
        for envelope in batch:
            with contextlib.suppress(WireError):
                if parse_topic(envelope.topic).topic_class in PEERS:
                    watch._peers._note(envelope)
        take(feed, batch)
        collector.close()
        collector.paid()
        collector.news()
        watch._attendance._seen_s = feed.clock.monotonic_s()
        watch._choose_role(feed.clock.monotonic_s())
        watch._beat(feed.clock.monotonic_s())
        await watch._publish()
        fired += watch.firing

    assert await an_hour(feed, apply, watch=watch, collector=collector) == {}
    assert fired
    assert watch.role is Role.LEADER


async def test_a_relay() -> None:
    """An active, forwarding relay stays flat."""
    top = Top()
    relay = await top.join("relay-a")
    relay.feed.monitor.evaluates_alerts = False
    scale(relay.feed.monitor)
    await top.run(LISTEN_S + 1.0)
    missed = MissedClearings("demo", DEFAULT_ROOT, relay.feed.clock)
    feed = relay.feed

    async def apply(batch: list[Envelope]) -> None:
        missed.take(batch)
        take(feed, batch)
        relay.service.role._attendance._seen_s = feed.clock.monotonic_s()
        for first in range(0, len(batch), 100):
            await relay.service.pass_batch(batch[first : first + 100])
        await relay.step()
        top.sent.clear()

    found = await an_hour(feed, apply, relay=relay.service, missed=missed, retained=top.retained)
    assert found == {}
    assert relay.service.passed_on > STEPS


async def test_a_recording(tmp_path: Path) -> None:
    """The beginning of the next file, sequence numbers and missing descriptors stay flat."""
    feed = Feed(standalone(1))
    minute_ns = 60 * NS_PER_S
    path = tmp_path / "churn.mcap"
    writer = RecordingWriter(path, About(), split_ns=5 * minute_ns, keep_ns=10 * minute_ns)
    gaps = SequenceGaps(DEFAULT_ROOT)
    missing = MissingDescriptors(DEFAULT_ROOT, gaps.parse)

    async def apply(batch: list[Envelope]) -> None:
        writer.write_many(feed.clock.wall_ns(), batch)
        gaps.take(batch)
        missing.take(batch)
        missing.due(feed.clock.monotonic_s())

    assert await an_hour(feed, apply, writer=writer, gaps=gaps, missing=missing) == {}
