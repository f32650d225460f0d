"""Outages, doubtful connections, pauses and own queues are no silence of the sources."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, SilentSource, standalone, ultraservers
from support.monitor.queue_source import QueueSource

from trnfleet.clock import ManualClock
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.monitor.reachability.reachability import FreshnessChecks
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.messages import WatchMessage, encode_message
from trnfleet.wire.ports import Envelope, LinkStatus
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trnfleet.monitor.alerting.store import AlertTransition

PROOF_S = 23.0
HARDWARE = {"ultraserver-silent", "instance-silent", "chips-silent"}
NAMES = {
    *HARDWARE,
    "publisher-offline",
    "overheated",
    "ring-split",
    "link-down",
    "connection-lost",
    "monitor-overloaded",
    "messages-lost",
    "lag",
}
RULES = tuple(rule for rule in load_rules() if rule.name in NAMES)


class Arriving(Feed):
    """A fleet whose descriptors and presences have a time of arrival, too."""

    def _state(self, topic_class: TopicClass, path: str, payload: bytes) -> Envelope:
        message = super()._state(topic_class, path, payload)
        return message._replace(received_s=self.clock.monotonic_s())


class Outage(Arriving):
    """A fleet with the shipped rules, and a connection under the test's control."""

    def __init__(self, *, proof_s: float = PROOF_S) -> None:
        super().__init__(ultraservers(2))
        self.monitor = Monitor(
            SilentSource(), "demo", clock=self.clock, rules=RULES, proof_s=proof_s
        )
        self.monitor.alerts.listener = self._note
        self.news: list[tuple[str, str]] = []
        self.scatter()
        self.describe()
        self.dead: set[str] = set()

    def _note(self, news: list[AlertTransition]) -> None:
        self.news += [(each.kind, each.alert.name) for each in news if not each.alert.inhibited_by]

    @property
    def firing(self) -> set[str]:
        return {
            each.name
            for each in self.monitor.alerts.active()
            if each.fired_ns is not None and not each.inhibited_by
        }

    async def live(self, seconds: int) -> None:
        """Publish once a second from everything not dead."""
        for _ in range(seconds):
            await self.clock.advance(1.0)
            self.tick([path for path in self.layout.instances if path not in self.dead])

    async def quiet(self, seconds: int) -> None:
        """Advance the time without messages.

        The ticks of that time are lost.
        """
        for _ in range(seconds):
            await self.advance(1.0)
            self.seq += 1

    def connect(self, *, up: bool) -> None:
        """Lose the connection, or make it again."""
        link = self.monitor.link
        link.connected, link.changed_s = up, self.clock.monotonic_s()
        link.connects += up


async def live_fleet() -> Outage:
    """Return a fleet that has published for 5 s."""
    fleet = Outage()
    await fleet.live(5)
    return fleet


async def test_a_lost_connection_is_one_alert_and_no_silence() -> None:
    """A lost connection is one pipeline alert, and nothing is called silent.

    Not even while sources come back.
    """
    fleet = await live_fleet()
    fleet.connect(up=False)
    await fleet.quiet(30)
    assert fleet.monitor.store.count(Freshness.STALE) == 128
    assert fleet.monitor.findings.total == 0
    assert fleet.firing == {"connection-lost"}
    fleet.connect(up=True)
    # Sources take some seconds to connect again, too.
    await fleet.quiet(8)
    assert fleet.monitor.findings.total == 0
    await fleet.live(20)
    assert fleet.news == [("firing", "connection-lost"), ("resolved", "connection-lost")]
    counts = fleet.monitor.counts
    assert counts.lost == counts.unheard == 38 * 8


async def test_what_is_dead_after_an_outage_is_found() -> None:
    """A source that does not return is silent after its time to reconnect.

    One that was silent before stays so.
    """
    fleet = Outage()
    first = fleet.layout.instances[0]
    second = fleet.layout.instances[5]
    fleet.dead.add(first)
    await fleet.live(12)
    assert fleet.firing == {"instance-silent"}
    fleet.connect(up=False)
    await fleet.quiet(20)
    fleet.connect(up=True)
    fleet.dead.add(second)
    await fleet.live(10)
    assert [
        each.target for each in fleet.monitor.alerts.active() if each.name == "instance-silent"
    ] == [first]
    await fleet.live(12)
    found = {
        each.target for each in fleet.monitor.alerts.active() if each.name == "instance-silent"
    }
    assert found == {first, second}
    assert [each for each in fleet.news if each[1] == "instance-silent"] == [
        ("firing", "instance-silent")
    ] * 2


