"""The command palette (Ctrl-p): its entries, the search for a typed text, and its screen.

Entries are read from the app when it opens: views, keys and commands, then the names of the fleet.
Names of the app's own (views, keys, commands and their arguments) are matched fuzzily. Names of the
fleet are matched by a part of their text alone, up to `MOST` of a kind: there may be a million, and
anyone may have invented them.

The screen is Textual's, with this app's themes. Textual interprets a text as markup, so every text
is passed as `Content`. Textual's own system commands are left out.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events, on
from textual.command import Command, CommandInput, CommandList, CommandPalette, Hit
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.fuzzy import FuzzySearch
from textual.style import Style
from textual.widgets import Input, LoadingIndicator, OptionList

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of, has_id
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.keys import bind, key_label, key_text
from trnfleet.tui.state.chip_table import ChipTable
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from textual.app import ComposeResult
    from textual.binding import Binding, BindingType

    from trnfleet.domain.layout import Node
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.app.actions import ActionsApp
    from trnfleet.tui.app.commands import Action

MOST = 20
"""Most fleet names offered of each kind."""
MOST_TYPED = 60
"""Most letters compared of the text."""
_FUZZY_LETTERS = 32
_FUZZY_TYPED = 12
"""Most letters of a name and of a text for fuzzy matching. The number of possible matches grows
with both."""
_SIGN_CELLS = 12
PLACEHOLDER = "view, action, key, job, reservation, alert or chip"
NOTHING = "No match. Try a view, a key, a job, 0001-2/07."
_LEVELS = {
    Level.CLUSTER: "cluster",
    Level.ULTRASERVER: "UltraServer",
    Level.INSTANCE: "instance",
    Level.CHIP: "chip",
}
_CURSOR = ("move(", "page(", "scroll(")
"""Cursor actions. Pressing the key is quicker than a search."""
COMMAND = "command"
# What a candidate is found by, the best last.
_FUZZY, _OF_FLEET, _WORD, _BEGIN, _SIGN = range(1, 6)


class Candidate(NamedTuple):
    """Something to choose."""

    sign: str
    """Key with the same effect, else the kind of thing."""
    text: str
    run: Callable[[], object]
    note: str = ""
    """Further text about it."""
    words: tuple[str, ...] = ()
    """Other names by which it is found."""
    is_key: bool = False
    """Whether `sign` is a key."""
    is_possible: bool = True
    """Whether it can be run now; else `run` shows the reason."""


class Match(NamedTuple):
    """A candidate that a text finds."""

    score: float
    """Higher for a more probable match."""
    candidate: Candidate
    marked: Sequence[int] = ()
    """Places of the matched letters in its text."""


class Candidates:
    """Everything that can be chosen at one time."""

    def __init__(
        self,
        own: Sequence[Candidate],
        listed: Sequence[Candidate],
        of_fleet: Callable[[str], Iterable[Candidate]],
    ) -> None:
        """Store the candidates.

        Args:
            own: All names of the app's own.
            listed: Candidates offered before anything is typed.
            of_fleet: Returns the fleet's candidates that contain a text, at most `MOST` of each
                kind, the
                most usual first.
        """
        self.own = own
        self.listed = listed
        self._of_fleet = of_fleet

    def find(self, text: str) -> list[Match]:
        """Return the candidates for a text, the most probable first."""
        text = text.strip()[:MOST_TYPED]
        if not text:
            return [Match(0.0, candidate) for candidate in self.listed]
        needle = text.lower()
        fuzzy = FuzzySearch()
        matches = [
            made
            for candidate in self.own
            if (made := _match(candidate, text, needle, fuzzy)) is not None
        ]
        matches += [
            Match(_OF_FLEET, candidate, _span(candidate.text.lower().find(needle), needle))
            for candidate in self._of_fleet(text)
        ]
        return sorted(matches, key=lambda match: -match.score)


def _match(candidate: Candidate, text: str, needle: str, fuzzy: FuzzySearch) -> Match | None:
    """Return the match of a text with an own name; None without a match."""
    lower = candidate.text.lower()
    if needle.startswith(":") and not (lower.startswith(":") or candidate.sign == text):
        # The colon asks for a command.
        return None
    at = lower.find(needle)
    marked = _span(at, needle)
    score = 0.0
    if candidate.is_key and candidate.sign == text:
        score = _SIGN
    elif lower.lstrip(":").startswith(needle.lstrip(":")) or any(
        word.startswith(needle) for word in candidate.words
    ):
        score = _BEGIN
    elif at > 0 and not lower[at - 1].isalnum():
        score = _WORD
    elif at > 0:
        score = _FUZZY + 0.5
    elif len(needle) <= _FUZZY_TYPED:
        fit, marked = fuzzy.match(needle, lower[:_FUZZY_LETTERS])
        # Twice the letters, twice as many where they begin words.
        score = _FUZZY + min(0.4, fit / (10 * len(needle))) if fit else 0.0
    if not score:
        return None
    return Match(score - 0.5 * (not candidate.is_possible), candidate, marked)


def _span(at: int, needle: str) -> Sequence[int]:
    """Return the places of `needle` from `at` on; empty if `at` is negative."""
    return range(at, at + len(needle)) if at >= 0 else ()


class PaletteSource:
    """The candidates of an app."""

    def __init__(self, app: ActionsApp) -> None:
        self._app = app
        self._title = app.view_title
        self._active = app.screen.active_bindings
        self._chips = ChipTable(app.monitor, app.context.alerts)
        self._same: dict[str, tuple[str, ...]] = {}
        """Command names by the keys with the same effect."""
        self._commands = app.commands.all
        for command in self._commands:
            key = key_label(command.like or command.key)
            self._same[key] = (*self._same.get(key, ()), *command.names)

    def candidates(self) -> Candidates:
        """Return them, as of now."""
        views = [
            Candidate(
                entry.key,
                entry.title,
                partial(self._app.simulate_key, entry.key),
                "" if entry.title != self._title else "is on the screen",
                self._same.get(entry.key, ()),
                is_key=True,
            )
            for entry in VIEWS
        ]
        keys = list(self._keys())
        # Impossible actions are offered only for typed text.
        here = [candidate for candidate in keys if candidate.is_possible]
        return Candidates([*views, *keys, *self._typed()], [*views, *here], self._of_fleet)

    # Our own names

    def _keys(self) -> Iterator[Candidate]:
        known: set[tuple[str, str]] = set()
        made = [
            (self._key(title, binding), (binding.key, binding.action))
            for title, bindings in self._app.key_parts()
            for binding in bindings
            if not binding.action.startswith(_CURSOR) and binding.action != "palette"
        ]
        # What can be done here first: of a key that does the same in other views, too, that is
        # enough.
        for candidate, does in sorted(made, key=lambda pair: not pair[0].is_possible):
            if does not in known:
                known.add(does)
                yield candidate

    def _key(self, title: str, binding: Binding) -> Candidate:
        first = binding.key.split(",")[0]
        active = self._active.get(first)
        is_possible = (
            active is not None
            and active.enabled
            and (active.binding.action, active.binding.description)
            == (binding.action, binding.description)
        )
        sign = key_text(first)
        what = binding.description[0].upper() + binding.description[1:]
        # The title of a part of a view begins with the view's, such as `Fleet: problems`.
        view = next((entry for entry in VIEWS if entry.title == title.partition(":")[0]), None)
        if is_possible:
            note = where = ""
        elif view is None:
            note = "not now"
            where = "does nothing here now"
        else:
            note = f"in {title}"
            where = f"is a key of {title} ({view.key})"
        run = (
            partial(self._app.simulate_key, first)
            if is_possible
            else partial(self._app.say, f"{sign} {where}: {what}")
        )
        words = self._same.get(sign, ()) if view is None else ()
        return Candidate(sign, what, run, note, words, is_key=True, is_possible=is_possible)

    def _typed(self) -> Iterator[Candidate]:
        for command in self._commands:
            name = command.names[0]
            if command.needs:
                prefilled = partial(self._app.action_command, f"{name} ")
                yield Candidate(
                    COMMAND,
                    f":{name} …",
                    prefilled,
                    f"{command.needs}: {command.what}",
                    command.names,
                )
            if command.choices is not None and not command.is_of_fleet:
                for choice in command.choices(self._app):
                    run = self._attempt(command, choice)
                    yield Candidate(
                        COMMAND, f":{name} {choice}", run, command.what, (choice.lower(),)
                    )

    # Names of the fleet

    def _of_fleet(self, text: str) -> Iterator[Candidate]:
        yield from map(self._place, self._chips.find(text, MOST))
        for command in self._commands:
            if command.is_of_fleet:
                yield from (
                    self._named(command, name) for name in command.fitting(self._app, text, MOST)
                )
        needle = text.lower()
        alerts = (held for held in self._app.context.alerts.active if _is_of(held, needle))
        yield from map(self._alert, itertools.islice(alerts, MOST))

    def _place(self, node: Node) -> Candidate:
        layout = self._app.monitor.store.layout
        address = layout.path(node)
        sign = _LEVELS[node.level]
        if node.level is Level.ULTRASERVER and layout.is_standalone[node.number]:
            sign = "instances"
        return Candidate(sign, address, partial(self._app.go, address))

    def _named(self, command: Action, name: str) -> Candidate:
        return Candidate(command.names[0], name, self._attempt(command, name), command.what)

    def _attempt(self, command: Action, argument: str) -> Callable[[], object]:
        """Return what runs a command, or shows why it is not possible."""
        return partial(self._app.attempt, partial(command.typed, self._app, argument))

    def _alert(self, held: AlertWithStatus) -> Candidate:
        alert = held.alert
        run = partial(self._app.go_to_alert, alert)
        note = f"{alert.rule.severity.value}, {held.status.value}"
        return Candidate(
            "alert", f"{alert.rule.name} {address_of(alert) or alert.target}", run, note
        )


def _is_of(held: AlertWithStatus, needle: str) -> bool:
    """Return whether an alert matches an id or a text.

    The text may be in its rule's name, its place or its subject.
    """
    alert = held.alert
    return has_id(alert.fingerprint, needle) or any(
        needle in text.lower() for text in (alert.rule.name, alert.place, alert.target)
    )


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
        bind("palette", "escape", "", show=False),
        bind("tab", "cursor_down", "", show=False),
        bind("shift+tab", "command_list('cursor_up')", "", show=False),
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
                plain(match.candidate.text),
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


def hit_content(match: Match, marked: Style | None) -> Content:
    """Return the line of a hit: key or kind, name, and note.

    It names no colours: the selected line has its own.
    """
    candidate = match.candidate
    sign, name, note = (_shown(text) for text in (candidate.sign, candidate.text, candidate.note))
    content = Content(name)
    if marked is not None and name == candidate.text:
        for at in match.marked:
            content = content.stylize(marked, at, at + 1)
    filled = Content(sign + " " * max(1, _SIGN_CELLS - cell_len(sign)))
    if not candidate.is_possible:
        return Content("").join([filled, Content(f"{note}: "), content])
    if candidate.is_key:
        filled = filled.stylize(Style(bold=True))
    return Content("").join([filled, content, Content(f"   {note}" if note else "")])


def _shown(text: str) -> str:
    """Return a text as it may be shown."""
    text = plain(text)
    return theme.to_ascii(text) if theme.is_ascii else text
