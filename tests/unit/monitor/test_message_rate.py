"""The rate of messages: over enough of them, settled within seconds, and 0 for a dead feed alone."""

from __future__ import annotations

import math

import pytest

from trnfleet.monitor.message_rate import MessageRate


def fed(rate: MessageRate, seconds: range, per_s: float) -> None:
    """Read a count that grows by so much a second, once a second."""
    for second in seconds:
        rate.read(1_000.0 + second, int(second * per_s))


@pytest.mark.parametrize("per_s", [0.2, 1.0, 12.0])
def test_a_live_feed_is_never_at_zero(per_s: float) -> None:
    """A reading between two messages of a slow feed shows the usual rate, from some seconds after the start on."""
    rate = MessageRate()
    assert math.isnan(rate.per_s)
    for second in range(1, 200):
        rate.read(1_000.0 + second, int(second * per_s))
        if second >= max(3, 3 / per_s):
            assert rate.per_s == pytest.approx(per_s, rel=0.5), second
    assert rate.per_s == pytest.approx(per_s, rel=0.1)


def test_one_late_message_does_not_swing_it() -> None:
    rate = MessageRate()
    fed(rate, range(1, 30), 1.0)
    rate.read(1_030.0, 29)
    assert rate.per_s == pytest.approx(1.0, abs=0.11)


def test_a_dead_feed_says_so_and_for_how_long() -> None:
    """It is not dead within three of its usual gaps, and comes back with the first messages."""
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


def test_a_count_that_falls_starts_over_and_copies_go_on_alone() -> None:
    rate = MessageRate()
    fed(rate, range(1, 20), 12.0)
    copied = rate.copy()
    rate.read(1_020.0, 3)
    assert math.isnan(rate.per_s)
    assert copied.per_s == pytest.approx(12.0, rel=0.1)
