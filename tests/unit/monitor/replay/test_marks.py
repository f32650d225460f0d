"""Timeline: marks in order, snapshots within their memory, and the fleet's clock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from support.monitor.feed import one_instance

from trnfleet.clock import NS_PER_S
from trnfleet.domain.severity import Severity
from trnfleet.monitor.replay import marks as timeline_module
from trnfleet.monitor.replay.marks import SNAPSHOT_SHARE, Mark, RecordingIndex
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot

if TYPE_CHECKING:
    import pytest

    from trnfleet.monitor.monitor import Monitor

BEGIN_NS = 1_700_000_000 * NS_PER_S


def make(every_s: float = 10.0, cost_s: float = 0.0) -> RecordingIndex:
    """Return a timeline starting with monotonic time, with this cost per snapshot."""
    real_s = itertools.count()
    return RecordingIndex(
        lambda at_s: BEGIN_NS + round(at_s * NS_PER_S),
        lambda: cost_s * next(real_s),
        every_s=every_s,
    )


def fed() -> Monitor:
    """Return a monitor with a known fleet."""
    monitor = one_instance().monitor
    monitor.applied_s = 0.0
    return monitor


def mark(second: int, kind: str = "alert") -> Mark:
    """Return a mark."""
    assert kind in {"alert", "resolved", "event"}
    return Mark(BEGIN_NS + second * NS_PER_S, kind, Severity.WARNING, "x", "", "")  # type: ignore[arg-type]


def test_the_next_mark_is_the_nearest_of_its_kind_in_either_direction() -> None:
    timeline = make()
    timeline.marks = [mark(1), mark(3, "event"), mark(5), mark(9, "resolved")]
    here = BEGIN_NS + 3 * NS_PER_S
    assert timeline.next_mark(here, 1, {"alert"}) == mark(5)
    assert timeline.next_mark(here, -1, {"alert"}) == mark(1)
    assert timeline.next_mark(here, 1, {"resolved", "event"}) == mark(9, "resolved")
    assert timeline.next_mark(here, -1, {"event"}) is None


def test_what_the_recording_has_lost_is_forgotten() -> None:
    timeline = make()
    timeline.marks = [mark(1), mark(5)]
    monitor = fed()
    timeline.take(monitor, BEGIN_NS)
    assert len(timeline.snapshots) == 1
    before = timeline.revision
    timeline.drop_before(BEGIN_NS + 10_000 * NS_PER_S)
    assert timeline.marks == []
    assert timeline.snapshots == []
    assert timeline.revision > before


def test_snapshots_are_so_far_apart_and_thin_out_when_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline_module, "MOST_SNAPSHOTS", 4)
    timeline = make(10.0)
    monitor = fed()
    for second in range(0, 200, 5):
        monitor.applied_s = float(second)
        timeline.take(monitor, BEGIN_NS + second * NS_PER_S)
    seconds = [(time_ns - BEGIN_NS) // NS_PER_S for time_ns, _ in timeline.snapshots]
    assert len(seconds) == 4
    assert seconds == sorted(seconds)
    assert seconds[0] == 0
    assert seconds[-1] >= 150
    gaps = [after - before for before, after in itertools.pairwise(seconds)]
    assert max(gaps) <= 4 * min(gaps)
    assert timeline.snapshot(BEGIN_NS - 1) is None
    found = timeline.snapshot(BEGIN_NS + 1_000 * NS_PER_S)
    assert found is not None
    assert found[0] == timeline.snapshots[-1][0]


def test_snapshots_reach_their_number_and_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "MOST_SNAPSHOTS", 8)
    timeline = make(10.0)
    monitor = fed()
    numbers = []
    for second in range(0, 3_000, 5):
        monitor.applied_s = float(second)
        timeline.take(monitor, BEGIN_NS + second * NS_PER_S)
        numbers.append(len(timeline.snapshots))
    assert set(numbers[30:]) == {8}


def test_snapshots_hold_few_events_that_the_monitor_has_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline_module, "KEPT", 100)
    timeline = make(10.0)
    monitor = fed()
    for second in range(0, 400, 10):
        monitor.applied_s = float(second)
        monitor.events.received += 10
        timeline.take(monitor, BEGIN_NS + second * NS_PER_S)
    counts = [snapshot.events for _, snapshot in timeline.snapshots]
    assert counts == list(range(300, 401, 10))


def test_a_fleet_that_does_not_fit_into_memory_has_no_snapshots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline_module, "SNAPSHOT_BYTES", 2_000)
    timeline = make()
    timeline.take(fed(), BEGIN_NS)
    assert timeline.snapshots == []


def test_a_fleet_of_too_many_publishers_has_none_and_nothing_is_packed_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No snapshot is packed if not even two would fit.

    Packing would block everything else for a result that is thrown away.
    """
    packed: list[Monitor] = []
    monkeypatch.setattr(timeline_module, "PackedSnapshot", packed.append)
    monkeypatch.setattr(timeline_module, "HOST_BYTES", timeline_module.SNAPSHOT_BYTES)
    timeline = make()
    timeline.take(fed(), BEGIN_NS)
    assert (timeline.snapshots, packed) == ([], [])


