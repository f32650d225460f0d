"""The focus, taken at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.widget import Widget


def focus_on(widget: Widget) -> None:
    """Give a widget the focus; Textual's own way does it behind the keys that have come already.

    A widget of a view that is being mounted has no screen yet; the view gives it the focus once it has.
    """
    if widget.is_attached:
        widget.screen.set_focus(widget, scroll_visible=False)
