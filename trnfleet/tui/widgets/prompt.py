"""One input line at the foot of the screen: a command, a time or a file's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from trnfleet.domain.filters.language import LONGEST, SYNTAX
from trnfleet.tui import theme
from trnfleet.tui.widgets.bar import Bar, paragraph
from trnfleet.tui.widgets.cells import Parts, fit
from trnfleet.tui.widgets.focus import focus_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.suggester import Suggester


class PromptField(Input):
    """A field that passes its text on during Enter, not by a message.

    Keys of the same burst are read before any message; they would go into a field about to close.
    Up and down bring back earlier texts.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "before(-1)", show=False),
        Binding("down", "before(1)", show=False),
    ]

    def __init__(
        self,
        submit: Callable[[str], None],
        *,
        max_length: int,
        placeholder: str = "",
    ) -> None:
        """Make a field.

        Args:
            submit: Receives the text, stripped.
            max_length: Most characters.
            placeholder: Text of the empty field.
        """
        super().__init__(
            placeholder=placeholder,
            max_length=max_length,
            select_on_focus=False,
            compact=True,
        )
        self._submit = submit
        self._history: Sequence[str] = ()
        self._place = 0

    async def action_submit(self) -> None:
        self._submit(self.value.strip())

    def recall(self, history: Sequence[str]) -> None:
        """Set the earlier texts for up and down, the newest last."""
        self._history = history
        self._place = len(history)

    def action_before(self, by: int) -> None:
        """Insert an earlier or later text."""
        if self._history:
            self._place = min(max(self._place + by, 0), len(self._history))
            self.value = [*self._history, ""][self._place]
            self.cursor_position = len(self.value)


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

    @dataclass
    class Changed(Message):
        """The text of the field has changed."""

        text: str

    def __init__(self, submit: Callable[[str], None]) -> None:
        """Make a prompt.

        Args:
            submit: Receives a submitted filter.
        """
        super().__init__()
        self._submit = submit
        self._said = Bar(fill=lambda: theme.BAR)
        self._label = Bar(fill=lambda: theme.BAR)
        self._submitted: list[str] = []
        """Filters submitted so far."""
        self._is_submitted = False
        """Whether the field's text was submitted. A mistake is loud then, and quiet during typing.
        """
        self._field = PromptField(self._accepted, placeholder=SYNTAX, max_length=LONGEST)

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

        The next key replaces it, ↑ brings back the one before it.
        """
        self._is_submitted = False
        self._field.recall([text for text in self._submitted if text != pattern])
        self._field.value = pattern
        focus_on(self._field)
        self._field.action_select_all()

    def say(self, problem: str, result: str, columns: Sequence[str]) -> None:
        """Show the mistake, else the number of matches, else the columns.

        Printable characters only.
        """
        loud = theme.BAR_ALERT if self._is_submitted else theme.BAR_STRONG
        style = loud if problem else theme.BAR
        text = f"▲ {problem}" if problem else result or f"columns: {' '.join(columns)}"
        self._said.show(lambda width: [[(fit(f" {text}", width), style)]])

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._is_submitted = False
        self.post_message(self.Changed(event.value.strip()))

    def _accepted(self, text: str) -> None:
        self._is_submitted = True
        if text:
            self._submitted = [*(known for known in self._submitted if known != text), text]
        self._submit(text)


class AskLine(Vertical):
    """A label and a field, with a hint or mistake above.

    Hidden until used.
    """

    DEFAULT_CSS = """
    AskLine { display: none; height: auto; background: $bg-raised; }
    AskLine.-shown { display: block; }
    AskLine Bar { background: $bg-raised; }
    AskLine Horizontal { height: 1; }
    AskLine Input { width: 1fr; height: 1; padding: 0; border: none; background: $bg; color: $fg-bright; }
    """  # noqa: E501
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=False),
        Binding("tab", "complete", "take the completion", show=False),
    ]

    def __init__(self, leave: Callable[[], None], *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        """Make the line.

        Args:
            leave: Closes the line without an answer.
            id: Its id.
        """
        super().__init__(id=id)
        self._leave = leave
        self._answer: Callable[[str], None] | None = None
        self._said = Bar(fill=lambda: theme.BAR, least=0)
        self._label = Bar(fill=lambda: theme.BAR_STRONG)
        self._field = PromptField(self._accepted, max_length=400)
        self._hint = ""
        self._key = ""

    def compose(self) -> ComposeResult:
        yield self._said
        with Horizontal():
            yield self._label
            yield self._field

    @property
    def is_open(self) -> bool:
        return self.has_class("-shown")

    def ask(
        self,
        asked: str,
        answer: Callable[[str], None],
        *,
        value: str = "",
        hint: str = "",
        key: str = "",
        suggester: Suggester | None = None,
        history: Sequence[str] = (),
    ) -> None:
        """Ask for something.

        Args:
            asked: The label.
            answer: Receives the typed answer; it closes the line or refuses the answer.
            value: Initial text of the field.
            hint: Possible inputs.
            key: The character that opened the line. Typed again, it empties the field.
            suggester: Source of completions; Tab or → accepts one.
            history: Earlier inputs for up and down, the newest last.
        """
        self._field.suggester = suggester
        self._field.recall(history)
        self._answer = answer
        self._hint = hint
        self._key = key
        label = f" {asked}: "
        self._label.styles.width = len(label)
        self._label.show(lambda _width: [[(label, theme.BAR_STRONG)]])
        self._field.value = value
        self._field.cursor_position = len(value)
        self._say("")
        self.add_class("-shown")
        focus_on(self._field)

    def refuse(self, problem: str) -> None:
        """Show the mistake in the answer; printable characters only."""
        self._say(problem)
        if self._key:
            self._field.action_select_all()

    def _say(self, problem: str) -> None:
        hint = self._hint

        def lines(width: int) -> list[Parts]:
            wrong = paragraph(f"▲ {problem}", width, theme.BAR_ALERT) if problem else []
            return [*wrong, *paragraph(hint, width, theme.BAR)]

        self._said.show(lines)

    def close(self) -> None:
        self.remove_class("-shown")

    def action_complete(self) -> None:
        """Take the completion, if there is one."""
        self._field.cursor_position = len(self._field.value)
        self._field.action_cursor_right()

    def action_leave(self) -> None:
        self._leave()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._key and event.value == self._key:
            self._field.value = ""

    def _accepted(self, text: str) -> None:
        if self._answer is not None:
            self._answer(text)
