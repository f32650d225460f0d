"""Keys in the order in which they were typed, in one burst, too: what follows a key that opens a field is for the field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.app import App
from textual.widgets import Input

if TYPE_CHECKING:
    from textual.widget import AwaitMount


class KeyOrder(App[None]):
    """An app that has done what a key means before it reads the next.

    A slow connection or a paste sends many keys at once. Textual hands each on to the widget that has the focus when it is read,
    and looks for what it means only once it has bubbled up again: the rest of a command would be keys of the view below. A view that a
    key opens for the first time has the keys that follow, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.being_mounted: list[AwaitMount] = []
        """Views that have no widgets yet."""

    async def wait_mounted(self) -> None:
        """Wait until views that are being mounted have their widgets."""
        while self.being_mounted:
            await self.being_mounted.pop()

    async def on_event(self, event: events.Event) -> None:
        """Do what a key means at once, unless a field is being written in: no other widget here handles keys but by bindings."""
        if isinstance(event, events.Key) and self.being_mounted:
            await self.wait_mounted()
        if not isinstance(event, events.Key) or event.is_forwarded or isinstance(self.focused, Input):
            await super().on_event(event)
            return
        if not self.app_focus:
            self.app_focus = True
        if not await self._check_bindings(event.key, priority=True):
            event._set_forwarded()  # noqa: SLF001  as the app does it
            await super().on_event(event)
