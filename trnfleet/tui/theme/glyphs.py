"""Glyphs of the app beyond ASCII, each with an ASCII twin for terminals without UTF-8.

Each twin has as many cells as its glyph. Other texts, such as a job's name, have `?` for characters
without a twin.
"""

# ruff: noqa: RUF001  the glyphs are meant

from __future__ import annotations

import codecs
import locale
import re
import unicodedata
from functools import lru_cache

from rich.cells import cell_len

ERRORS = "trnfleet-ascii"
"""Name of the codec error handler for twins."""
_TEXT_TERMINALS = re.compile(r"(linux|vt\d|ansi|cons25|sun|wsvt)")
"""TERM of consoles and of real terminals. Their fonts have a few hundred glyphs."""
_BRAILLE = "BRAILLE PATTERN DOTS-"
_BRAILLE_ROWS = ("14", "25", "36", "78")
"""Unicode's numbers of the dots in the four rows of a braille cell, from the top."""

_PAIRS = (
    # Severities, states and marks.
    "✖X ▲! •* ●o ◌~ ◐% ○. ·. ×x ◦o ▪. ◆# ▼v ▾v ▸> ▷> ◇e ▶> ◀< ◂< ◃< ▹> ‖= ▵^ ✓+ ✔+ ≈~ ↻@"
    " …. ±+ Δd σs "
    # Arrows.
    "←< →> ↑^ ↓v ↔= ⇄= "
    # Lines, corners and ticks.
    "─- ━= ═~ ╌: ┄. ┈. ┅- ┉- │| ┃| ┆: ┊: ╎: ║| ╭+ ╮+ ╰+ ╯+ ┌+ ┐+ └+ ┘+ ┬+ ┴+ ├+ ┤+ ┼+ ╔+ ╗+ ╚+ ╝+"
    " ╠+ ╣+ ╦+ ╩+ ╬+ ╞+ ╡+ ╪+ ╴- ╶- ╸= ╵| ╷| ▔- ▕| ⎯- "
    # Heights of a sparkline, then shares of a bar's cell.
    "▁_ ▂. ▃- ▄= ▅+ ▆* ▇% █# ▏| ▎: ▍: ▌= ▋= ▊= ▉# ▐= "
    # Shades, halves and quarters.
    "░: ▒% ▓& ▀\" ▖. ▗. ▘' ▝' ▚\\ ▞/ ╱/ ╍~ ▙L ▛F ▜7 ▟J ■# □o ▫. "
    # Punctuation.
    "–- —- ‘' ’' “\" ”\" ›> ‹< »> «< ≤< ≥> ≠! ∞8 µu μu"
)
TWINS: dict[str, str] = {pair[0]: pair[1] for pair in _PAIRS.split() if len(pair) == 2} | {
    "²": "2",
    "³": "3",
    "¹": "1",
    "°": " ",
    "\N{NO-BREAK SPACE}": " ",
    "\N{BRAILLE PATTERN BLANK}": " ",
}
"""The ASCII character for each glyph."""


def twin(glyph: str) -> str:
    """Return the ASCII characters for a glyph: as many as it takes cells."""
    replacement = TWINS.get(glyph)
    if replacement is not None:
        return replacement
    name = unicodedata.name(glyph, "")
    if name.startswith(_BRAILLE):
        return _braille(name.removeprefix(_BRAILLE))
    return "?" * cell_len(glyph)


def _braille(dots: str) -> str:
    """Return a character as high as a chart's braille dots, given by their numbers."""
    rows = [any(dot in dots for dot in row) for row in _BRAILLE_ROWS]
    if sum(rows) > 2:
        return "#" if len(dots) > 5 else "|"
    top = rows.index(True)
    bottom = 3 - rows[::-1].index(True)
    return "'" if bottom <= 1 else "." if top >= 2 else "+"


@lru_cache(maxsize=4096)
def to_ascii(text: str) -> str:
    """Return a text with ASCII twins, in as many cells."""
    return (
        text
        if text.isascii()
        else "".join(character if character.isascii() else twin(character) for character in text)
    )


def shows_glyphs(term: str, encoding: str | None) -> bool:
    """Return whether the terminal shows more than ASCII.

    The terminal's name, the locale and the encoding of its stream decide. Python treats an unset
    locale as UTF-8, and so does this; LC_ALL=C means ASCII.
    """
    return not _TEXT_TERMINALS.match(term) and all(
        _is_utf8(name) for name in (locale.getencoding(), encoding or "utf-8")
    )


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


def _write_twins(error: UnicodeError) -> tuple[str, int]:
    """Return twins for characters missing in an encoding; a codec error handler."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return to_ascii(error.object[error.start : error.end]), error.end


codecs.register_error(ERRORS, _write_twins)
