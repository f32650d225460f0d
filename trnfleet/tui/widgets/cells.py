"""Texts of a fixed number of terminal cells, bars among them: what lines are put together from.

Texts hold printable characters only; what came from the wire has been through `plain` before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from textual.strip import Strip

from trnfleet.tui import theme
from trnfleet.tui.widgets.line_view import Line, make_strip

if TYPE_CHECKING:
    from collections.abc import Sequence

Parts = tuple[tuple[str, Style], ...]
"""Styled texts that follow each other."""

CHART = Style(color="#4d85b8", bgcolor=theme.BACKGROUND)
"""Of charts and sparklines: quieter than text, because they cover so much."""
FILL = Style(color="#5b93c9", bgcolor=theme.RAISED)
"""Of a bar's filled part; the rest is its track."""
FILL_WARNING = Style(color=theme.AMBER, bgcolor=theme.RAISED)
FILL_DIM = Style(color=theme.FAINT, bgcolor=theme.RAISED)

_EIGHTHS = " ▏▎▍▌▋▊▉█"


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


def bar(share: float, width: int, style: Style = FILL) -> Parts:
    """Return a bar of `width` cells filled to a share of 0 to 1; an empty track where the share is NaN."""
    eighths = 0 if math.isnan(share) else round(min(1.0, max(0.0, share)) * width * 8)
    if not eighths and share > 0:
        eighths = 1
    whole, rest = divmod(eighths, 8)
    text = "█" * whole + (_EIGHTHS[rest] if rest else "")
    return ((text.ljust(width), style),)


def width_of(parts: Parts) -> int:
    """Return how many cells parts take."""
    return sum(cell_len(text) for text, _ in parts)


def beside(columns: Sequence[Column], width: int) -> list[Line]:
    """Return the lines of columns that stand next to each other, filled to `width` cells."""
    height = max((len(column.lines) for column in columns), default=0)
    return [
        _joined(tuple((column.at(number), column.width) for column in columns), width)
        for number in range(height)
    ]


class Column(NamedTuple):
    """Lines of parts that take a number of cells, in which they are cut or filled."""

    lines: Sequence[Parts]
    width: int

    def at(self, number: int) -> Parts:
        """Return line `number`, an empty one beyond the end."""
        return self.lines[number] if number < len(self.lines) else ()


def _joined(parts: tuple[tuple[Parts, int], ...], width: int) -> Line:
    def make() -> Strip:
        strips = [make_strip(each, cells) for each, cells in parts]
        return Strip.join(strips).adjust_cell_length(width, theme.BASE)

    return Line((parts, width), make)
