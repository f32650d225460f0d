from __future__ import annotations

import asyncio
import contextlib

import pytest
from support.monitor.feed import Feed, described_feed, live_feed, standalone, ultraservers
from support.monitor.queue_source import QueueSource
from support.processes.waiting import running

from trnfleet.clock import ManualClock
from trnfleet.domain.layout import Layout
from trnfleet.domain.site import Site
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import (
    BURST,
    DESCRIPTORS_SETTLE_S,
    JOINING_FROM_PER_S,
    JOINING_WITHIN_S,
    LAYOUT_SHARE,
    REBUILD_EVERY_S,
    REFILL_S,
    LayoutPacing,
    Monitor,
)
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.reachability import causes
from trnfleet.monitor.slices import (
    LET_IN,
    SLICE,
    batch_slices,
)
from trnfleet.monitor.summary import RackPower
from trnfleet.tasks import background
from trnfleet.wire.ports import Envelope

STEP_S = 0.02


class Loop:
    """A monitor's loop in which publishers send descriptors."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.pacing, self.counts = LayoutPacing(), PipelineCounts()
        self.cost_s = cost_s
        self.now_s = 100.0
        self.changes = 0
        self.rebuilt_s: list[float] = []

    def run(self, seconds: float, *changers: str, new: tuple[str, ...] = ()) -> int:
        """Let publishers change or describe more; return the number of layouts."""
        before = len(self.rebuilt_s)
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.changes += 1
            if self.pacing.is_time(self.changes, {*changers, *new}, self.now_s, self.counts):
                self.rebuilt_s.append(self.now_s)
                begun_s = self.now_s
                self.now_s = self.now_s + self.cost_s
                self.pacing.done(set(changers), begun_s, self.now_s)
            self.now_s += STEP_S
        return len(self.rebuilt_s) - before


def test_a_layout_waits_until_descriptors_settle() -> None:
    """One rebuild shows descriptors that arrive together, soon after the last.

    It is not much later if they continue to arrive.
    """
    pacing = LayoutPacing()
    counts = PipelineCounts()
    assert not pacing.is_time(1, {"a"}, 10.0, counts)
    assert not pacing.is_time(2, {"a"}, 10.1, counts)
    assert pacing.is_time(2, {"a"}, 10.1 + DESCRIPTORS_SETTLE_S + 0.01, counts)
    assert Loop().run(10.0, new=("a",)) == pytest.approx(10.0 / REBUILD_EVERY_S, abs=1)


def test_rebuilds_take_a_share_of_time() -> None:
    """The loop has most of its time for keys, whatever the fleet's size and changes."""
    loop = Loop(cost_s=1.0)
    count = loop.run(300.0, new=("a", "b"))
    assert 0.8 * LAYOUT_SHARE <= count * loop.cost_s / 300.0 <= 1.05 * LAYOUT_SHARE


def test_one_that_renames_its_instances_waits_for_itself_alone() -> None:
    """A publisher that renames its instances is counted, named and delayed.

    Other publishers' descriptors are shown at once, and its own with them. Later it may change
    again.
    """
    loop = Loop()
    assert loop.run(20 * REFILL_S, "evil") <= BURST + 21
    assert loop.counts.layouts_held >= 10
    assert "publisher evil changes" in loop.counts.last_problem
    assert loop.run(10.0, "evil", new=("good",)) >= 4
    assert loop.run(10.0, "evil") <= 1
    loop.now_s += BURST * REFILL_S
    assert loop.run(BURST * (REBUILD_EVERY_S + 0.1), "evil") == pytest.approx(BURST, abs=1)


def test_a_new_path_is_no_way_round() -> None:
    """Withdrawing one path and describing another counts as a change of the publisher."""
    loop = Loop()
    assert loop.run(10 * REFILL_S, "evil", new=("evil",)) <= BURST + 11


def joining(per_s: float, seconds: int = 5) -> LayoutPacing:
    """Return one of a fleet whose descriptors come at a pace from 100 s on."""
    pacing = LayoutPacing()
    for second in range(seconds + 1):
        pacing.note_changes(int(second * per_s), 100.0 + second)
    return pacing


