"""The focus, taken at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.widget import Widget


def focus_on(widget: Widget) -> None:
    """Focus a widget at once; Textual's own way does it after keys already received.

    A widget of a view being mounted has no screen yet; the view focuses it later.
    """
    if widget.is_attached:
        widget.screen.set_focus(widget, scroll_visible=False)
