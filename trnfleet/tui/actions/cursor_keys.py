"""Keys with one meaning in every view.

Acknowledge and silence the item under the cursor, copy, back, and an answer to any other key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from trnfleet.domain.quantities import counted
from trnfleet.text import plain
from trnfleet.tui.actions.key_order import KeyOrder
from trnfleet.tui.actions.mouse_selection import MouseSelection
from trnfleet.tui.alerts.actions import AlertActions
from trnfleet.tui.help import key_text
from trnfleet.tui.playback.keys import TimeKeys

if TYPE_CHECKING:
    from textual import events

    from trnfleet.monitor.replay.controls import Playback
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.view import View

AGAIN = "ctrl+c again quits; nothing is selected to copy"


class CursorKeys(TimeKeys, MouseSelection, KeyOrder):
    """An app with these keys.

    Subclasses have a page, and make `context` before they compose `actions`.
    """

    HELP_TITLE = "Everywhere"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "acknowledge", "acknowledge the alerts of what the cursor is on"),
        Binding("z", "silence", "silence what the cursor is on, after a preview"),
        Binding("y", "copy_place", "copy the address of what the cursor is on"),
        Binding("minus", "last_view", "the view before"),
        Binding(
            "ctrl+c",
            "copy_or_quit",
            "copy what is selected; else twice: quit",
            priority=True,
            system=True,
        ),
        Binding("ctrl+q", "quit", "quit", priority=True, system=True),
    ]
    context: UiContext
    actions: AlertActions

    def __init__(self, playback: Playback | None) -> None:
        super().__init__(playback)
        self._is_asked_to_quit = False
        """Whether the note "press again to quit" is on screen."""

    @property
    def page(self) -> View:
        """The view on the screen."""
        raise TypeError(f"{type(self).__name__} does not implement page")

    def actions_of(self, context: UiContext) -> AlertActions:
        """Return the forms for the alerts of a fleet."""
        raise TypeError(
            f"{type(self).__name__} does not implement actions_of({context.monitor.fleet_name!r})"
        )

    # What the cursor is on

    def action_acknowledge(self) -> None:
        """Open the acknowledgement form for the item under the cursor, or show why not."""
        subject = self.page.subject
        self.actions = self.actions_of(self.page.subject_context)
        self._answer(self.actions.acknowledge(list(subject.alerts)))

    def action_silence(self) -> None:
        """Open the silence form for the item under the cursor, or show why not."""
        self.actions = self.actions_of(self.page.subject_context)
        self.silence(self.page.subject.matchers)

    def silence(self, matchers: str) -> None:
        """Open the silence form with matchers, or show why not."""
        self._answer(self.actions.silence([], matchers))

    def say(self, note: str) -> None:
        """Show a note at once, without interpreting its characters as markup."""
        self._say(note)

    def _answer(self, refusal: str) -> None:
        if refusal:
            self._say(refusal)

    @on(AlertActions.Reported)
    def _written(self, event: AlertActions.Reported) -> None:
        event.stop()
        self._say(event.note)

    @on(AlertActions.Closed)
    def _form_closed(self, event: AlertActions.Closed) -> None:
        event.stop()
        self.focus_page()

    def action_copy_place(self) -> None:
        """Copy the address through the terminal (OSC 52)."""
        place = self.page.place or self.fleet_name
        self.copy_to_clipboard(place)
        self._say(f"copied {place} (if the terminal allows OSC 52)")

    # Leaving

    async def action_copy_or_quit(self) -> None:
        """Copy the selection of a field or the mouse.

        Without a selection, quit if the key is pressed twice in a row.
        """
        field = self.focused
        if isinstance(field, Input) and field.selected_text:
            self.copy_to_clipboard(field.selected_text)
            self._say("copied (if the terminal allows OSC 52)")
        elif selected := self.selected_text:
            self.copy_to_clipboard(selected)
            lines = counted(len(selected.splitlines()), "line")
            self._say(f"copied {lines} (if the terminal allows OSC 52)")
        elif self._is_asked_to_quit and self.note == AGAIN:
            await self.action_quit()
        else:
            self._say(AGAIN)
            self._is_asked_to_quit = True

    def on_key(self, event: events.Key) -> None:
        """Answer a key without a function here.

        No answer would look like a hang.
        """
        if event.key != "ctrl+c":
            self._is_asked_to_quit = False
        if isinstance(self.screen, ModalScreen) or isinstance(self.focused, Input):
            return
        if event.key not in self.screen.active_bindings and event.key not in _SILENT:
            shown = (
                event.character if event.is_printable and event.character else key_text(event.key)
            )
            self._say(f"{plain(shown, 20)} does nothing here; ? shows keys")


_SILENT = {"tab", "shift+tab", "escape", "end", "ctrl+c"}
"""Keys without an answer: they are pressed even when they do nothing."""
