"""A monitor of the past: its place in a recording, its clock, and its history."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone
from support.monitor.state import values_of
from support.record.memory_recording import KeyframedRecording, MemoryRecording

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.domain.layout import Layout, Node
from trnfleet.monitor.freshness import STALE_AFTER_PERIODS, Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.replay.past_monitor import (
    PastHistory,
    PastMonitor,
    PastSource,
    RecordingClock,
)
from trnfleet.wire.ports import Envelope, RecordedMessages, Stored
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


BEGIN_NS = 1_767_571_200 * NS_PER_S + NS_PER_S // 4
SECONDS = 25
YEAR_S = 365 * 86_400


def recorded(gap_s: int = 0) -> KeyframedRecording:
    """Return a recording of an instance: a message a second, the last after a gap."""
    feed = Feed(standalone(1))
    recording = KeyframedRecording()
    recording.put(BEGIN_NS, feed.announcements())
    for second in range(SECONDS):
        feed.set("temperature_c", 40.0 + second)
        now_ns = BEGIN_NS + (second + 1 + (gap_s if second == SECONDS - 1 else 0)) * NS_PER_S
        recording.put(now_ns, feed.telemetry(ts_ns=now_ns))
    return recording


def past_of(recording: RecordedMessages, root: str = DEFAULT_ROOT) -> PastMonitor:
    """Return a past that knows nothing yet."""
    clock = RecordingClock(ManualClock(), recording.start_ns, 0.0, recording.start_ns)
    return PastMonitor(
        recording, Monitor(PastSource("a recording"), "demo", clock=clock, root=root), clock
    )


def exhaust(work: Iterator[None]) -> int:
    """Do the work; return in how many slices."""
    return sum(1 for _ in work)


def passes(past: PastMonitor, until_ns: int) -> int:
    """Advance and return how many passes that took."""
    made: list[int] = []
    past.monitor.on_pass.append(lambda: made.append(past.position_ns))
    exhaust(past.advance(until_ns))
    return len(made)


@pytest.mark.parametrize("second", [1, 9, 10, 11, 24])
def test_a_place_is_the_same_from_the_begin_and_by_a_keyframe(second: int) -> None:
    recording = recorded()
    there_ns = BEGIN_NS + second * NS_PER_S
    played = past_of(recording)
    sought = past_of(recording)
    exhaust(played.begin())
    exhaust(played.advance(there_ns))
    exhaust(played.settle())
    exhaust(sought.rebuild(there_ns))
    assert played.position_ns == sought.position_ns == there_ns
    assert played.monitor.store.columns["temperature_c"].max() > 0
    assert values_of(played.monitor) == values_of(sought.monitor)


@pytest.mark.parametrize("left_out", [0, 3])
def test_of_a_thinned_recording_nothing_is_lost_or_stale(left_out: int) -> None:
    """Thinned messages live longer by the number left out.

    Then the instance is stale.
    """
    feed = Feed(standalone(1))
    recording = KeyframedRecording()
    recording.put(BEGIN_NS, feed.announcements())
    for second in range(33):
        now_ns = BEGIN_NS + second * NS_PER_S
        messages = feed.telemetry(ts_ns=now_ns)
        if second % (left_out + 1) == 0:
            recording.put(now_ns, [each._replace(shed=left_out) for each in messages])
    past = past_of(recording)
    exhaust(past.begin())
    states = []
    for second in range(60):
        exhaust(past.advance(BEGIN_NS + second * NS_PER_S + NS_PER_S // 2))
        states.append(past.monitor.store.count(Freshness.STALE) > 0)
    counts = past.monitor.counts
    assert (counts.lost, counts.passed_over) == (0, 32 // (left_out + 1) * left_out)
    # The last message came at second 32.
    assert states.index(True) - 32 == pytest.approx(STALE_AFTER_PERIODS + left_out, abs=1)


def test_a_past_goes_on_from_a_snapshot_as_if_it_had_never_stopped() -> None:
    recording = recorded()
    whole = past_of(recording)
    first = past_of(recording)
    second = past_of(recording)
    for past, seconds in ((whole, 20), (first, 8)):
        exhaust(past.begin())
        exhaust(past.advance(BEGIN_NS + seconds * NS_PER_S))
    second.resume(PackedSnapshot(first.monitor).unpack(), first.position_ns)
    exhaust(second.advance(whole.position_ns))
    for past in (whole, second):
        exhaust(past.settle())
    assert values_of(second.monitor) == values_of(whole.monitor)
    assert second.monitor.counts == whole.monitor.counts
    assert first.position_ns < second.position_ns


def test_passes_are_at_whole_seconds_however_far_one_goes_at_a_time() -> None:
    recording = recorded()
    far = past_of(recording)
    near = past_of(recording)
    exhaust(far.begin())
    exhaust(near.begin())
    whole = passes(far, BEGIN_NS + 20 * NS_PER_S)
    parts = sum(passes(near, BEGIN_NS + each * NS_PER_S // 5) for each in range(1, 101))
    assert whole == parts == 20


def test_a_recording_that_is_quiet_for_a_century_is_gone_through_in_few_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = recorded(gap_s=100 * YEAR_S)
    past = past_of(recording)
    exhaust(past.begin())
    exhaust(past.advance(BEGIN_NS + 24 * NS_PER_S))
    made: list[int] = []

    def pass_quickly() -> Iterator[None]:
        made.append(past.position_ns)
        return iter(())

    monkeypatch.setattr(past.monitor, "passing", pass_quickly)
    exhaust(past.advance(past.position_ns + 3_600 * NS_PER_S))
    assert len(made) == 3_600
    exhaust(past.advance(recording.end_ns))
    assert len(made) < 8_000
    assert made == sorted(set(made))
    assert past.position_ns == recording.end_ns


def test_what_is_of_another_topic_is_no_telemetry_and_stops_nobody() -> None:
    recording = recorded()
    odd = [
        Stored(stored.time_ns, stored.envelope._replace(topic=topic))
        for stored, topic in zip(
            recording.stored, ("", "a/v1", "trnfleet/v1/demo/telemetry", "x/y/z"), strict=False
        )
    ]
    messages = sorted([*odd, *recording.stored], key=lambda stored: stored.time_ns)
    mixed = past_of(MemoryRecording(messages))
    exhaust(mixed.rebuild(BEGIN_NS + 24 * NS_PER_S))
    assert mixed.monitor.summary().live_chips == mixed.monitor.store.layout.chips > 0


@pytest.mark.parametrize("root", ["trnfleet", "a/v1/b"])
def test_of_telemetry_the_newest_alone_is_applied_whatever_its_root(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [
        stored._replace(
            envelope=stored.envelope._replace(
                topic=root + stored.envelope.topic.removeprefix("trnfleet")
            )
        )
        for stored in recorded().stored
    ]
    past = past_of(MemoryRecording(messages), root)
    applied: list[str] = []
    apply = past.monitor.apply

    def noting(batch: list[Envelope]) -> None:
        applied.extend(each.topic for each in batch)
        apply(batch)

    monkeypatch.setattr(past.monitor, "apply", noting)
    exhaust(past.rebuild(BEGIN_NS + 24 * NS_PER_S))
    assert sum("/telemetry/" in topic for topic in applied) == 1
    assert past.monitor.summary().live_chips == past.monitor.store.layout.chips > 0


# The clock

ANCHOR_NS = 1_767_571_200 * NS_PER_S


async def test_it_stands_while_real_time_passes_and_goes_where_it_is_put() -> None:
    real = ManualClock(0, 500.0)
    clock = RecordingClock(real, ANCHOR_NS, 100.0, ANCHOR_NS)
    await real.advance(60.0)
    assert (clock.wall_ns(), clock.monotonic_s()) == (ANCHOR_NS, 100.0)
    clock.position_ns = ANCHOR_NS - 3 * NS_PER_S // 2
    assert (clock.wall_ns(), clock.monotonic_s()) == (ANCHOR_NS - 3 * NS_PER_S // 2, 98.5)
    assert clock.at_s(ANCHOR_NS + NS_PER_S) == 101.0


async def test_waiting_is_done_in_real_time() -> None:
    real = ManualClock(0, 500.0)
    clock = RecordingClock(real, ANCHOR_NS, 100.0, ANCHOR_NS)
    waiting = asyncio.create_task(clock.sleep(2.0))
    await real.advance(1.9)
    assert not waiting.done()
    await real.advance(0.2)
    assert waiting.done()
    assert clock.monotonic_s() == 100.0


# The history

WATCHED_S = 10


async def watched(seconds: int = WATCHED_S, instances: int = 1) -> Feed:
    """Return a feed with chips one degree hotter each second."""
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


def series(history: PastHistory, monitor: Monitor) -> list[float]:
    """Return the fleet's temperatures, gaps as -1."""
    layout = monitor.store.layout
    values = history.series(layout, fleet_of(layout), "temperature_c")
    return [round(each) for each in np.nan_to_num(values, nan=-1.0).tolist()]


def behind(feed: Feed, seconds: float) -> PastHistory:
    """Return the history some seconds before the feed's last sample.

    After it if negative.
    """
    return PastHistory(feed.monitor, lambda: feed.monitor.history_s - seconds)


@pytest.mark.parametrize("seconds", [0, 1, 4, WATCHED_S, 1_000])
async def test_nothing_is_shown_of_what_came_later(seconds: int) -> None:
    feed = await watched()
    whole = series(behind(feed, 0), feed.monitor)
    assert len(whole) == WATCHED_S
    assert whole == sorted(set(whole))
    assert series(behind(feed, seconds), feed.monitor) == whole[: max(0, WATCHED_S - seconds)]


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
    node = other.find(path)
    own = feed.monitor.store.layout.find(path)
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
    """A past resumed a moment ago has samples for charts without any of its own."""
    feed = await watched()
    history = behind(feed, 4)
    assert history.samples == feed.monitor.history.samples == WATCHED_S
