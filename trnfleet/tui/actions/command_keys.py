"""The commands of the app, typed after `:` or chosen with Ctrl-p.

Views, places, filters, orders, metrics, themes, time, alerts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.binding import Binding, BindingType
from textual.widgets import Input

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of, named
from trnfleet.domain.alerts.matchers import has_matchers
from trnfleet.domain.filters.language import quoted
from trnfleet.domain.layout import Node
from trnfleet.errors import ConfigError
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.actions.commands import Command, Commands, CommandSuggester, checked
from trnfleet.tui.actions.fleet_keys import FleetKeys
from trnfleet.tui.actions.palette import Palette
from trnfleet.tui.actions.palette_source import PaletteSource
from trnfleet.tui.actions.snapshot_keys import SnapshotKeys
from trnfleet.tui.fleet.heatmap import FIELDS
from trnfleet.tui.fleet.jobs import begin_of, unplaced_text
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.playback.time_input import parse_time
from trnfleet.tui.state.chart_window import WINDOWS_S
from trnfleet.tui.state.chip_table import ChipTable, column_of
from trnfleet.tui.state.subjects import of_alerts
from trnfleet.tui.view import ALERTS, CHIP, FLEET, HIERARCHY, RESERVATIONS, FilteredView
from trnfleet.tui.views import VIEWS, alerts_view, reservations_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.dom import DOMNode

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.replay.controls import Playback

COMMAND = "command"
"""What the prompt asks for."""
MOST_COUNTED = 1_000
"""Most matches counted for a part of an address."""
_VIEW_NAMES = {"Hierarchy": ("tree",), "Reservations": ("capacity",), "Fleet": ("jobs", "problems")}
"""Other names of views. A view's own name comes first."""


