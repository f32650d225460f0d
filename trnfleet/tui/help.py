"""The help: every key with what it does, made from the bindings themselves, so that it cannot be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import fit
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.dom import DOMNode

    from trnfleet.tui.widgets.cells import Parts

_KEY_NAMES = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "question_mark": "?",
    "slash": "/",
    "asterisk": "*",
    "space": "Space",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "full_stop": ".",
    "at": "@",
    "backspace": "Backspace",
}


class Key(NamedTuple):
    """A line of the help."""

    keys: str
    what: str


class Section(NamedTuple):
    """Keys that belong together."""

    title: str
    keys: list[Key]


def sign_section(title: str, signs: Iterable[tuple[str, str]]) -> Section:
    """Return what signs mean, as a section beside the keys."""
    return Section(title, [Key(sign, what) for sign, what in signs])


def key_text(keys: str) -> str:
    """Return a binding's keys as they stand on a keyboard, such as `↑ k` for `up,k`."""
    return " ".join(map(_key_name, keys.split(",")))


def keys_of(kind: type[DOMNode]) -> list[Key]:
    """Return the bindings that a class and its bases in this package declare and describe.

    A base that has a section of its own is left out.
    """
    found: dict[str, Key] = {}
    for base in reversed(kind.__mro__):
        has_section = base is not kind and "HELP_TITLE" in vars(base)
        if has_section or not base.__module__.startswith("trnfleet."):
            continue
        for declared in vars(base).get("BINDINGS", ()):
            binding = _binding(declared)
            if binding.description:
                what = binding.description[0].upper() + binding.description[1:]
                found[binding.key] = Key(key_text(binding.key), what)
    return list(found.values())


def help_title(kind: type[DOMNode], otherwise: str) -> str:
    """Return the section that a widget's keys stand in: its class's `HELP_TITLE`, else its view's."""
    return str(getattr(kind, "HELP_TITLE", otherwise))


def sections(parts: Iterable[tuple[str, type[DOMNode]]]) -> list[Section]:
    """Return what each titled class binds; those of the same title come together, those without keys are left out."""
    made: dict[str, list[Key]] = {}
    for title, kind in parts:
        keys = made.setdefault(title, [])
        keys.extend(key for key in keys_of(kind) if key not in keys)
    return [Section(title, keys) for title, keys in made.items() if keys]


class HelpText(LineView):
    """The sections, in as many columns as fit."""

    COLUMN = 52
    """Cells that a column takes at least."""

    def __init__(self, shown: list[Section]) -> None:
        super().__init__()
        self._sections = shown

    def resized(self) -> None:
        self.set_extent(0, max((len(column) for column in self._columns()), default=0))

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        columns = self._columns()
        room = width // len(columns)
        nothing: Parts = [("", theme.BASE)]
        made: list[Line] = []
        for number in range(top, top + height):
            parts: Parts = []
            for column in columns:
                own = column[number] if number < len(column) else nothing
                *first, (text, style) = own
                parts += [*first, (fit(text, room - sum(len(each) for each, _ in first) - 1) + " ", style)]
            made.append(text_line(parts, width))
        return made

    def _columns(self) -> list[list[Parts]]:
        """Return columns of lines, filled section by section where there is most room."""
        amount = max(1, min(len(self._sections), self.size.width // self.COLUMN))
        columns: list[list[Parts]] = [[] for _ in range(amount)]
        for section in self._sections:
            column = min(columns, key=len)
            column.append([(f" {section.title}", theme.LINK)])
            column.extend(
                [(f"   {key.keys:14}", theme.STRONG), (key.what, theme.BASE)] for key in section.keys
            )
            column.append([("", theme.BASE)])
        return columns


class HelpScreen(ModalScreen[None]):
    """The help over whatever was on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "dismiss", "close the help", show=False),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $bg 60%; }
    HelpScreen > HelpText {
        width: 90%; max-width: 156; height: 90%; max-height: 40; padding: 1 1;
        border: round $fg-faint; border-title-color: $fg-bright; border-subtitle-color: $fg-muted;
    }
    """

    def __init__(self, shown: list[Section]) -> None:
        super().__init__()
        self._sections = shown

    def compose(self) -> ComposeResult:
        text = HelpText(self._sections)
        text.border_title = " Keys "
        text.border_subtitle = " Esc closes "
        yield text


def _key_name(key: str) -> str:
    *modifiers, own = key.split("+")
    name = _KEY_NAMES.get(own, own)
    return f"Ctrl-{name}" if "ctrl" in modifiers else key if modifiers else name


def _binding(declared: BindingType) -> Binding:
    return declared if isinstance(declared, Binding) else Binding(*declared)