def test_the_fleets_time_leads_to_the_recordings() -> None:
    timeline = make()
    monitor = fed()
    fleet_ns = monitor.moment().time_ns
    timeline.take(monitor, BEGIN_NS + 7 * NS_PER_S)
    assert timeline.moment_of(fleet_ns) == BEGIN_NS + 7 * NS_PER_S
    assert timeline.moment_of(fleet_ns - 3_600 * NS_PER_S) is None


def test_what_lies_before_is_known_by_the_fleets_time_and_begins_with_a_snapshot() -> None:
    """Minutes before the recording have fleet times and begin with a snapshot.

    It stays until they are cut off.
    """
    timeline = make()
    monitor = fed()
    timeline.take(monitor, BEGIN_NS)
    own = monitor.moment().time_ns
    first = PackedSnapshot(monitor)
    revision = timeline.revision
    place = BEGIN_NS - 60 * NS_PER_S
    times = [(own - number * NS_PER_S, BEGIN_NS - number * NS_PER_S) for number in range(60, 0, -1)]
    timeline.backfill(times, (place, first))
    assert timeline.revision > revision
    assert timeline.moment_of(own - 30 * NS_PER_S) == BEGIN_NS - 30 * NS_PER_S
    assert timeline.moment_of(own) == BEGIN_NS
    assert timeline.moment_of(own - 62 * NS_PER_S) is None
    timeline.drop_before(place)
    assert timeline.snapshot(BEGIN_NS - 1) == (place, first)
    timeline.drop_before(place + 1)
    assert timeline.snapshot(BEGIN_NS - 1) is None


def test_snapshots_that_take_long_are_rare() -> None:
    timeline = make(10.0, cost_s=50 * SNAPSHOT_SHARE)
    monitor = fed()
    for second in range(0, 200, 5):
        monitor.applied_s = float(second)
        timeline.take(monitor, BEGIN_NS + second * NS_PER_S)
    assert [(time_ns - BEGIN_NS) // NS_PER_S for time_ns, _ in timeline.snapshots] == [
        0,
        50,
        100,
        150,
    ]


def test_one_snapshot_that_took_long_makes_the_next_one_late_and_no_other() -> None:
    took_s = iter([0.0, 50 * SNAPSHOT_SHARE, *(1.0 for _ in range(100))])
    timeline = RecordingIndex(
        lambda at_s: BEGIN_NS + round(at_s * NS_PER_S), lambda: next(took_s), every_s=10.0
    )
    monitor = fed()
    for second in range(0, 100, 5):
        monitor.applied_s = float(second)
        timeline.take(monitor, BEGIN_NS + second * NS_PER_S)
    assert [(time_ns - BEGIN_NS) // NS_PER_S for time_ns, _ in timeline.snapshots] == [
        0,
        50,
        60,
        70,
        80,
        90,
    ]


def test_silence_makes_no_snapshots() -> None:
    """No snapshots are made in silence.

    Earlier ones are worth more than later rule results.
    """
    timeline = make(10.0)
    monitor = fed()
    for second in range(1_000):
        monitor.applied_s = float(min(second, 95))
        timeline.take(monitor, BEGIN_NS + second * NS_PER_S)
    assert [(time_ns - BEGIN_NS) // NS_PER_S for time_ns, _ in timeline.snapshots] == list(
        range(0, 100, 10)
    )
    monitor.applied_s = 1_001.0
    timeline.take(monitor, BEGIN_NS + 1_001 * NS_PER_S)
    assert timeline.snapshots[-1][0] == BEGIN_NS + 1_001 * NS_PER_S


def test_times_are_kept_once_a_second_and_as_long_as_the_recording() -> None:
    timeline = make()
    monitor = fed()
    for tenth in range(600):
        timeline.take(monitor, BEGIN_NS + tenth * NS_PER_S // 10)
    assert len(timeline._times) == 60
    timeline.drop_before(BEGIN_NS + 50 * NS_PER_S)
    assert len(timeline._times) == 10
    timeline.drop_before(BEGIN_NS + 100 * NS_PER_S)
    assert timeline.moment_of(monitor.moment().time_ns) is None


def test_the_oldest_marks_make_room_and_a_new_list_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "KEPT", 3)
    timeline = make()
    feed = one_instance()
    for second in range(5):
        before = timeline.marks
        feed.monitor.apply([feed.event(text=f"event {second}", severity="warning")])
        timeline.take(feed.monitor, BEGIN_NS + second * NS_PER_S)
        assert timeline.marks is not before
    assert [each.text for each in timeline.marks] == ["event 2", "event 3", "event 4"]
    feed.monitor.apply([feed.event(text="nothing to mark", severity="info")])
    timeline.take(feed.monitor, BEGIN_NS + 9 * NS_PER_S)
    assert len(timeline.marks) == 3
    assert timeline.marks[-1].text == "event 4"
