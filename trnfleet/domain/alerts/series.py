"""Series of samples in promtool's notation: a line of values, one interval apart.

`1 2 3` are three samples. `0+10x5` begins at 0 and goes up by 10 five times, `5-2x3` goes down,
`1x4` stays: a count is the number of samples after the first, so these are six, four and five. `_`
is an interval without a sample, `_x3` three of them. From `stale` on nothing is known until the
next sample. Texts are quoted: `"running"x3 "hung"`.
"""

from __future__ import annotations

import enum
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SAMPLES = 20_000
"""Samples of one series, gaps counted."""
LONGEST = 8_000
"""Characters of its text."""


class Mark(enum.Enum):
    """Marks in place of a sample."""

    GAP = "_"
    """No sample: the last one holds until it is too old."""
    STALE = "stale"
    """From here on nothing is known."""


Sample = float | str | Mark
"""A number, a text, or a mark in its place."""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"""
      (?P<gap>_)(?:x(?P<gaps>\d+))?
    | (?P<stale>stale)
    | (?P<text>"(?:[^"\\]|\\["\\])*")(?:x(?P<texts>\d+))?
    | (?P<first>[+-]?{_NUMBER})(?:(?P<step>[+-]{_NUMBER})?x(?P<times>\d+))?
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPED = re.compile(r'\\(["\\])')


def parse_series(text: str) -> tuple[Sample, ...]:
    """Read a series.

    Raises:
        ValueError: a token is invalid, a number is too large, or there are too many samples.
    """
    if len(text) > LONGEST:
        raise ValueError(f"a series of {len(text)} characters: at most {LONGEST}")
    samples: list[Sample] = []
    for token in _tokens(text):
        match = _TOKEN.fullmatch(token)
        if match is None:
            raise ValueError(
                f"{token[:40]!r} is no sample; write 5, 1x4, 0+10x5, 5-2x3, _, _x3, stale, or a"
                " text in quotes"
            )
        count = _count(match)
        if len(samples) + count > MOST_SAMPLES:
            raise ValueError(f"{token[:40]!r} makes it more than {MOST_SAMPLES} samples")
        samples += _samples(match, token, count)
    if not samples:
        raise ValueError("there is no sample")
    return tuple(samples)


def _tokens(text: str) -> Iterator[str]:
    """Yield the tokens between blanks; blanks within quotes are part of a text."""
    for match in re.finditer(r'(?:"(?:[^"\\]|\\.)*"|[^\s"]|")+', text):
        yield match[0]


def _count(found: re.Match[str]) -> int:
    if found["gap"]:
        return int(_short(found["gaps"] or "1"))
    # As in promtool: x is followed by the number of repeats.
    return 1 + int(_short(found["times"] or found["texts"] or "0"))


def _short(digits: str) -> str:
    """Return digits, cut if there are too many: Python refuses to parse thousands."""
    return digits if len(digits) < 18 else digits[:18]


def _samples(found: re.Match[str], token: str, count: int) -> Iterator[Sample]:
    if found["gap"]:
        yield from [Mark.GAP] * count
    elif found["stale"]:
        yield Mark.STALE
    elif found["text"]:
        yield from [_ESCAPED.sub(r"\1", found["text"][1:-1])] * count
    else:
        value = float(found["first"])
        step = float(found["step"] or 0.0)
        for _ in range(count):
            if not math.isfinite(value):
                raise ValueError(f"{token[:40]!r} is too large")
            yield value
            # promtool adds, too, so that both round alike.
            value += step
