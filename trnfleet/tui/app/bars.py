"""The lines around the view: header, tabs, breadcrumbs, banners and status line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from textual.widgets import Input

from trnfleet.domain.quantities import DurationStyle, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.monitor.replay.controls import Mode, Playback
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.bars.breadcrumbs import breadcrumbs
from trnfleet.tui.bars.brokers import away_from, brokers_text
from trnfleet.tui.bars.header import fleets_text, header
from trnfleet.tui.bars.status import OwnProcess, banner, note_line, own_banner, status
from trnfleet.tui.bars.tabs import TabCount, tabs_line
from trnfleet.tui.keys import first_key, key_label
from trnfleet.tui.playback.seek_bar import Seek, clock_text, thinned_text
from trnfleet.tui.view import ALERTS, JOBS, RESERVATIONS
from trnfleet.tui.views import TABS, ViewEntry
from trnfleet.tui.widgets.bar import Bar, paragraph
from trnfleet.tui.widgets.cells import Parts, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.minutes.minutes import FleetHistory
    from trnfleet.monitor.problems.problem import ProblemCounts
    from trnfleet.monitor.store.events import Event
    from trnfleet.monitor.summary import Summary
    from trnfleet.tui.bars.hints import Hints
    from trnfleet.tui.bars.tour import Tour
    from trnfleet.tui.notifications import AlertNotice
    from trnfleet.tui.state.context import UiContext


NO_CONNECTION = "✖ LIVE has no connection"
_HOUR_S = 3_600
_FOLDERS = re.compile(r"(?<!\S)/\S*/")
"""Folders of a path."""


def past_hints(playback: Playback) -> Hints:
    """Return the keys of playback for the status line."""
    return (
        ("help", "help"),
        ("quit", "quit"),
        ("pause", _pause(playback)),
        ("back-10s forward-10s", "10 s"),
        ("live", "live" if playback.is_live_possible else "the end"),
        ("previous-alert next-alert", "alert"),
        ("slower faster", "rate"),
        ("go-to-time", "time"),
    )


def _pause(playback: Playback) -> str:
    """Return the action of the key that pauses.

    At the end of a file, it plays the file again.
    """
    if playback.mode is not Mode.PAUSED:
        return "pause"
    is_over = not playback.is_live_possible and playback.position_ns >= playback.end_ns
    return "play again" if is_over else "resume"


def past_banner(
    seek: Seek,
    before: ProblemCounts | None,
    now: ProblemCounts | None,
    present: str,
    width: int,
    *,
    is_connected: bool = True,
) -> Parts:
    """Return the banner over the past: the time shown, and changed alerts of the present.

    Args:
        seek: The playback.
        before: Alerts of the present when it was left; None if unknown.
        now: Alerts of the present.
        present: State of the present.
        width: Cells.
        is_connected: Whether the present has a connection. Without one the banner says so at any
            width.
    """
    when = clock_text(seek.position_ns)
    ago = f", {duration(seek.behind_s)} ago" if seek.behind_s >= 1 else ""
    fires = _fires(before, now)
    if not is_connected:
        fires = [(f" {NO_CONNECTION} ", theme.BAR_DOWN), *fires]
    live = f"{key_label('live')} = live "
    target = ClickTarget(TargetKind.KEY, first_key("live"))
    for text in (
        f" ◀ Viewing {when}{ago}. {f'{present}. ' if present else ''}{live}",
        f" ◀ Viewing {when}{ago}. {live}",
        f" ◀ {when}{ago}. {live}",
        f" ◀ {when}. {live}",
    ):
        parts: Parts = [(text, linked(theme.BAR_PAST, target)), *fires]
        if width_of(parts) <= width:
            break
    return parts


def present_text(*, is_recording: bool, is_connected: bool) -> str:
    """Return the state of the present for a screen of the past.

    Empty without a connection: the banner shows that itself.
    """
    if not is_connected:
        return ""
    return "LIVE continues" if is_recording else "LIVE is no longer recorded"


def _fires(before: ProblemCounts | None, now: ProblemCounts | None) -> Parts:
    """Return the alerts that fire in the present, if they changed since it was left."""
    if before is None or now is None:
        return []
    severities = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
    were = (before.critical, before.warning, before.info)
    are = (now.critical, now.warning, now.info)
    if are == were:
        return []
    shown = [
        f"{theme.SEVERITY_GLYPH[severity]} {number:,}"
        for severity, number in zip(severities, are, strict=True)
        if number
    ]
    style = (
        theme.BAR_DOWN
        if are[0] > were[0]
        else theme.BAR_ALERT
        if are[1] > were[1]
        else theme.BAR_PAST
    )
    return [(f" now firing: {' '.join(shown)} " if shown else " now 0 firing ", style)]


def kept_text(
    playback: Playback | None, history: FleetHistory | None = None, kept_s: int = 0
) -> tuple[str, bool]:
    """Return the length of the recorded past for the status line, and whether it failed.

    A failure is recording that stopped or history that cannot be read.

    Args:
        playback: The playback; None for none.
        history: The files of months; None for none.
        kept_s: Seconds covered by them.
    """
    problem = "" if playback is None else playback.recording_problem
    if problem:
        return f"not recording: {plain(problem, 60)}", True
    if history is not None and history.problem:
        # The note of the status line had it in full; a path would leave no room for the reason.
        return f"history not read: {plain(_FOLDERS.sub('…/', history.problem), 60)}", True
    charts = f", charts {duration(kept_s, DurationStyle.LONG)}" if kept_s else ""
    if playback is None:
        return charts.removeprefix(", "), False
    if not playback.is_live_possible or not playback.is_recording:
        return "", False
    # Seconds would change all the time.
    style = DurationStyle.COARSE if playback.window_s < _HOUR_S else DurationStyle.LONG
    thinned = f", {thinned_text(playback.one_in)}" if playback.one_in > 1 else ""
    return f"history {duration(playback.window_s, style)}{thinned}{charts}", False


_HINTS: Hints = (
    ("help", "help"),
    ("quit", "quit"),
    ("enter", "open"),
    ("escape", "back"),
    ("alerts", "alerts"),
)
"""Of every view; its own come after these."""
_LIVE_HINTS: Hints = (*_HINTS[:4], ("back-10s forward-10s", "go back / forward"), *_HINTS[4:])


_FIELD_HINTS: Hints = (("enter", "ok"), ("escape", "cancel"))
"""While something is typed: other keys are characters then."""


class Note(NamedTuple):
    """A line in place of the status line's figures."""

    text: str
    is_problem: bool = False


