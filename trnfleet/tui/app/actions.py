"""What keys and commands do, and the one table of them.

`ACTIONS` has a row for each. Textual's bindings, the commands after `:`, the palette, the help and
the documentation follow from it. Keys of one view are in `BINDINGS` of its widgets.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from textual import events, on
from textual.screen import ModalScreen
from textual.widgets import Input

from trnfleet import folders
from trnfleet.clock import format_basic
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import Alert, address_of, named
from trnfleet.domain.alerts.matchers import has_matchers
from trnfleet.domain.filters.language import quoted
from trnfleet.domain.layout import Node
from trnfleet.domain.quantities import count, counted
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.alerts.actions import AlertActions
from trnfleet.tui.app.commands import (
    TIME,
    Action,
    CommandSuggester,
    TypedCommands,
    checked,
)
from trnfleet.tui.app.rows import FLAT_LISTS, LISTS, CompareScreen, RowActions
from trnfleet.tui.fleet.heatmap import FIELDS
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.format.jobs import begin_of, unplaced_text
from trnfleet.tui.help import HelpScreen, bindings_of, help_title
from trnfleet.tui.keys import key_label, key_text, mapped
from trnfleet.tui.snapshots.files import snapshot_folder, write_snapshot
from trnfleet.tui.snapshots.svg import picture
from trnfleet.tui.snapshots.table import MOST_ROWS, ExportTable, csv_text, markdown_text
from trnfleet.tui.state.chart_window import WINDOWS_S
from trnfleet.tui.state.chip_table import ChipTable, column_of
from trnfleet.tui.state.highlight import holders
from trnfleet.tui.state.subjects import of_alerts
from trnfleet.tui.theme.glyphs import to_ascii
from trnfleet.tui.view import (
    ALERTS,
    CHIP,
    FLEET,
    HIERARCHY,
    POWER,
    RESERVATIONS,
    FilteredView,
)
from trnfleet.tui.views import (
    VIEWS,
    alerts_view,
    chip_view,
    power_view,
    reservations_view,
)
from trnfleet.tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from rich.style import Style
    from textual.binding import Binding

    from trnfleet.tui.state.context import Fleets

MOST_COUNTED = 1_000
"""Most matches counted for a part of an address."""
AGAIN = "ctrl+c again quits; nothing is selected to copy"
SAVES = "save the screen as SVG and text, and the view's rows as CSV and Markdown"
_NEXT_FLEET = "fleet(1)"
_SILENT = {"tab", "shift+tab", "escape", "end", "ctrl+c"}
"""Keys without an answer: they are pressed even when they do nothing."""


class ActionsApp(RowActions):
    """The methods of the actions."""

    _is_asked_to_quit = False
    """Whether the note "press again to quit" is on screen."""
    may_save = True
    """Whether Ctrl-s writes files."""

    @property
    def fleets(self) -> Fleets:
        """All fleets."""
        return self.context.fleets

    @property
    def offered(self) -> list[Action]:
        """The actions, without those to change between fleets if there is one."""
        are_several = self.fleets.are_several
        return [action for action in ACTIONS if are_several or action.name != _NEXT_FLEET]

    @property
    def commands(self) -> TypedCommands:
        """The typed commands."""
        return TypedCommands(self, self.offered)

    def key_parts(self) -> list[tuple[str, list[Binding]]]:
        """Return the keys with the titles of their sections.

        Those of the view on the screen come first. All views were made before.
        """
        parts: list[tuple[str, list[Binding]]] = []
        for entry in (self._entry, *(entry for entry in VIEWS if entry is not self._entry)):
            view = self._shown.views[entry.title]
            parts.extend(
                (help_title(type(widget), entry.title), bindings_of(type(widget)))
                for widget in (view, *view.query("*"))
            )
        parts.extend(
            (action.section, [mapped(action.binding)])
            for action in self.offered
            if action.words and (action.section != TIME or self.playback is not None)
        )
        return parts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the key for the next fleet with one fleet."""
        if action == "fleet":
            return self.fleets.are_several
        return super().check_action(action, parameters)

    def on_key(self, event: events.Key) -> None:
        """Count keys for the tour, and answer a key without a function here.

        No answer would look like a hang.
        """
        if self._beside.tour.count_key():
            self._news = None
        if event.key != "ctrl+c":
            self._is_asked_to_quit = False
        if isinstance(self.screen, ModalScreen) or isinstance(self.focused, Input):
            return
        if event.key not in self.screen.active_bindings and event.key not in _SILENT:
            typed = event.character if event.is_printable and event.character else ""
            shown = typed.strip() or key_text(event.key)
            self.say(f"{plain(shown, 20)} does nothing here; {key_label('help')} shows keys")

    # Places

    async def action_back(self) -> None:
        if self._been:
            self._show(self._been.pop())

    def action_last_view(self) -> None:
        """Go back to the previous view; once more, to this one."""
        before = next(
            (stop for stop in reversed(self._been) if stop.view != self._entry.title), None
        )
        if before is None:
            self.say("no view before this one")
        else:
            self.go(before.address, before.view, before.fleet)

    def action_view(self, title: str) -> None:
        if title != self._entry.title:
            self.go(self.place, title)

    def action_reservation(self) -> None:
        """Go to the reservation with the present place; from the fleet, to the highlighted one."""
        place = self.place
        chosen = self.context.highlight.reservation_id
        if place:
            holding = holders(self.monitor.reservations.table(), self.monitor.store.layout, place)
            chosen = chosen if chosen in holding else next(iter(holding), "")
        reservations = self.open_view(reservations_view)
        if chosen:
            reservations.show_reservation(chosen)
        elif place:
            reservations.tell(f"no reservation has {plain(place, 60)}")

    def action_alerts(self) -> None:
        """Go to the alerts of the present place; from the fleet, to all of them."""
        place = self.place
        self.open_view(alerts_view).show_at(place)

    def action_sources(self) -> None:
        """Show the sources of the values of the chip, or of the first one, at the present place."""
        is_here = self._entry.title == CHIP
        self.open_view(chip_view).show_sources(toggles=is_here)

    def action_unpick(self) -> None:
        """Pick nothing out any more."""
        if self.context.highlight.reservation_id:
            self.context.highlight.reservation_id = ""
            self._news = None
            self._write_crumbs()
            self.page.tick()

    def action_fleet(self, by: int) -> None:
        """Go to the next fleet, after the last one to the first."""
        names = self.fleets.names
        place = names.index(self.monitor.fleet_name)
        self.show_fleet(names[(place + by) % len(names)])

    def action_copy_place(self) -> None:
        """Copy the address through the terminal (OSC 52)."""
        place = self.page.place or self.monitor.fleet_name
        self.copy_to_clipboard(place)
        self.say(f"copied {place} (if the terminal allows OSC 52)")

    # Looks

    def action_theme(self) -> None:
        """Go on to the next theme, and say its name."""
        if self.no_color:
            self.say("NO_COLOR is set: no theme has colours")
        else:
            self.theme = theme.following(self.theme)
            self.say(f"theme {self.theme}")

    def action_chart_window(self, by: int) -> None:
        """Show a longer or shorter span in all charts, and name it."""
        window = self.context.window
        window.step(by)
        title = window.title(self.monitor.history.end)
        self.say(f"charts show {title}")
        for view in self.page.query(LineView):
            view.tick()

    # Alerts

    def action_acknowledge(self) -> None:
        """Open the acknowledgement form for the item under the cursor, or show why not."""
        subject = self.page.subject
        self.actions = self.actions_of(self.page.subject_context)
        self._answer(self.actions.acknowledge(list(subject.alerts)))

    def action_silence(self) -> None:
        """Open the silence form for the item under the cursor, or show why not."""
        self.actions = self.actions_of(self.page.subject_context)
        self.silence(self.page.subject.matchers)

    def silence(self, matchers: str) -> None:
        """Open the silence form with matchers, or show why not."""
        self._answer(self.actions.silence([], matchers))

    def _answer(self, refusal: str) -> None:
        if refusal:
            self.say(refusal)

    @on(AlertActions.Reported)
    def _written(self, event: AlertActions.Reported) -> None:
        event.stop()
        self.say(event.note)

    @on(AlertActions.Closed)
    def _form_closed(self, event: AlertActions.Closed) -> None:
        event.stop()
        self.focus_page()

    # Files and leaving

    async def action_snapshot(self) -> None:
        """Write the files of one finished paint, and show their paths.

        Keys wait for the paint, but not for the files.
        """
        await self.paint_whole()
        shown = self.screen
        is_help = isinstance(shown, HelpScreen)
        lines = self._drawn_lines()
        if isinstance(shown, CompareScreen):
            table = shown.shown.read()
        else:
            table = ExportTable() if is_help else self.page.export()
        fleet = plain(self.monitor.fleet_name, 64)
        size = (self.size.width, self.size.height)
        screen_title = "Help" if is_help else self.view_title
        title = f"trnfleet: {screen_title} of {fleet}"
        name = f"{fleet}-{screen_title.lower()}-{format_basic(self.monitor.moment().time_ns)}"

        def say(text: str, *, is_problem: bool = False) -> None:
            self.say(text, is_problem=is_problem)
            if isinstance(shown, HelpScreen):
                shown.tell(text)

        if not self.may_save:
            say("this screen is read-only: it saves no files")
            return

        def write() -> Path:
            drawn = ["".join(text for text, _ in line).rstrip() for line in lines]
            texts = {".svg": picture(lines, size, title), ".txt": "\n".join([*drawn, ""])}
            if table.columns:
                texts |= {".csv": csv_text(table), ".md": markdown_text(table)}
            return write_snapshot(snapshot_folder(), name, texts)

        async def save() -> None:
            try:
                path = await asyncio.to_thread(write)
            except (TrnfleetError, OSError) as error:
                say(f"not saved: {plain(str(error), 400)}", is_problem=True)
            else:
                say(_saved_text(path, table))

        self.run_worker(save(), name="snapshot", exit_on_error=True)

    def _drawn_lines(self) -> list[list[tuple[str, Style | None]]]:
        """Return the screen as the terminal has it."""
        strips = self.screen._compositor.render_strips()  # noqa: SLF001  no public name; pinned and tested
        shown = to_ascii if theme.is_ascii else str
        return [
            [(shown(text), style) for text, style, _ in strip]
            for strip in strips[: self.size.height]
        ]

    async def action_copy_or_quit(self) -> None:
        """Copy the selection of a field or the mouse.

        Without a selection, quit if the key is pressed twice in a row.
        """
        field = self.focused
        if isinstance(field, Input) and field.selected_text:
            self.copy_to_clipboard(field.selected_text)
            self.say("copied (if the terminal allows OSC 52)")
        elif selected := self.selected_text:
            self.copy_to_clipboard(selected)
            lines = counted(len(selected.splitlines()), "line")
            self.say(f"copied {lines} (if the terminal allows OSC 52)")
        elif self._is_asked_to_quit and self.note == AGAIN:
            await self.action_quit()
        else:
            self.say(AGAIN)
            self._is_asked_to_quit = True

    async def action_quit(self) -> None:
        self.exit(return_code=0)

    # Commands

    def action_command(self, typed: str = "") -> None:
        """Prompt for a command, with `typed` as its beginning."""
        commands = self.commands
        self.ask_line.ask(
            "command",
            self._answer_command,
            value=typed,
            hint=f"Commands: {' '.join(command.names[0] for command in commands.all)}",
            key=":",
            suggester=CommandSuggester(commands),
            history=self._typed,
        )

    def _answer_command(self, text: str) -> None:
        """Run a typed command."""
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

    def attempt(self, run: Callable[[], object]) -> bool:
        """Run a command's function.

        Return False and show the reason if it fails.
        """
        try:
            run()
        except (ConfigError, ValueError) as error:
            self.say(str(error), is_problem=True)
            return False
        return True

    def show_view(self, rest: str, *, title: str) -> None:
        """Go to a view: to a chip or fleet that is named, or with a filter."""
        if title == FLEET and self.fleets.are_several and rest in self.fleets.names:
            self.show_fleet(rest)
            return
        if rest and title == CHIP:
            self.go_to(rest, CHIP)
            return
        if title != self.view_title:
            self.go(self.page.place, title)
        if rest and isinstance(self.page, FilteredView):
            self.filter_view(rest)

    def set_cap(self, rest: str) -> None:
        """Set a power cap of a place, and show it in Power."""
        place, _, watts = rest.rpartition(" ")
        if self.view_title != POWER:
            self.go(self.page.place, POWER)
        if isinstance(self.page, power_view()):
            self.say(self.page.set_cap(place.strip(), watts))

    def go_to_alert(self, alert: Alert) -> None:
        """Go to an alert and its rule's other alerts at, below or above its place."""
        place = address_of(alert)
        self.go(place or self.page.place, ALERTS)
        if isinstance(self.page, alerts_view()):
            self.page.show_at(place)
            at = f" & at={quoted(place)}" if place else ""
            self.attempt(partial(self.filter_view, f"rule={quoted(alert.rule.name)}{at}"))

    def go_to(self, rest: str, view: str | None = None) -> None:
        """Go to a place or job by a part of its name."""
        layout = self.monitor.store.layout
        if not rest:
            raise ConfigError("name it, such as :go us-0001 or :chip 0001-2/07")
        chips = ChipTable(self.monitor, self.context.alerts)
        having = chips.find(rest, MOST_COUNTED + 1)
        if having:
            node = having[0]
            matches = 1 if layout.path(node) == rest else _tops(map(layout.path, having))
        else:
            # A job's name goes to the job's first place.
            mask = chips.having(rest.lower())
            shown = self.monitor.ingest.names.job
            if not mask.any():
                raise ConfigError(f"nothing here is called {plain(rest, 60)!r}")
            node = layout.parent(Node(Level.CHIP, int(np.argmax(mask))))
            matches = sum(
                rest.lower() in name.lower() or rest.lower() in shown(name).lower()
                for name in self.job_names()
            )
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

    def go_to_job(self, rest: str) -> None:
        """Go to a job's instances, or to its first place."""
        names = self.monitor.ingest.names
        by_name = {names.job(job): job for job in names.jobs} | {
            job: job for job in self.job_names()
        }
        job = by_name[checked("job", rest, by_name)]
        layout = self.monitor.store.layout
        chips = ChipTable(self.monitor, self.context.alerts).named("job", job.__eq__)
        if not chips.any():
            message = self.monitor.ingest.jobs[job]
            place = begin_of(message, layout)
            if not place:
                raise ConfigError(unplaced_text(message, names))
            self.go(place, HIERARCHY)
            self.say(f"job {names.job(job)} begins here, where another job runs, too")
            return
        # The tree gives up a filter that hides where one goes.
        self.go(layout.path(layout.parent(Node(Level.CHIP, int(np.argmax(chips))))), HIERARCHY)
        self.filter_view(f"job={quoted(job)}")

    def go_to_reservation(self, rest: str) -> None:
        """Go to a reservation by its id."""
        known = checked("reservation", rest, self.reservation_ids())
        self.go(self.page.place, RESERVATIONS)
        if isinstance(self.page, reservations_view()):
            self.page.show_reservation(known)

    def sort_view(self, rest: str) -> None:
        """Sort the view on the screen."""
        if not self.page.orders:
            raise ConfigError(f"{self.view_title} has one order")
        self.page.put_in_order(checked("order", rest, self.page.orders))

    def show_metric(self, rest: str) -> None:
        """Show a metric on the map."""
        name = checked("metric", rest, _metrics())
        self.go(self.page.place, FLEET)
        if isinstance(self.page, FleetView):
            self.page.map.show_field(FIELDS[list(_metrics()).index(name)])

    def use_theme(self, rest: str) -> None:
        """Draw everything in a theme."""
        self.theme = checked("theme", rest, theme.NAMES)

    def show_span(self, rest: str) -> None:
        """Show a span in all charts."""
        index = _WINDOWS.index(checked("span", rest, _WINDOWS))
        self.action_chart_window(index - self.context.window.place)

    def acknowledge_named(self, rest: str) -> None:
        """Acknowledge an alert by its id, else what the cursor is on."""
        if not rest:
            self.action_acknowledge()
            return
        self.actions = self.actions_of(self.context)
        self._answer(self.actions.acknowledge(self._named(rest)))

    def silence_named(self, rest: str) -> None:
        """Silence matchers or an alert by its id, else what the cursor is on."""
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

    def go_to_time(self, rest: str) -> None:
        """Seek to a typed time."""
        playback = self._playback_or_note()
        if playback is not None:
            self._seek_typed(playback, rest)

    def use_fleet(self, rest: str) -> None:
        """Go to a fleet by its name."""
        self.show_fleet(checked("fleet", rest, self.fleets.names))

    def reservation_ids(self) -> Iterable[str]:
        """Return the ids of all reservations."""
        return [reservation.message.id for reservation in self.monitor.reservations.table()]