async def test_what_is_dead_is_found_between_breaks() -> None:
    """A link with a break every few seconds delays a silence alert without hiding it."""
    fleet = Outage()
    fleet.dead.add(fleet.layout.instances[0])
    fired_after = None
    for number in range(12):
        # Of each seven seconds four are too early to say anything; the rule wants five.
        await fleet.live(7)
        fleet.connect(up=True)
        if fired_after is None and "instance-silent" in fleet.firing:
            fired_after = number
    assert fired_after is not None
    assert 1 <= fired_after <= 4
    assert fleet.news.count(("firing", "instance-silent")) == 1
    assert ("resolved", "instance-silent") not in fleet.news


async def test_a_count_over_what_is_partly_unheard_is_not_over() -> None:
    """An UltraServer with an unheard instance has fewer known broken links.

    It still counts as split.
    """
    fleet = Outage()
    split = fleet.layout.instances[:4]
    rows = slice(0, 64)
    fleet.set("links_up", fleet.layout.chip_links_mask[rows] & 0b011111, rows)
    await fleet.live(12)
    assert fleet.firing == {"ring-split"}
    fleet.dead.update(split[1:])
    for _ in range(4):
        # The link breaks again before silence could say anything.
        await fleet.live(3)
        fleet.connect(up=True)
    assert fleet.firing == {"ring-split"}
    assert fleet.news == [("firing", "ring-split")]
    fleet.dead.clear()
    fleet.set("links_up", fleet.layout.chip_links_mask[rows], rows)
    await fleet.live(12)
    assert fleet.firing == set()


async def test_a_connection_over_which_nothing_comes_is_in_doubt() -> None:
    """A stopped broker is no silent fleet while the connection may be half open."""
    fleet = await live_fleet()
    await fleet.quiet(15)
    assert fleet.firing == {"connection-lost"}
    await fleet.live(20)
    assert fleet.news == [("firing", "connection-lost"), ("resolved", "connection-lost")]


async def test_a_connection_over_which_messages_wait_is_not_in_doubt() -> None:
    """Messages waiting at a paused monitor count as heard."""
    fleet = await live_fleet()
    fleet.monitor.link.waiting = 20_000
    await fleet.quiet(15)
    assert fleet.monitor.summary().unheard_s == 0.0
    assert "connection-lost" not in fleet.firing


async def test_a_connection_in_doubt_that_is_lost_is_one_outage() -> None:
    """An alert about a doubtful connection goes on when it is found lost.

    Nothing has been heard since the doubt began.
    """
    fleet = await live_fleet()
    await fleet.quiet(12)
    fleet.connect(up=False)
    await fleet.quiet(1)
    assert fleet.monitor.summary().unheard_s == pytest.approx(13.0)
    await fleet.quiet(10)
    fleet.connect(up=True)
    await fleet.live(20)
    assert fleet.news == [("firing", "connection-lost"), ("resolved", "connection-lost")]


async def test_a_fleet_that_is_silent_on_a_whole_connection() -> None:
    """After long enough a connection is proven, and the silence is the fleet's.

    A message proves it earlier.
    """
    fleet = await live_fleet()
    await fleet.quiet(32)
    assert fleet.firing == {"ultraserver-silent"}
    told = await live_fleet()
    await told.quiet(3)
    told.monitor.apply([told.publisher_envelope("offline")])
    await told.quiet(4)
    assert "publisher-offline" in told.firing


