"""Text selection with the mouse, within one widget.

A click selects nothing. A key or the next press of the button ends the selection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.app import App
from textual.errors import NoWidget
from textual.geometry import Offset

from trnfleet.tui.widgets.selection import SelectableWidget, Selection

if TYPE_CHECKING:
    from textual.widget import Widget

LEFT = 1
"""The button that selects."""


class MouseSelection(App[None]):
    """An app with selectable lines."""

    def __init__(self) -> None:
        super().__init__()
        self._pressed_at: tuple[SelectableWidget, Offset] | None = None
        """Where the button went down and still is, in cells of a widget."""
        self._selected: SelectableWidget | None = None

    @property
    def selected_text(self) -> str:
        """Selected text on screen.

        Empty without a selection.
        """
        widget = self._selected
        return widget.selected_text() if widget is not None and widget.is_on_screen else ""

    def drop_selection(self) -> None:
        """Select nothing."""
        if self._selected is not None:
            self._selected.select(None)
            self._selected = None

    async def on_event(self, event: events.Event) -> None:
        """Follow the pointer first.

        The end of a selection is not a click.
        """
        if isinstance(event, events.InputEvent) and not event.is_forwarded and self._follow(event):
            return
        await super().on_event(event)

    def _follow(self, event: events.InputEvent) -> bool:
        """Follow keys and the pointer; return whether an event is the selection's alone."""
        if isinstance(event, events.Key):
            if event.key != "ctrl+c":
                self.drop_selection()
        elif isinstance(event, events.MouseDown):
            self.drop_selection()
            widget = self._selectable_at(event) if event.button == LEFT else None
            self._pressed_at = None if widget is None else (widget, _cell(widget, event))
        elif isinstance(event, events.MouseMove):
            return self._drag(event)
        elif isinstance(event, events.MouseUp):
            was_pressed = self._pressed_at is not None
            self._pressed_at = None
            return was_pressed and self._selected is not None
        return False

    def _drag(self, event: events.MouseMove) -> bool:
        """Select up to the pointer while the button is down.

        Return True if selected.
        """
        if self._pressed_at is None:
            return False
        widget, begin = self._pressed_at
        end = _cell(widget, event)
        if self.mouse_captured is not None or (self._selected is None and begin == end):
            # A bar is being dragged, or the pointer has not left its cell.
            return False
        self._selected = widget
        widget.select(Selection.of(begin, end))
        return True

    def _selectable_at(self, event: events.MouseEvent) -> SelectableWidget | None:
        try:
            widget, _region = self.screen.get_widget_at(event.x, event.y)
        except NoWidget:
            return None
        return widget if isinstance(widget, SelectableWidget) else None


def _cell(widget: Widget, event: events.MouseEvent) -> Offset:
    """Return the cell of a widget nearest to the pointer."""
    region = widget.content_region
    x = event.x - region.x
    y = event.y - region.y
    return Offset(max(0, min(x, region.width - 1)), max(0, min(y, region.height - 1)))
