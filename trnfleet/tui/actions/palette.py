"""The command palette (Ctrl-p): Textual's, with this app's candidates and themes.

Textual interprets a text as markup, so every text is passed as `Content`. Textual's own system
commands are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on
from textual.binding import Binding, BindingType
from textual.command import Command, CommandInput, CommandList, CommandPalette, Hit
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.style import Style
from textual.widgets import Input, LoadingIndicator, OptionList

from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.actions.candidates import MOST_TYPED

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from trnfleet.tui.actions.candidates import Candidates, Found

_SIGN_CELLS = 12
_MOST_LETTERS = 120
"""Letters that are shown of a name."""
PLACEHOLDER = "view, action, key, job, reservation, alert or chip"
NOTHING = "No match. Try a view, a key, a job, 0001-2/07."


class HitList(CommandList, can_focus=False):
    """The list of hits."""

    def get_visual_style(self, *component_classes: str, partial: bool = False) -> Style:
        """Return Textual's style, plus reverse on the selected line without colours.

        Textual leaves out the reverse of themes without colours.
        """
        style = super().get_visual_style(*component_classes, partial=partial)
        is_selected = "option-list--option-highlighted" in component_classes
        return style + Style(reverse=True) if is_selected and theme.CURSOR_FILL.reverse else style


class Palette(CommandPalette):
    """The palette over whatever was on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+p", "escape", "", show=False),
        Binding("tab", "cursor_down", "", show=False),
        Binding("shift+tab", "command_list('cursor_up')", "", show=False),
    ]
    DEFAULT_CSS = """
    Palette { align: center top; color: $fg; background: $bg 60%; }
    Palette > .command-palette--highlight { text-style: bold underline; }
    Palette > Vertical {
        width: 100%; max-width: 100; height: auto; margin-top: 1; padding: 0 1; visibility: visible; background: $bg;
        border: round $fg-faint; border-title-color: $fg-bright; border-subtitle-color: $fg-muted;
    }
    Palette > Vertical:dark { background: $bg; }
    Palette #--input, Palette #--input.--list-visible { height: 1; border: none; background: $bg-raised; }
    Palette CommandInput, Palette CommandInput:focus {
        height: 1; padding: 0 1; border: none; background: $bg-raised; color: $fg-bright;
    }
    Palette #--results { overlay: none; height: auto; }
    Palette LoadingIndicator { display: none; }
    Palette CommandList, Palette CommandList:focus, Palette CommandList.--populating {
        border: none; background: $bg;
        scrollbar-size-vertical: 1; scrollbar-background: $bg; scrollbar-background-hover: $bg;
        scrollbar-background-active: $bg; scrollbar-color: $scroll-thumb; scrollbar-color-hover: $fg-faint;
        scrollbar-color-active: $fg-accent;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    Palette CommandList > .option-list--option { padding: 0 1; color: $fg; text-style: none; }
    Palette CommandList > .option-list--option-hover { background: $bg-raised; }
    Palette CommandList > .option-list--option-highlighted, Palette CommandList:ansi > .option-list--option-highlighted {
        color: $fg-bright; background: $input-selection-background; text-style: none;
    }
    """  # noqa: E501

    def __init__(self, candidates: Candidates) -> None:
        super().__init__(providers=())
        self._candidates = candidates

    def compose(self) -> ComposeResult:
        """Compose Textual's palette without its icon."""
        with Vertical(id="--container") as frame:
            frame.border_title = " Commands "
            frame.border_subtitle = " Enter run  Esc close "
            with Horizontal(id="--input"):
                yield CommandInput(
                    placeholder=PLACEHOLDER, select_on_focus=False, max_length=MOST_TYPED
                )
            with Vertical(id="--results"):
                yield HitList()
                yield LoadingIndicator()

    def _gather_commands(self, search_value: str) -> None:  # type: ignore[override]  # Textual's is a worker
        """Show the hits of a text before the next key is read.

        Enter must never choose a hit for an earlier text.
        """
        marked = self.get_visual_style("command-palette--highlight", partial=True)
        hits = [
            Hit(
                match.score,
                hit_content(match, marked),
                match.candidate.run,
                plain(match.candidate.text, _MOST_LETTERS),
            )
            for match in self._candidates.find(search_value)
        ]
        if not hits:
            hits = [Hit(0.0, Content(_shown(NOTHING)), lambda: None, NOTHING)]
        options = [Command(hit.match_display, hit) for hit in hits]
        self._refresh_command_list(self.query_one(CommandList), options, clear_current=True)
        self.add_class("-ready")

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _chosen(self, event: Input.Submitted | OptionList.OptionSelected) -> None:
        """Block further Enters after a hit was chosen.

        Textual would run it again with each, and close the screen below.
        """
        if not self.is_current:
            event.prevent_default()
            event.stop()

    def on_resize(self, event: events.Resize) -> None:
        """Limit the height of the list, so that the view below remains visible."""
        lines = max(3, event.size.height * 7 // 10)
        self.query_one(CommandList).styles.max_height = lines
        self.query_one("#--container").styles.max_height = lines + 3


def hit_content(found: Found, marked: Style | None) -> Content:
    """Return the line of a hit: key or kind, name, and note.

    It names no colours: the selected line has its own.
    """
    candidate = found.candidate
    sign, name, note = (_shown(text) for text in (candidate.sign, candidate.text, candidate.note))
    content = Content(name)
    if marked is not None and name == candidate.text:
        for at in found.marked:
            content = content.stylize(marked, at, at + 1)
    filled = Content(sign + " " * max(1, _SIGN_CELLS - cell_len(sign)))
    if not candidate.is_possible:
        return Content("").join([filled, Content(f"{note}: "), content])
    if candidate.is_key:
        filled = filled.stylize(Style(bold=True))
    return Content("").join([filled, content, Content(f"   {note}" if note else "")])


def _shown(text: str) -> str:
    """Return a text as it may be shown."""
    text = plain(text, _MOST_LETTERS)
    return theme.to_ascii(text) if theme.is_ascii else text
