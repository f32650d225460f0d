from __future__ import annotations

import random

import pytest

from trnfleet.transport.backoff import backoff_s


@pytest.mark.parametrize(
    ("attempt", "outage_s", "longest"),
    [
        (0, 0, 1),
        (1, 1, 2),
        (2, 3, 4),
        (3, 7, 8),
        (4, 15, 8),
        (30, 299.9, 8),
        (40, 300, 30),
        (10_000, 1e6, 30),
    ],
)
def test_wait_doubles_up_to_a_limit(attempt: int, outage_s: float, longest: float) -> None:
    """The wait is between half and all of a base that doubles to a limit.

    To 8 s in a young outage or where nothing listens, to 30 s in an old one.
    """
    rng = random.Random(7)  # noqa: S311  spreads waits, nothing secret
    waits = [backoff_s(attempt, outage_s, rng) for _ in range(500)]
    assert longest / 2 <= min(waits) < longest * 0.55
    assert longest * 0.95 < max(waits) <= longest
    unreached = [backoff_s(attempt, outage_s, rng, is_unreached=True) for _ in range(500)]
    assert max(unreached) <= min(longest, 8)
