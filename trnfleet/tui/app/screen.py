"""The screen: header, tabs, breadcrumbs, one view at a time, prompt and status line.

`FleetPages` has the views of one fleet. One of several fleets is on the screen. The others' views
stay as they are, unpainted; their alerts are still followed.

It decides the place shown and the time of painting. It reads a monitor and owns neither monitor,
broker nor simulator. Keys and commands are in `actions.py`.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
from textual import on
from textual.message import Message
from textual.screen import ModalScreen

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock
from trnfleet.domain.address import Level, level_of
from trnfleet.garbage import collect_garbage, spare_collector
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.alerts.actions import AlertActions
from trnfleet.tui.app.bars import Note, ScreenBars
from trnfleet.tui.app.input import InputDropped
from trnfleet.tui.app.terminal import TerminalApp, cause_of
from trnfleet.tui.bars.tour import Tour
from trnfleet.tui.charts.history import FROM_S
from trnfleet.tui.keys import key_label
from trnfleet.tui.keys import use as use_keys
from trnfleet.tui.notifications import AlertNotice, AlertWatch
from trnfleet.tui.playback.seek_bar import SeekBar
from trnfleet.tui.state.context import UiContext, WatchedFleet
from trnfleet.tui.state.leases import look_at_chips, open_chips
from trnfleet.tui.view import CHIP, HIERARCHY, NOTE_S, SHOWN, FilteredView, Lists, View
from trnfleet.tui.views import VIEWS, ViewEntry, reservations_view
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.line_view import LineView
from trnfleet.tui.widgets.prompt import AskLine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence

    from textual.app import App, ComposeResult

    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.minutes.minutes import FleetHistory
    from trnfleet.monitor.replay.controls import Playback
    from trnfleet.monitor.sources.leases import Leases
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.bars.status import OwnProcess

log = logs.get_logger(__name__)

V = TypeVar("V", bound=View)
TICK_S = 0.1
QUIET_TICK_S = 0.5
PAST_TICK_S = 0.25
"""Seconds to the next tick after one without news, live and in the past. Passes trigger ticks of
their own. Apart from painting, wake-ups are the main cost of an app of a small fleet."""
SETTLE_S = 0.5
"""Seconds of further ticks after the last news. Painting may change the sizes of the view's parts.
"""
QUIET_S = 1.15
"""Seconds without news before ages advance on their own. Telemetry sent each second is sometimes a
little late."""
_MOST_PAINTS = 10
"""Most rounds of painting and layout for a complete view."""
TITLES = frozenset(entry.title for entry in VIEWS)


NOTICE_S = 20.0
"""Seconds for a new alert, or an event above information, in every view."""


class FleetNews:
    """FleetNews beside the breadcrumbs: the newest alert or event, else the tour of a first run."""

    def __init__(self, monitor: FleetState, watch: AlertWatch, tour: Tour) -> None:
        self._monitor = monitor
        self._watch = watch
        self.tour = tour
        self.item: Event | AlertNotice | Tour | None = None
        """What is shown; None for nothing."""

    def look(self, now_s: float, lists: Lists, elsewhere: AlertNotice | None = None) -> bool:
        """Choose the item to show.

        Return True if it changed.

        Args:
            now_s: Real monotonic seconds.
            lists: Lists on screen. Their content is not repeated.
            elsewhere: FleetNews of another fleet.
        """
        monitor = self._monitor
        before = self.item
        # The tour's minute begins with the first look, even if news is shown instead.
        tour = self.tour if self.tour.is_shown(now_s) else None
        alert = None if lists.problems else self._watch.notice(now_s, NOTICE_S)
        if alert is not None and elsewhere is not None and elsewhere.severity < alert.severity:
            # What is worse comes first, wherever it is.
            alert = elsewhere
        event = (
            None if lists.events else monitor.events.notable(monitor.clock.monotonic_s(), NOTICE_S)
        )
        self.item = alert or elsewhere or event or tour
        return self.item is not before

    def renew(self) -> None:
        """Show nothing until the next look: another moment is shown."""
        self.item = None


class FleetPages:
    """The views of one fleet and their companions."""

    def __init__(
        self, app: App[Any], context: UiContext, *, rings: bool, notifies: bool, tour: Tour
    ) -> None:
        """Make the companions of a fleet's views, and no view yet.

        Args:
            app: The app of the terminal.
            context: The fleet.
            rings: Whether the terminal rings for new alerts.
            notifies: Whether it is asked for a desktop notification.
            tour: The tour of a first run.
        """
        self.context = context
        self.views: dict[str, View] = {}
        """Views opened so far, by title."""
        self.actions = AlertActions(context)
        self.watch = AlertWatch(app, context, rings=rings, notifies=notifies)
        self.news = FleetNews(context.monitor, self.watch, tour)
        self.place = ""
        """Where one was when another fleet came onto the screen."""
        self._source = context.monitor.revision.source

    @property
    def name(self) -> str:
        """The fleet's name."""
        return self.context.monitor.fleet_name

    def make_view(self, title: str) -> View:
        """Make the view of a title, and return it; the app mounts it."""
        kind = next(entry.kind for entry in VIEWS if entry.title == title)
        view = self.views[title] = kind()(self.context)
        return view

    def follow_source(self) -> bool:
        """Drop caches after a change of the fleet's monitor; return whether it changed."""
        source = self.context.monitor.revision.source
        if source == self._source:
            return False
        self._source = source
        self.context.alerts.renew()
        self.watch.renew()
        for view in self.views.values():
            view.renew()
        self.news.renew()
        return True


