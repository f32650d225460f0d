"""Durations as Prometheus writes them: `500ms`, `90s`, `5m`, `1h30m`, `1d12h`, `1w`."""

from __future__ import annotations

import re

_NUMBER = r"\d+(?:\.\d+)?"
_SECONDS = {
    "y": 365 * 86_400.0,
    "w": 7 * 86_400.0,
    "d": 86_400.0,
    "h": 3_600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 0.001,
}
_DURATION = re.compile(
    "".join(
        rf"(?:({_NUMBER})\s*{'m(?:in)?(?!s)' if unit == 'm' else unit}\s*)?" for unit in _SECONDS
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
        numbers = zip(parts.groups(), _SECONDS.values(), strict=True)
        return sum(float(number) * seconds for number, seconds in numbers if number)
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    if _BARE.fullmatch(text):
        if not float(text):
            return 0.0
        raise ValueError(f"{shown} has no unit; write {shown}s, {shown}m or {shown}h")
    raise ValueError(f"{shown!r} is not a duration; write it as 90s, 500ms, 5m, 1h30m, 1d12h or 1w")
