"""Lines of text that stand still: header, breadcrumbs, status, legends. They draw parts, and only when these changed.

A bar owns no figures; its owner writes a pure function from figures and width to parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.strip import Strip
from textual.widget import Widget

from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.tui.widgets.line_view import make_strip

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.style import Style
    from textual import events

    from trnfleet.tui.widgets.cells import Parts


def justified(left: Parts, right: Parts, width: int, fill: Style) -> Parts:
    """Return `left` and `right` at the two ends of a line; `right` is left out where there is no room."""
    room = width - width_of(left) - width_of(right)
    if room < 1:
        return left
    return [*left, (" " * room, fill), *right]


class Item(NamedTuple):
    """A figure with its name, for lines that show as much as fits."""

    name: str
    short: str
    """The name where room is scarce; may be empty."""
    value: str
    room: int
    """Cells that the value takes at most, so that the line does not jump about."""
    rank: int
    """Which go first where there is no room at all: the highest."""


def fitted(items: list[Item], width: int, name_style: Style, value_style: Style) -> Parts:
    """Return a line of figures that fits `width`: names shortened first, then the highest ranks left out."""
    chosen = items
    while True:
        for gap, short in ((3, False), (2, False), (2, True)):
            parts: Parts = []
            for item in chosen:
                name = item.short if short else item.name
                parts.append((" " if not parts else " " * gap, name_style))
                if name:
                    parts.append((name + " ", name_style))
                parts.append((item.value.ljust(item.room), value_style))
            if width_of(parts) <= width:
                return parts
        if len(chosen) <= 1:
            return parts
        last = max(item.rank for item in chosen)
        chosen = [item for item in chosen if item.rank != last]


class Bar(Widget):
    """Lines of parts; `show` paints those that changed."""

    DEFAULT_CSS = "Bar { height: 1; background: $bg; }"

    def __init__(self, *, fill: Style = theme.BASE, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._fill = fill
        self._words: Callable[[int], list[Parts]] = lambda _width: []
        self._rows: list[Parts] = []

    def show(self, compose: Callable[[int], list[Parts]], *, fill: Style | None = None) -> None:
        """Show the lines that `compose` makes for a width, now and after every change of size."""
        self._words = compose
        if fill is not None:
            self._fill = fill
        self._paint()

    @property
    def text(self) -> str:
        return "\n".join(text_of(row).rstrip() for row in self._rows)

    def render_line(self, y: int) -> Strip:
        """Return the picture of line `y`."""
        row = self._rows[y] if y < len(self._rows) else []
        width = self.size.width
        return make_strip(row, width, self._fill) if width > 0 else Strip.blank(0)

    def on_resize(self, _event: events.Resize) -> None:
        self._paint()

    def _paint(self) -> None:
        rows = self._words(self.size.width) if self.size.width > 0 else []
        if rows != self._rows:
            self._rows = rows
            self.refresh()