@pytest.mark.parametrize("is_lost", [True, False])
async def test_last_wills_after_an_outage_count_once_publishers_could_reconnect(
    *, is_lost: bool
) -> None:
    """A stopped broker costs publishers their connection, and sends their wills when it goes on.

    They are not offline while they may be about to reconnect. One that does not return is.
    """
    fleet = await live_fleet()
    if is_lost:
        fleet.connect(up=False)
    await fleet.quiet(15)
    if is_lost:
        fleet.connect(up=True)
    fleet.monitor.apply([fleet.publisher_envelope("offline")])
    await fleet.quiet(7)
    pipeline = fleet.monitor.pipeline(at_once=True)
    assert fleet.monitor.store.count(Freshness.OFFLINE) == 0
    assert pipeline.publishers.state.tolist() == [State.ONLINE]
    fleet.monitor.apply([fleet.publisher_envelope("online")])
    await fleet.live(20)
    assert fleet.news == [("firing", "connection-lost"), ("resolved", "connection-lost")]
    # Later nothing is left of it: another will counts at once, also after a pause of ours.
    fleet.monitor.apply([fleet.publisher_envelope("offline")])
    fleet.monitor.reachability.pause.ends(fleet.clock.monotonic_s(), 20.0)
    await fleet.quiet(1)
    assert fleet.monitor.store.count(Freshness.OFFLINE) == 128


async def test_a_second_short_outage_makes_no_last_will_of_the_first_count() -> None:
    """A broker that restarts often drops the connection twice."""
    fleet = await live_fleet()
    fleet.connect(up=False)
    await fleet.quiet(15)
    fleet.connect(up=True)
    await fleet.quiet(1)
    fleet.connect(up=False)
    await fleet.quiet(1)
    fleet.connect(up=True)
    fleet.monitor.apply([fleet.publisher_envelope("offline")])
    await fleet.quiet(5)
    assert fleet.monitor.store.count(Freshness.OFFLINE) == 0
    await fleet.quiet(5)
    assert fleet.monitor.store.count(Freshness.OFFLINE) == 128


async def test_a_publisher_that_does_not_return_after_an_outage_is_offline() -> None:
    """Its will counts after ten seconds."""
    fleet = await live_fleet()
    await fleet.quiet(15)
    fleet.monitor.apply([fleet.publisher_envelope("offline")])
    await fleet.quiet(9)
    assert fleet.monitor.store.count(Freshness.OFFLINE) == 0
    await fleet.quiet(7)
    assert fleet.monitor.store.count(Freshness.OFFLINE) == 128
    assert fleet.firing == {"publisher-offline"}


def _watch_message(fleet: Feed) -> list[Envelope]:
    """Return a watch's heartbeat and published alert."""
    heartbeat = WatchMessage(client="watch-1", state="online", boot="1", role="watch", leads=True)
    topics = (TopicClass.PUBLISHER, "watch-1"), (TopicClass.ALERT, "f" * 16)
    return [
        Envelope(
            build_topic("demo", topic_class, name), payload, received_s=fleet.clock.monotonic_s()
        )
        for (topic_class, name), payload in zip(
            topics, (encode_message(heartbeat), b""), strict=True
        )
    ]


async def test_a_watch_is_not_the_fleet() -> None:
    """Heartbeats and alerts of watches prove no source.

    The only publisher is cut off until its last will reports it offline.
    """
    fleet = await live_fleet()
    for _ in range(18):
        await fleet.quiet(1)
        messages = _watch_message(fleet)
        fleet.monitor.link.received += len(messages)
        fleet.monitor.apply(messages)
    assert fleet.news == [("firing", "connection-lost")]
    # The broker has gone on meanwhile, so the will is the publisher's own.
    fleet.monitor.apply([fleet.publisher_envelope("offline")])
    await fleet.quiet(4)
    assert fleet.news[1:] == [("resolved", "connection-lost"), ("firing", "publisher-offline")]
    assert fleet.firing == {"publisher-offline"}


def _beside(fleet: Outage, instances: list[tuple[str, str]], *, json: bool = False) -> Feed:
    """Return a second publisher of the same fleet."""
    other = Arriving(instances, json=json)
    other.publisher = "other"
    other.clock = fleet.clock
    other.monitor = fleet.monitor
    other.scatter()
    other.describe()
    return other


async def _both(fleet: Outage, other: Feed, seconds: int) -> None:
    for _ in range(seconds):
        fleet.monitor.apply(other.telemetry())
        await fleet.live(1)


