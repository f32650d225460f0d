"""Texts with a fixed number of terminal cells, including bars; lines are composed of them.

Texts contain printable characters only; data from the wire has passed `plain`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.style import Style

from trnfleet.tui import theme
from trnfleet.tui.widgets.line_view import Line, fitted, make_strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.strip import Strip

Parts = list[tuple[str, Style]]
"""Styled texts of a line under construction, left to right; printable characters only."""
FixedParts = tuple[tuple[str, Style], ...]
"""The same, finished. Equal parts are equal pictures, so that lines can be compared by them."""

MOST_LINES = 6
"""Most lines of one text, such as a remedy, or a TLS error with a path on a narrow terminal."""
FILLED = "━"
HALF = "╸"
TRACK = "─"
"""Glyphs of a bar: a line, so that bars below each other stay apart. The lighter track shows
without colours, too."""


def fit(text: str, width: int) -> str:
    """Return a text cut (with an ellipsis) or filled on the right to `width` cells."""
    if width <= 0:
        return ""
    if text.isascii():
        return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def right(text: str, width: int) -> str:
    """Return a text filled on the left to `width` cells, or cut."""
    return fit(text, width) if len(text) > width else text.rjust(width)


def bar(share: float, width: int, style: Style | None = None) -> FixedParts:
    """Return a bar filled to a share of 0 to 1, on its track.

    Blank for NaN.
    """
    if math.isnan(share):
        return ((" " * width, theme.RULE),)
    halves = round(min(1.0, max(0.0, share)) * width * 2)
    if not halves and share > 0:
        halves = 1
    whole, rest = divmod(halves, 2)
    text = FILLED * whole + HALF * rest
    return (text, theme.FILL if style is None else style), (TRACK * (width - len(text)), theme.RULE)


def text_of(parts: Iterable[tuple[str, Style]]) -> str:
    """Return the text of a line's parts."""
    return "".join(text for text, _ in parts)


def width_of(parts: Iterable[tuple[str, Style]]) -> int:
    """Return the cells that parts take."""
    return cell_len(text_of(parts))


def wrapped(text: str, width: int, lines: int) -> list[str]:
    """Return a text in a number of lines, broken between words if possible.

    The last line is cut.
    """
    if lines < 1 or width < 1:
        return []
    made: list[str] = []
    while len(made) < lines - 1:
        line = chop_cells(text, width)[0] if text else ""
        if text[len(line) :].lstrip() == text[len(line) :]:
            # Not at a word's end: back to the last one, unless the whole line is one word.
            line = line if len(line) == len(text) else line.rpartition(" ")[0] or line
        made.append(line)
        text = text[len(line) :].lstrip()
    return [*made, fit(text, width)]


def beside(columns: Sequence[TextColumn], width: int) -> list[Line]:
    """Return the lines of columns that stand next to each other, filled to `width` cells."""
    height = max((len(column.lines) for column in columns), default=0)
    return [
        _joined(tuple((column.at(number), column.width) for column in columns), width)
        for number in range(height)
    ]


class TextColumn(NamedTuple):
    """Lines of parts, each cut or filled to a number of cells."""

    lines: Sequence[FixedParts]
    width: int

    def at(self, number: int) -> FixedParts:
        """Return line `number`, an empty one beyond the end."""
        return self.lines[number] if number < len(self.lines) else ()


def _joined(parts: tuple[tuple[FixedParts, int], ...], width: int) -> Line:
    def make() -> Strip:
        segments = [segment for part, cells in parts for segment in make_strip(part, cells)]
        return fitted(segments, width, theme.BASE)

    return Line((parts, width), make)