class CommandKeys(FleetKeys, SnapshotKeys):
    """An app with these commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "command", "type a command, such as :chip 0001-2/07, :theme light, :q"),
        Binding("ctrl+p", "palette", "find views, actions, chips, jobs"),
    ]
    HELP_TITLE = "Everywhere"

    def __init__(self, playback: Playback | None) -> None:
        super().__init__(playback)
        self.commands = Commands(self._commands())
        self._typed: list[str] = []

    def go(self, address: str, view: str | None = None, fleet: str | None = None) -> None:
        """Go to an address in a view of a fleet.

        None: the address's usual view, the fleet on screen.
        """
        raise TypeError(
            f"{type(self).__name__} does not implement go({address!r}, {view!r}, {fleet!r})"
        )

    def key_parts(self) -> list[tuple[str, type[DOMNode]]]:
        """Return the classes with keys and their section titles, the view on screen first.

        Views were made before.
        """
        raise TypeError(f"{type(self).__name__} does not implement key_parts()")

    def _commands(self) -> list[Command]:
        own = {entry.title.lower() for entry in VIEWS}
        view_commands = [
            Command(
                (
                    entry.title.lower(),
                    *(name for name in _VIEW_NAMES.get(entry.title, ()) if name not in own),
                ),
                f"the view {entry.title}",
                partial(self._view, entry.title),
                key=entry.key,
            )
            for entry in VIEWS
        ]
        return [
            *view_commands,
            Command(
                ("go",),
                "go to a cluster, UltraServer, instance or chip by a part of its address",
                self._go,
                needs="an address",
            ),
            Command(
                ("job",),
                "the instances of a job",
                self._job,
                self._jobs,
                needs="a job",
                is_of_fleet=True,
            ),
            Command(
                ("reservation", "block"),
                "a reservation",
                self._reservation,
                self._reservations,
                needs="an id",
                is_of_fleet=True,
            ),
            Command(("filter",), "filter this view", self._filter, key="/", needs="a filter"),
            Command(
                ("sort",),
                "sort this view",
                self._sort,
                lambda: self.page.orders,
                key="s",
                needs="an order",
            ),
            Command(
                ("metric",),
                "a metric on the map",
                self._metric,
                _metrics,
                key="m",
                needs="a metric",
            ),
            Command(
                ("theme",),
                "a theme",
                self._theme,
                lambda: theme.NAMES,
                key="Ctrl-t",
                needs="its name",
            ),
            Command(
                ("window", "span"),
                "the span of charts",
                self._window,
                lambda: _WINDOWS,
                key="v",
                needs="a span",
            ),
            Command(
                ("ack",),
                "acknowledge what the cursor is on, or an alert by its id",
                self._acknowledge,
                key="a",
            ),
            Command(
                ("silence",),
                "silence what the cursor is on, matchers, or an alert by its id",
                self._silence,
                key="z",
            ),
            Command(
                ("export", "snapshot"),
                "save the screen as SVG, and the view's rows as CSV",
                lambda _rest: self.call_later(self.run_action, "snapshot"),
                key="Ctrl-s",
            ),
            Command(("at",), "go to a time: 14:03, -5m", self._at, key="@", needs="a time"),
            Command(
                ("live",), "back to the present", lambda _rest: self.action_time_end(), key="End"
            ),
            Command(
                ("help",),
                "all keys",
                lambda _rest: self.call_later(self.run_action, "help"),
                key="?",
            ),
            Command(
                ("quit", "q"),
                "quit",
                lambda _rest: self.call_later(self.run_action, "quit"),
                key="q",
            ),
        ]

    # Asking

    def action_command(self, typed: str = "") -> None:
        """Prompt for a command, with `typed` as its beginning."""
        self.ask_line.ask(
            COMMAND,
            value=typed,
            hint=f"Commands: {' '.join(command.names[0] for command in self.commands.all)}",
            key=":",
            suggester=CommandSuggester(self.commands),
            history=self._typed,
        )

    async def action_palette(self) -> None:
        """Open the command palette.

        A focused field is left first, so that it receives no keys.
        """
        if isinstance(self.focused, Input):
            self._say("Ctrl-p: leave this field first, by Enter or Esc")
            return
        await self.make_views()
        self.push_screen(Palette(PaletteSource(self).candidates()))

    def answer(self, asked: str, text: str) -> bool:
        """Run a typed command.

        Return False if the prompt was for something else.
        """
        if asked != COMMAND:
            return False
        try:
            if text:
                self.commands.run(text)
        except (ConfigError, ValueError) as error:
            self.ask_line.refuse(plain(str(error), 400))
        else:
            self.ask_line.close()
            if not self.actions.is_open:
                self.focus_page()
            self._typed.append(text)
        return True

    def run_command(self, text: str) -> bool:
        """Run a command.

        Return False and show the reason if it fails.
        """
        return self.attempt(partial(self.commands.run, text))

    def attempt(self, run: Callable[[], object]) -> bool:
        """Run a command's function.

        Return False and show the reason if it fails.
        """
        try:
            run()
        except (ConfigError, ValueError) as error:
            self._say(str(error), is_problem=True)
            return False
        return True

    # What they do

    def _view(self, title: str, rest: str) -> None:
        if title == FLEET and self.fleets.are_several and rest in self.fleets.names:
            self.show_fleet(rest)
            return
        if rest and title == CHIP:
            self._go(rest, CHIP)
            return
        if title != self.view_title:
            self.go(self.page.place, title)
        if rest and isinstance(self.page, FilteredView):
            self._filter(rest)

    async def make_views(self) -> None:
        """Make the views that were not opened yet."""
        raise TypeError(f"{type(self).__name__} does not implement make_views()")

    def go_to_alert(self, alert: Alert) -> None:
        """Go to an alert and its rule's other alerts at, below or above its place."""
        place = address_of(alert)
        self.go(place or self.page.place, ALERTS)
        if isinstance(self.page, alerts_view()):
            self.page.show_at(place)
            at = f" & at={quoted(place)}" if place else ""
            self.attempt(partial(self._filter, f"rule={quoted(alert.rule.name)}{at}"))

    def _go(self, rest: str, view: str | None = None) -> None:
        layout = self.context.monitor.store.layout
        if not rest:
            raise ConfigError("name it, such as :go us-0001 or :chip 0001-2/07")
        chips = ChipTable(self.context.monitor, self.context.alerts)
        having = chips.find(rest, MOST_COUNTED + 1)
        if having:
            node = having[0]
            matches = 1 if layout.path(node) == rest else _tops(map(layout.path, having))
        else:
            # A job's name goes to the job's first place.
            mask = chips.having(rest.lower())
            if not mask.any():
                raise ConfigError(f"nothing here is called {plain(rest, 60)!r}")
            node = layout.parent(Node(Level.CHIP, int(np.argmax(mask))))
            matches = sum(rest.lower() in name.lower() for name in self._jobs())
        noun = "place" if having else "job"
        path = layout.path(node)
        if view == CHIP:
            inside = layout.chip_range(node)
            if matches == 1 and len(inside) > 1:
                noun = "chip"
                matches = len(inside)
            node = Node(Level.CHIP, inside.start)
            path = layout.path(node)
        self.go(path, view)
        if matches > 1:
            least = "at least " if len(having) > MOST_COUNTED else ""
            self.say(f"{least}{matches:,} {noun}s match {plain(rest, 40)!r}: this is {path}")

    def _job(self, rest: str) -> None:
        job = checked("job", rest, self.context.monitor.ingest.jobs)
        layout = self.context.monitor.store.layout
        chips = ChipTable(self.context.monitor, self.context.alerts).named("job", job.__eq__)
        if not chips.any():
            message = self.context.monitor.ingest.jobs[job]
            place = begin_of(message, layout)
            if not place:
                raise ConfigError(unplaced_text(message))
            self.go(place, HIERARCHY)
            self.say(f"job {job} begins here, where another job runs, too")
            return
        # The tree gives up a filter that hides where one goes.
        self.go(layout.path(layout.parent(Node(Level.CHIP, int(np.argmax(chips))))), HIERARCHY)
        self._filter(f"job={quoted(job)}")

    def _reservation(self, rest: str) -> None:
        known = checked("reservation", rest, self._reservations())
        self.go(self.page.place, RESERVATIONS)
        if isinstance(self.page, reservations_view()):
            self.page.show_reservation(known)

    def _filter(self, rest: str) -> None:
        page = self.page
        if not isinstance(page, FilteredView):
            raise ConfigError(f"{self.view_title} has no filter")
        page.filter(rest)
        if page.problem:
            raise ConfigError(page.problem)
        page.close_prompt(rest)

    def _sort(self, rest: str) -> None:
        if not self.page.orders:
            raise ConfigError(f"{self.view_title} has one order")
        self.page.put_in_order(checked("order", rest, self.page.orders))

    def _metric(self, rest: str) -> None:
        name = checked("metric", rest, _metrics())
        self.go(self.page.place, FLEET)
        if isinstance(self.page, FleetView):
            self.page.map.show_field(FIELDS[list(_metrics()).index(name)])

    def _theme(self, rest: str) -> None:
        self.theme = checked("theme", rest, theme.NAMES)

    def _window(self, rest: str) -> None:
        index = _WINDOWS.index(checked("span", rest, _WINDOWS))
        self.action_chart_window(index - self.context.window.place)

    def action_chart_window(self, by: int) -> None:
        """Show a longer or shorter span in all charts."""
        raise TypeError(f"{type(self).__name__} does not implement action_chart_window({by})")

    def _acknowledge(self, rest: str) -> None:
        if not rest:
            self.action_acknowledge()
            return
        self.actions = self.actions_of(self.context)
        self._answer(self.actions.acknowledge(self._named(rest)))

    def _silence(self, rest: str) -> None:
        if rest and not has_matchers(rest):
            subject = of_alerts(self.context.alerts, self._named(rest))
            rest = "" if subject is None else subject.matchers
        self.silence(rest or self.page.subject.matchers)

    def _named(self, text: str) -> list[Alert]:
        """Return the active alerts named by a text.

        Raises:
            ConfigError: No alert found.
        """
        alerts = named(text, (held.alert for held in self.context.alerts.active))
        if not alerts:
            raise ConfigError(
                f"no alert is called {plain(text, 60)!r}: write its id, or its rule and place"
            )
        return alerts

    def _at(self, rest: str) -> None:
        playback = self._playback_or_note()
        if playback is not None:
            playback.seek(
                parse_time(rest, playback.position_ns, playback.start_ns, playback.end_ns)
            )
            self._show_request()

    def _jobs(self) -> Iterable[str]:
        return self.context.monitor.ingest.jobs

    def _reservations(self) -> Iterable[str]:
        return [reservation.message.id for reservation in self.context.monitor.reservations.table()]


def _tops(paths: Iterable[str]) -> int:
    """Count the addresses without another one above them.

    They are sorted by level.
    """
    tops: set[str] = set()
    for path in paths:
        segments = path.split("/")
        if not any("/".join(segments[:level]) in tops for level in range(1, len(segments))):
            tops.add(path)
    return len(tops)


def _metrics() -> list[str]:
    """Return the names of the map's fields, as filters spell them."""
    return [column_of(field).name for field in FIELDS]


def _span(seconds: int | None) -> str:
    if seconds is None:
        return "all"
    return f"{seconds // 3_600}h" if seconds >= 3_600 else f"{seconds // 60}m"


_WINDOWS = [_span(seconds) for seconds in WINDOWS_S]
