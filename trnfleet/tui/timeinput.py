"""Times as people write them to jump to: a time of day, so much back or forth, or an instant in full."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.durations import parse_duration_s

UNDERSTOOD = "14:03, 14:03:10, -5m, +30s or 2026-01-31T14:03:10Z"
"""What is understood, for people."""
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?")
_PART = re.compile(r"\d+(?:\.\d+)?\s*(?:ms|min|s|m|h|d)?\s*")


def parse_time(text: str, position_ns: int, start_ns: int, end_ns: int) -> int:
    """Return the time that is meant, ns since 1970.

    A time of day is meant on the day of the place if there is one, else on another day of what is there. So much back or forth goes
    from the place and ends at what is there. Times are UTC where they name no zone.

    Args:
        text: What was typed.
        position_ns: The place that one looks at.
        start_ns: The oldest place.
        end_ns: The newest place.

    Raises:
        ValueError: it is not understood, or not there; the message says what is.
    """
    text = text.strip()
    if text[:1] in {"+", "-"}:
        moved_ns = round(_duration_s(text[1:]) * NS_PER_S)
        wanted_ns = position_ns + moved_ns if text[0] == "+" else position_ns - moved_ns
        return min(max(wanted_ns, start_ns), end_ns)
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        return _time_of_day(clock, text, position_ns, start_ns, end_ns)
    try:
        instant_ns = _instant_ns(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no time; write it as {UNDERSTOOD}") from error
    if not start_ns <= instant_ns <= end_ns:
        raise ValueError(f"{text} is not there; {_there(start_ns, end_ns)}")
    return instant_ns


def _time_of_day(clock: re.Match[str], text: str, position_ns: int, start_ns: int, end_ns: int) -> int:
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text} is no time of day; write it as {UNDERSTOOD}")
    day_ns = 86_400 * NS_PER_S
    of_day_ns = (3_600 * hour + 60 * minute + second) * NS_PER_S
    # To the minute or the second that somebody reads on the screen, which has begun before.
    slack_ns = (NS_PER_S if clock[3] else 60 * NS_PER_S) - 1
    days = range(start_ns // day_ns, end_ns // day_ns + 1)
    there = [
        min(max(day * day_ns + of_day_ns, start_ns), end_ns)
        for day in days
        if start_ns - slack_ns <= day * day_ns + of_day_ns <= end_ns
    ]
    if not there:
        raise ValueError(f"{text} is not there; {_there(start_ns, end_ns)}")
    today = [each for each in there if each // day_ns == position_ns // day_ns]
    return min(today or there, key=lambda each: abs(each - position_ns))


def _duration_s(text: str) -> float:
    """Return the seconds of `5m` or `1h30m`.

    Raises:
        ValueError: it is no duration.
    """
    parts = _PART.findall(text)
    if not parts or "".join(parts) != text.lstrip():
        raise ValueError(f"{text!r} is no length of time; write the jump as -5m, +30s or -1h30m")
    return sum(map(parse_duration_s, parts))


def _instant_ns(text: str) -> int:
    """Return an instant in full; without a zone it is UTC."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        raise ValueError("a day alone is no instant")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        return parse_rfc3339(text)
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1_000


def _there(start_ns: int, end_ns: int) -> str:
    """Return what is there, in words."""
    first, last = (format_rfc3339(each)[:19].replace("T", " ") for each in (start_ns, end_ns))
    return f"it goes from {first} to {last[11:] if first[:10] == last[:10] else last} UTC"
