"""The one list with a cursor: its keys, its pointer, and a cursor that keeps to its row's key while rows come and go.

`CursorList` asks its subclass how many rows there are and which key each has, so that a list of a million rows need not exist.
`RowList` keeps its rows; most lists are of that kind.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual.binding import Binding, BindingType
from textual.message import Message

from trnfleet.tui import theme
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual import events

    from trnfleet.tui.widgets.cells import Parts

K = TypeVar("K")
"""Key of a row: unlike that of any other row, and the same while the row's text changes."""
R = TypeVar("R")
"""A row."""
FIRST, LAST = -1_000_000_000, 1_000_000_000
"""Steps that end at the first and at the last row."""


class CursorList(LineView, Generic[K]):
    """Lines to pick one of."""

    DEFAULT_CSS = "CursorList { height: 1fr; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "previous line"),
        Binding("down,j", "move(1)", "next line"),
        Binding("pageup", "page(-1)", "page up"),
        Binding("pagedown", "page(1)", "page down"),
        Binding("home,g", f"move({FIRST})", "first line"),
        Binding("end,G", f"move({LAST})", "last line"),
    ]
    IS_FEED: ClassVar[bool] = False
    """Whether new rows come in at the top, as in a feed.

    There a cursor on the first row has no key but goes on to whatever comes first; anywhere else the window moves with the cursor, so that
    what is read stands still.
    """

    class Changed(Message):
        """A key or click changed the cursor, or what it is on."""

    class Entered(Message):
        """What is under the cursor was asked for."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.lines_per_row = 1
        """Lines of each row."""
        self._row = 0
        self._key: K | None = None
        """Key of what the cursor is on; None for the first row, whatever that is."""
        self._awaited: K | None = None
        """Key of what the cursor goes to as soon as it is there; None for nothing."""

    # What subclasses say

    @property
    @abstractmethod
    def count(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def row_key(self, number: int) -> K:
        """Return the key of a row that there is.

        It is not called `key_at`, because Textual calls a method `key_NAME` when the key of that name is pressed, such as `@`.
        """

    def find(self, key: K) -> int | None:
        """Return the row of a key, or the row that stands in for it; None where neither is there."""
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
        """Return the line of a row, for lists whose lines do not depend on each other."""
        raise TypeError(
            f"{type(self).__name__} does not implement row_parts({number}, {width}, {selected})"
        )

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
        """Cells of a row's text: no text moves or hides when the scrollbar, which has the last column, comes or goes."""
        return max(1, self.size.width - self.styles.scrollbar_size_vertical)

    def sync(self) -> None:
        """Find the cursor's row again after rows have come or gone, or the nearest to it where its own is gone."""
        self.set_extent(0, self.count * self.lines_per_row)
        before = self._row
        self._go_back()
        if self._key is None:
            self._row = 0
            return
        found = self.find(self._key)
        if found is None:
            found = max(0, min(before, self.count - 1))
            self._key = self._kept_key(found)
        self._row = found
        if self.IS_FEED and found != before and 0 <= before - self._top_row < self.rows_visible:
            moved = (found - before) * self.lines_per_row
            self.scroll_to(y=max(0, self.top + moved), animate=False, force=True)

    def _go_back(self) -> None:
        """Put the cursor back on what it awaits, once that is there."""
        if self._awaited is not None and self.find(self._awaited) is not None:
            self._key, self._awaited = self._awaited, None

    def hold(self, *, is_asked: bool = False) -> None:
        """Await what the cursor is on, should it be gone for a while; moving the cursor ends that.

        Args:
            is_asked: Whether that is meant for the first row of a feed, too, where the cursor goes on to whatever comes first.
        """
        if is_asked:
            self._awaited = self.row_key(self._row) if self._row < self.count else None
        elif self._awaited is None:
            self._awaited = self._key

    def point(self, number: int) -> None:
        """Put the cursor on a row, show it, and report that."""
        self._row, self._awaited = number, None
        self._key = self._kept_key(number)
        self.reveal()
        self.tick()
        self.post_message(self.Changed())

    def point_at(self, key: K) -> bool:
        """Put the cursor on the row of a key; return whether there is one."""
        number = self.find(key)
        if number is not None:
            self.point(number)
        return number is not None

    def reveal(self) -> None:
        """Move the window so that the cursor is in it."""
        height = self.scrollable_content_region.height
        first, last = self._row * self.lines_per_row, (self._row + 1) * self.lines_per_row
        if first < self.top:
            self.scroll_to(y=first, animate=False, force=True)
        elif last > self.top + height:
            self.scroll_to(y=min(first, last - height), animate=False, force=True)

    def _kept_key(self, number: int) -> K | None:
        """Return the key that the cursor keeps to on a row."""
        return (
            None if number >= self.count or (self.IS_FEED and not number) else self.row_key(number)
        )

    # Painting

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        count = self.count
        if not count:
            return [text_line([part], width) for part in self.empty_lines()]
        # Until the list is laid out again it is scrolled to where a longer one ended.
        each = self.lines_per_row
        top = max(0, min(top, count * each - height))
        first = top // each
        made = self.row_lines(range(first, min(-(-(top + height) // each), count)), width)
        return made[top - first * each :]

    # Keys and pointer

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        if self.count:
            self.point(min(max(self._row + step, 0), self.count - 1))

    def action_page(self, step: int) -> None:
        """Move the cursor by what is visible."""
        self.action_move(step * max(1, self.rows_visible - 1))

    def action_enter(self) -> None:
        """Ask for what is under the cursor."""
        self.post_message(self.Entered())

    def on_click(self, event: events.Click) -> None:
        number = (self.top + event.y) // self.lines_per_row
        if number < self.count:
            self.click_row(number, event)

    def click_row(self, number: int, event: events.Click) -> None:
        """Put the cursor on the row under the pointer; ask for it on the second click."""
        self.point(number)
        if event.chain == 2:
            self.action_enter()


class RowList(CursorList[K], Generic[K, R]):
    """A list that keeps its rows; subclasses implement `key_of` and `parts_of` and hand their rows to `put`."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.rows: Sequence[R] = ()

    @abstractmethod
    def key_of(self, row: R) -> K:
        """Return a row's key."""

    def parts_of(self, row: R, width: int, *, selected: bool) -> Parts:
        """Return a row's line, for lists whose lines do not depend on each other."""
        raise TypeError(
            f"{type(self).__name__} does not implement parts_of({row!r}, {width}, {selected})"
        )

    @property
    def picked(self) -> R | None:
        """The row under the cursor; None in an empty list."""
        return self.rows[self._row] if self._row < len(self.rows) else None

    def put(self, rows: Sequence[R]) -> None:
        """Take new rows; the cursor keeps to its key, or goes to the nearest row where that is gone."""
        self.rows = rows
        self.sync()

    @property
    def count(self) -> int:
        return len(self.rows)

    def row_key(self, number: int) -> K:
        return self.key_of(self.rows[number])

    def row_parts(self, number: int, width: int, *, selected: bool) -> Parts:
        return self.parts_of(self.rows[number], width, selected=selected)