@pytest.mark.parametrize("comes_back_after_s", [1, 30])
async def test_a_publisher_of_several_that_stops_is_one_alert(comes_back_after_s: int) -> None:
    """One of two publishers is cut off: its will is the one alert.

    None of its instances is silent before it, or while it comes back.
    """
    fleet = Outage()
    other = _beside(fleet, ultraservers(2, "uc2") + standalone(2, cluster="uc2"), json=True)
    await _both(fleet, other, 5)
    await fleet.live(20)
    assert fleet.monitor.store.count(Freshness.STALE) == other.layout.chips
    assert fleet.news == []
    assert fleet.monitor.findings.total == 0
    fleet.monitor.apply([other.publisher_envelope("offline")])
    await fleet.live(comes_back_after_s)
    fleet.monitor.apply([other.publisher_envelope("online")])
    await fleet.live(1)
    messages = other.telemetry()
    # Between the two parts the rules are evaluated: an UltraServer is half heard, and a host, too.
    for part in (messages[:40], messages[40:]):
        fleet.monitor.apply(part)
        await fleet.live(1)
        assert fleet.firing == set()
    await _both(fleet, other, 10)
    assert [name for kind, name in fleet.news if kind == "firing"] == ["publisher-offline"] * (
        comes_back_after_s > 1
    )
    assert fleet.firing == set()


async def test_a_publisher_that_goes_again_and_again_does_not_flap_its_hosts() -> None:
    """Five restarts of a publisher leave only its own alert, if any.

    Inhibited alerts count no beginnings.
    """
    fleet = Outage()
    other = _beside(fleet, ultraservers(1, "uc2"))
    for _ in range(5):
        await _both(fleet, other, 3)
        fleet.monitor.apply([other.publisher_envelope("offline")])
        await fleet.live(12)
        fleet.monitor.apply([other.publisher_envelope("online")])
        assert fleet.firing == {"publisher-offline"}
    await _both(fleet, other, 3)
    assert fleet.firing == {"publisher-offline"}
    assert {name for kind, name in fleet.news if kind == "firing"} == {"publisher-offline"}


async def test_a_publisher_that_goes_on_saying_nothing() -> None:
    """Without a will a publisher's silence becomes its hosts' after a while.

    A host's own agent is silent at once.
    """
    fleet = Outage()
    other = _beside(fleet, ultraservers(1, "uc2"))
    agent = _beside(fleet, standalone(1, cluster="uc3"))
    agent.publisher = "agent"
    agent.describe()
    await _both(fleet, other, 5)
    agent.tick()
    await fleet.live(11)
    assert fleet.firing == {"instance-silent"}
    await fleet.live(19)
    assert fleet.firing == {"instance-silent", "ultraserver-silent"}


async def test_repeated_outages_do_not_flap() -> None:
    """Five outages within half an hour are five alerts about the connection, and each ends."""
    fleet = Outage()
    for _ in range(5):
        await fleet.live(3)
        fleet.connect(up=False)
        await fleet.quiet(9)
        fleet.connect(up=True)
    await fleet.live(16)
    assert fleet.firing == set()
    begun_and_ended = [("firing", "connection-lost"), ("resolved", "connection-lost")]
    assert [news for news in fleet.news if news[0] != "flapping"] == begun_and_ended * 5


async def test_a_pending_alert_waits() -> None:
    """A pending alert pauses during an outage.

    Firing alerts of live values stay.
    """
    fleet = Outage()
    await fleet.live(3)
    fleet.set("temperature_c", 99.0, slice(0, 16))
    await fleet.live(5)
    fleet.connect(up=False)
    await fleet.quiet(15)
    assert fleet.firing == {"connection-lost"}
    fleet.connect(up=True)
    await fleet.live(4)
    assert "overheated" not in fleet.firing
    await fleet.live(10)
    assert "overheated" in fleet.firing


@contextlib.asynccontextmanager
async def _running(fleet: Outage, source: QueueSource) -> AsyncIterator[Monitor]:
    monitor = Monitor(source, "demo", clock=fleet.clock, rules=RULES)
    running = asyncio.create_task(monitor.run())
    source.batches.put_nowait(fleet.announcements())
    await fleet.clock.advance(0.5)
    try:
        yield monitor
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


