"""Times typed to seek: time of day, a step, or a full instant."""

from __future__ import annotations

from trnfleet.clock import format_rfc3339
from trnfleet.domain.moments import find_moment, is_move

UNDERSTOOD = "14:03, 14:03:10, -5m, +30s or 2026-01-31T14:03:10Z"
"""Examples of every form."""


def parse_time(text: str, position_ns: int, start_ns: int, end_ns: int) -> int:
    """Return a time in ns since 1970.

    A time of day is one on the day of the position if the recording has it, else on another of its
    days. A step starts at the position and ends at the recording's ends. Times are UTC where they
    name no zone.

    Args:
        text: The input.
        position_ns: The position.
        start_ns: The recording's start.
        end_ns: The recording's end.

    Raises:
        ValueError: no form matches, or the recording does not have the time; the message says which
            times it has.
    """
    text = text.strip()
    try:
        wanted_ns = find_moment(text, start_ns, end_ns, here_ns=position_ns)
    except ValueError as error:
        how = (
            "write the jump as -5m, +30s or -1h30m"
            if is_move(text)
            else f"write it as {UNDERSTOOD}"
        )
        raise ValueError(f"{error}; {how}") from error
    if is_move(text):
        return min(max(wanted_ns, start_ns), end_ns)
    if not start_ns <= wanted_ns <= end_ns:
        raise ValueError(f"{text} is not in the recording; {_range_text(start_ns, end_ns)}")
    return wanted_ns


def _range_text(start_ns: int, end_ns: int) -> str:
    first, last = (format_rfc3339(time_ns)[:19].replace("T", " ") for time_ns in (start_ns, end_ns))
    return f"it goes from {first} to {last[11:] if first[:10] == last[:10] else last} UTC"
