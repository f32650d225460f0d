"""Strings that came from the wire, made harmless for the screen: the one door they go through.

Control characters, bidirectional overrides and zero-width characters are shown as visible escapes; markup is never
interpreted, because the result only ever goes into segments, never into a widget's markup.
"""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: str, limit: int = 200) -> str:
    """Return `text` with every character that a terminal could act upon written out, cut to `limit` characters."""
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[: limit - 1] + "…"
    shown = "".join(
        f"\\u{ord(char):04x}"
        if unicodedata.category(char) in _HIDDEN or unicodedata.combining(char)
        else char
        for char in text[:limit]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
