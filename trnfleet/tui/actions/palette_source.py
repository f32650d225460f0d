"""Entries of the command palette, read from the app when it opens.

Views, keys and commands, then the names of the fleet.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of, has_id
from trnfleet.tui.actions.candidates import MOST, Candidate, Candidates
from trnfleet.tui.help import bindings_of, key_text
from trnfleet.tui.state.chip_table import ChipTable
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.binding import Binding
    from textual.dom import DOMNode
    from textual.screen import Screen

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Node
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.actions.commands import Command, Commands
    from trnfleet.tui.state.context import UiContext

_LEVELS = {
    Level.CLUSTER: "cluster",
    Level.ULTRASERVER: "UltraServer",
    Level.INSTANCE: "instance",
    Level.CHIP: "chip",
}
_CURSOR = ("move(", "page(", "scroll(")
"""Cursor actions. Pressing the key is quicker than a search."""
COMMAND = "command"


class PaletteApp(Protocol):
    """What an app does for its palette."""

    commands: Commands
    context: UiContext

    @property
    def view_title(self) -> str:
        """Title of the view on the screen."""

    @property
    def screen(self) -> Screen[Any]:
        """What has the keys."""

    def key_parts(self) -> list[tuple[str, type[DOMNode]]]:
        """Return the classes with keys and their section titles."""

    def simulate_key(self, key: str) -> None:
        """Run a key's function."""

    def action_command(self, typed: str = "") -> None:
        """Prompt for a command, with `typed` as its beginning."""

    def attempt(self, run: Callable[[], object]) -> bool:
        """Run a command's function, or show why it is not possible."""

    def say(self, note: str) -> None:
        """Show a note."""

    def go(self, address: str, view: str | None = None) -> None:
        """Go to an address."""

    def go_to_alert(self, alert: Alert) -> None:
        """Go to an alert."""


class PaletteSource:
    """The candidates of an app."""

    def __init__(self, app: PaletteApp) -> None:
        self._app = app
        self._title = app.view_title
        self._active = app.screen.active_bindings
        self._chips = ChipTable(app.context.monitor, app.context.alerts)
        self._same: dict[str, tuple[str, ...]] = {}
        """Command names by the keys with the same effect."""
        for command in app.commands.all:
            if command.key:
                self._same[command.key] = (*self._same.get(command.key, ()), *command.names)

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
        return Candidates([*views, *keys, *self._commands()], [*views, *here], self._of_fleet)

    # Our own names

    def _keys(self) -> Iterator[Candidate]:
        known: set[tuple[str, str]] = set()
        made = [
            (self._key(title, binding), (binding.key, binding.action))
            for title, kind in self._app.key_parts()
            for binding in bindings_of(kind)
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

    def _commands(self) -> Iterator[Candidate]:
        for command in self._app.commands.all:
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
                for choice in command.choices():
                    run = partial(self._app.attempt, partial(command.run, choice))
                    yield Candidate(
                        COMMAND, f":{name} {choice}", run, command.what, (choice.lower(),)
                    )

    # Names of the fleet

    def _of_fleet(self, text: str) -> Iterator[Candidate]:
        yield from map(self._place, self._chips.find(text, MOST))
        for command in self._app.commands.all:
            if command.is_of_fleet:
                yield from (self._named(command, name) for name in command.fitting(text, MOST))
        needle = text.lower()
        alerts = (held for held in self._app.context.alerts.active if _is_of(held, needle))
        yield from map(self._alert, itertools.islice(alerts, MOST))

    def _place(self, node: Node) -> Candidate:
        layout = self._app.context.monitor.store.layout
        address = layout.path(node)
        sign = _LEVELS[node.level]
        if node.level is Level.ULTRASERVER and layout.is_standalone[node.number]:
            sign = "instances"
        return Candidate(sign, address, partial(self._app.go, address))

    def _named(self, command: Command, name: str) -> Candidate:
        run = partial(self._app.attempt, partial(command.run, name))
        return Candidate(command.names[0], name, run, command.what)

    def _alert(self, each: AlertWithStatus) -> Candidate:
        alert = each.alert
        run = partial(self._app.go_to_alert, alert)
        note = f"{alert.rule.severity.value}, {each.status.value}"
        return Candidate(
            "alert", f"{alert.rule.name} {address_of(alert) or alert.target}", run, note
        )


def _is_of(each: AlertWithStatus, wanted: str) -> bool:
    """Return whether an alert matches an id or a text.

    The text may be in its rule's name, its place or its subject.
    """
    alert = each.alert
    return has_id(alert.fingerprint, wanted) or any(
        wanted in text.lower() for text in (alert.rule.name, alert.place, alert.target)
    )
