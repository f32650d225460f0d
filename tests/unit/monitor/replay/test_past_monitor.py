"""A past on a tape in memory: what it is put on, how it goes on, and how little it does where nothing comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone
from support.monitor.state import values_of
from support.record.memory_tape import KeyedTape, MemoryTape

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.clock import TapeClock
from trnfleet.monitor.replay.past_monitor import Past, PastSource
from trnfleet.wire.ports import Stored
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ports import Envelope, Tape

BEGIN_NS = 1_767_571_200 * NS_PER_S + NS_PER_S // 4
SECONDS = 25
YEAR_S = 365 * 86_400


def recorded(gap_s: int = 0) -> KeyedTape:
    """Return a tape of an instance that speaks once a second, the last time after a gap."""
    feed, tape = Feed(standalone(1)), KeyedTape()
    tape.put(BEGIN_NS, feed.announcements())
    for second in range(SECONDS):
        feed.set("temperature_c", 40.0 + second)
        now_ns = BEGIN_NS + (second + 1 + (gap_s if second == SECONDS - 1 else 0)) * NS_PER_S
        tape.put(now_ns, feed.telemetry(ts_ns=now_ns))
    return tape


def past_of(tape: Tape, root: str = DEFAULT_ROOT) -> Past:
    """Return a past that knows nothing yet."""
    clock = TapeClock(ManualClock(), tape.start_ns, 0.0, tape.start_ns)
    return Past(tape, Monitor(PastSource("a tape"), "demo", clock=clock, root=root), clock)


def exhaust(work: Iterator[None]) -> int:
    """Do the work; return in how many slices."""
    return sum(1 for _ in work)


def passes(past: Past, until_ns: int) -> int:
    """Advance and return how many passes that took."""
    made: list[int] = []
    past.monitor.on_pass = lambda: made.append(past.position_ns)
    exhaust(past.advance(until_ns))
    return len(made)


@pytest.mark.parametrize("second", [1, 9, 10, 11, 24])
def test_a_place_is_the_same_from_the_begin_and_by_a_keyframe(second: int) -> None:
    tape = recorded()
    there_ns = BEGIN_NS + second * NS_PER_S
    played, sought = past_of(tape), past_of(tape)
    exhaust(played.begin())
    exhaust(played.advance(there_ns))
    exhaust(played.settle())
    exhaust(sought.rebuild(there_ns))
    assert played.position_ns == sought.position_ns == there_ns
    assert played.monitor.store.columns["temperature_c"].max() > 0
    assert values_of(played.monitor) == values_of(sought.monitor)


def test_a_past_goes_on_from_a_snapshot_as_if_it_had_never_stopped() -> None:
    tape = recorded()
    whole, first, second = past_of(tape), past_of(tape), past_of(tape)
    for past, seconds in ((whole, 20), (first, 8)):
        exhaust(past.begin())
        exhaust(past.advance(BEGIN_NS + seconds * NS_PER_S))
    second.resume(first.monitor.snapshot(), first.position_ns)
    exhaust(second.advance(whole.position_ns))
    for past in (whole, second):
        exhaust(past.settle())
    assert values_of(second.monitor) == values_of(whole.monitor)
    assert second.monitor.counts == whole.monitor.counts
    assert first.position_ns < second.position_ns


def test_passes_are_at_whole_seconds_however_far_one_goes_at_a_time() -> None:
    tape = recorded()
    far, near = past_of(tape), past_of(tape)
    exhaust(far.begin())
    exhaust(near.begin())
    whole = passes(far, BEGIN_NS + 20 * NS_PER_S)
    parts = sum(passes(near, BEGIN_NS + each * NS_PER_S // 5) for each in range(1, 101))
    assert whole == parts == 20


def test_a_tape_that_is_quiet_for_a_century_is_gone_through_in_few_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tape = recorded(gap_s=100 * YEAR_S)
    past = past_of(tape)
    exhaust(past.begin())
    exhaust(past.advance(BEGIN_NS + 24 * NS_PER_S))
    made: list[int] = []

    def pass_quickly() -> Iterator[None]:
        made.append(past.position_ns)
        return iter(())

    monkeypatch.setattr(past.monitor, "passing", pass_quickly)
    exhaust(past.advance(past.position_ns + 3_600 * NS_PER_S))
    assert len(made) == 3_600
    exhaust(past.advance(tape.end_ns))
    assert len(made) < 8_000
    assert made == sorted(set(made))
    assert past.position_ns == tape.end_ns


def test_what_is_of_another_topic_is_no_telemetry_and_stops_nobody() -> None:
    tape = recorded()
    odd = [
        Stored(stored.time_ns, stored.envelope._replace(topic=topic))
        for stored, topic in zip(
            tape.stored, ("", "a/v1", "trnfleet/v1/demo/telemetry", "x/y/z"), strict=False
        )
    ]
    messages = sorted([*odd, *tape.stored], key=lambda stored: stored.time_ns)
    mixed = past_of(MemoryTape(messages))
    exhaust(mixed.rebuild(BEGIN_NS + 24 * NS_PER_S))
    assert mixed.monitor.summary().live_chips == mixed.monitor.store.layout.chips > 0


@pytest.mark.parametrize("root", ["trnfleet", "a/v1/b"])
def test_of_telemetry_the_newest_alone_is_applied_whatever_its_root(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [
        stored._replace(
            envelope=stored.envelope._replace(topic=root + stored.envelope.topic.removeprefix("trnfleet"))
        )
        for stored in recorded().stored
    ]
    past = past_of(MemoryTape(messages), root)
    applied: list[str] = []
    apply = past.monitor.apply

    def noting(batch: list[Envelope]) -> None:
        applied.extend(each.topic for each in batch)
        apply(batch)

    monkeypatch.setattr(past.monitor, "apply", noting)
    exhaust(past.rebuild(BEGIN_NS + 24 * NS_PER_S))
    assert sum("/telemetry/" in topic for topic in applied) == 1
    assert past.monitor.summary().live_chips == past.monitor.store.layout.chips > 0
