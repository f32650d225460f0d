"""Times as people write them to jump to: a time of day, so much back or forth, or an instant in full."""

from __future__ import annotations

from trnfleet.clock import format_rfc3339
from trnfleet.domain.moments import find_moment, is_move

UNDERSTOOD = "14:03, 14:03:10, -5m, +30s or 2026-01-31T14:03:10Z"
"""What is understood, for people."""


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
    try:
        wanted_ns = find_moment(text, start_ns, end_ns, here_ns=position_ns)
    except ValueError as error:
        how = "write the jump as -5m, +30s or -1h30m" if is_move(text) else f"write it as {UNDERSTOOD}"
        raise ValueError(f"{error}; {how}") from error
    if is_move(text):
        return min(max(wanted_ns, start_ns), end_ns)
    if not start_ns <= wanted_ns <= end_ns:
        raise ValueError(f"{text} is not there; {_there(start_ns, end_ns)}")
    return wanted_ns


def _there(start_ns: int, end_ns: int) -> str:
    """Return what is there, in words."""
    first, last = (format_rfc3339(each)[:19].replace("T", " ") for each in (start_ns, end_ns))
    return f"it goes from {first} to {last[11:] if first[:10] == last[:10] else last} UTC"
