"""Types of values that are stored beyond their message, with limits for all later arithmetic.

A time must fit nanoseconds in 64 bits, and a number must fit a few cells of a screen.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from trnfleet.clock import parse_rfc3339

EARLIEST_NS = 0
LATEST_NS = 7_258_118_400_000_000_000 - 1
"""The end of 2199, as the options that take a start have it: 62 years before 64 bits of nanoseconds end."""
SHORTEST_PERIOD_S = 0.001
LONGEST_PERIOD_S = 86_400.0
"""Shortest and longest time from tick to tick of a publisher."""
LONGEST_TICK_S = 1e8
"""Source time from tick to tick at most, about three years: rules wait for half as much again, which stays far below
the limit of 64 bits of nanoseconds."""
SLOWEST, FASTEST = 1e-3, 1e6
"""Speeds of a source's time, as of `--speed`: slower, an alert that holds for seconds would take hours."""
LARGEST_COUNT = 2**53
"""Largest count: up to there a number is exact in every JSON reader."""


def _check_instant(text: str) -> str:
    try:
        ns = parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise PydanticCustomError(
            "instant", "not a time with its zone, such as 2026-01-31T23:59:58Z"
        ) from None
    if not EARLIEST_NS <= ns <= LATEST_NS:
        raise PydanticCustomError("instant", "a time outside the years 1970 to 2199")
    return text


Instant = Annotated[str, StringConstraints(max_length=64), AfterValidator(_check_instant)]
"""An RFC 3339 instant from `EARLIEST_NS` to `LATEST_NS`, whatever its offset."""
Amount = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
"""An amount in a job's life, none of which grows that far."""
Figure = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
"""A value of any unit; a fleet's sum of the widest counters is under 1e26."""
Scale = Annotated[float, Field(ge=1e-18, le=1e18, allow_inf_nan=False)]
"""Value of a column's code 1: 64 bits of it can be converted to any unit of the metric table."""
Revision = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Speed = Annotated[float, Field(ge=SLOWEST, le=FASTEST, allow_inf_nan=False)]
Period = Annotated[float, Field(ge=SHORTEST_PERIOD_S, le=LONGEST_PERIOD_S, allow_inf_nan=False)]
