"""Durations as users write them: `500ms`, `10s`, `5m`, `2h`, `1d`; a bare number means seconds."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, None: 1.0}


def parse_duration_s(text: str) -> float:
    """Return seconds.

    Raises:
        ValueError: the text is not a duration.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write it as 10s, 500ms, 5m, 2h or 1d")
    return float(match[1]) * _SECONDS[match[2]]
