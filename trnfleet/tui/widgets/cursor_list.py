"""A list with a cursor that stays on what it is on while others come and go; subclasses say what stands on its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from trnfleet.tui import theme
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual import events

    from trnfleet.tui.widgets.cells import Parts


class PickList(LineView):
    """Lines to pick one of; at the first one, the cursor goes on to whatever comes first.

    Subclasses implement `key_of`, `parts_of` and `nothing`, and hand their rows to `put`.
    """

    DEFAULT_CSS = "PickList { height: 1fr; scrollbar-gutter: stable; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "previous line"),
        Binding("down,j", "move(1)", "next line"),
        Binding("pageup", "page(-1)", "page up"),
        Binding("pagedown", "page(1)", "page down"),
        Binding("home,g", "move(-1000000)", "first line"),
        Binding("end,G", "move(1000000)", "last line"),
    ]

    class Changed(Message):
        """Says that a key or click changed the cursor."""

    class Entered(Message):
        """Says that what is under the cursor was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Any] = []
        """What is listed."""
        self._row = 0
        self._chosen: Hashable = None
        """Key of what the cursor is on; None for the first line, whatever that is."""
        self._wanted: Hashable = None
        """Key of what the cursor goes to as soon as it is there; None for nothing."""

    def key_of(self, row: Any) -> Hashable:
        """Return what tells a row from others and stays."""
        raise TypeError(f"{type(self).__name__} does not implement key_of({row!r})")

    def parts_of(self, row: Any, width: int, *, selected: bool) -> Parts:
        """Return a row's line."""
        raise TypeError(f"{type(self).__name__} does not implement parts_of({row!r}, {width}, {selected})")

    def nothing(self) -> list[str]:
        """Return what is said where there is no row."""
        return []

    @property
    def row(self) -> int:
        """The cursor's row."""
        return self._row

    @property
    def picked(self) -> Any:
        """What is under the cursor; None for nothing."""
        return self.rows[self._row] if self._row < len(self.rows) else None

    def put(self, rows: list[Any]) -> None:
        """Take new rows; the cursor stays on its own, or near where that was, and the window goes with it."""
        self.rows = rows
        self.set_extent(0, len(rows))
        before = self._row
        if self._wanted is not None and any(self.key_of(row) == self._wanted for row in rows):
            self._chosen, self._wanted = self._wanted, None
        if self._chosen is None:
            self._row = 0
        elif not (before < len(rows) and self.key_of(rows[before]) == self._chosen):
            found = next((at for at, row in enumerate(rows) if self.key_of(row) == self._chosen), None)
            self._row = min(before, max(0, len(rows) - 1)) if found is None else found
            if found is None:
                self._chosen = self.key_of(rows[self._row]) if self._row and rows else None
        if before != self._row and 0 <= before - self.top < self.rows_visible:
            self.scroll_to(y=max(0, self.top + self._row - before), animate=False, force=True)

    def hold(self, *, is_asked: bool = False) -> None:
        """Go back to what the cursor is on, should it be gone for a while, unless somebody moves the cursor.

        Args:
            is_asked: Whether that is meant for the first line, too, where the cursor goes on to whatever comes first.
        """
        if is_asked:
            self._wanted = self.key_of(self.picked) if self.picked is not None else None
        elif self._wanted is None:
            self._wanted = self._chosen

    def point_at(self, key: Hashable) -> bool:
        """Put the cursor on the row of a key; say whether there is one."""
        for number, row in enumerate(self.rows):
            if self.key_of(row) == key:
                self._point(number)
                return True
        return False

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the rows in the window."""
        if not self.rows:
            said = [("", theme.QUIET), *((f" {text}", theme.QUIET) for text in self.nothing())]
            return [text_line([part], width) for part in said]
        made: list[Line] = []
        for number in range(top, min(top + height, len(self.rows))):
            selected = number == self._row
            fill = theme.SELECTED_QUIET if selected else theme.BASE
            made.append(text_line(self.parts_of(self.rows[number], width, selected=selected), width, fill))
        return made

    @property
    def rows_visible(self) -> int:
        """Rows that the window has."""
        return max(1, self.scrollable_content_region.height)

    @property
    def line_width(self) -> int:
        """Cells of its lines."""
        return self._visible_size().width

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        if self.rows:
            self._point(min(max(self._row + step, 0), len(self.rows) - 1))

    def action_page(self, step: int) -> None:
        """Move the cursor by what is visible."""
        self.action_move(step * max(1, self.rows_visible - 1))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row under the pointer; ask for it on the second click."""
        number = self.top + event.y
        if number < len(self.rows):
            self._point(number)
            if event.chain == 2:
                self.post_message(self.Entered())

    def _point(self, number: int) -> None:
        self._row, self._wanted = number, None
        self._chosen = self.key_of(self.rows[number]) if number else None
        height = self.rows_visible
        if number < self.top:
            self.scroll_to(y=number, animate=False, force=True)
        elif number >= self.top + height:
            self.scroll_to(y=number - height + 1, animate=False, force=True)
        self.tick()
        self.post_message(self.Changed())
