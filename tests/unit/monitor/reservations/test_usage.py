from __future__ import annotations

import pytest

from trnfleet.monitor.reservations import usage as module
from trnfleet.monitor.reservations.usage import HOUR_NS, Look, Usage
from trnfleet.monitor.sources.clocks import Moment


def moment(hours: float, speed: float = 1.0) -> Moment:
    return Moment(round(hours * HOUR_NS), speed, is_wall=False)


def look(
    util_pct: float = 50.0,
    used_share: float = 1.0,
    *,
    starts_h: float = -9e3,
    ends_h: float | None = None,
) -> Look:
    ends_ns = None if ends_h is None else round(ends_h * HOUR_NS)
    return Look(util_pct, used_share, round(starts_h * HOUR_NS), ends_ns)


def watched_h(usage: Usage, name: str = "cb") -> dict[int, float]:
    """Return hours watched by the number of the hour."""
    return {each.hour_ns // HOUR_NS: each.watched_s / 3_600 for each in usage.hours(name)}


def test_hours_are_filled_by_what_was_seen() -> None:
    """An hour's use is the mean over its watched part.

    A sample covers the time before it.
    """
    usage = Usage()
    usage.watch(moment(0.9), {"cb": look(10.0)})
    for step in range(1, 7):
        usage.watch(moment(0.9 + step / 30, 3_600), {"cb": look(60.0 if step < 4 else 90.0, 0.5)})
    first, second = usage.hours("cb")
    assert (first.hour_ns, second.hour_ns) == (0, HOUR_NS)
    assert first.watched_s == pytest.approx(360)
    assert first.util_pct == pytest.approx(60.0)
    assert second.util_pct == pytest.approx(90.0)
    assert second.used_share == pytest.approx(0.5)
    assert usage.mean_util_pct("cb") == pytest.approx(75.0)


@pytest.mark.parametrize(
    ("speed", "step_s", "watched"), [(1.0, 5.0, True), (1.0, 6.0, False), (3_600.0, 18_000.0, True)]
)
def test_a_gap_is_unwatched(speed: float, step_s: float, watched: bool) -> None:
    """Time between distant samples, or in a jump, is unwatched."""
    usage = Usage()
    usage.watch(moment(0, speed), {"cb": look()})
    usage.watch(moment(step_s / 3_600, speed), {"cb": look()})
    assert bool(usage.hours("cb")) is watched
    assert (usage.mean_util_pct("cb") is not None) is watched


def test_a_look_is_spread_over_the_hours_that_passed() -> None:
    """Where time runs fast a look fills several hours, each with its part."""
    usage = Usage()
    usage.watch(moment(0.5, 3_600), {})
    usage.watch(moment(3.25, 3_600), {"cb": look()})
    assert watched_h(usage) == pytest.approx({0: 0.5, 1: 1.0, 2: 1.0, 3: 0.25})


def test_a_look_stands_for_its_reservation_s_time_only() -> None:
    """A sample does not cover time before a reservation's start or after its end."""
    usage = Usage()
    usage.watch(moment(0, 3_600), {})
    usage.watch(
        moment(4, 3_600),
        {
            "late": look(starts_h=2.5),
            "short": look(ends_h=1.25),
            "gone": look(ends_h=0),
            "next": look(starts_h=4),
        },
    )
    assert watched_h(usage, "late") == pytest.approx({2: 0.5, 3: 1.0})
    assert watched_h(usage, "short") == pytest.approx({0: 1.0, 1: 0.25})
    assert usage.hours("gone") == usage.hours("next") == []


def test_what_was_to_come_is_forgotten_when_time_goes_back() -> None:
    """After a simulator's restart future hours are dropped, and fill again."""
    usage = Usage()
    for hour in range(6):
        usage.watch(moment(hour, 3_600), {"cb": look(80.0)})
    usage.watch(moment(2.5, 3_600), {"cb": look(20.0)})
    assert watched_h(usage) == {0: 1.0, 1: 1.0, 2: 1.0}
    assert usage.mean_util_pct("cb") == pytest.approx(80.0)
    usage.watch(moment(4, 3_600), {"cb": look(20.0)})
    assert list(watched_h(usage)) == [0, 1, 2, 3]
    assert usage.hours("cb")[3].util_pct == pytest.approx(20.0)


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours are bounded; the oldest are dropped.

    A removed reservation leaves nothing.
    """
    monkeypatch.setattr(module, "MOST_HOURS", 20)
    usage = Usage()
    for hour in range(31):
        usage.watch(moment(hour, 3_600), {"cb": look()})
    hours = usage.hours("cb")
    assert len(hours) == 20
    assert hours[-1].hour_ns == 29 * HOUR_NS
    assert usage.mean_util_pct("cb") == pytest.approx(50.0)
    usage.forget("cb")
    assert usage.hours("cb") == []
    assert usage.mean_util_pct("cb") is None


def test_all_histories_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the total limit the oldest hour of any reservation is dropped.

    Removed reservations make room.
    """
    monkeypatch.setattr(module, "MOST_HOURS", 10)
    usage = Usage()
    usage.watch(moment(0, 3_600), {})
    usage.watch(moment(2, 3_600), {"old": look()})
    for hour in range(3, 7):
        usage.watch(moment(hour, 3_600), {"one": look(), "two": look()})
    assert list(watched_h(usage, "old")) == [0, 1]
    usage.watch(moment(7, 3_600), {"one": look(), "two": look()})
    assert usage.hours("old") == []
    assert list(watched_h(usage, "one")) == list(watched_h(usage, "two")) == [2, 3, 4, 5, 6]
    usage.forget("one")
    for hour in range(8, 13):
        usage.watch(moment(hour, 3_600), {"two": look()})
    assert list(watched_h(usage, "two")) == list(range(2, 12))
