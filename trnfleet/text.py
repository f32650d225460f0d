"""Sanitisation of untrusted strings for terminal output.

Control characters, bidirectional overrides, combining marks and characters that show nothing are shown as visible escapes; markup is never
interpreted, because the result only ever goes into segments, never into a widget's markup.
"""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Mc", "Me"}
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and symbols that show nothing."""


def plain(text: str, limit: int = 200) -> str:
    """Return `text` with every character that a terminal could act upon written out, cut to `limit` characters."""
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[: limit - 1] + "…"
    shown = "".join(_escape(char) if _is_hidden(char) else char for char in text[:limit])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN or char in _BLANK


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
