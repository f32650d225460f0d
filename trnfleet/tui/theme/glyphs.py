"""The glyphs that the app draws beyond ASCII, each with the ASCII character that stands in for it where the terminal has no UTF-8.

Each twin takes as many cells as its glyph. What was not drawn by the app, such as a job's name, is shown as `?` where it has none.
"""

# ruff: noqa: RUF001  the glyphs are meant

from __future__ import annotations

import codecs
import locale
from functools import lru_cache

from rich.cells import cell_len

ERRORS = "trnfleet-ascii"
"""Name of the codec's error handler that writes twins."""
_BRAILLE, _BRAILLE_END = 0x2800, 0x2900
_BRAILLE_ROWS = (0b0000_1001, 0b0001_0010, 0b0010_0100, 0b1100_0000)
"""Dots of the four rows of a braille cell, from the top."""

_PAIRS = (
    # Severities, states and marks.
    "✖X ▲! •* ●o ◌~ ◐% ○. ·. ×x ◦o ▪. ◆# ▼v ▾v ▸> ▷> ▶> ◀< ◂< ◃< ▹> ‖= ▵^ ✓+ ✔+ ≈~ ↻@ …. °d ±+ Δd σs "
    # Arrows.
    "←< →> ↑^ ↓v ↔= ⇄= "
    # Lines, corners and ticks.
    "─- ━= ═~ ╌: ┄. ┈. ┅- ┉- │| ┃| ┆: ┊: ╎: ║| ╭+ ╮+ ╰+ ╯+ ┌+ ┐+ └+ ┘+ ┬+ ┴+ ├+ ┤+ ┼+ ╔+ ╗+ ╚+ ╝+ ╠+ ╣+ ╦+ ╩+ ╬+ "
    "╞+ ╡+ ╪+ ╴- ╶- ╸= ╵| ╷| ▔- ▕| ⎯- "
    # Heights of a sparkline, then shares of a bar's cell.
    "▁_ ▂. ▃- ▄= ▅+ ▆* ▇% █# ▏| ▎: ▍: ▌= ▋= ▊= ▉# ▐= "
    # Shades, halves and quarters.
    "░: ▒% ▓& ▀\" ▖. ▗. ▘' ▝' ▚\\ ▞/ ▙L ▛F ▜7 ▟J ■# □o ▫. "
    # Punctuation.
    "–- —- ‘' ’' “\" ”\" ›> ‹< »> «< ≤< ≥> ≠! ∞8 µu μu"
)
TWINS: dict[str, str] = {pair[0]: pair[1] for pair in _PAIRS.split() if len(pair) == 2} | {
    "²": "2",
    "³": "3",
    "¹": "1",
    "\N{NO-BREAK SPACE}": " ",
}
"""The ASCII character for each glyph."""


def twin(glyph: str) -> str:
    """Return the ASCII characters for a glyph: as many as it takes cells."""
    found = TWINS.get(glyph)
    if found is not None:
        return found
    point = ord(glyph)
    if _BRAILLE <= point < _BRAILLE_END:
        return _braille(point - _BRAILLE)
    return "?" * cell_len(glyph)


def _braille(dots: int) -> str:
    """Return a character as high as the dots of a braille cell, of which a chart is made."""
    rows = [bool(dots & row) for row in _BRAILLE_ROWS]
    if not any(rows):
        return " "
    if sum(rows) > 2:
        return "#" if dots.bit_count() > 5 else "|"
    top, bottom = rows.index(True), 3 - rows[::-1].index(True)
    return "'" if bottom <= 1 else "." if top >= 2 else "+"


@lru_cache(maxsize=4096)
def to_ascii(text: str) -> str:
    """Return a text with twins in place of what is beyond ASCII, in as many cells."""
    return (
        text if text.isascii() else "".join(each if each.isascii() else twin(each) for each in text)
    )


def has_utf8(encoding: str | None) -> bool:
    """Return whether the terminal shows UTF-8, by the locale and by the encoding of the stream to it.

    Python itself takes a locale that is not set at all for UTF-8, and says so here; LC_ALL=C means what it says.
    """
    return all(_is_utf8(each) for each in (locale.getencoding(), encoding or "utf-8"))


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


def _write_twins(error: UnicodeError) -> tuple[str, int]:
    """Return twins for what an encoding lacks; an error handler of codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return to_ascii(error.object[error.start : error.end]), error.end


codecs.register_error(ERRORS, _write_twins)
