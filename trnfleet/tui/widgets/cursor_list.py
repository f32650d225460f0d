"""The base of all lists with a cursor: keys, pointer and cursor.

The cursor stays on its row's key while rows come and go. `CursorList` asks its subclass for the
number of rows and the key of each, so that a list of a million rows need not exist. `RowList`
stores its rows; most lists are of that kind.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual.message import Message

from trnfleet.tui import theme
from trnfleet.tui.keys import bind
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual import events
    from textual.binding import BindingType

    from trnfleet.tui.widgets.cells import Parts

K = TypeVar("K")
"""Key of a row: unique, and constant while the row's text changes."""
R = TypeVar("R")
"""A row."""
LAST = sys.maxsize
"""Step to the last row, and back to the first."""


class CursorList(LineView, Generic[K]):
    """Lines to pick one of."""

    DEFAULT_CSS = "CursorList { height: 1fr; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "move(-1)", "previous line"),
        bind("down", "move(1)", "next line"),
        bind("page-up", "page(-1)", "page up"),
        bind("page-down", "page(1)", "page down"),
        bind("first", f"move({-LAST})", "first line"),
        bind("last", f"move({LAST})", "last line"),
    ]
    IS_FEED: ClassVar[bool] = False
    """Whether new rows come in at the top, as in a feed.

    A cursor on the first row of a feed has no key and stays on the newest row. Anywhere else the
    window moves with the cursor, so that the visible text stays in place.
    """
    order: str
    """How the rows are sorted, in a list with several orders."""

    class Changed(Message):
        """A key or click moved the cursor or changed its row."""

    class Entered(Message):
        """The row under the cursor was opened."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.lines_per_row = 1
        """Lines of each row."""
        self._row = 0
        self._key: K | None = None
        """Key under the cursor; None for the first row."""
        self._awaited: K | None = None
        """Key to move the cursor to once it exists; None for nothing."""

    # What subclasses say

    @property
    @abstractmethod
    def count(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def row_key(self, number: int) -> K:
        """Return the key of a row that there is.

        It is not called `key_at`, because Textual calls a method `key_NAME` when the key of that
        name is pressed, such as `@`.
        """

    def find(self, key: K) -> int | None:
        """Return the row of a key, or its stand-in; None if there is neither."""
        if self._row < self.count and self.row_key(self._row) == key:
            return self._row
        return next((number for number in range(self.count) if self.row_key(number) == key), None)

    def row_lines(self, rows: range, width: int) -> list[Line]:
        """Return the lines of rows that there are."""
        made: list[Line] = []
        for number in rows:
            selected = number == self._row
            fill = theme.SELECTED_QUIET if selected else theme.BASE
            parts = self.row_parts(number, self.line_width, selected=selected)
            made.append(text_line(parts, width, fill))
        return made

    def row_parts(self, number: int, width: int, *, selected: bool) -> Parts:
        """Return the line of a row, for lists with independent lines."""
        raise NotImplementedError

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        """Return the lines of a list without rows."""
        return []

    # The cursor

    @property
    def row(self) -> int:
        return self._row

    @property
    def rows_visible(self) -> int:
        """Rows that the window has."""
        return max(1, self.scrollable_content_region.height // self.lines_per_row)

    @property
    def _top_row(self) -> int:
        """The first row in the window, in part or whole."""
        return self.top // self.lines_per_row

    @property
    def line_width(self) -> int:
        """Cells of a row's text.

        The scrollbar's column is always free, so that no text moves when it appears.
        """
        return max(1, self.size.width - self.styles.scrollbar_size_vertical)

    def sync(self) -> None:
        """Find the cursor's row again after a change of rows.

        If it is gone, the nearest row is used.
        """
        self.set_extent(0, self.count * self.lines_per_row)
        before = self._row
        self._go_back()
        if self._key is None:
            self._row = 0
            return
        row = self.find(self._key)
        if row is None:
            row = max(0, min(before, self.count - 1))
            self._key = self._kept_key(row)
        self._row = row
        if self.IS_FEED and row != before and 0 <= before - self._top_row < self.rows_visible:
            moved = (row - before) * self.lines_per_row
            self.scroll_to(y=max(0, self.top + moved), animate=False, force=True)

    def _go_back(self) -> None:
        """Move the cursor back to the awaited key once it exists."""
        if self._awaited is not None and self.find(self._awaited) is not None:
            self._key = self._awaited
            self._awaited = None

    def hold(self, *, is_asked: bool = False) -> None:
        """Await the key under the cursor, should it vanish.

        Moving the cursor ends this.

        Args:
            is_asked: Whether this applies to the first row of a feed, too. There the cursor
                otherwise follows the newest row.
        """
        if is_asked:
            self._awaited = self.row_key(self._row) if self._row < self.count else None
        elif self._awaited is None:
            self._awaited = self._key

    def point(self, number: int) -> None:
        """Move the cursor to a row, scroll to it, and report the change."""
        self._row = number
        self._awaited = None
        self._key = self._kept_key(number)
        self.reveal()
        self.tick()
        self.post_message(self.Changed())

    def row_text(self) -> str:
        """Return the text of the row under the cursor, without its signs of a cursor and a tree."""
        first = self._row * self.lines_per_row - self.top
        lines = range(max(0, first), min(first + self.lines_per_row, self.lines_size().height))
        return "\n".join(self.render_line(line).text.lstrip(" >▸▾").rstrip() for line in lines)

    def to_top(self) -> None:
        """Move the cursor to the first row, as after sorting."""
        self.action_move(-LAST)

    def point_at(self, key: K) -> bool:
        """Put the cursor on the row of a key; return whether there is one."""
        number = self.find(key)
        if number is not None:
            self.point(number)
        return number is not None

    def reveal(self) -> None:
        """Scroll the cursor into the window."""
        height = self.scrollable_content_region.height
        first = self._row * self.lines_per_row
        last = (self._row + 1) * self.lines_per_row
        if first < self.top:
            self.scroll_to(y=first, animate=False, force=True)
        elif last > self.top + height:
            self.scroll_to(y=min(first, last - height), animate=False, force=True)

    def _kept_key(self, number: int) -> K | None:
        """Return the key that the cursor follows from a row.

        None after the last row, and for the first row of a feed.
        """
        return (
            None if number >= self.count or (self.IS_FEED and not number) else self.row_key(number)
        )

    # Painting

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        count = self.count
        if not count:
            return [text_line([part], width) for part in self.empty_lines()]
        # Until the list is laid out again it is scrolled to where a longer one ended.
        row_height = self.lines_per_row
        top = max(0, min(top, count * row_height - height))
        first = top // row_height
        made = self.row_lines(range(first, min(-(-(top + height) // row_height), count)), width)
        return made[top - first * row_height :]

    # Keys and pointer

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        if self.count:
            self.point(min(max(self._row + step, 0), self.count - 1))

    def action_page(self, step: int) -> None:
        """Move the cursor by the visible height."""
        self.action_move(step * max(1, self.rows_visible - 1))

    def action_enter(self) -> None:
        """Open the row under the cursor."""
        self.post_message(self.Entered())

    def on_click(self, event: events.Click) -> None:
        number = (self.top + event.y) // self.lines_per_row
        if number < self.count:
            self.click_row(number, event)

    def click_row(self, number: int, event: events.Click) -> None:
        """Move the cursor to the clicked row; a second click opens it."""
        self.point(number)
        if event.chain == 2:
            self.action_enter()


class RowList(CursorList[K], Generic[K, R]):
    """A list that stores its rows.

    Subclasses implement `key_of` and `parts_of` and pass their rows to `put`.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.rows: Sequence[R] = ()

    @abstractmethod
    def key_of(self, row: R) -> K:
        """Return a row's key."""

    def parts_of(self, row: R, width: int, *, selected: bool) -> Parts:
        """Return a row's line, for lists with independent lines."""
        raise NotImplementedError

    @property
    def picked(self) -> R | None:
        """The row under the cursor; None in an empty list."""
        return self.rows[self._row] if self._row < len(self.rows) else None

    def put(self, rows: Sequence[R]) -> None:
        """Replace the rows.

        The cursor stays on its key, or moves to the nearest row.
        """
        self.rows = rows
        self.sync()

    @property
    def count(self) -> int:
        return len(self.rows)

    def row_key(self, number: int) -> K:
        return self.key_of(self.rows[number])

    def row_parts(self, number: int, width: int, *, selected: bool) -> Parts:
        return self.parts_of(self.rows[number], width, selected=selected)
