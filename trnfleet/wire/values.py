"""Types of values stored beyond their message, with limits for all later arithmetic.

A time must fit nanoseconds in 64 bits, and a number must fit a few cells of a screen.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from trnfleet.clock import parse_rfc3339

LATEST_NS = 7_258_118_400_000_000_000 - 1
"""The end of 2199, the limit of start options. 62 years before the end of 64 bits of nanoseconds.
"""
PERIODS_S = (0.001, 86_400.0)
"""Shortest and longest time from tick to tick of a publisher."""
LONGEST_TICK_S = 1e8
"""Longest source time from tick to tick, about three years. Rules wait for 1.5 times as long, far
below the limit of 64 bits of nanoseconds."""
SPEEDS = (1e-3, 1e6)
"""Limits of a source's speed, as of `--speed`. Below, an alert's delay of seconds would last hours.
"""
LARGEST_COUNT = 2**53
"""Largest count: up to there a number is exact in every JSON reader."""


def instant_ns(text: str) -> int:
    """Return nanoseconds since 1970 of an RFC 3339 instant.

    Raises:
        ValueError: it is none, or out of range.
    """
    try:
        ns = parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise ValueError("not a time with its zone, such as 2026-01-31T23:59:58Z") from None
    if not 0 <= ns <= LATEST_NS:
        raise ValueError("a time outside the years 1970 to 2199")
    return ns


Instant = Annotated[str, Meta(max_length=64, description="RFC 3339")]
"""An instant from 1970 to `LATEST_NS`, with any offset; messages check it themselves."""
Amount = Annotated[float, Meta(ge=0, le=1e18)]
"""An amount in a job's life; none reaches the limit."""
Figure = Annotated[float, Meta(ge=-1e30, le=1e30)]
"""A value of any unit; a fleet's sum of the widest counters is under 1e26."""
Scale = Annotated[float, Meta(ge=1e-18, le=1e18)]
"""Value of a column's code 1. Within these limits 64 bits convert to any unit of the metric table.
"""
Revision = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Speed = Annotated[float, Meta(ge=SPEEDS[0], le=SPEEDS[1])]
Period = Annotated[float, Meta(ge=PERIODS_S[0], le=PERIODS_S[1])]
