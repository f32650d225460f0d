"""A form at the foot of a view: labelled fields with a preview.

It has a line or two of fields. The preview shows their effect. It knows no alerts; its owner reads
the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from trnfleet.tui import theme
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.cells import Parts, fit
from trnfleet.tui.widgets.focus import focus_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.app import ComposeResult

KEYS = "Enter save   Tab next field   Esc cancel"


class FieldSpec(NamedTuple):
    """A field."""

    name: str
    label: str
    placeholder: str = ""
    cells: int = 0
    """Its width with its label; 0 for the rest of the line."""


class EntryForm(Vertical):
    """Fields with their labels; hidden until it is opened."""

    DEFAULT_CSS = """
    EntryForm { display: none; height: auto; background: $bg-raised; }
    EntryForm.open { display: block; }
    EntryForm Horizontal { height: 1; background: $bg-raised; }
    EntryForm Bar { background: $bg-raised; }
    EntryForm Horizontal Input {
        display: block; width: 1fr; height: 1; padding: 0; border: none; background: $bg; color: $fg-bright;
    }
    """  # noqa: E501
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=False),
        Binding("tab,down", "step(1)", "next field", show=False),
        Binding("shift+tab,up", "step(-1)", "previous field", show=False),
    ]

    @dataclass
    class Changed(Message):
        """The text of a field has changed."""

        form: EntryForm

    @dataclass
    class Submitted(Message):
        """The form was submitted."""

        form: EntryForm

    @dataclass
    class Left(Message):
        """The form was left without being submitted."""

        form: EntryForm

    def __init__(self, rows: Sequence[Sequence[FieldSpec]]) -> None:
        """Make a form.

        Args:
            rows: Fields beside each other, line by line.
        """
        super().__init__()
        self._rows = rows
        self._title = Bar(fill=lambda: theme.BAR)
        self._message = Bar(fill=lambda: theme.BAR)
        self._inputs = {
            spec.name: Input(
                placeholder=spec.placeholder, max_length=400, select_on_focus=True, compact=True
            )
            for row in rows
            for spec in row
        }
        self._heading = ""
        """The title's text."""
        self.openings = 0
        """How often it was opened."""

    def compose(self) -> ComposeResult:
        yield self._title
        for row in self._rows:
            with Horizontal():
                for spec in row:
                    label = Bar(fill=lambda: theme.BAR)
                    label.styles.width = len(spec.label) + 2
                    label.show(_label(f" {spec.label} "))
                    yield label
                    field = self._inputs[spec.name]
                    if spec.cells:
                        field.styles.width = spec.cells
                    yield field
        yield self._message

    @property
    def is_open(self) -> bool:
        return self.has_class("open")

    @property
    def values(self) -> dict[str, str]:
        """The fields' texts, stripped."""
        return {name: field.value.strip() for name, field in self._inputs.items()}

    def field(self, name: str) -> Input:
        """Return the input of a field."""
        return self._inputs[name]

    @property
    def message(self) -> str:
        return self._message.text

    def open(self, title: str, values: Mapping[str, str], focus: str) -> None:
        """Show the form with values, and focus a field.

        The title has printable characters only.
        """
        self.add_class("open")
        self.openings += 1
        self._heading = title
        self._title.show(
            lambda width: [
                (
                    [
                        (fit(f" {title}", max(0, width - len(KEYS) - 2)), theme.BAR_STRONG),
                        (f" {KEYS} ", theme.BAR),
                    ]
                    if self._has_keys_in_title(width)
                    else [(fit(f" {title}", width), theme.BAR_STRONG)]
                )
            ]
        )
        for name, field in self._inputs.items():
            field.value = values.get(name, "")
            field.cursor_position = len(field.value)
        self.tell("")
        focus_on(self._inputs[focus])

    def close(self) -> None:
        self.remove_class("open")

    def tell(self, text: str, *, is_problem: bool = False) -> None:
        """Show a message below the fields; printable characters only.

        Without one, the keys are shown there if the title has no room for them.
        """
        style = theme.BAR_ALERT if is_problem else theme.BAR
        sign = " ▲ " if is_problem else " "
        self._message.show(
            lambda width: [
                [
                    (
                        fit(
                            sign + (text or ("" if self._has_keys_in_title(width) else KEYS)), width
                        ),
                        style,
                    )
                ]
            ]
        )

    def _has_keys_in_title(self, width: int) -> bool:
        return width >= len(self._heading) + len(KEYS) + 4

    def action_leave(self) -> None:
        self.post_message(self.Left(self))

    def action_step(self, by: int) -> None:
        """Go to the next field, round and round."""
        fields = list(self._inputs.values())
        at = next((number for number, field in enumerate(fields) if field.has_focus), 0)
        focus_on(fields[(at + by) % len(fields)])

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Changed(self))

    @on(Input.Submitted)
    def _accepted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted(self))


def _label(text: str) -> Callable[[int], list[Parts]]:
    return lambda _width: [[(text, theme.BAR)]]