def test_a_fleet_joins_while_many_descriptors_come() -> None:
    """A fleet joins only while many descriptors arrive, and for some seconds after."""
    assert not joining(JOINING_FROM_PER_S - 1).is_joining(105.0)
    pacing = joining(JOINING_FROM_PER_S)
    assert pacing.is_joining(105.0)
    pacing.note_changes(5 * JOINING_FROM_PER_S + 1, 106.0)
    assert pacing.is_joining(104.9 + JOINING_WITHIN_S)
    assert not pacing.is_joining(105.0 + JOINING_WITHIN_S)
    pacing.note_changes(7 * JOINING_FROM_PER_S, 400.0)
    assert not pacing.is_joining(400.0), "as many in minutes are few"


def test_a_fleet_that_has_joined_is_shown_at_once() -> None:
    """Layouts in between yield to a joining fleet's descriptors.

    The last one does not wait.

    No publisher can demand that all the time.
    """
    pacing = joining(JOINING_FROM_PER_S)
    counts = PipelineCounts()
    pacing.done(set(), 104.0, 105.0)
    begun_s = 106.0
    assert not pacing.is_time(1, {"a"}, begun_s, counts, all_described=True)
    settled_s = begun_s + DESCRIPTORS_SETTLE_S + 0.01
    assert not pacing.is_time(1, {"a"}, settled_s, counts), "more is to come"
    assert pacing.is_time(1, {"a"}, settled_s, counts, all_described=True)
    pacing.done(set(), settled_s, settled_s + 1.0)
    pacing.note_changes(9 * JOINING_FROM_PER_S, settled_s + 1.0)
    again_s = settled_s + 2.0
    pacing.is_time(2, {"a"}, again_s, counts, all_described=True)
    assert not pacing.is_time(2, {"a"}, again_s + 1.0, counts, all_described=True)
    assert pacing.is_time(2, {"a"}, settled_s + 1.0 + REFILL_S, counts, all_described=True)


def test_budgets_are_bounded() -> None:
    """Made-up names are forgotten once they could cause a rebuild again anyway."""
    pacing = LayoutPacing()
    for number in range(1_000):
        pacing.done({f"p{number}"}, number, number)
    assert len(pacing._budgets) <= REFILL_S


def test_a_budget_does_not_grow() -> None:
    """After any quiet time a publisher may cause only a few rebuilds in a row."""
    loop = Loop()
    loop.run(REFILL_S, "a")
    loop.now_s += 1_000 * REFILL_S
    assert loop.run(20 * REBUILD_EVERY_S, "a") <= BURST + 20 * REBUILD_EVERY_S / REFILL_S + 1


async def test_run_reads_and_computes() -> None:
    """The running monitor builds the layout, applies telemetry and rolls up, by its clock alone."""
    feed = Feed(ultraservers(1))
    source = QueueSource()
    clock = ManualClock(monotonic_s=50.0)
    feed.scatter()
    monitor = Monitor(source, "demo", clock=clock)
    async with running(monitor.run()):
        source.batches.put_nowait(feed.announcements())
        await clock.advance(0.5)
        source.batches.put_nowait(feed.telemetry())
        await clock.advance(1.0)
        assert monitor.summary().live_chips == 64
        assert monitor.summary().power_w is not None
        assert monitor.summary().lag_s is not None
        await clock.advance(4.0)
        assert monitor.store.count(Freshness.STALE) == 64
        assert monitor.summary().findings == 1
        assert monitor.summary().lag_s is None
        assert monitor.history.samples >= 4
        source.batches.put_nowait([])
        await clock.advance(0.1)
        assert monitor.ended


async def test_a_tick_whose_messages_come_apart_is_one_pass() -> None:
    """A pass waits for the rest of a tick, not for an endless stream.

    It does not wait for a late tick either. Silence has its own passes.
    """
    feed, source, clock = (
        Feed(ultraservers(4), grouped=True),
        QueueSource(),
        ManualClock(monotonic_s=50.0),
    )
    feed.scatter()
    monitor = Monitor(source, "demo", clock=clock)
    passes: list[float] = []
    monitor.on_pass.append(lambda: passes.append(round(clock.monotonic_s(), 2)))
    async with background(monitor=monitor.run()):
        source.batches.put_nowait(feed.announcements())
        await clock.advance(2.0)
        for late_s in (0.0, 0.35, 0.0):
            passes.clear()
            await clock.advance(late_s)
            for envelope in feed.telemetry():
                source.batches.put_nowait([envelope])
                await clock.advance(0.08)
            await clock.advance(1.0 - 0.08 * 4)
            assert len(passes) == 1
        passes.clear()
        for _ in range(10):
            source.batches.put_nowait(feed.telemetry())
            await clock.advance(0.08)
        assert passes
        await clock.advance(1.0)
        passes.clear()
        await clock.advance(10.0)
        assert len(passes) >= 9


