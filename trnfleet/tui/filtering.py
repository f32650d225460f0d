"""A view with a filter: the prompt at its foot, the keys that open and clear it, and what typing does.

Owns the prompt alone; what a pattern leaves, and what is painted then, is the view's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.widgets import Input

from trnfleet.tui.view import View

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.fleet_state import FleetState


class FilteredView(View):
    """A view whose `prompt` asks for a pattern; subclasses yield it last, bind `ask` and `clear`, and know the pattern."""

    DEFAULT_CSS = """
    FilteredView Input {
        display: none; height: 1; padding: 0 1; border: none; background: #1c232d; color: #f0f4f8;
    }
    FilteredView.asking Input { display: block; }
    """

    def __init__(self, monitor: FleetState, clock: Clock, *, placeholder: str) -> None:
        super().__init__(monitor, clock)
        self.prompt = Input(placeholder=placeholder, max_length=120, select_on_focus=False, compact=True)

    @property
    def pattern(self) -> str:
        """The filter; empty where everything is shown."""
        raise TypeError(f"{type(self).__name__} does not implement pattern")

    def filter(self, pattern: str) -> None:
        """Leave what matches a pattern, and paint it."""
        raise TypeError(f"{type(self).__name__} does not implement filter({pattern!r})")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Say that there is nothing to clear without a filter, so that Escape is the app's."""
        del parameters
        return action != "clear" or bool(self.pattern) or self.has_class("asking")

    def action_ask(self) -> None:
        """Open the filter's prompt."""
        self.add_class("asking")
        self.prompt.value = self.pattern
        self.prompt.cursor_position = len(self.prompt.value)
        self.prompt.focus(scroll_visible=False)

    def action_clear(self) -> None:
        """Show everything again."""
        self.close_prompt("")

    def close_prompt(self, pattern: str) -> None:
        """Take a pattern, and give the keys back to the view."""
        self.remove_class("asking")
        self.filter(pattern)
        self.take_focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.has_class("asking"):
            self.filter(event.value.strip())

    @on(Input.Submitted)
    def _accepted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close_prompt(event.value.strip())