def _saved_text(path: Path, table: ExportTable) -> str:
    """Return the names, the number of rows and the folder of the written files."""
    rows = counted(len(table.rows), "row")
    if table.total:
        rows = f"the first {count(MOST_ROWS)} of {count(table.total)} rows"
    name = plain(path.name)
    files = f"{name}, .txt, .csv and .md ({rows})" if table.columns else f"{name} and .txt"
    return f"saved {files} in {plain(folders.named(path.parent), 400)}"


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

ACTIONS: tuple[Action, ...] = (
    Action(
        _NEXT_FLEET,
        names=("ctx", "context", "use"),
        what="another fleet",
        run=ActionsApp.use_fleet,
        choices=lambda app: app.fleets.names,
        needs="a fleet",
        like="next-fleet",
        is_of_fleet=True,
    ),
    *(
        Action(
            f"view('{entry.title}')",
            entry.key,
            names=(entry.title.lower(), *entry.names),
            what=f"the view {entry.title}",
            run=partial(ActionsApp.show_view, title=entry.title),
        )
        for entry in VIEWS
    ),
    Action(
        names=("go",),
        what="go to a cluster, UltraServer, instance or chip by a part of its address",
        run=ActionsApp.go_to,
        needs="an address",
    ),
    Action(
        names=("job",),
        what="the instances of a job",
        run=ActionsApp.go_to_job,
        choices=ActionsApp.job_names,
        needs="a job",
        is_of_fleet=True,
    ),
    Action(
        names=("rack",),
        what="a rack in Power",
        run=ActionsApp.go_to_rack,
        choices=ActionsApp.rack_names,
        needs="its place",
        is_of_fleet=True,
    ),
    Action(
        names=("reservation", "block"),
        what="a reservation",
        run=ActionsApp.go_to_reservation,
        choices=ActionsApp.reservation_ids,
        needs="an id",
        is_of_fleet=True,
    ),
    Action(
        names=("list",),
        what="a flat list, filtered: chips job=NAME",
        run=ActionsApp.list_rows,
        choices=lambda _app: (*FLAT_LISTS, *LISTS),
        needs="a list",
    ),
    *(
        Action(
            names=(name,),
            what=f"the chips with the {words} values: 10 hbm_bw job=NAME",
            run=partial(ActionsApp.list_top, descending=descending),
            needs="how many, and a metric",
        )
        for name, words, descending in (("top", "highest", True), ("bottom", "lowest", False))
    ),
    Action(
        names=("filter",),
        what="filter this view",
        run=ActionsApp.filter_view,
        needs="a filter",
        like="filter",
    ),
    Action(
        names=("sort",),
        what="sort this view",
        run=ActionsApp.sort_view,
        choices=lambda app: app.page.orders,
        needs="an order",
        like="sort",
    ),
    Action(
        names=("columns",),
        what="hide and show columns of Hierarchy: -power +hbm_bw; alone it lists them",
        run=ActionsApp.choose_columns,
        choices=ActionsApp.column_choices,
        takes_several=True,
    ),
    Action(
        names=("metric",),
        what="a metric on the map",
        run=ActionsApp.show_metric,
        choices=lambda _app: _metrics(),
        needs="a metric",
        like="next-metric",
    ),
    Action(
        names=("cap",),
        what="power cap of a place: us-0001/rack-a 12kW; off removes it",
        run=ActionsApp.set_cap,
        needs="watts",
    ),
    Action("back", "escape", "back to where you were"),
    Action("reservation", "reservation", "the reservation of what the cursor is on"),
    Action("unpick", "clear-highlight", "clear the highlight of a reservation"),
    Action("alerts", "alerts", "alerts here"),
    Action("sources", "sources", "data sources, and what is not known"),
    Action("help", "help", "help"),
    Action("quit", "quit", "quit"),
    Action(
        "theme",
        "theme",
        "next theme",
        ("theme",),
        "a theme",
        ActionsApp.use_theme,
        lambda _app: theme.NAMES,
        "its name",
    ),
    Action(
        "chart_window(1)",
        "longer-charts",
        "charts: longer window",
        ("window", "span"),
        "the span of charts",
        ActionsApp.show_span,
        lambda _app: _WINDOWS,
        "a span",
    ),
    Action("chart_window(-1)", "shorter-charts", "charts: shorter window"),
    Action("suspend_process", "suspend", "suspend; the shell's fg brings it back", is_first=True),
    Action("command", "colon", "type a command, such as :chip 0001-2/07, :theme light, :q"),
    Action("palette", "palette", "find views, actions, chips, jobs"),
    Action("snapshot", "snapshot", SAVES),
    Action(
        "acknowledge",
        "acknowledge",
        "acknowledge the alerts of what the cursor is on",
        ("ack",),
        "acknowledge what the cursor is on, or an alert by its id",
        ActionsApp.acknowledge_named,
    ),
    Action(
        "silence",
        "silence",
        "silence what the cursor is on, after a preview",
        ("silence",),
        "silence what the cursor is on, matchers, or an alert by its id",
        ActionsApp.silence_named,
    ),
    Action(
        "compare",
        "compare",
        "mark the row; on another row: compare the two",
        ("compare",),
        "two places or jobs side by side: us-0001 us-0002",
        ActionsApp.compare_named,
        ActionsApp.job_names,
        is_of_fleet=True,
    ),
    Action("copy_place", "copy-address", "copy the address of what the cursor is on"),
    Action("copy_row", "copy-row", "copy the row under the cursor as text"),
    Action("last_view", "last-view", "the view before"),
    Action("copy_or_quit", "ctrl+c", "copy what is selected; else twice: quit", is_first=True),
    Action("quit", "quit-anywhere", "quit", is_first=True),
    Action("snapshot", names=("export", "snapshot"), what=SAVES, like="snapshot"),
    Action(_NEXT_FLEET, "next-fleet", "the next fleet, where there are several"),
    Action("time_step(-10)", "back-10s", "10 s back"),
    Action("time_step(10)", "forward-10s", "10 s forward"),
    Action("time_step(-60)", "back-1m", "one minute back"),
    Action("time_step(60)", "forward-1m", "one minute forward"),
    Action("time_nudge(-1)", "back-1s", "one second back, and pause"),
    Action("time_nudge(1)", "forward-1s", "one second forward, and pause"),
    Action("time_toggle", "pause", "pause or resume"),
    Action("time_rate(-1)", "slower", "slower"),
    Action("time_rate(1)", "faster", "faster"),
    Action("time_alert(-1)", "previous-alert", "previous alert"),
    Action("time_alert(1)", "next-alert", "next alert"),
    Action("time_mark(-1)", "previous-mark", "previous alert, resolve or event"),
    Action("time_mark(1)", "next-mark", "next alert, resolve or event"),
    Action(
        "time_ask",
        "go-to-time",
        "go to a time: 14:03, -5m, +30s",
        ("at",),
        "go to a time: 14:03, -5m",
        ActionsApp.go_to_time,
        needs="a time",
    ),
    Action(
        "time_end",
        "live",
        "from the past back to live, or to a file's end; else a list's last line",
        ("live",),
        "back to the present",
        lambda app, _text: app.action_time_end(),
        is_first=True,
    ),
    Action("time_start", "start", "start of the recording"),
    Action("time_loop", "loop", "toggle loop; a view's own key comes first"),
    Action("time_save", "save-past", "save the recorded past as a file"),
    Action("help", names=("help",), what="all keys", like="help"),
    Action("quit", names=("quit", "q"), what="quit", like="quit"),
)
"""Keys are in the order of the help, commands in the order of the prompt's list."""