async def test_a_pass_waits_for_what_is_live_and_not_for_what_is_silent() -> None:
    """A pause amid a tick begins no pass.

    A silent path delays other values by at most 0.3 s.
    """
    feed, source, clock = (
        Feed(ultraservers(4), grouped=True),
        QueueSource(),
        ManualClock(monotonic_s=50.0),
    )
    feed.scatter()
    monitor = Monitor(source, "demo", clock=clock)
    passes: list[float] = []
    monitor.on_pass.append(lambda: passes.append(clock.monotonic_s()))
    async with background(monitor=monitor.run()):
        source.batches.put_nowait(feed.announcements())
        await clock.advance(2.0)
        source.batches.put_nowait(feed.telemetry(ts_ns=clock.wall_ns()))
        await clock.advance(1.0)
        for _ in range(3):
            passes.clear()
            first, *rest = feed.telemetry(ts_ns=clock.wall_ns())
            source.batches.put_nowait([first])
            await clock.advance(0.16)
            source.batches.put_nowait(rest)
            await clock.advance(0.84)
            assert len(passes) == 1
        for _ in range(3):
            passes.clear()
            begun_s = clock.monotonic_s()
            source.batches.put_nowait(feed.telemetry(ts_ns=clock.wall_ns())[1:])
            await clock.advance(1.0)
            # Messages gather for 0.02 s, passes are up to 0.2 s apart, and one waits for 0.3 s.
            assert [each - begun_s < 0.6 for each in passes] == [True]


def test_the_summary_of_nothing() -> None:
    """Before anything has come, figures are None and counts are zero."""
    feed = Feed(ultraservers(1))
    feed.monitor.compute()
    summary = feed.monitor.summary()
    assert summary.chips == summary.lost == 0
    assert summary.power_w is None


def test_transport_drops_are_in_the_counts() -> None:
    """Messages dropped by the transport before reading are counted as dropped."""
    feed = Feed(ultraservers(1))
    feed.monitor.link.dropped = 3
    feed.monitor.link.oversize = 2
    assert feed.monitor.summary().dropped == 5


def test_batches_are_cut_by_messages_and_bytes() -> None:
    """A large batch is split into parts of a few milliseconds each, in order."""
    small = [Envelope(str(number), b"x") for number in range(SLICE + 4)]
    large = [Envelope(str(number), b"x" * 800_000) for number in range(5)]
    assert [len(part) for part in batch_slices(small)] == [SLICE, 4]
    assert [len(part) for part in batch_slices(large)] == [2, 2, 1]
    assert [message for part in batch_slices(small) for message in part] == small


def test_power_to_the_meter() -> None:
    """IT power is chips and hosts.

    Facility power is that times the PUE.

    AWS's 1.14 for 2025 by default.
    """
    feed = Feed(ultraservers(1))
    feed.set("power_w", 400.0)
    feed.set("host_power_w", 2_000.0)
    feed.describe()
    feed.tick()
    summary = feed.monitor.summary()
    assert summary.it_power_w == pytest.approx(64 * 400 + 4 * 2_000)
    assert summary.facility_power_w == pytest.approx(1.14 * 33_600)
    assert summary.pue == 1.14
    feed.monitor.site = Site(pue=1.5)
    assert feed.monitor.summary().facility_power_w == pytest.approx(50_400)


def test_figures_are_made_once_a_pass() -> None:
    """Summaries of one pass share its figures.

    The next pass and another layout have their own.
    """
    feed = Feed(ultraservers(1))
    feed.set("power_w", 400.0)
    feed.describe()
    feed.tick()
    first = feed.monitor.summary()
    assert feed.monitor.summary().mean is first.mean
    feed.set("power_w", 300.0)
    feed.tick()
    assert feed.monitor.summary().power_w == pytest.approx(64 * 300)
    feed.monitor.store.replace_layout(Layout.of(ultraservers(2)))
    assert feed.monitor.summary().power_w is None


