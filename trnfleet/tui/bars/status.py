"""Text of the status line, and of the banner while values cannot be trusted.

Pure functions without a widget.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rich.cells import cell_len

from trnfleet.domain.alerts.watches import receiver_error_text
from trnfleet.domain.quantities import count, duration
from trnfleet.domain.severity import Severity
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.bars.hints import Hints, hint_parts
from trnfleet.tui.widgets.bar import cut, justified
from trnfleet.tui.widgets.cells import Parts, fit, width_of
from trnfleet.wire.ports import RECORDING, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from trnfleet.monitor.summary import Summary

UNVERIFIED = "TLS not verified"
ALWAYS = 2
"""Keys that are shown at every width."""
GAP = 2
"""Cells between figures and keys at least."""
SHORTEST_REASON = 28
"""Fewest cells for a useful reason."""
_WHY = "why: "


WORDS = (
    ("msg/s", "Messages of telemetry a second"),
    ("lag", "How old telemetry is when it arrives"),
    ("lost", "Ticks that never came here"),
    ("overloaded", "This monitor does not keep up, and for how long"),
    ("shed", "Left out here for newer messages, in an overload"),
    ("dropped", "Messages that were too large, or too many"),
    ("late", "Messages that came after newer ones"),
    ("undescribed", "Messages of what no descriptor has told of"),
    ("undecodable", "Messages that could not be read; also misplaced, rejected"),
    ("publishers", "Online, of all known ones"),
    ("unusable", "Values that cannot be ones, such as 300 %"),
    ("unknown metrics", "Values under names that no metric has"),
    ("silent", "Publishers that are online and send nothing"),
    ("refused", "Publishers whose messages cannot be used"),
)
"""Words of the status line and their meaning, for the help."""


class OwnProcess(Protocol):
    """A process started by the app, such as the demo's simulator."""

    @property
    def note(self) -> str:
        """A line about its end or restart; empty while all is well."""

    @property
    def figure(self) -> str:
        """The same in a few words, and for as long as the app runs."""


class StatusFigure(NamedTuple):
    """A figure of the status line."""

    text: str
    is_bad: bool = False
    """Whether it is about a failure. Then it is never dropped."""
    is_loud: bool = False
    """Whether that goes on."""


class Banner(NamedTuple):
    """Text across the screen about a problem."""

    text: str
    style: Style


