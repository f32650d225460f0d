"""The app: header, breadcrumbs, one view at a time, status line; which place is shown, and when anything is painted.

It reads a monitor and owns neither monitor, broker nor simulator. The caller runs `monitor.run()` in the same loop,
awaits `run_async()`, takes the signals and passes them to `end`, and afterwards ends with `return_code`: 0 for `quit`, 143 after SIGTERM, 129 after SIGHUP,
131 after SIGQUIT,
1 after a crash (Textual prints the traceback and returns as if nothing had been).
"""

from __future__ import annotations

import gc
import signal
from collections import deque
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import numpy as np
from textual import on
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import ANSIToTruecolor
from textual.worker import WorkerFailed

from trnfleet import logs
from trnfleet.domain.address import Level, level_of
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.alerts.view import AlertsView
from trnfleet.tui.breadcrumbs import breadcrumbs
from trnfleet.tui.header import header
from trnfleet.tui.help import HelpScreen, Key, Section, help_title, sections, sign_section
from trnfleet.tui.notifications import AlertWatch
from trnfleet.tui.pacing import Pacer
from trnfleet.tui.playback.keys import NOTE_S, TimeKeys
from trnfleet.tui.playback.past_banner import kept_text, past_banner, past_hints, present_text
from trnfleet.tui.playback.seek_bar_format import SIGNS, Seek
from trnfleet.tui.reservations.table import ReservationTable
from trnfleet.tui.reservations.view import ReservationsView
from trnfleet.tui.state.context import UiContext
from trnfleet.tui.state.highlight import holders
from trnfleet.tui.status import Hints, OwnProcess, banner, note_line, own_banner, status
from trnfleet.tui.terminal import TerminalDriver
from trnfleet.tui.view import CHIP, HIERARCHY, View
from trnfleet.tui.views import VIEWS, ViewEntry
from trnfleet.tui.widgets.bar import Bar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from textual.app import ComposeResult
    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.filter import LineFilter

    from trnfleet.clock import Clock
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.replay.playback import Playback
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.notifications import Notice

log = logs.get_logger(__name__)

