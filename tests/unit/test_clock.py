from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.clock import (
    NS_PER_S,
    Clock,
    ManualClock,
    SteadyWall,
    SystemClock,
    format_basic,
    format_rfc3339,
    parse_rfc3339,
)

YEAR_1000 = -30_610_224_000
YEAR_9999_END = 253_402_300_799
"""End of the year 9999 in seconds since 1970. RFC 3339 years have four digits."""


async def note_after(clock: Clock, seconds: float, name: str, woken: list[str]) -> None:
    """Sleep and then write down who woke when."""
    await clock.sleep(seconds)
    woken.append(f"{name} at {clock.monotonic_s():g}")


def test_the_system_clock_tells_the_machines_time() -> None:
    """Wall and monotonic time lie between two readings of the machine's clocks."""
    clock = SystemClock()

    before = time.time_ns(), time.monotonic()
    now = clock.wall_ns(), clock.monotonic_s()
    after = time.time_ns(), time.monotonic()

    assert before[0] <= now[0] <= after[0]
    assert before[1] <= now[1] <= after[1]


@pytest.mark.parametrize("seconds", [0, 0.0, -1.0])
async def test_the_system_clock_yields_without_waiting(seconds: float) -> None:
    """Sleeping for nothing lets another task run and does not refuse a negative time."""
    turns: list[str] = []
    other = asyncio.create_task(note_after(ManualClock(), 0, "other", turns))

    await SystemClock().sleep(seconds)
    await other

    assert turns == ["other at 0"]


async def test_a_manual_clock_stands_still() -> None:
    """Time does not pass by itself, not even for yielding tasks."""
    clock = ManualClock(wall_ns=5, monotonic_s=2.0)

    await clock.sleep(0)
    await clock.sleep(-1)

    assert (clock.wall_ns(), clock.monotonic_s()) == (5, 2.0)


async def test_advancing_moves_both_times() -> None:
    """Wall time and monotonic time advance by the same span."""
    clock = ManualClock(wall_ns=1_000, monotonic_s=10.0)

    await clock.advance(1.5)

    assert (clock.wall_ns(), clock.monotonic_s()) == (1_500_001_000, 11.5)


async def test_sleepers_wake_at_their_deadlines_in_order() -> None:
    """One advance wakes each due sleeper at its own instant, ties in their order."""
    clock = ManualClock()
    woken: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("b2", 2.0), ("late", 3.5)):
            tasks.create_task(note_after(clock, seconds, name, woken))

        await clock.advance(3.0)
        assert woken == ["a at 1", "b at 2", "b2 at 2", "c at 3"]
        await clock.advance(0.5)

    assert woken[4:] == ["late at 3.5"]


async def test_a_sleeper_that_sleeps_again_wakes_within_the_same_advance() -> None:
    """A loop ticking every second ticks three times in three seconds, at whole seconds."""
    clock = ManualClock()
    woken: list[str] = []

    async def tick() -> None:
        while True:
            await note_after(clock, 1.0, "tick", woken)

    task = asyncio.create_task(tick())
    await clock.advance(3.25)
    task.cancel()

    assert woken == ["tick at 1", "tick at 2", "tick at 3"]
    assert clock.monotonic_s() == 3.25


async def test_a_cancelled_sleeper_is_passed_over() -> None:
    """A cancelled sleeper neither wakes nor blocks others."""
    clock = ManualClock()
    woken: list[str] = []
    gone = asyncio.create_task(note_after(clock, 1.0, "gone", woken))
    stays = asyncio.create_task(note_after(clock, 2.0, "stays", woken))
    await clock.advance(0.5)

    gone.cancel()
    await clock.advance(2.0)
    await stays

    assert gone.cancelled()
    assert woken == ["stays at 2"]


async def test_steady_wall_time_goes_on_as_it_began() -> None:
    """Steady wall time follows the monotonic clock from the start, forwards and backwards.

    The wall clock has no influence.
    """
    clock = ManualClock(wall_ns=10 * NS_PER_S, monotonic_s=50.0)
    wall = SteadyWall(clock)

    await clock.advance(1.5)
    clock.step_wall(-3_600.0)

    assert wall.to_ns(clock.monotonic_s()) == 11_500_000_000
    assert wall.to_ns(49.0) == 9 * NS_PER_S


async def test_stepping_the_wall_clock_wakes_nobody() -> None:
    """A step of the wall clock, forwards or backwards, leaves monotonic time and sleepers alone."""
    clock = ManualClock(wall_ns=10 * NS_PER_S)
    woken: list[str] = []
    sleeper = asyncio.create_task(note_after(clock, 1.0, "sleeper", woken))
    await clock.advance(0.0)

    clock.step_wall(3_600.0)
    clock.step_wall(-7_200.5)
    await clock.advance(0.0)

    assert clock.wall_ns() == 10 * NS_PER_S - 3_600_500_000_000
    assert clock.monotonic_s() == 0.0
    assert woken == []
    sleeper.cancel()


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_903_998_250_000_000, "2026-01-31T23:59:58.250Z"),
        (999_999_999, "1970-01-01T00:00:00.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_an_instant_is_written_in_utc_with_milliseconds(ns: int, text: str) -> None:
    """What is finer than a millisecond is cut off, never rounded into the next second."""
    assert format_rfc3339(ns) == text
    assert format_basic(ns) == f"{text[:19].replace('-', '').replace(':', '')}Z"


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31T23:59:58.250Z", 1_769_903_998_250_000_000),
        ("2026-02-01T01:29:58.25+01:30", 1_769_903_998_250_000_000),
        ("1969-12-31T23:59:59.999999Z", -1_000),
        ("2026-01-31 23:59:58Z", 1_769_903_998_000_000_000),
    ],
)
def test_an_instant_is_read_in_any_time_zone(text: str, ns: int) -> None:
    """An offset is taken into account and a fraction is kept to the microsecond."""
    assert parse_rfc3339(text) == ns


@pytest.mark.parametrize("text", ["2026-01-31T00:00:00", "2026-01-31"])
def test_an_instant_without_a_time_zone_is_refused(text: str) -> None:
    """Local time is refused with the right notation: it differs between machines."""
    with pytest.raises(
        ValueError, match=f"'{text}' has no time zone; write it as 2026-01-31T00:00:00Z"
    ):
        parse_rfc3339(text)


@pytest.mark.parametrize("text", ["", "soon", "2026-02-30T00:00:00Z", "1769903998"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    """Anything else is an error too, not the nearest guess."""
    with pytest.raises(ValueError, match=r"."):
        parse_rfc3339(text)


@given(st.integers(YEAR_1000 * 1_000, YEAR_9999_END * 1_000))
def test_writing_and_reading_are_inverse(milliseconds: int) -> None:
    """Every instant of whole milliseconds whose year has four digits comes back as it was."""
    ns = milliseconds * 1_000_000

    assert parse_rfc3339(format_rfc3339(ns)) == ns


def test_writing_agrees_with_datetime() -> None:
    """The epoch is the same as Python's own."""
    ns = 1_769_903_998 * NS_PER_S

    assert datetime.fromisoformat(format_rfc3339(ns)) == datetime.fromtimestamp(ns / NS_PER_S, UTC)
