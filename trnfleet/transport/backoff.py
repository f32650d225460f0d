"""Reconnect backoff: a pure function of the outage so far and a random generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

FIRST_WAIT_S = 1.0
YOUNG_OUTAGE_S = 300.0
"""Length up to which an outage counts as a broker's restart, from which everyone must be back within 10 s."""
YOUNG_LONGEST_WAIT_S = 8.0
LONGEST_WAIT_S = 30.0
STABLE_S = 10.0
"""A connection that held for this long ends the outage: the next one starts with the first wait again."""


def backoff_s(attempt: int, outage_s: float, rng: Random) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0), `outage_s` into the outage.

    Doubles from 1 s to 30 s, and to 8 s while the outage is young; a random half of it is taken off, so that a thousand
    clients do not come back in the same instant.
    """
    longest = YOUNG_LONGEST_WAIT_S if outage_s < YOUNG_OUTAGE_S else LONGEST_WAIT_S
    base = min(longest, FIRST_WAIT_S * float(1 << min(attempt, 10)))
    return base * rng.uniform(0.5, 1.0)
