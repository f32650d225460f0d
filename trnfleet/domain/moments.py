"""Moments of a stretch of time as users write them: a time of day, an offset back or forth, or an instant in full.

Times are UTC where they name no zone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from trnfleet.clock import NS_PER_S, datetime_ns
from trnfleet.domain.durations import parse_duration_s

_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_PART = re.compile(r"\d+(?:\.\d+)?\s*(?:ms|min|s|m|h|d)?\s*")
_LONGEST_S = 1e15
"""Longest length; longer ones are cut to it. It is beyond anything that was recorded."""
_DAY_NS = 86_400 * NS_PER_S


def is_move(text: str) -> bool:
    """Return whether a moment is written as an offset back or forth."""
    return text.strip()[:1] in {"+", "-"}


def find_moment(
    text: str, start_ns: int, end_ns: int, *, here_ns: int | None = None, is_end: bool = False
) -> int:
    """Return the instant that is meant, ns since 1970; it may lie outside.

    An offset back or forth is from the moment that is shown. Without one it is after the start, or before the
    end. A time of day is the one there is on the place's day, else the nearest one there is, else that of the place's day;
    without a place it goes by the start. The minute or the second in which the start lies is there, and means the start.

    Args:
        text: As it was written.
        start_ns: The oldest moment there is.
        end_ns: The newest.
        here_ns: The place that is looked at, between the two, if one is.
        is_end: Whether something is to end there: a time of day never means the start then, but is after it.

    Raises:
        ValueError: it is no moment; the message names the problem.
    """
    text = text.strip()
    if is_move(text):
        by_ns = round(min(_length_s(text[1:]), _LONGEST_S) * NS_PER_S)
        if text[0] == "+":
            return (start_ns if here_ns is None else here_ns) + by_ns
        return (end_ns if here_ns is None else here_ns) - by_ns
    if of_day := _OF_DAY.fullmatch(text):
        of_day_ns, unit_ns = _read_of_day(of_day)
        earliest_ns = start_ns + 1 if is_end else start_ns - unit_ns + 1
        near_ns = start_ns if here_ns is None else here_ns
        today = near_ns // _DAY_NS
        days = [day * _DAY_NS + of_day_ns for day in (today, today - 1, today + 1)]
        there = [max(each, start_ns) for each in days if earliest_ns <= each <= end_ns]
        on_the_day = [each for each in there if each // _DAY_NS == today]
        return min(on_the_day or there or days[:1], key=lambda each: abs(each - near_ns))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no time") from error
    return datetime_ns(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _read_of_day(found: re.Match[str]) -> tuple[int, int]:
    """Return the nanoseconds after midnight, and those of the last digit's unit.

    Raises:
        ValueError: no day has that time.
    """
    hour, minute, second, fraction = (
        int(found[1]),
        int(found[2]),
        int(found[3] or 0),
        found[4] or "",
    )
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{found[0]} is no time of day")
    whole_ns = (3_600 * hour + 60 * minute + second) * NS_PER_S
    unit_ns = (NS_PER_S if found[3] else 60 * NS_PER_S) // 10 ** len(fraction)
    return whole_ns + int(fraction.ljust(9, "0")), unit_ns


def _length_s(text: str) -> float:
    """Return the seconds of `5m` or `1h30m`.

    Raises:
        ValueError: it is no length.
    """
    parts = _PART.findall(text)
    if not parts or "".join(parts) != text.lstrip():
        raise ValueError(f"{text!r} is no length of time")
    return sum(map(parse_duration_s, parts))
