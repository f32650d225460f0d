"""One input line at the foot of the screen that asks for something: a time, a file's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from trnfleet.tui import theme
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.field import Field
from trnfleet.tui.widgets.focus import focus_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.suggester import Suggester


class AskLine(Horizontal):
    """A label and a field; hidden until something is asked."""

    DEFAULT_CSS = """
    AskLine { display: none; height: 1; background: $bg-raised; }
    AskLine.-shown { display: block; layout: horizontal; }
    AskLine Input { width: 1fr; height: 1; padding: 0; border: none; background: $bg; color: $fg-bright; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=False),
        Binding("tab", "complete", "take the completion", show=False),
        Binding("up", "before(-1)", "what was typed before", show=False),
        Binding("down", "before(1)", "what was typed after that", show=False),
    ]

    def __init__(
        self,
        answer: Callable[[str, str], None],
        leave: Callable[[], None],
        *,
        id: str | None = None,  # noqa: A002  Textual's name
    ) -> None:
        """Make a line.

        Args:
            answer: Takes what was asked for, and the answer that was typed.
            leave: Closes the line without an answer.
            id: Its id.
        """
        super().__init__(id=id)
        self._answer, self._leave = answer, leave
        self._label = Bar(fill=lambda: theme.BAR_STRONG)
        self._field = Field(self._accepted, max_length=400)
        self._asked = ""
        self._history: Sequence[str] = ()
        self._place = 0

    def compose(self) -> ComposeResult:
        yield self._label
        yield self._field

    @property
    def is_open(self) -> bool:
        return self.has_class("-shown")

    def ask(
        self,
        asked: str,
        *,
        value: str = "",
        hint: str = "",
        suggester: Suggester | None = None,
        history: Sequence[str] = (),
    ) -> None:
        """Ask for something.

        Args:
            asked: What; also the label.
            value: What stands in the field.
            hint: What stands there while it is empty.
            suggester: Completes what is typed; Tab or → takes that.
            history: What was typed before, the newest last, for up and down.
        """
        self._field.suggester = suggester
        self._history, self._place = history, len(history)
        self._asked = asked
        label = f" {asked}: "
        self._label.styles.width = len(label)
        self._label.show(lambda _width: [[(label, theme.BAR_STRONG)]])
        self._field.placeholder = hint
        self._field.value = value
        self._field.cursor_position = len(value)
        self.add_class("-shown")
        focus_on(self._field)

    def close(self) -> None:
        self.remove_class("-shown")

    def action_complete(self) -> None:
        """Take the completion, if there is one."""
        self._field.cursor_position = len(self._field.value)
        self._field.action_cursor_right()

    def action_before(self, by: int) -> None:
        """Write what was typed before, or after that."""
        if not self._history:
            return
        self._place = min(max(self._place + by, 0), len(self._history))
        text = self._history[self._place] if self._place < len(self._history) else ""
        self._field.value = text
        self._field.cursor_position = len(text)

    def action_leave(self) -> None:
        self._leave()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()

    def _accepted(self, text: str) -> None:
        self._answer(self._asked, text)
