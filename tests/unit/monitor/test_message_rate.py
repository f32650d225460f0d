"""Message rate: over enough messages, settled within seconds, 0 only for a dead feed."""

from __future__ import annotations

import math

import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.monitor.pipeline.traffic import MessageRate


def fed(rate: MessageRate, seconds: range, per_s: float) -> None:
    """Read a count with a steady increase, once a second."""
    for second in seconds:
        rate.read(1_000.0 + second, int(second * per_s))


@pytest.mark.parametrize("per_s", [0.2, 1.0, 12.0])
def test_a_live_feed_is_never_at_zero(per_s: float) -> None:
    """A slow feed shows its usual rate between messages, from some seconds after the start."""
    rate = MessageRate()
    assert math.isnan(rate.per_s)
    for second in range(1, 200):
        rate.read(1_000.0 + second, int(second * per_s), max(1.0, 1 / per_s))
        if second >= max(3, 3 / per_s):
            assert rate.per_s == pytest.approx(per_s, rel=0.5), second
    assert rate.per_s == pytest.approx(per_s, rel=0.1)


def test_one_late_message_does_not_swing_it() -> None:
    rate = MessageRate()
    fed(rate, range(1, 30), 1.0)
    rate.read(1_030.0, 29)
    assert rate.per_s == pytest.approx(1.0, abs=0.11)


def test_a_dead_feed_says_so_and_for_how_long() -> None:
    """A feed is dead after three usual gaps, and live again with the first messages."""
    rate = MessageRate()
    fed(rate, range(1, 30), 1.0)
    for second in range(30, 60):
        rate.read(1_000.0 + second, 29)
        assert (rate.per_s == 0.0) is (second > 39)
    assert rate.quiet_s == 30.0
    for second in range(60, 75):
        rate.read(1_000.0 + second, 29 + second - 59)
    assert rate.per_s == pytest.approx(1.0, rel=0.1)
    assert rate.quiet_s == 0.0


@pytest.mark.parametrize("period_s", [5, 10, 60])
def test_publishers_that_send_together(period_s: int) -> None:
    """Twelve messages per period are the same rate at any second.

    Three periods without one are a dead feed.
    """
    rate = MessageRate()
    for second in range(10 * period_s + 1):
        rate.read(1_000.0 + second, 12 * (1 + second // period_s), period_s)
        if second >= 2 * period_s:
            assert rate.per_s == pytest.approx(12 / period_s), second
    for quiet in range(1, 5 * period_s):
        rate.read(1_000.0 + 10 * period_s + quiet, 12 * 11, period_s)
        assert (rate.per_s == 0.0) is (quiet > 3 * period_s), quiet
    for second in range(3):
        rate.read(2_000.0 + second * period_s, 200 + 12 * second, period_s)
    # What came after the break is not spread over it.
    assert rate.per_s == pytest.approx(12 / period_s)


def test_a_feed_that_becomes_rarer_falls_before_it_is_dead() -> None:
    rate = MessageRate()
    fed(rate, range(1, 30), 12.0)
    rate.read(1_038.0, 12 * 29)
    assert 0.0 < rate.per_s < 8.0


def test_a_feed_of_one_message_is_dead_after_three_periods() -> None:
    rate = MessageRate()
    for second in range(200):
        rate.read(1_000.0 + second, 1, 60.0)
        assert (rate.per_s == 0.0) is (second > 180)


def test_a_count_that_falls_starts_over() -> None:
    rate = MessageRate()
    fed(rate, range(1, 20), 12.0)
    rate.read(1_020.0, 3)
    assert math.isnan(rate.per_s)


@pytest.mark.parametrize("period_s", [5, 10, 60])
async def test_a_fleet_whose_publishers_send_rarely(period_s: int) -> None:
    """A feed is dead after three of the publishers' periods, not before."""
    feed = Feed(ultraservers(1), period_s=period_s)
    feed.describe()
    shown: list[float | None] = []
    for second in range(8 * period_s):
        if second % period_s == 0 and second < 4 * period_s:
            feed.tick()
        feed.monitor.compute()
        shown.append(feed.monitor.summary().messages_per_s)
        await feed.clock.advance(1.0)
    messages = feed.monitor.counts.messages / 4
    assert set(shown[2 * period_s : 4 * period_s]) == {messages / period_s}
    first_dead = shown.index(0.0)
    assert first_dead == 3 * period_s + max(10, 3 * period_s) + 1