def test_power_of_which_a_part_is_not_known() -> None:
    """Without host figures IT power is the chips' power.

    Without both it is unknown.
    """
    feed = Feed(ultraservers(1))
    feed.set("power_w", 100.0)
    feed.set("host_power_w", float("nan"))
    feed.describe()
    assert feed.monitor.summary().it_power_w is None
    assert feed.monitor.summary().facility_power_w is None
    feed.tick()
    assert feed.monitor.summary().it_power_w == pytest.approx(6_400)


async def test_what_is_lost_in_joining_is_never_read_as_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also not between the message that shows it and the next look at the link."""
    monkeypatch.setattr(causes, "JOINS_FROM", 1)
    feed = described_feed(standalone(2))
    feed.tick()
    monitor = feed.monitor
    monitor.counts.lost += 300
    monitor.link.changed_s = feed.clock.monotonic_s()
    await feed.clock.advance(0.5)
    assert monitor.pipeline(at_once=True).figure("lost") == 0.0
    assert monitor.pipeline(at_once=True).counts.lost == 300


async def test_racks() -> None:
    """Two instances of an UltraServer, or a standalone one, are a rack.

    A partly silent rack is left out.
    """
    feed = Feed(ultraservers(1) + standalone(1))
    feed.set("power_w", 100.0)
    feed.set("host_power_w", 1_000.0)
    feed.set("power_w", 300.0, slice(16, 48))
    feed.describe()
    assert feed.monitor.racks() == []
    feed.tick()
    assert feed.monitor.racks() == [
        RackPower("uc1/standalone/trn2-0001", 2_600),
        RackPower("uc1/us-0001/rack-a", 11_600),
        RackPower("uc1/us-0001/rack-b", 5_200),
    ]
    await feed.clock.advance(4)
    feed.tick([path for path in feed.layout.instances if not path.endswith("0001-1")])
    assert [rack.rack for rack in feed.monitor.racks()] == [
        "uc1/standalone/trn2-0001",
        "uc1/us-0001/rack-b",
    ]


def test_a_replaced_instance_costs_no_layout() -> None:
    """A higher revision with other EC2 ids changes neither layout nor rows.

    It is live throughout, and nothing is lost.
    """
    feed = live_feed(ultraservers(2), grouped=True)
    layout = feed.monitor.store.layout
    generation = feed.monitor.store.generation
    feed.revision = 1
    feed.generation = 7
    feed.describe()
    assert feed.monitor.store.layout is layout
    feed.tick()
    assert (feed.monitor.store.generation, feed.monitor.store.count(Freshness.LIVE)) == (
        generation,
        128,
    )
    counts = feed.monitor.counts
    assert (counts.lost, counts.undescribed, counts.messages) == (0, 0, 4)
    found = feed.monitor.ingest.descriptors.whole(layout.instances[0])
    assert found is not None
    assert found[1].ec2_id == f"i-{7:017x}"


MOST_LET_IN = LET_IN * SLICE


@pytest.mark.parametrize(
    ("comes", "turns"), [(2, MOST_LET_IN // 2), (64, MOST_LET_IN // 64), (10_000, 1), (0, 1)]
)
async def test_what_comes_is_let_in_before_more_is_applied(
    monkeypatch: pytest.MonkeyPatch, comes: int, turns: int
) -> None:
    """Between slices the transport has turns while messages arrive, up to a limit."""
    feed, source, clock = (
        Feed(standalone(SLICE + 4)),
        QueueSource(),
        ManualClock(monotonic_s=50.0),
    )
    feed.scatter()
    monitor = Monitor(source, "demo", clock=clock)
    applied: list[int] = []
    taken = 0
    wait = clock.sleep

    async def sleep(seconds: float) -> None:
        nonlocal taken
        taken += seconds == 0
        source.status.received += comes if seconds == 0 else 0
        await wait(seconds)

    monkeypatch.setattr(clock, "sleep", sleep)
    monkeypatch.setattr(monitor, "apply_messages", lambda _part: applied.append(taken))
    source.status.waiting = 1
    reading = asyncio.create_task(monitor._read())
    source.batches.put_nowait(feed.telemetry())
    for _ in range(5):
        await clock.advance(0.1)
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    assert applied == [0, turns]
