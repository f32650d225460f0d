"""The prompt of a filter.

Above the field is its mistake, the number of matches, or the columns to compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from trnfleet.domain.filters.language import LONGEST, SYNTAX
from trnfleet.tui import theme
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.cells import fit
from trnfleet.tui.widgets.field import Field
from trnfleet.tui.widgets.focus import focus_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult


class FilterPrompt(Vertical):
    """Two lines at the foot of a view, hidden until a filter is asked for."""

    DEFAULT_CSS = """
    FilterPrompt { display: none; height: 2; background: $bg-raised; }
    FilterPrompt Bar { background: $bg-raised; }
    FilterPrompt Horizontal { height: 1; }
    FilterPrompt Horizontal Bar { width: 2; }
    FilterPrompt Input {
        display: block; width: 1fr; height: 1; padding: 0; border: none; background: $bg-raised; color: $fg-bright;
    }
    """  # noqa: E501

    class Changed(Message):
        """The text of the field has changed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, submit: Callable[[str], None]) -> None:
        """Make a prompt.

        Args:
            submit: Receives a submitted filter.
        """
        super().__init__()
        self._submit = submit
        self._said = Bar(fill=lambda: theme.BAR)
        self._label = Bar(fill=lambda: theme.BAR)
        self._is_submitted = False
        """Whether the field's text was submitted. A mistake is loud then, and quiet during typing.
        """
        self._field = Field(self._accepted, placeholder=SYNTAX, max_length=LONGEST)

    def compose(self) -> ComposeResult:
        self._label.show(lambda _width: [[(" /", theme.BAR_STRONG)]])
        yield self._said
        with Horizontal():
            yield self._label
            yield self._field

    @property
    def value(self) -> str:
        """The field's text."""
        return self._field.value

    @property
    def said(self) -> str:
        """The line above the field."""
        return self._said.text

    def open(self, pattern: str) -> None:
        """Focus the field with a filter selected.

        The next key replaces it.
        """
        self._is_submitted = False
        self._field.value = pattern
        focus_on(self._field)
        self._field.action_select_all()

    def say(self, problem: str, found: str, columns: Sequence[str]) -> None:
        """Show the mistake, else the number of matches, else the columns.

        Printable characters only.
        """
        loud = theme.BAR_ALERT if self._is_submitted else theme.BAR_STRONG
        style = loud if problem else theme.BAR
        text = f"▲ {problem}" if problem else found or f"columns: {' '.join(columns)}"
        self._said.show(lambda width: [[(fit(f" {text}", width), style)]])

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._is_submitted = False
        self.post_message(self.Changed(event.value.strip()))

    def _accepted(self, text: str) -> None:
        self._is_submitted = True
        self._submit(text)
