"""Durations as Prometheus writes them: `500ms`, `90s`, `5m`, `1h30m`, `1d12h`, `1w`."""

from __future__ import annotations

import re
from datetime import timedelta

from trnfleet.clock import NS_PER_S

DAY_S = 86_400
DAY_NS = DAY_S * NS_PER_S
MINUTE_NS = 60 * NS_PER_S

LONGEST_JUMP_S = 366.0 * DAY_S
"""Simulated seconds of one jump: twice the longest Capacity Block."""
_NUMBER = r"\d+(?:\.\d+)?"
_UNITS = {
    "y": timedelta(days=365),
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_DURATION = re.compile(
    "".join(
        rf"(?:({_NUMBER})\s*{'m(?:in)?(?!s)' if unit == 'm' else unit}\s*)?" for unit in _UNITS
    ),
    re.ASCII,
)
_BARE = re.compile(_NUMBER, re.ASCII)


def parse_duration_s(text: str) -> float:
    """Return seconds.

    Raises:
        ValueError: it is not a duration.
    """
    text = text.strip()
    parts = _DURATION.fullmatch(text)
    if text and parts is not None:
        numbers = zip(parts.groups(), _UNITS.values(), strict=True)
        return sum(float(number) * unit.total_seconds() for number, unit in numbers if number)
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    if _BARE.fullmatch(text):
        if not float(text):
            return 0.0
        raise ValueError(f"{shown} has no unit; write {shown}s, {shown}m or {shown}h")
    raise ValueError(f"{shown!r} is not a duration; write it as 90s, 500ms, 5m, 1h30m, 1d12h or 1w")
