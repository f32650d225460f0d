"""Lines of text that stand still: header, breadcrumbs, status, legends.

They draw parts, and only when these changed.

A bar owns no figures; its owner writes a pure function from figures and width to parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import MOST_LINES, Parts, fit, text_of, width_of, wrapped
from trnfleet.tui.widgets.line_view import make_strip
from trnfleet.tui.widgets.selection import SelectableWidget
from trnfleet.tui.widgets.targets import ClickTarget, Pressed, linked, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.style import Style
    from textual import events
    from textual.strip import Strip


def justified(left: Parts, right: Parts, width: int, fill: Style) -> Parts:
    """Return `left` and `right` at the two ends of a line.

    `right` is left out if there is no room.
    """
    room = width - width_of(left) - width_of(right)
    if room < 1:
        return left
    return [*left, (" " * room, fill), *right]


def tab_parts(tabs: Mapping[str, str], shown: str) -> Parts:
    """Return the texts of tabs by name, the shown one in brackets."""
    parts: Parts = [(" ", theme.BASE)]
    for tab, text in tabs.items():
        own = (f"[{text}]", theme.LINK) if tab == shown else (f" {text} ", theme.QUIET)
        parts += [own, (" ", theme.BASE)]
    return parts


def cut(parts: Parts, room: int) -> Parts:
    """Return parts in at most `room` cells, an ellipsis for the rest."""
    made: Parts = []
    for text, style in parts:
        left = room - width_of(made)
        if cell_len(text) > left:
            return [*made, (fit(text, left), style)] if left > 0 else made
        made.append((text, style))
    return made


def paragraph(text: str, width: int, style: Style) -> list[Parts]:
    """Return a text in up to `MOST_LINES` lines, each with a space before it."""
    return [[(f" {line}", style)] for line in wrapped(text, width - 1, MOST_LINES) if line.strip()]


class Item(NamedTuple):
    """A figure with its name, for lines fitted to the width."""

    name: str
    short: str
    """The name where room is scarce; may be empty."""
    value: str
    room: int
    """Most cells of the value. They are reserved, so that the line does not jump about."""
    rank: int
    """Order of omission if there is no room: the highest goes first."""
    brief: str = ""
    """The value where room is scarce; empty for the same."""
    brief_room: int = 0
    target: ClickTarget | None = None
    """Target of a click on the value."""


def fitted(
    items: list[Item], width: int, name_style: Style, value_style: Style, *, optional_from: int = 0
) -> Parts:
    """Return a line of figures fitted to `width`.

    The highest ranks are left out, and names and values shortened.

    Args:
        items: The figures.
        width: Cells.
        name_style: Style of names.
        value_style: Style of values.
        optional_from: Figures from this rank on are left out before any is shortened.
    """
    needed = [item for item in items if item.rank < optional_from]
    for gap in (3, 2):
        if needed and sum(_cells(item, gap, is_short=False) for item in needed) - gap + 1 <= width:
            return _filled(items, width, gap, name_style, value_style, is_short=False)
    return _filled(items, width, 2, name_style, value_style, is_short=True)


def _filled(
    items: list[Item],
    width: int,
    gap: int,
    name_style: Style,
    value_style: Style,
    *,
    is_short: bool,
) -> Parts:
    """Return as many figures of one form as fit, without the highest ranks."""
    chosen = items
    cells = [_cells(item, gap, is_short=is_short) for item in items]
    # The first one has a single space before it.
    while len(chosen) > 1 and sum(cells) - gap + 1 > width:
        last = max(item.rank for item in chosen)
        places = [place for place, item in enumerate(chosen) if item.rank != last]
        chosen = [chosen[place] for place in places]
        cells = [cells[place] for place in places]
    return _line(chosen, gap, name_style, value_style, is_short=is_short)


def _cells(item: Item, gap: int, *, is_short: bool) -> int:
    """Return the cells that a figure takes in a line, with the gap before it."""
    name = item.short if is_short else item.name
    is_brief = is_short and bool(item.brief)
    value, room = (item.brief, item.brief_room) if is_brief else (item.value, item.room)
    return gap + cell_len(name) + bool(name and room) + cell_len(value) + max(0, room - len(value))


def _line(
    items: list[Item], gap: int, name_style: Style, value_style: Style, *, is_short: bool
) -> Parts:
    parts: Parts = []
    for item in items:
        name = item.short if is_short else item.name
        value, room = (
            (item.brief, item.brief_room) if is_short and item.brief else (item.value, item.room)
        )
        parts.append((" " if not parts else " " * gap, name_style))
        if name:
            parts.append((f"{name} " if room else name, name_style))
        style = value_style if item.target is None else linked(value_style, item.target)
        parts.append((value.ljust(room), style))
    return parts


class Bar(SelectableWidget):
    """Lines of parts; `show` paints changed ones."""

    DEFAULT_CSS = "Bar { height: 1; background: $bg; }"

    def __init__(
        self,
        *,
        fill: Callable[[], Style] = lambda: theme.BASE,
        least: int | None = None,
        id: str | None = None,  # noqa: A002  Textual's name
    ) -> None:
        """Make the bar.

        Args:
            fill: Style beside the parts.
            least: Least number of lines; None for the style sheet's number.
            id: Its name.
        """
        super().__init__(id=id)
        self._fill = fill
        self._least = least
        self._words: Callable[[int], list[Parts]] = lambda _width: []
        self._rows: list[Parts] = []
        """Pictures of the lines, as they were drawn last."""

    def show(
        self, compose: Callable[[int], list[Parts]], *, fill: Callable[[], Style] | None = None
    ) -> None:
        """Show the lines made by `compose` for a width, now and after every resize."""
        self._words = compose
        if fill is not None:
            self._fill = fill
        self._paint()

    @property
    def text(self) -> str:
        return "\n".join(text_of(row).rstrip() for row in self._rows)

    def render_line(self, y: int) -> Strip:
        row = self._rows[y] if y < len(self._rows) else []
        return self.with_selection(y, make_strip(row, self.size.width, self._fill()))

    def target_at(self, x: int, y: int) -> ClickTarget | None:
        """Return the target of the cell at column `x` of line `y`; None for none."""
        for text, style in self._rows[y] if 0 <= y < len(self._rows) else []:
            x -= cell_len(text)
            if x < 0:
                return target_of(style)
        return None

    def on_click(self, event: events.Click) -> None:
        """Follow the target under the pointer."""
        target = self.target_at(event.x, event.y)
        if target is not None:
            event.stop()
            self.post_message(Pressed(target))

    def on_resize(self, _event: events.Resize) -> None:
        self._paint()

    def restyle(self) -> None:
        """Paint again in another theme."""
        self._paint()
        self.refresh()

    def _paint(self) -> None:
        rows = self._words(self.size.width) if self.size.width > 0 else []
        if rows != self._rows:
            self._rows = rows
            self.refresh()
        if self._least is not None:
            # Textual lays out again only where that is another number.
            self.styles.height = max(self._least, len(rows))