def banner(
    summary: Summary,
    link: LinkStatus,
    now_s: float,
    newest_s: float,
    away: Sequence[LinkStatus] = (),
) -> Banner | None:
    """Return the line across the screen, or None while all is well.

    Args:
        summary: The fleet in figures.
        link: Connection state.
        now_s: Monotonic seconds.
        newest_s: Monotonic seconds of the newest telemetry; -inf where none has come.
        away: Connections to some of its brokers that are lost, while others stand.
    """
    heard = "" if math.isinf(newest_s) else f", the newest {duration(now_s - newest_s)} old"
    if not link.connected:
        if not summary.chips:
            # The header names the reason for waiting.
            return None
        where = plain(link.broker) or "the broker"
        since = duration(now_s - link.changed_s)
        because = f" ({plain(link.last_error, LONGEST)})" if link.last_error else ""
        return Banner(
            f"✖ no connection to {where} for {since}; values are the last known{heard}{because}",
            theme.BAR_DOWN,
        )
    if away:
        longest = max(60, LONGEST // len(away))
        lost = "; ".join(
            f"{plain(part.broker)} for {duration(now_s - part.changed_s)}"
            + (f" ({plain(part.last_error, longest)})" if part.last_error else "")
            for part in away
        )
        return Banner(
            f"✖ no connection to {lost}; what comes from there is the last known", theme.BAR_DOWN
        )
    if summary.unheard_s:
        where = plain(link.broker) or "the broker"
        return Banner(
            f"✖ nothing has come from {where} for {duration(summary.unheard_s)}; values are the"
            " last known",
            theme.BAR_DOWN,
        )
    silent = summary.stale_chips + summary.offline_chips
    if not summary.live_chips and silent:
        states = [f"{count(chips)} {state}" for chips, state in summary.chip_states if chips]
        if len(states) == 1:
            states = [f"all {count(summary.chips)} chips are {states[0].partition(' ')[2]}"]
        return Banner(
            f"✖ {', '.join(states)}; values are the last known{heard}",
            theme.BAR_DOWN,
        )
    return None


def own_banner(processes: Sequence[OwnProcess]) -> Banner | None:
    """Return the banner about the app's own processes; None while they are well."""
    notes = [process.note for process in processes if process.note]
    return Banner(f"▲ {plain('; '.join(notes), LONGEST)}", theme.BAR_ALERT) if notes else None


def note_line(note: str, width: int, hints: Hints, *, is_problem: bool) -> Parts:
    """Return a note in place of the status line's figures.

    The permanent keys remain.
    """
    style = theme.BAR_ALERT if is_problem else theme.BAR_STRONG
    keys = always(hints, width)
    room = width - width_of(keys)
    # With a blank between the cut note and the keys.
    text = fit(f" {'▲' if is_problem else '•'} {note}", room - 1)
    return [(text, style), (" ", style), *keys]


def always(hints: Hints, width: int) -> Parts:
    """Return the permanent keys at the end of the line.

    Empty if they would fill more than half of the line.
    """
    parts = hint_parts(hints[:ALWAYS], width, theme.BAR_STRONG, theme.BAR)
    return parts if 2 * width_of(parts) <= width else []


def status(
    summary: Summary,
    link: LinkStatus,
    broker_kind: str,
    hints: Hints,
    width: int,
    kept: tuple[str, bool] = ("", False),
    processes: Sequence[OwnProcess] = (),
    brokers: str = "",
) -> Parts:
    """Return the status line: connection, rate, lag, losses, publishers, and keys.

    `?` and `q` are always there, other keys if there is room.

    Args:
        summary: The fleet in figures.
        link: Connection state.
        broker_kind: The broker's name and version.
        hints: Keys, the first two of which are always shown.
        width: Cells.
        kept: How much of the past is kept, where there is room, and whether that is a problem,
            which is always shown.
        processes: Processes of the app's own.
        brokers: Several brokers in words, in place of the one.
    """
    room = width - width_of(always(hints, width)) - GAP
    mark, style = ("●", theme.BAR) if link.connected else ("✖ not connected", theme.BAR_DOWN)
    figures = [
        *_figures(summary, is_connected=link.connected),
        *(StatusFigure(process.figure, is_bad=True) for process in processes if process.figure),
    ]
    kept_text, is_problem = kept
    # Dropped first without room: the broker's name and version, the recorded span, the broker,
    # healthy figures.
    broker = brokers or _broker(link, "")
    # That one of several brokers is away is told at any width.
    away = sum(not part.connected for part in link.parts) if brokers and link.connected else 0
    least = f" {away} of {len(link.parts)} brokers away " if away else ""
    named = f" {broker}"
    looks = [
        (f" {brokers or _broker(link, broker_kind)}", kept_text),
        (named, kept_text),
        *([] if is_problem else [(named, "")]),
        *[(least, kept_text if is_problem else "")] * max(1, len(figures)),
    ]
    for broker, shown_kept in looks:
        before: Parts = [(f" {mark}", style), (broker, theme.BAR_ALERT if away else theme.BAR)]
        if link.is_unverified or any(part.is_unverified for part in link.parts):
            before += [("  ", theme.BAR), (f" {UNVERIFIED} ", theme.BAR_ALERT)]
        after = _after(figures)
        kept_parts = _recorded(shown_kept, is_problem=is_problem)
        used = width_of(before) + width_of(after)
        if used + width_of(kept_parts) <= room:
            break
        if broker == least:
            figures = _without_one(figures)
    else:
        # Why nothing is kept is cut before figures go, from the least important on.
        in_short = kept_text.partition(":")[0] if is_problem else ""
        left = room - used - len("    ")
        kept_parts = _recorded(
            fit(kept_text, left) if left > len(in_short) else in_short,
            is_problem=is_problem,
        )
        left = room - width_of(before) - width_of(kept_parts)
        if (
            width_of(after) > left
            and any(figure.is_loud for figure in figures)
            and not figures[0].is_bad
        ):
            figures = figures[1:]
            after = _after(figures)
        shown = len(figures)
        while shown and width_of(after) > left:
            shown -= 1
            after = next(
                (form for form in _counted(figures, shown) if width_of(form) <= left), after
            )
    parts = [*before, *kept_parts, *after] if is_problem else [*before, *after, *kept_parts]
    parts = cut(parts, room)
    reason = plain(summary.last_problem or _receiver_error(summary))
    left = min(room - width_of(parts), cell_len(reason) + len(_WHY) + 2)
    if reason and left >= SHORTEST_REASON:
        # With a word of its own: it is not of the figure before it.
        parts.append((fit(f"  {_WHY}{reason}", left), theme.BAR_STRONG))
    keys = hint_parts(hints, width - width_of(parts) - GAP, theme.BAR_STRONG, theme.BAR)
    return justified(parts, keys, width, theme.BAR)


def _after(figures: Sequence[StatusFigure]) -> Parts:
    """Return figures with the blanks before them."""
    parts: Parts = []
    for figure in figures:
        if figure.is_loud:
            parts += [(" ", theme.BAR), (f" {figure.text} ", theme.BAR_ALERT)]
        else:
            parts += [
                ("  ", theme.BAR),
                (figure.text, theme.BAR_STRONG if figure.is_bad else theme.BAR),
            ]
    return parts


def _counted(figures: list[StatusFigure], shown: int) -> list[Parts]:
    """Return the first figures, then the number of troubles among the others.

    In a long and a short form.
    """
    left_out = [figure for figure in figures[shown:] if figure.is_bad]
    if not left_out:
        return [_after(figures[:shown])]
    is_loud = any(figure.is_loud for figure in left_out)
    text = f"+{len(left_out)}"
    padded = (StatusFigure(label, is_bad=True, is_loud=is_loud) for label in (f"{text} more", text))
    tight = (f" {text}", theme.BAR_ALERT if is_loud else theme.BAR_STRONG)
    return [
        *(_after([*figures[:shown], figure]) for figure in padded),
        [*_after(figures[:shown]), tight],
    ]


def _recorded(text: str, *, is_problem: bool) -> Parts:
    """Return how much of the past is kept, or why nothing is."""
    if not text:
        return []
    return (
        [("  ", theme.BAR), (f" {text} ", theme.BAR_ALERT)]
        if is_problem
        else [(f"  {text}", theme.BAR)]
    )


def _without_one(figures: list[StatusFigure]) -> list[StatusFigure]:
    """Return figures without the last healthy one, except losses and rate.

    Unchanged if there is no such figure.
    """
    for number in range(len(figures) - 1, -1, -1):
        figure = figures[number]
        if not figure.is_bad and not figure.text.startswith("lost ") and number:
            return figures[:number] + figures[number + 1 :]
    return figures


def _broker(link: LinkStatus, broker_kind: str) -> str:
    where = plain(link.broker, 60).replace("mqtt://", "")
    if link.protocol == RECORDING:
        return where
    protocol = f", MQTT {plain(link.protocol, 8)}" if link.protocol else ""
    return f"{plain(broker_kind, 40)} at {where}{protocol}" if broker_kind else where + protocol


def _figures(summary: Summary, *, is_connected: bool) -> list[StatusFigure]:
    """Return rate and lag, then problems, the worst first.

    A problem that continues is at least a warning; a past one is not. Without a connection rate and
    lag are outdated, and the publishers are unknown: only counts remain.
    """
    lag = [] if summary.lag_s is None else [duration(summary.lag_s)]
    problems = [problem for problem in summary.pipeline_problems if problem.short]
    names = {problem.name for problem in problems}
    shown = [rate_text(summary)] if is_connected else []
    shown += (
        [] if "lag" in names or not is_connected else [StatusFigure(f"lag {''.join(lag) or '-'}")]
    )
    shown += [
        StatusFigure(
            plain(problem.short, 60), is_bad=True, is_loud=problem.severity <= Severity.WARNING
        )
        for problem in problems
    ]
    shown += [] if "messages-lost" in names else [StatusFigure("lost 0")]
    if summary.receiver_error_count:
        shown.append(
            StatusFigure(f"receiver errors {count(summary.receiver_error_count)}", is_bad=True)
        )
    if not is_connected:
        return shown
    online = summary.publishers_online
    known = summary.publishers
    shown.append(StatusFigure(f"publishers {count(online)}/{count(known)}", is_bad=online < known))
    return shown


def _receiver_error(summary: Summary) -> str:
    """Return the first error of a receiver; empty without one."""
    return receiver_error_text(summary.receiver_errors[0]) if summary.receiver_errors else ""


def rate_text(summary: Summary) -> StatusFigure:
    """Return the rate of telemetry, marked bad if the feed is dead."""
    rate = summary.messages_per_s
    if rate is None:
        return StatusFigure("- msg/s")
    if not rate:
        return StatusFigure(f"0 msg/s for {duration(summary.quiet_s or 0.0)}", is_bad=True)
    return StatusFigure(f"{rate:.0f} msg/s" if rate >= 9.95 else f"{rate:.2g} msg/s")