class ScreenBars:
    """The bars and their contents."""

    def __init__(
        self, context: UiContext, *, broker_kind: str, processes: Sequence[OwnProcess]
    ) -> None:
        """Make the bars.

        Args:
            context: The fleet shown.
            broker_kind: The broker's name and version.
            processes: Processes of the app's own; their end is reported.
        """
        self._context = context
        self._broker_kind = broker_kind
        self._processes = processes
        self.header = Bar(fill=lambda: theme.HEAD, least=2, id="header")
        self.tabs = Bar(id="tabs")
        self.crumbs = Bar(id="crumbs")
        self.past = Bar(fill=lambda: theme.BAR_PAST, id="past")
        self.banner = Bar(fill=lambda: theme.BAR_DOWN, least=1, id="banner")
        self.status = Bar(fill=lambda: theme.BAR, id="status")

    def show_fleet(self, context: UiContext) -> None:
        """Write about another fleet from now on."""
        self._context = context

    @property
    def above(self) -> tuple[Bar, ...]:
        """The bars above the view, from the top."""
        return self.header, self.tabs, self.crumbs, self.past, self.banner

    def write(self, entry: ViewEntry, note: Note | None) -> None:
        """Write header, tabs, status line and banner.

        Args:
            entry: The view on the screen.
            note: Shown instead of the status line's figures; None for nothing.
        """
        context = self._context
        monitor, playback = context.monitor, context.playback
        link, summary, problems = monitor.link, context.frame.summary, context.fleets.problem_counts
        of_fleets = fleets_text(len(context.fleets.contexts), context.fleets.not_shown)
        described = (
            descriptor for descriptor in monitor.ingest.descriptors if descriptor.instances
        )
        first = next(described, None)
        is_replay = first is not None and first.clock.is_replay
        incomplete = monitor.incomplete
        now_s = monitor.clock.monotonic_s()
        local_time = context.fleets.shows_local_time
        self.header.show(
            lambda width: header(
                summary,
                link,
                width,
                problems,
                is_replay=is_replay,
                of_fleets=of_fleets,
                now_s=now_s,
                incomplete=incomplete,
                local_time=local_time,
            )
        )
        counts = self._counts(summary)
        self.tabs.show(lambda width: [tabs_line(TABS, entry.title, counts, width)])
        hints = (*(_HINTS if playback is None else _LIVE_HINTS), *entry.hints)
        if playback is not None and playback.shows_past:
            hints = past_hints(playback)
        if isinstance(self.status.screen.focused, Input):
            hints = _FIELD_HINTS
        if note is not None:
            text, is_problem = note
            self.status.show(lambda width: [note_line(text, width, hints, is_problem=is_problem)])
        else:
            retention = kept_text(playback, context.history, context.kept_s)
            kind, own = self._broker_kind, self._processes
            brokers = brokers_text(context.fleets.links, context.clock.monotonic_s())
            self.status.show(
                lambda width: [status(summary, link, kind, hints, width, retention, own, brokers)]
            )
        self._write_banner(summary)

    def write_crumbs(self, address: str, event: Event | AlertNotice | Tour | None) -> None:
        """Write the path to an address, and news beside it."""
        picked, fleets = self._context.highlight.words(), self._context.fleets
        root = self._context.monitor.fleet_name if fleets.are_several else "fleet"
        names = self._context.monitor.ingest.names
        self.crumbs.show(lambda width: [breadcrumbs(address, width, event, picked, root, names)])

    def write_past(
        self, playback: Playback, before: ProblemCounts | None, now: ProblemCounts | None
    ) -> None:
        """Write the banner of the past of a live fleet.

        Args:
            playback: The playback.
            before: Problems of the present on leaving it; None if unknown.
            now: Problems of the present.
        """
        live = playback.live
        is_shown = playback.shows_past and live is not None
        self.past.set_class(is_shown, "-shown")
        if is_shown and live is not None:
            seek = Seek.from_playback(playback)
            is_connected = live.link.connected
            present = present_text(is_recording=playback.is_recording, is_connected=is_connected)
            if self._context.fleets.are_several:
                present = "; ".join(filter(None, (f"{plain(live.fleet_name, 32)} alone", present)))
            self.past.show(
                lambda width: [
                    past_banner(seek, before, now, present, width, is_connected=is_connected)
                ]
            )

    def _write_banner(self, summary: Summary) -> None:
        """Write the reason not to trust the values."""
        monitor = self._context.monitor
        line = own_banner(self._processes)
        link, away = monitor.link, away_from(monitor)
        if line is None and (not link.connected or away or not summary.live_chips):
            seen = monitor.store.chip_seen_s
            newest_s = float(seen.max()) if len(seen) else -np.inf
            line = banner(summary, link, monitor.clock.monotonic_s(), newest_s, away)
        self.banner.set_class(line is not None, "-shown")
        if line is not None:
            text, style = line
            self.banner.show(lambda width: paragraph(text, width, style), fill=lambda: style)

    def _counts(self, summary: Summary) -> dict[str, TabCount]:
        """Return the numbers at the tabs: jobs, unfinished reservations, unacknowledged alerts."""
        counts = [context.alerts.counts for context in self._context.fleets.contexts]
        severities = (
            (Severity.CRITICAL, sum(tally.critical for tally in counts)),
            (Severity.WARNING, sum(tally.warning for tally in counts)),
        )
        worst = next((severity for severity, number in severities if number), None)
        firing = sum(tally.firing for tally in counts)
        style = None if worst is None else theme.SEVERITY_STYLE[worst]
        is_loading = self._context.monitor.incomplete == LOADING
        return {
            JOBS: TabCount(len(self._context.monitor.ingest.jobs)),
            RESERVATIONS: TabCount(summary.reservations),
            ALERTS: TabCount(None) if is_loading else TabCount(firing, style),
        }
