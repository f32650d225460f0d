"""The help: every key with its action, and the meaning of words and signs.

Keys are read from the bindings themselves, so that the help cannot be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from trnfleet.tui import theme
from trnfleet.tui.keys import bind, key_label, key_text, mapped
from trnfleet.tui.widgets.cells import MOST_LINES, Parts, fit, wrapped
from trnfleet.tui.widgets.focus import focus_on
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.dom import DOMNode


class HelpKey(NamedTuple):
    """A line of the help."""

    keys: str
    what: str


class Section(NamedTuple):
    """Keys that belong together."""

    title: str
    keys: list[HelpKey]


def sign_section(title: str, signs: Iterable[tuple[str, str]]) -> Section:
    """Return the meaning of signs as a section beside the keys."""
    return Section(title, [HelpKey(sign, what) for sign, what in signs])


def key_line(binding: Binding) -> HelpKey:
    """Return the line of a described binding."""
    return HelpKey(key_text(binding.key), binding.description[0].upper() + binding.description[1:])


def bindings_of(kind: type[DOMNode]) -> list[Binding]:
    """Return the described bindings of a class and its bases in this package.

    A base with its own section is left out.
    """
    bindings: dict[str, Binding] = {}
    for base in reversed(kind.__mro__):
        has_section = base is not kind and "HELP_TITLE" in vars(base)
        if has_section or not base.__module__.startswith("trnfleet."):
            continue
        for declared in vars(base).get("BINDINGS", ()):
            binding = declared if isinstance(declared, Binding) else Binding(*declared)
            if binding.description:
                bindings[binding.key] = binding
    return list(map(mapped, bindings.values()))


def help_title(kind: type[DOMNode], otherwise: str) -> str:
    """Return the section of a widget's keys: its class's `HELP_TITLE`, else its view's."""
    return str(getattr(kind, "HELP_TITLE", otherwise))


def sections(parts: Iterable[tuple[str, Iterable[Binding]]]) -> list[Section]:
    """Return titled bindings as sections.

    Equal titles are merged, titles without keys are left out.
    """
    made: dict[str, list[HelpKey]] = {}
    for title, bindings in parts:
        keys = made.setdefault(title, [])
        keys.extend(key for key in map(key_line, bindings) if key not in keys)
    return [Section(title, keys) for title, keys in made.items() if keys]


_KEY_CELLS = 17


def _has(section: Section, key: HelpKey, text: str, words: str) -> bool:
    """Return whether a key matches a search.

    Names of keys are matched with case, words without.
    """
    return text in key.keys or words in key.what.lower() or words in section.title.lower()


class HelpText(LineView, can_focus=False):
    """The sections, in as many columns as fit."""

    COLUMN = 52
    """Cells that a column takes at least."""

    def __init__(self, shown: list[Section]) -> None:
        super().__init__()
        self._all = self._sections = shown

    def search(self, text: str) -> None:
        """Show the keys with a text in name or words; all for an empty text."""
        needle = text.strip().lower()
        self._sections = [
            Section(section.title, keys)
            for section in self._all
            if (keys := [key for key in section.keys if _has(section, key, text.strip(), needle)])
        ]
        self.resized()
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.invalidate()

    def resized(self) -> None:
        self.set_extent(0, max((len(column) for column in self._columns()), default=0))

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        columns = self._columns()
        if not columns:
            return [text_line([(" No key and no words have that", theme.QUIET)], width)]
        room = width // len(columns)
        nothing: Parts = [("", theme.BASE)]
        made: list[Line] = []
        for number in range(top, top + height):
            parts: Parts = []
            for column in columns:
                own = column[number] if number < len(column) else nothing
                *first, (text, style) = own
                parts += [
                    *first,
                    (fit(text, room - sum(len(word) for word, _ in first) - 1) + " ", style),
                ]
            made.append(text_line(parts, width))
        return made

    def _columns(self) -> list[list[Parts]]:
        """Return columns of lines, filled section by section where there is most room."""
        if not self._sections:
            return []
        amount = max(1, min(len(self._sections), self.size.width // self.COLUMN))
        columns: list[list[Parts]] = [[] for _ in range(amount)]
        room = max(20, self.lines_size().width // amount - _KEY_CELLS - 1)
        for section in self._sections:
            column = min(columns, key=len)
            column.append([(f" {section.title}", theme.LINK)])
            for key in section.keys:
                first, *more = [
                    text for text in wrapped(key.what, room, MOST_LINES) if text.strip()
                ] or [""]
                column.append([(f"   {key.keys:14}", theme.STRONG), (first, theme.BASE)])
                column.extend([(" " * _KEY_CELLS, theme.BASE), (text, theme.BASE)] for text in more)
            column.append([("", theme.BASE)])
        return columns


class HelpScreen(ModalScreen[None]):
    """The help over whatever was on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "close the help", show=False),
        Binding("down", "scroll(1)", "down", show=False, priority=True),
        Binding("up", "scroll(-1)", "up", show=False, priority=True),
        Binding("pagedown", "scroll(10)", "page down", show=False, priority=True),
        Binding("pageup", "scroll(-10)", "page up", show=False, priority=True),
        bind("snapshot", "app.snapshot", "save", show=False),
        # A key that the field leaves alone: Textual maps no others here.
        Binding("f1", "dismiss", show=False, id="help"),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $bg 60%; }
    HelpScreen > Vertical {
        width: 90%; height: 90%; padding: 0 1; background: $bg;
        border: round $fg-faint; border-title-color: $fg-bright; border-subtitle-color: $fg-muted;
    }
    HelpScreen HelpText { height: 1fr; }
    HelpScreen Input { height: 1; padding: 0 1; border: none; background: $bg-raised; color: $fg-bright; }
    """  # noqa: E501

    def __init__(self, shown: list[Section]) -> None:
        super().__init__()
        self._text = HelpText(shown)
        self._frame = Vertical()
        self._field = Input(
            placeholder="type to search keys and words", max_length=60, compact=True
        )

    def compose(self) -> ComposeResult:
        self._frame.border_title = " Keys and words "
        self._frame.border_subtitle = " ↑ ↓ scroll  Esc closes "
        with self._frame:
            yield self._field
            yield self._text

    def on_mount(self) -> None:
        """Make typed text the search."""
        focus_on(self._field)

    def tell(self, text: str) -> None:
        """Show a note in the lower border, as the status line is out of sight."""
        self._frame.border_subtitle = Content(f" {text} ")

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self._text.scroll_relative(y=by, animate=False)

    @on(Input.Changed)
    def _searched(self, event: Input.Changed) -> None:
        event.stop()
        if event.value[-1:] == key_label("help"):
            # The field takes every printable key, also the one that opened the help, and more of
            # them before it is gone.
            if self.is_current:
                self.dismiss()
            return
        self._text.search(event.value)
