"""Sanitisation of untrusted strings for terminal output.

Control characters, bidirectional overrides, combining marks and invisible characters are shown as
visible escapes. Markup is never interpreted: the result only goes into segments, never into a
widget's markup.
"""

from __future__ import annotations

import unicodedata

LONGEST_LINE = 4_000
"""Characters of a printed line."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Mc", "Me"}
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Invisible letters and symbols."""


LONGEST = 1_000
"""Characters of a text that may be long, such as a note or a reason."""


def plain(text: str, limit: int = 200) -> str:
    """Return `text` with terminal control characters written out, cut to `limit` characters."""
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[: limit - 1] + "…"
    shown = "".join(_escape(char) if _is_hidden(char) else char for char in text[:limit])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN or char in _BLANK


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