class StoppableClock(ManualClock):
    """A clock of a stopped process: time goes on, and sleepers wake late."""

    def stop(self, seconds: float) -> None:
        """Advance the time while the process is stopped."""
        self._move_to(self.monotonic_s() + seconds)

    def _move_to(self, monotonic_s: float) -> None:
        super()._move_to(max(monotonic_s, self.monotonic_s()))


async def test_a_pause_of_the_process_is_no_silence() -> None:
    """After a stop of the process sources have their periods afresh: nothing is called silent."""
    fleet = Outage()
    source = QueueSource()
    fleet.clock = clock = StoppableClock(fleet.clock.wall_ns(), fleet.clock.monotonic_s())
    async with _running(fleet, source) as monitor:
        for _ in range(4):
            source.batches.put_nowait(fleet.telemetry())
            await fleet.clock.advance(1.0)
        clock.stop(40.0)
        await fleet.clock.advance(2.0)
        assert monitor.findings.total == 0
        for _ in range(12):
            source.batches.put_nowait(fleet.telemetry())
            await fleet.clock.advance(1.0)
        assert not {each.name for each in monitor.alerts.active()} & HARDWARE
        # Afterwards silence counts as ever: this connection cannot fail unnoticed.
        await fleet.clock.advance(30.0)
        assert "ultraserver-silent" in {each.name for each in monitor.alerts.active()}


async def test_a_queue_that_is_behind_is_overload_and_no_silence() -> None:
    """Messages applied seconds late are an overload alert, not silence."""
    fleet = Outage()
    source = QueueSource()
    half = list(fleet.layout.instances[:4])
    async with _running(fleet, source) as monitor:
        source.batches.put_nowait(fleet.telemetry())
        for _ in range(20):
            late = [
                each._replace(received_s=each.received_s - 4.0) for each in fleet.telemetry(half)
            ]
            source.batches.put_nowait(late)
            await fleet.clock.advance(1.0)
        firing = {each.name for each in monitor.alerts.active() if each.fired_ns is not None}
        assert firing == {"monitor-overloaded"}
        assert monitor.findings.total == 0


async def test_late_messages_far_apart_are_a_slow_way_and_no_silence() -> None:
    """Late, scattered messages with rare passes are no silence."""
    fleet = await live_fleet()
    half = list(fleet.layout.instances[:4])
    for _ in range(12):
        now_ns = fleet.clock.wall_ns()
        fleet.monitor.apply(fleet.telemetry(half, ts_ns=now_ns - 10_000_000_000))
        await fleet.clock.advance(1.5)
        fleet.monitor.compute()
    assert not fleet.firing & HARDWARE
    assert fleet.monitor.findings.total == 0


@pytest.mark.parametrize(("lossy", "is_live"), [(True, True), (False, False)])
async def test_freshness_does_not_flutter_where_most_is_lost(*, lossy: bool, is_live: bool) -> None:
    """Values are stale later if most messages of all topics are lost.

    Without loss they are stale after three periods.
    """
    fleet = Feed(standalone(10))
    fleet.scatter()
    fleet.describe()
    for second in range(14):
        await fleet.clock.advance(1.0)
        fleet.seq += 2 * lossy
        fleet.tick(list(fleet.layout.instances[: 10 if second < 10 else 8]))
    assert (fleet.monitor.store.count(Freshness.LIVE) == fleet.layout.chips) is is_live


def test_freshness_is_judged_at_news_and_often_enough_in_silence() -> None:
    """Freshness is updated at once after messages and connection changes.

    In silence it is updated often enough for staleness to be on time.
    """
    checks = FreshnessChecks()
    link = LinkStatus(connected=True, connects=1)
    assert checks.is_due(10.0, 1, link, 1.0)
    assert not checks.is_due(10.2, 1, link, 1.0)
    assert checks.is_due(10.3, 2, link, 1.0)
    link.connected = False
    assert checks.is_due(10.31, 2, link, 1.0)
    assert not checks.is_due(10.6, 2, link, 10.0)
    assert checks.is_due(10.71, 2, link, 10.0)
    assert checks.is_due(10.77, 2, link, 0.1)
