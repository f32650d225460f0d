"""Moments in time as users write them.

A time of day, an offset, or an instant in full. Times are UTC unless they name a zone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from trnfleet.clock import NS_PER_S, datetime_ns
from trnfleet.domain.durations import DAY_NS, parse_duration_s

_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_LONGEST_S = 1e15
"""Longest length; longer ones are cut to it. Beyond any recording."""


def is_move(text: str) -> bool:
    """Return whether a moment is written as an offset back or forth."""
    return text.strip()[:1] in {"+", "-"}


def find_moment(
    text: str, start_ns: int, end_ns: int, *, here_ns: int | None = None, is_end: bool = False
) -> int:
    """Return the intended instant, ns since 1970; it may be outside.

    An offset back or forth is from the moment shown. Without one it is after the start, or before
    the end. A time of day is the existing one on the place's day, else the nearest existing one,
    else the one on the place's day; without a place it goes by the start. The minute or the second
    that contains the start exists, and means the start.

    Args:
        text: As written.
        start_ns: The oldest moment.
        end_ns: The newest.
        here_ns: The place shown, between the two, if any.
        is_end: Whether something is to end there: a time of day never means the start then, but is
            after it.

    Raises:
        ValueError: it is no moment; the message names the problem.
    """
    text = text.strip()
    if is_move(text):
        by_ns = round(min(parse_duration_s(text[1:]), _LONGEST_S) * NS_PER_S)
        if text[0] == "+":
            return (start_ns if here_ns is None else here_ns) + by_ns
        return (end_ns if here_ns is None else here_ns) - by_ns
    if of_day := _OF_DAY.fullmatch(text):
        of_day_ns, unit_ns = _read_of_day(of_day)
        earliest_ns = start_ns + 1 if is_end else start_ns - unit_ns + 1
        near_ns = start_ns if here_ns is None else here_ns
        today = near_ns // DAY_NS
        days = [day * DAY_NS + of_day_ns for day in (today, today - 1, today + 1)]
        there = [
            max(moment_ns, start_ns) for moment_ns in days if earliest_ns <= moment_ns <= end_ns
        ]
        on_the_day = [moment_ns for moment_ns in there if moment_ns // DAY_NS == today]
        return min(on_the_day or there or days[:1], key=lambda moment_ns: abs(moment_ns - near_ns))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time") from error
    return datetime_ns(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _read_of_day(match: re.Match[str]) -> tuple[int, int]:
    """Return the nanoseconds after midnight, and the nanoseconds of the last digit's unit.

    Raises:
        ValueError: no day has that time.
    """
    hour = int(match[1])
    minute = int(match[2])
    second = int(match[3] or 0)
    fraction = match[4] or ""
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{match[0]} is not a time of day")
    whole_ns = (3_600 * hour + 60 * minute + second) * NS_PER_S
    unit_ns = (NS_PER_S if match[3] else 60 * NS_PER_S) // 10 ** len(fraction)
    return whole_ns + int(fraction.ljust(9, "0")), unit_ns
