"""Texts about the past; pure functions.

They make its banner, its keys in the status line, and the length recorded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trnfleet.domain.quantities import DurationStyle, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.replay.controls import Mode
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.playback.seek_bar import clock_text, thinned_text
from trnfleet.tui.widgets.cells import Parts, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from trnfleet.monitor.minutes.minutes import FleetHistory
    from trnfleet.monitor.problems.problem import ProblemCounts
    from trnfleet.monitor.replay.controls import Playback
    from trnfleet.tui.bars.hints import Hints
    from trnfleet.tui.playback.seek_bar import Seek

NO_CONNECTION = "✖ LIVE has no connection"
_HOUR_S = 3_600
_FOLDERS = re.compile(r"(?<!\S)/\S*/")
"""Folders of a path."""


def past_hints(playback: Playback) -> Hints:
    """Return the keys of playback for the status line."""
    return (
        ("?", "help"),
        ("q", "quit"),
        ("Space", _space(playback)),
        ("[ ]", "10 s"),
        ("End", "live" if playback.is_live_possible else "the end"),
        ("( )", "alert"),
        ("< >", "rate"),
        ("@", "time"),
    )


def _space(playback: Playback) -> str:
    """Return the action of the space bar.

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
    for text in (
        f" ◀ Viewing {when}{ago}. {f'{present}. ' if present else ''}End = live ",
        f" ◀ Viewing {when}{ago}. End = live ",
        f" ◀ {when}{ago}. End = live ",
        f" ◀ {when}. End = live ",
    ):
        parts: Parts = [(text, linked(theme.BAR_PAST, ClickTarget(TargetKind.KEY, "end"))), *fires]
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
