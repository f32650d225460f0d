from __future__ import annotations

import pytest
from support.sim.capacity_account import DAY_NS, HOUR_NS, MINUTE_NS, at

from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.rules import Rule, RuleViolation

WHOLE_DAYS = [*range(1, 15), *range(21, 183, 7)]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (-7, False),
        (0, False),
        (1, True),
        (13, True),
        (14, True),
        (15, False),
        (20, False),
        (21, True),
        (22, False),
        (27, False),
        (28, True),
        (175, True),
        (181, False),
        (182, True),
        (183, False),
        (189, False),
        (10**30, False),
    ],
)
def test_durations(days: int, expected: bool) -> None:
    """A block lasts 1 to 14 days, or whole weeks up to 182 days."""
    assert (days in rules.DURATIONS) is expected


def test_all_durations() -> None:
    """There are 14 durations in days and 24 in weeks, and no others."""
    assert list(rules.DURATIONS) == WHOLE_DAYS


@pytest.mark.parametrize(
    ("days", "near"),
    [
        (-5, "1 would fit"),
        (0, "1 would fit"),
        (15, "14 or 21 would fit"),
        (20, "14 or 21 would fit"),
        (22, "21 or 28 would fit"),
        (181, "175 or 182 would fit"),
        (183, "182 would fit"),
        (189, "182 would fit"),
        (10**30, "182 would fit"),
    ],
)
def test_a_wrong_duration_names_those_beside_it(days: int, near: str) -> None:
    """An invalid duration is refused with its value, the limits, and both neighbours."""
    with pytest.raises(RuleViolation) as caught:
        rules.check_duration(days)
    assert caught.value.rule is Rule.DURATION
    text = (
        "duration-in-days-then-weeks: a block lasts 1 to 14 days, or multiples of 7 up to 182, not"
        f" {days}; {near}"
    )
    assert str(caught.value) == text


@pytest.mark.parametrize("days", [1, 14, 21, 182])
def test_a_right_duration_passes(days: int) -> None:
    """Durations at the limits are not refused."""
    rules.check_duration(days)


@pytest.mark.parametrize(
    ("start", "days", "end", "hours"),
    [
        ("2026-01-05 03:30", 1, "2026-01-05 11:30", 8),
        ("2026-01-05 03:30", 2, "2026-01-06 11:30", 32),
        ("2026-01-05 11:29", 1, "2026-01-05 11:30", 1 / 60),
        ("2026-01-05 11:30", 1, "2026-01-06 11:30", 24),
        ("2026-01-05 11:31", 1, "2026-01-06 11:30", 24 - 1 / 60),
        ("2026-01-05 00:00", 14, "2026-01-18 11:30", 13 * 24 + 11.5),
        ("2026-01-05 11:30", 182, "2026-07-06 11:30", 182 * 24),
    ],
)
def test_a_first_day_may_be_partial(start: str, days: int, end: str, hours: float) -> None:
    """A block ends at 11:30 UTC, so its first day may be partial.

    For example 8 or 32 hours.
    """
    end_ns = rules.end_ns(at(start), days)
    assert end_ns == at(end)
    assert end_ns - at(start) == round(hours * 60) * MINUTE_NS
    assert rules.days_of(at(start), end_ns) == days


@pytest.mark.parametrize(
    ("off_ns", "expected"),
    [(-1, "2026-01-05 11:30"), (0, "2026-01-06 11:30"), (1, "2026-01-06 11:30")],
)
def test_the_next_end_is_after_an_instant(off_ns: int, expected: str) -> None:
    """A block that starts at the end of a day ends a day later."""
    assert rules.next_end_ns(at("2026-01-05 11:30") + off_ns) == at(expected)


@pytest.mark.parametrize(
    ("off_ns", "expected"), [(-1, False), (0, True), (1, False), (DAY_NS, True), (HOUR_NS, False)]
)
def test_ends_are_at_half_past_eleven(off_ns: int, expected: bool) -> None:
    """Blocks end at 11:30 UTC sharp."""
    assert rules.is_end(at("2026-01-05 11:30") + off_ns) is expected


@pytest.mark.parametrize(("off_ns", "days"), [(-1, 1), (0, 1), (1, 2), (-DAY_NS + 1, 1)])
def test_a_partial_day_counts_as_one(off_ns: int, days: int) -> None:
    """Days are counted up, from the first nanosecond over."""
    start_ns = at("2026-01-05 11:30")
    assert rules.days_of(start_ns, start_ns + DAY_NS + off_ns) == days


@pytest.mark.parametrize(("off_ns", "minutes"), [(-1, 0), (0, 0), (1, 1), (MINUTE_NS, 1)])
def test_whole_minutes(off_ns: int, minutes: int) -> None:
    """An instant between two minutes goes to the later one."""
    start_ns = at("2026-01-05 11:30")
    assert rules.whole_minute_ns(start_ns + off_ns) == start_ns + minutes * MINUTE_NS


def test_instants_are_written_in_utc() -> None:
    """An instant is written with its zone and without its seconds."""
    assert rules.utc(at("2026-01-31 11:30:59")) == "2026-01-31 11:30 UTC"


@pytest.mark.parametrize(
    ("instant_ns", "text"), [(-(10**30), "0001-01-01 00:00 UTC"), (10**30, "9999-12-31 23:59 UTC")]
)
def test_every_instant_can_be_written(instant_ns: int, text: str) -> None:
    """An instant beyond the calendar is written as the calendar's first or last."""
    assert rules.utc(instant_ns) == text


def test_published_limits() -> None:
    """The limits are EC2's published ones."""
    assert (rules.MOST_DAYS, rules.MOST_INSTANCES_A_BLOCK, rules.MOST_INSTANCES) == (182, 64, 256)
    assert (rules.EARLIEST_START_S, rules.LATEST_START_S) == (30 * 60, 8 * 7 * 86_400)
    assert (rules.EXTENSION_EARLIEST_S, rules.EXTENSION_LATEST_S) == (56 * 86_400, 3_600)
    assert (rules.PAYMENT_WINDOW_S, rules.PAYMENT_BEFORE_END_S) == (12 * 3_600, 35 * 60)
    assert (rules.WARNING_BEFORE_END_S, rules.TERMINATION_BEFORE_END_S) == (40 * 60, 30 * 60)