V = TypeVar("V", bound=View)
TICK_S = 0.1
BARS_EVERY_S = 0.4
"""Seconds between two readings of the fleet's figures, faster than they can be read."""
SETTLE_S = 0.5
"""Seconds after the last news for which the view is ticked on, because it may not have painted all at once."""
NOTICE_S = 20.0
"""Seconds for which every view shows a new alert, or an event above information."""
MOST_HISTORY = 100
MOST_LINES = 1_000
"""More than any screen has."""
SIGNALS = {signal.SIGINT: 0, signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Signals that end the app, with the status to end with; the terminal is restored first."""
_GC_THRESHOLDS = (50_000, 50, 100)
_HINTS: Hints = (
    ("?", "help"),
    ("q", "quit"),
    ("Enter", "deeper"),
    ("Esc", "back"),
    ("A", "alerts"),
)
"""Of every view; its own come after these."""
_LIVE_HINTS: Hints = (*_HINTS[:4], ("[ ]", "in time"), *_HINTS[4:])
_PLAYED_NS = 500_000_000
"""Played time that counts as news."""


class Stop(NamedTuple):
    """Where one has been: a view's title and an address."""

    view: str
    address: str


class FleetApp(TimeKeys):
    """The whole screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back to where you were"),
        Binding("r", "reservation", "the reservation that holds what you are looking at"),
        Binding("u", "unpick", "show all alike: pick no reservation out"),
        Binding("A", "alerts", "the alerts of what you are looking at"),
        Binding("question_mark", "help", "this help"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c,ctrl+q", "quit", "quit", priority=True, system=True),
        Binding("ctrl+z", "suspend_process", "suspend; the shell's fg brings it back", priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012  as Textual declares it
        (0, "-w0"),
        (80, "-w80"),
        (100, "-w100"),
        (120, "-w120"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-h0"), (20, "-h20"), (30, "-h30")]  # noqa: RUF012  as Textual declares it
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
        processes: Sequence[OwnProcess] = (),
    ) -> None:
        """Make the app for a monitor.

        Args:
            monitor: What is shown; the caller runs it. With a playback, what that shows.
            clock: The real one, by which painting is paced; ages go by the monitor's own.
            broker_kind: The broker's name and version, for the status line.
            title: The terminal window's title.
            operator: Where acknowledgements and silences are written; None for a screen that only reads.
            bell: Whether the terminal rings for new alerts.
            notify: Whether the terminal is asked for a desktop notification of new alerts.
            playback: What goes back in time; the caller runs it. None where nothing is kept.
            processes: Processes of the app's own, whose end is told.
        """
        super().__init__(playback)
        self.context = UiContext.of(monitor, clock, playback=playback, operator=operator)
        self.monitor = monitor
        self.clock = clock
        self.broker_kind = broker_kind
        self.processes = processes
        self.title = title
        self.animation_level = "none"
        self.place = ""
        """Address of what one is looking at; the empty one is the fleet."""
        self._been: deque[Stop] = deque(maxlen=MOST_HISTORY)
        self._pacer = Pacer(self)
        self._header = Bar(fill=theme.HEAD, id="header")
        self._crumbs = Bar(id="crumbs")
        self._banner = Bar(fill=theme.BAR_DOWN, id="banner")
        self._past_banner = Bar(fill=theme.BAR_PAST, id="past")
        self._status = Bar(fill=theme.BAR, id="status")
        self._pages: dict[str, View] = {entry.title: entry.kind(self.context) for entry in VIEWS}
        self._watch = AlertWatch(self, self.context, rings=bell, notifies=notify)
        self._source = monitor.revision.source
        """Which exchange the monitor is of that is on the screen."""
        self._time_drawn: Hashable = None
        """The playback's state that the seek bar shows."""
        self._note_until_s = -np.inf
        self._replay_of: tuple[int, int] | None = None
        self._replay = False
        self._entry = VIEWS[0]
        """The view on the screen."""
        self._event: Event | Notice | None = None
        """The notice that stands for a while between breadcrumbs and views."""
        self._news: Hashable = None
        self._news_s = -np.inf
        self._second = 0
        self._bars_s = -BARS_EVERY_S
        self._bars_turn: tuple[object, ...] = (None, None, None, None)
        """Freshness, findings, connection and alerts that header and status line show."""

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._crumbs
        yield self._past_banner
        yield self._banner
        yield from self._pages.values()
        yield self.seek_bar
        yield self.ask_line
        yield self._status

    def on_mount(self) -> None:
        """Start: the first view and the one timer."""
        for entry in VIEWS:
            self.bind(entry.key, f"view('{entry.title}')", show=False)
        self.page.add_class("-shown")
        self._write_bars()
        self._write_crumbs()
        self.page.take_focus()
        # A worker costs half of what a Textual timer does, and one that fails ends the app.
        self.run_worker(self._keep_ticking(), name="ticks", exit_on_error=True)
        self.app_resume_signal.subscribe(self, self._return_to_terminal)
        if not self.is_headless:
            self.call_after_refresh(_spare_the_collector)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours of the style sheets."""
        return theme.VARIABLES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters without the one for ANSI colours, of which we have none: a third of a frame."""
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    # Places and views

    @property
    def entry(self) -> ViewEntry:
        """Title, key and hints of the view on the screen."""
        return self._entry

    @property
    def page(self) -> View:
        return self._pages[self._entry.title]

    def go(self, address: str, view: str | None = None) -> None:
        """Go to an address in a view and remember where one was; None: the usual view for what the address names."""
        if view is None:
            view = CHIP if level_of(address) >= Level.CHIP else HIERARCHY
        if view not in self._pages:
            self.bell()
            return
        here = Stop(self._entry.title, self.place)
        if here != Stop(view, address):
            self._been.append(here)
        self._show(Stop(view, address))

    async def action_back(self) -> None:
        if self._been:
            self._show(self._been.pop())

    def action_view(self, title: str) -> None:
        if title != self._entry.title:
            self.go(self.place, title)

    def action_help(self) -> None:
        parts: list[tuple[str, type[DOMNode]]] = []
        for entry in (self._entry, *(entry for entry in VIEWS if entry is not self._entry)):
            widgets = self._pages[entry.title].query("*")
            parts.append((entry.title, entry.kind))
            parts.extend((help_title(type(widget), entry.title), type(widget)) for widget in widgets)
        views = Section("Views", [Key(entry.key, entry.title) for entry in VIEWS])
        everywhere: list[tuple[str, type[DOMNode]]] = [("Everywhere", type(self))]
        signs: list[Section] = []
        if self.playback is not None:
            everywhere.append((TimeKeys.HELP_TITLE, TimeKeys))
            signs.append(sign_section("On the time bar", SIGNS))
        self.push_screen(HelpScreen([views, *sections([*everywhere, *parts]), *signs]))

    def action_reservation(self) -> None:
        """Go to the reservation that holds the present place; from the fleet, to the one that is picked out."""
        place = self.place
        chosen = self.context.highlight.reservation_id
        if place:
            holding = holders(self.monitor.reservations.table(), self.monitor.store.layout, place)
            chosen = chosen if chosen in holding else next(iter(holding), "")
        reservations = self._open(ReservationsView)
        if chosen:
            reservations.show_reservation(chosen)
        elif place:
            reservations.tell(f"no reservation holds {plain(place, 60)}")

    def action_alerts(self) -> None:
        """Go to the alerts of the present place; from the fleet, to all of them."""
        place = self.place
        self._open(AlertsView).show_at(place)

    @on(AlertsView.OpenReservation)
    def _reservation_asked(self, message: AlertsView.OpenReservation) -> None:
        message.stop()
        self._open(ReservationsView).show_reservation(message.reservation_id)

    def _open(self, kind: type[V]) -> V:
        """Go to the view of a class at the present place, and return it."""
        title, page = next((title, page) for title, page in self._pages.items() if isinstance(page, kind))
        self.go(self.place, title)
        return page

    def action_unpick(self) -> None:
        """Pick nothing out any more."""
        if self.context.highlight.reservation_id:
            self._pick("")

    def _pick(self, reservation_id: str) -> None:
        self.context.highlight.reservation_id = reservation_id
        self._news = None
        self._write_crumbs()
        self.page.tick(MOST_LINES)

    @on(ReservationTable.Picked)
    def _picked(self, message: ReservationTable.Picked) -> None:
        message.stop()
        highlight = self.context.highlight
        highlight.reservation_id = message.reservation_id
        self.go(highlight.place(), VIEWS[0].title)

    def _handle_exception(self, error: Exception) -> None:
        """Write what ends the app to its log, too: the terminal's scrollback is all that Textual leaves it in."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        log.error(
            "app_failed",
            view=self._entry.title,
            width=self.size.width,
            height=self.size.height,
            exc_info=cause,
        )
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Print what ends the app, without the values of local variables: those may be anybody's messages, or a secret."""
        # With its lexers this takes 40 ms, which no start should wait for.
        from rich.segment import Segments  # noqa: PLC0415
        from rich.traceback import Traceback  # noqa: PLC0415

        self.bell()
        trace = Traceback(show_locals=False, width=None)
        self._exit_renderables.append(Segments(self.console.render(trace, self.console.options)))
        self._close_messages_no_wait()

    async def action_quit(self) -> None:
        self.exit(return_code=0)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, or ours in place of the one for terminals."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def action_suspend_process(self) -> None:
        """Stop until the shell continues the job."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.stop_job()

    def stay_off_terminal(self) -> None:
        """Take the terminal no more once it is given back, because a signal has asked for the end."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.is_ending = True

    def _return_to_terminal(self, _app: object) -> None:
        """Draw everything: the terminal shows what other programs left there."""
        self._news = None
        self.refresh(layout=True)

    def end(self, signal_number: int) -> None:
        """End as a signal demands: the terminal is restored and `return_code` is set."""
        self.exit(return_code=SIGNALS.get(signal.Signals(signal_number), 128 + signal_number))

    def _show(self, stop: Stop) -> None:
        view = self._pages[stop.view]
        self.place = stop.address
        if view is not self.page:
            self.page.remove_class("-shown")
            view.add_class("-shown")
            self._entry = next(entry for entry in VIEWS if entry.title == stop.view)
        view.show_place(stop.address)
        view.take_focus()
        # Its widgets know their size only after the layout; then it paints, not at the next tick.
        self.call_after_refresh(view.show_place, stop.address)
        self._news = None
        self._write_crumbs()

    @on(View.Open)
    def _opened(self, message: View.Open) -> None:
        self.go(message.address, message.view)

    @on(View.Moved)
    def _moved(self) -> None:
        # The view's own answer: the message may be older than the last change of place.
        self.place = self.page.place
        self._write_crumbs()

    # Painting

    async def _keep_ticking(self) -> None:
        while True:
            await self.clock.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """Look for news once, and paint what changed, as much of it as the terminal takes.

        The one worker of the app calls this ten times a second, tests call it by hand, and it calls `View.tick` of the view on the
        screen alone, which calls `LineView.tick` of its widgets. Nothing else paints without a key, a click or a resize.

        Revisions are polled, and nothing is pushed: a monitor takes thousands of messages a second and has no idea of a screen, Textual's
        reactive attributes would cost a message for each change, and would reach what is not on the screen, too. Comparing a dozen
        integers costs microseconds, however much came in, and views read the newest columns once for all that changed since.

        Without news a tick is over after that comparison, but for one tick a second, by which ages go on. With news it may take some
        milliseconds: views make only the lines in the window, in one pass over columns, and remake only those that changed; the pacer
        leaves ticks out while the terminal is behind. `SETTLE_S` after the last news ticks go on, because a view may put off what it
        was not allowed to paint.
        """
        now_s = self.clock.monotonic_s()
        monitor, playback = self.monitor, self.playback
        self._watch.note_present()
        self.follow_playback()
        revision = monitor.revision
        if revision.source != self._source:
            self._source = revision.source
            self._renew()
        news = (
            None if playback is None else (playback.revision, playback.mode),
            playback.position_ns // _PLAYED_NS if playback is not None and playback.shows_past else 0,
            revision,
            self._watch.revision,
        )
        if news != self._news:
            self._news, self._news_s = news, now_s
        # Ages go on once a second without any news.
        second = int(now_s)
        if now_s - self._news_s > SETTLE_S and second == self._second:
            return
        self._watch.look(now_s)
        allowance = self._pacer.allowance()
        if not allowance:
            return
        self._second = second
        event = self._watch.notice(now_s, NOTICE_S) or monitor.events.notable(
            monitor.clock.monotonic_s(), NOTICE_S
        )
        if event is not self._event:
            self._event = event
            self._write_crumbs()
        # The bars name silent chips and findings no later than the view draws them.
        turn = (
            monitor.store.chip_state,
            monitor.findings.total,
            monitor.link.connected,
            self.context.alerts.counts,
        )
        before = self._bars_turn
        has_turned = turn[0] is not before[0] or turn[1:] != before[1:]
        if has_turned or now_s - self._bars_s >= BARS_EVERY_S:
            self._bars_turn = turn
            self._write_bars()
        elif playback is not None and (playback.revision, playback.mode) != self._time_drawn:
            self._write_time()
        self.page.tick(allowance)

    def _renew(self) -> None:
        """Drop caches of the monitor that was shown before: nothing of it may stay on the screen."""
        self.context.alerts.renew()
        self._watch.renew()
        for page in self._pages.values():
            page.renew()
        self._event = None
        self._news, self._bars_turn = None, (None, None, None, None)
        self._write_crumbs()

    def repaint_time(self) -> None:
        """Show at once what a key or the pointer has changed of the playback."""
        self._news = None
        self._write_bars()

    def tell(self, note: str, *, is_problem: bool = False) -> None:
        """Show a note in the status line for a while; printable characters only."""
        super().tell(note, is_problem=is_problem)
        self._note_until_s = self.clock.monotonic_s() + NOTE_S

    def focus_page(self) -> None:
        self.page.take_focus()

    @property
    def fleet_name(self) -> str:
        return self.monitor.fleet_name

    def _write_bars(self) -> None:
        monitor, link = self.monitor, self.monitor.link
        self._bars_s = now_s = self.clock.monotonic_s()
        playback = self.playback
        summary = monitor.summary()
        alerts = self.context.alerts
        counts = alerts.counts if alerts.has_rules else None
        is_replay = self._is_replay()
        self._header.show(
            lambda width: header(summary, link, width, counts, is_replay=is_replay), fill=theme.HEAD
        )
        kind, rate = self.broker_kind, monitor.message_rate
        hints = (*(_HINTS if playback is None else _LIVE_HINTS), *self._entry.hints)
        if playback is not None and playback.shows_past:
            hints = past_hints(playback)
        kept = ("", False) if playback is None else kept_text(playback)
        if self.note and now_s < self._note_until_s:
            note, is_problem = self.note, self.is_problem
            self._status.show(lambda width: [note_line(note, width, is_problem=is_problem)])
        else:
            own = self.processes
            self._status.show(lambda width: [status(summary, link, rate, kind, hints, width, kept, own)])
        self._write_time()
        is_silent = not link.connected or not summary.live_chips
        shown_s = monitor.clock.monotonic_s()
        line = own_banner(self.processes)
        if line is None and is_silent:
            line = banner(summary, link, shown_s, self._newest_s())
        self._banner.set_class(line is not None, "-shown")
        if line is not None:
            self._banner.show(lambda _width: [[(line.text, line.style)]], fill=line.style)

    def _write_time(self) -> None:
        """Write the seek bar and, in the past of a live fleet, the banner that marks it."""
        playback = self.playback
        if playback is None:
            return
        self._time_drawn = playback.revision, playback.mode
        in_past = playback.shows_past
        self.seek_bar.set_class(in_past, "-shown")
        if in_past:
            self.seek_bar.follow()
        live = playback.live
        self._past_banner.set_class(in_past and live is not None, "-shown")
        if in_past and live is not None:
            seek, (before, now) = Seek.of(playback), self._watch.present()
            present = present_text(is_recording=playback.is_recording, is_connected=live.link.connected)
            self._past_banner.show(lambda width: [past_banner(seek, before, now, present, width)])

    def _is_replay(self) -> bool:
        """Return whether the publishers shown declare a replay; read again when descriptors change."""
        descriptors = self.monitor.ingest.descriptors
        of = (self._source, descriptors.changes)
        if of != self._replay_of:
            first = next((each.instances[0] for each in descriptors if each.instances), "")
            whole = descriptors.whole(first)
            self._replay_of, self._replay = of, whole is not None and whole[0].replay
        return self._replay

    def _newest_s(self) -> float:
        """Return when the newest telemetry came."""
        seen = self.monitor.store.chip_seen_s
        return float(seen.max()) if len(seen) else -np.inf

    def _write_crumbs(self) -> None:
        views = [(entry.key, entry.title) for entry in VIEWS]
        active = self._entry.title
        event = self._event
        picked = self.context.highlight.words()
        self._crumbs.show(lambda width: [breadcrumbs(self.place, views, active, width, event, picked)])


def _spare_the_collector() -> None:
    """Keep what lives as long as the app out of garbage collections, which would cost a frame each."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
