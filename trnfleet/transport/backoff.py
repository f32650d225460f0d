"""Reconnect backoff: a pure function of the outage so far and a random generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

FIRST_WAIT_S = 1.0
YOUNG_OUTAGE_S = 300.0
"""Longest outage that counts as a broker's restart. After a restart everyone must be back within 10
s."""
SHORT_LONGEST_WAIT_S = 8.0
LONGEST_WAIT_S = 30.0
STABLE_S = 10.0
"""Seconds after which a connection ends the outage. The next one starts with the first wait again.
"""


def backoff_s(attempt: int, outage_s: float, rng: Random, *, is_unreached: bool = False) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0).

    The wait doubles from 1 s to 30 s, and to 8 s while the outage is young or nothing listens (an
    attempt then costs one packet): a broker that returns is found within 10 s however long it was
    away, and one that answers and refuses is spared TLS and CONNECT. A random half is subtracted,
    so that a thousand clients do not come back in the same instant.

    Args:
        attempt: Number of the attempt.
        outage_s: Seconds since the outage began.
        rng: Spreads the attempts.
        is_unreached: Whether nothing listened at the attempt.
    """
    longest = SHORT_LONGEST_WAIT_S if is_unreached or outage_s < YOUNG_OUTAGE_S else LONGEST_WAIT_S
    base = min(longest, FIRST_WAIT_S * float(1 << min(attempt, 10)))
    return base * rng.uniform(0.5, 1.0)
