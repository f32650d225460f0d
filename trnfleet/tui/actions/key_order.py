"""Keys are processed in the order typed, also in one burst.

After a key that opens a field, keys go to the field. After a key that closes it, keys go to the
view.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import events
from textual.app import App
from textual.widgets import Input

from trnfleet.tui.widgets.field import Field

if TYPE_CHECKING:
    from textual.widget import AwaitMount

_ENDING = frozenset({"enter", "escape"})
"""Keys that close a field."""


class KeyOrder(App[None]):
    """An app that finishes each key before it reads the next.

    A slow connection or a paste sends many keys at once. Textual passes each key to the widget with
    the focus at the time of reading, and looks up its binding only after it has bubbled up again:
    the rest of a command would be keys of the view below. A view opened for the first time also
    receives the keys after the one that opened it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.being_mounted: list[AwaitMount] = []
        """Views that have no widgets yet."""

    async def wait_mounted(self) -> None:
        """Wait until views being mounted have their widgets."""
        while self.being_mounted:
            await self.being_mounted.pop()

    async def on_event(self, event: events.Event) -> None:
        """Run a key's binding at once, unless the key is written into a field.

        No other widget here handles keys except by bindings.
        """
        if isinstance(event, events.Key) and self.being_mounted:
            await self.wait_mounted()
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        if isinstance(self.focused, Field) and event.key in _ENDING:
            await _wait_typed(self.focused)
        elif isinstance(self.focused, Input):
            await super().on_event(event)
            return
        if not self.app_focus:
            self.app_focus = True
        if not await self._check_bindings(event.key, priority=True):
            event._set_forwarded()  # noqa: SLF001  as the app does it
            await super().on_event(event)


async def _wait_typed(field: Field) -> None:
    """Wait until a field has received the earlier keys."""
    has_them = asyncio.Event()
    if field.call_later(has_them.set):
        await has_them.wait()