def notice_of_others(others: Iterable[FleetPages], now_s: float) -> AlertNotice | None:
    """Return the worst new alert of fleets not on the screen; None for none.

    Args:
        others: The fleets.
        now_s: Real monotonic seconds.
    """
    notices = [
        notice._replace(fleet=fleet.name)
        for fleet in others
        if (notice := fleet.watch.notice(now_s, NOTICE_S)) is not None
    ]
    return min(notices, key=lambda notice: notice.severity, default=None)


class Stop(NamedTuple):
    """A visited place: a view's title, an address, and their fleet."""

    view: str
    address: str
    fleet: str


@dataclass
class FleetArrived(Message):
    """A fleet has come while the app runs."""

    arrival: WatchedFleet | str
    """The fleet, or the name of a fleet without room."""


class FleetScreen(TerminalApp):
    """The whole screen, without keys."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012  as Textual declares it
        (0, "-w0"),
        (80, "-w80"),
        (100, "-w100"),
        (120, "-w120"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012  as Textual declares it
        (0, "-h0"),
        (20, "-h20"),
        (30, "-h30"),
    ]
    CSS_PATH = "app.tcss"

    def __init__(
        self,
        monitor: FleetState,
        *,
        clock: Clock,
        broker_kind: str = "",
        title: str = "trnfleet",
        operator: OperatorActions | None = None,
        bell: bool = False,
        notify: bool = False,
        playback: Playback | None = None,
        history: FleetHistory | None = None,
        leases: Leases | None = None,
        others: Sequence[WatchedFleet] = (),
        arrivals: AsyncIterator[WatchedFleet | str] | None = None,
        processes: Sequence[OwnProcess] = (),
        theme_name: str | None = None,
        ascii_only: bool = False,
        is_first_run: bool = False,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        """Make the app for a monitor.

        Args:
            monitor: The monitor to show; the caller runs it. With a playback, the playback's.
            clock: The real clock for the pace of painting; ages use the monitor's own.
            broker_kind: The broker's name and version, for the status line.
            title: The terminal window's title.
            operator: Writer of acknowledgements and silences; None for a read-only screen.
            bell: Whether the terminal rings for new alerts.
            notify: Whether the terminal is asked for a desktop notification of new alerts.
            playback: Playback of the past; the caller runs it. None without a recording.
            history: The files of months; the caller runs it. None for none.
            leases: Requests to relays for chips; the caller runs it. None for none.
            others: Further fleets beside that one.
            arrivals: Fleets found while the app runs, and names of fleets without room; None for
                none.
            processes: Processes of the app's own; their end is reported.
            theme_name: One of `theme.NAMES`; None to choose by the terminal.
            ascii_only: Whether the terminal gets ASCII only.
            is_first_run: Whether the tour is shown.
            keys: Keys by the names of actions, in place of the shipped ones; None for none.
        """
        super().__init__()
        self.set_keymap(use_keys(keys or {}))
        self.take_theme(theme_name, ascii_only=ascii_only)
        first = WatchedFleet(monitor, playback, operator, history, leases).context(clock)
        for fleet in others:
            fleet.context(clock, beside=first)
        self._arrivals = arrivals
        self._make_pages = partial(
            FleetPages, self, rings=bell, notifies=notify, tour=Tour(is_first_run=is_first_run)
        )
        self._fleets = [self._make_pages(context) for context in first.fleets.contexts]
        self._bars = ScreenBars(first, broker_kind=broker_kind, processes=processes)
        self.seek_bar = SeekBar(playback, id="seek")
        self.ask_line = AskLine(self.leave_prompt, id="ask")
        self._take_fleet(self._fleets[0])
        self.clock = clock
        self.title = title
        self.animation_level = "none"
        self.place = ""
        """Current address; empty for the fleet."""
        self._been: list[Stop] = []
        self.note = ""
        """Shown in the status line for a while."""
        self.is_problem = False
        """Whether the note is an error."""
        self._note_until_s = -np.inf
        self._typed: list[str] = []
        """Commands typed so far."""
        self._shown_note = ""
        """The last note of the playback shown."""
        self._dropped_inputs = 0
        """Key sequences that were dropped so far."""
        self._told_problem = ""
        """Last reported failure to read history."""
        self._shows_note = False
        """Whether a note stands in the status line."""
        self.first_view = ""
        """Title of the view to begin with; that of `VIEWS` if unknown."""
        self.last_views: dict[str, str] = {}
        """Title of the last view by fleet. Not Chip, which needs a chip."""
        self._entry = VIEWS[0]
        """The view on the screen."""
        self._shown.make_view(self._entry.title).add_class(SHOWN)
        self._news: Hashable = None
        self._news_s = -np.inf
        self._is_due = False
        """Whether some news is not yet on the screen."""
        self._second = 0
        self._passed = asyncio.Event()
        """Set after a pass until the next tick."""

    def _take_fleet(self, fleet: FleetPages) -> None:
        """Let everything be about a fleet."""
        self._shown = fleet
        self.context = fleet.context
        self.actions = fleet.actions
        self.monitor = fleet.context.monitor
        self.playback = fleet.context.playback
        self._watch = fleet.watch
        self._beside = fleet.news
        self._bars.show_fleet(fleet.context)
        self.seek_bar.show_playback(self.playback, fleet.context)

    def compose(self) -> ComposeResult:
        yield from self._bars.above
        yield self.page
        yield self.seek_bar
        yield self.ask_line
        for fleet in self._fleets:
            yield fleet.actions
        yield self._bars.status

    def on_mount(self) -> None:
        """Start: the first view and the one timer."""
        for fleet in self._fleets:
            fleet.context.frame.refresh()
        self._write_bars()
        self._write_crumbs()
        self.page.take_focus()
        if self.first_view in TITLES:
            self._show(Stop(self.first_view, "", self._shown.name))
        # A worker costs half of what a Textual timer does, and one that fails ends the app.
        self.run_worker(self._keep_ticking(), name="ticks", exit_on_error=True)
        self.run_worker(self._follow_passes(), name="passes", exit_on_error=True)
        self.app_resume_signal.subscribe(self, self._return_to_terminal)
        # The keys in the status line are others while something is typed.
        self.watch(self.screen, "focused", self._write_bars, init=False)
        if self._arrivals is not None:
            self.run_worker(
                self._follow_arrivals(self._arrivals), name="arrivals", exit_on_error=True
            )
        if not self.is_headless:
            self.call_after_refresh(spare_collector)
            self.run_worker(collect_garbage(self.clock), name="garbage", exit_on_error=True)

    async def _follow_arrivals(self, arrivals: AsyncIterator[WatchedFleet | str]) -> None:
        async for arrival in arrivals:
            self.post_message(FleetArrived(arrival))

    @on(FleetArrived)
    async def _take_arrival(self, message: FleetArrived) -> None:
        """Add a fleet found while the app runs, if there is room.

        Keys wait until it is added.
        """
        fleets = self.context.fleets
        arrival = message.arrival
        if isinstance(arrival, str):
            fleets.not_shown += 1
            self.tell(
                f"fleet {plain(arrival, 64)} is not shown, --name shows it:"
                f" {len(fleets.contexts)} are"
            )
        else:
            context = arrival.context(self.clock, beside=self.context)
            pages = self._make_pages(context)
            self._fleets.append(pages)
            context.monitor.on_pass.append(self._passed.set)
            await self.screen_stack[0].mount(pages.actions, before=self._bars.status)
            context.frame.refresh()
            key = key_label("next-fleet")
            self.tell(f"fleet {plain(pages.name, 64)} has come: {key} goes to the next fleet")
        self._news = None
        self._write_bars()
        self._write_crumbs()

    def actions_of(self, context: UiContext) -> AlertActions:
        """Return the forms for the alerts of a fleet."""
        return next(fleet.actions for fleet in self._fleets if fleet.context is context)

    def watch_theme(self, name: str) -> None:
        """Draw everything in another theme."""
        if name == theme.NAME:
            return
        theme.use(name)
        for screen in self.screen_stack:
            for widget in screen.query("*"):
                if isinstance(widget, (Bar, LineView)):
                    widget.restyle()
        self._news = None
        self._write_bars()
        self._write_crumbs()
        self.page.tick()

    # Places and views

    @property
    def entry(self) -> ViewEntry:
        """Title, key and hints of the view on the screen."""
        return self._entry

    @property
    def page(self) -> View:
        return self._shown.views[self._entry.title]

    @property
    def view_title(self) -> str:
        return self._entry.title

    async def make_views(self) -> None:
        """Make the views not opened yet: the help and the palette need their keys."""
        for entry in VIEWS:
            if entry.title not in self._shown.views:
                self._mount(self._shown.make_view(entry.title))
        await self.wait_mounted()

    def _mount(self, view: View) -> None:
        """Mount a view; keys wait until it has its widgets."""
        self.being_mounted.append(self.screen_stack[0].mount(view, before=self.seek_bar))

    def go(self, address: str, view: str | None = None, fleet: str | None = None) -> None:
        """Go to an address in a view of a fleet and remember the previous place.

        Args:
            address: The address; empty for the fleet.
            view: Title of the view; None for the address's default.
            fleet: Name of the fleet; None for the one on the screen.
        """
        if view is None:
            view = CHIP if level_of(address) >= Level.CHIP else HIERARCHY
        if view not in TITLES:
            self.bell()
            return
        here = Stop(self._entry.title, self.place, self._shown.name)
        there = Stop(view, address, fleet or self._shown.name)
        if here != there:
            self._been.append(here)
        self._show(there)

    def show_fleet(self, name: str, view: str | None = None) -> None:
        """Go to a fleet, at its last place, in the current view or another."""
        self.go(
            next(fleet.place for fleet in self._fleets if fleet.name == name),
            view or self._entry.title,
            name,
        )

    @on(View.OpenReservation)
    def _reservation_asked(self, message: View.OpenReservation) -> None:
        message.stop()
        self.open_view(reservations_view).show_reservation(message.reservation_id)

    def open_view(self, kind: Callable[[], type[V]]) -> V:
        """Go to the view of a class at the present place, and return it."""
        self.go(self.place, next(entry.title for entry in VIEWS if entry.kind is kind))
        return cast("V", self.page)

    @on(View.PickReservation)
    def _picked(self, message: View.PickReservation) -> None:
        message.stop()
        highlight = self.context.highlight
        highlight.reservation_id = message.reservation_id
        self.go(highlight.place(), VIEWS[0].title)

    @on(InputDropped)
    def _input_dropped(self, message: InputDropped) -> None:
        """Count and name a dropped key sequence."""
        message.stop()
        self._dropped_inputs += 1
        sequence = plain(message.sequence.replace("\x1b", "^["), 40)
        log.warning("input_dropped", sequence=sequence, total=self._dropped_inputs)
        self.say(f"unknown key sequence dropped: {sequence} ({self._dropped_inputs} so far)")

    def fail(self, error: Exception) -> None:
        """End after a failure outside of Textual's own handlers, such as in a thread."""
        self._handle_exception(error)

    def _handle_exception(self, error: Exception) -> None:
        """Write a fatal error to the log, too.

        Textual leaves it only in the terminal's scrollback.
        """
        log.error(
            "app_failed",
            view=self._entry.title,
            width=self.size.width,
            height=self.size.height,
            exc_info=cause_of(error),
        )
        super()._handle_exception(error)

    def _return_to_terminal(self, _app: object) -> None:
        """Redraw everything: the terminal shows the output of other programs."""
        self._news = None
        self.refresh(layout=True)

    def end(self, signal_number: int) -> None:
        """End as a signal demands: the terminal is restored and `return_code` is set."""
        self.exit(return_code=0 if signal_number == signal.SIGINT else 128 + signal_number)

    def _show(self, stop: Stop) -> None:
        before = self.page
        if stop.fleet != self._shown.name:
            self._shown.place = self.place
            self._take_fleet(next(fleet for fleet in self._fleets if fleet.name == stop.fleet))
            self._shown.follow_source()
            self.context.frame.refresh()
        self._entry = next(entry for entry in VIEWS if entry.title == stop.view)
        is_new = stop.view not in self._shown.views
        view = self._shown.make_view(stop.view) if is_new else self.page
        if view is not before:
            self._write_bars()
        # A link is its chip behind a colon.
        self.place = stop.address.partition(":")[0]
        if view is not before:
            self._beside.tour.end()
            before.remove_class(SHOWN)
            view.add_class(SHOWN)
            if is_new:
                self._mount(view)
        view.show_place(stop.address)
        if stop.view == CHIP:
            # It shows one chip, whatever was asked for.
            self.place = view.place
            open_chips(self.context, self.place)
        else:
            self.last_views[stop.fleet] = stop.view
        view.take_focus()
        # Its widgets know their size only after the layout; then it paints, not at the next tick.
        view.call_after_refresh(view.show_place, stop.address)
        self._news = None
        self._write_crumbs()

    @on(View.Open)
    def _opened(self, message: View.Open) -> None:
        open_chips(self.context, message.address)
        self.go(message.address, message.view)

    @on(View.OpenFleet)
    def _fleet_asked(self, message: View.OpenFleet) -> None:
        message.stop()
        if message.address is None:
            self.show_fleet(message.fleet, message.view)
        else:
            self.go(message.address, message.view, message.fleet)
            open_chips(self.context, message.address)

    @on(View.Moved)
    def _moved(self) -> None:
        # The view's own answer: the message may be older than the last change of place.
        self.place = self.page.place
        self._write_crumbs()

    # Painting

    async def _keep_ticking(self) -> None:
        while True:
            is_lively = self._is_due or self.clock.monotonic_s() - self._news_s < TICK_S
            shows_past = self.playback is not None and self.playback.shows_past
            await self.clock.sleep(
                TICK_S if is_lively else PAST_TICK_S if shows_past else QUIET_TICK_S
            )
            self.tick()

    async def _follow_passes(self) -> None:
        """Tick after a pass of any fleet.

        While ticks go on for unpainted news, they suffice.
        """
        for fleet in self._fleets:
            fleet.context.monitor.on_pass.append(self._passed.set)
        while True:
            await self._passed.wait()
            self._passed.clear()
            if not self._is_due:
                self.tick()

    def tick(self) -> None:
        """Check for news once, and paint changes at the terminal's pace.

        Workers of the app call this after each pass: ten times a second while there is news, else
        twice (in the past, four times). Tests call it by hand. It calls only `View.tick` of the
        view on the screen, and that calls `LineView.tick` of its widgets. Nothing else paints
        without a key, a click or a resize.

        Revisions are polled, and only the end of a pass is pushed. A monitor processes thousands of
        messages a second and has no idea of a screen. Textual's reactive attributes would cost a
        message per change, and would reach widgets not on the screen, too. Comparing a dozen
        integers costs microseconds, however much arrived, and views read the newest columns once
        for all changes.

        News of values are passes: the screen shows one pass (`ShownPass`), and bars and view are
        painted in one tick.

        Without news a tick ends after that comparison, but for one tick a second for ages. With
        news it may need some milliseconds: views make only the lines in the window, in one pass
        over columns, and remake only changed ones. While the terminal is behind, ticks are skipped.
        Ticks go on for `SETTLE_S` after the last news, because painting may change the sizes of
        parts and the notice. These ticks use no new frame and write no bars.
        """
        now_s = self.clock.monotonic_s()
        monitor = self.monitor
        playback = self.playback
        look_at_chips(self.context, self.place)
        for fleet in self._fleets:
            fleet.watch.note_present()
        self.follow_playback()
        self._tell_history()
        revision = monitor.revision
        if self._shown.follow_source():
            self._news = None
            self._write_crumbs()
        news = (
            None if playback is None else (playback.revision, playback.mode),
            (
                playback.position_ns // round(QUIET_TICK_S * NS_PER_S)
                if playback is not None and playback.shows_past
                else 0
            ),
            # Values come with the next pass, together with all that is made of them.
            revision._replace(store=0),
            None if self.context.leases is None else self.context.leases.revision,
            None if self.context.history is None else self.context.history.revision,
            self._watch.revision,
            self.context.fleets.news(self.context) if len(self._fleets) > 1 else None,
        )
        if news != self._news:
            self._news = news
            self._is_due = True
            self._news_s = now_s
        # Ages go on once a second without any news, and with the news where that comes each second.
        second = int(now_s)
        has_news = self._is_due or (second != self._second and now_s - self._news_s > QUIET_S)
        if not has_news and now_s - self._news_s > SETTLE_S:
            return
        for fleet in self._fleets:
            fleet.watch.look(now_s)
        if self.is_terminal_behind:
            return
        self._second = second
        if self._beside.look(now_s, self.page.lists, self._notice_of_others(now_s)):
            self._write_crumbs()
        if has_news or (self._shows_note and now_s >= self._note_until_s):
            # Else the frame and the bars are those of the tick before.
            for fleet in self._fleets:
                fleet.context.frame.refresh()
            self._write_bars()
        page = self.page
        page.tick()
        self._is_due = False
        if isinstance(self.screen, ModalScreen):
            # What is over the view shows the same moment.
            for lines in self.screen.query(LineView):
                lines.tick()
        if isinstance(page, FilteredView) and page.has_class("asking"):
            page.tell_found()

    async def paint_whole(self) -> None:
        """Paint all of the view at one moment; return once the screen has it.

        Painting may change the sizes of parts and make more to paint.
        """
        await self.wait_mounted()
        for _ in range(_MOST_PAINTS):
            refreshed = asyncio.Event()
            if not self.screen_stack[0].is_current:
                refreshed.set()
            elif not self.page.call_after_refresh(refreshed.set):
                return
            await refreshed.wait()
            before = self._lines_painted()
            self.page.tick()
            if self._lines_painted() == before:
                break
        for fleet in self._fleets:
            fleet.context.frame.refresh()
        self._write_bars()
        self._write_crumbs()
        self.page.tick()

    def _lines_painted(self) -> int:
        return sum(lines.lines_painted for lines in self.page.query(LineView))

    def _notice_of_others(self, now_s: float) -> AlertNotice | None:
        """Return the news of fleets not on the screen, unless the view lists them."""
        if len(self._fleets) == 1 or self.page.lists.problems:
            return None
        return notice_of_others(
            (fleet for fleet in self._fleets if fleet is not self._shown), now_s
        )

    def tell(self, note: str, *, is_problem: bool = False) -> None:
        """Show a note in the status line for a while; printable characters only."""
        self.note = note
        self.is_problem = is_problem
        self._note_until_s = self.clock.monotonic_s() + NOTE_S

    def clear_note(self) -> None:
        self.note = ""
        self.is_problem = False

    def say(self, note: str, *, is_problem: bool = False) -> None:
        """Show a note at once.

        It may contain any characters.
        """
        self.tell(plain(note), is_problem=is_problem)
        self.paint_bars()

    def follow_playback(self) -> None:
        """Show the playback's note, once."""
        note = "" if self.playback is None else self.playback.note
        if note != self._shown_note:
            self._shown_note = note
            if note:
                self.tell(plain(note))

    def paint_bars(self) -> None:
        """Show a change by key or pointer at once."""
        self._news = None
        self._write_bars()

    def focus_page(self) -> None:
        self.page.take_focus()

    def leave_prompt(self) -> None:
        """Close the prompt and return the keys to the view."""
        self.ask_line.close()
        self.focus_page()

    def widen_charts(self, fleet_ns: int) -> bool:
        """Widen charts back to a moment of history; return whether history has it."""
        history = self.context.history
        moment = self.monitor.moment()
        if (
            history is None
            or history.reach is None
            or not history.reach.first_ns <= fleet_ns < moment.time_ns
        ):
            return False
        back_s = (moment.time_ns - fleet_ns) / NS_PER_S / (moment.speed or 1.0)
        self.context.window.reach_back(max(FROM_S, back_s))
        return True

    def _tell_history(self) -> None:
        """Show a failure to read history once, in full."""
        problem = "" if self.context.history is None else self.context.history.problem
        if problem != self._told_problem:
            self._told_problem = problem
            if problem:
                self.tell(f"history: {plain(problem, 400)}", is_problem=True)

    def _write_bars(self) -> None:
        note = None
        if self.note and self.clock.monotonic_s() < self._note_until_s:
            note = Note(self.note, self.is_problem)
        self._shows_note = note is not None
        self._bars.write(self._entry, note)
        playback = self.playback
        if playback is None:
            return
        self.seek_bar.set_class(playback.shows_past, "-shown")
        if playback.shows_past:
            self.seek_bar.follow()
        self._bars.write_past(playback, *self._watch.present())

    def _write_crumbs(self) -> None:
        self._bars.write_crumbs(self.place, self._beside.item)
