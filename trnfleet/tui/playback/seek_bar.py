"""The seek bar: one line with position, bar, marks and both ends.

A click or drag on the bar seeks.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from textual.message import Message

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.address import NO_NAMES
from trnfleet.domain.quantities import DurationStyle, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.monitor.replay.controls import Mode, Playback
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import last_segments
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.cells import Parts, fit, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual import events

    from trnfleet.domain.address import Names
    from trnfleet.monitor.replay.marks import Mark
    from trnfleet.tui.state.context import UiContext

    Marked = dict[int, tuple[str, Style]]
    """Sign and style by cell of the bar."""


PLAYING = "▶"
PAUSED = "‖"
GOOD_TRACK = 0.3
"""Least share of the line for the bar; texts are dropped first."""
_KEEPS_UP = 0.85
"""Share of the rate. Below it the reached rate is shown, too."""
_REACHES, _SHORT_REACHES = len("(reaches x0.95)"), len("(x0.95)")
"""Cells of the text for the reached rate, long and short."""
_NEAR_SHARE = 0.015
"""Share of the recording after a mark for showing its text; at least two seconds."""
_LONG_NOTE = 44
_SHORT_NOTE = 20
"""Cells of a mark's text, long and short."""
HERE = "┃"
KNOWN = "─"
UNKNOWN = "┄"
NOT_YET = " "
"""Position, scanned, not scanned yet, and the future. They differ by shape, not by colour alone."""
ALERT_GLYPH = theme.SEVERITY_GLYPH
EVENT_GLYPH = {Severity.CRITICAL: "!", Severity.WARNING: "▵", Severity.INFO: "·"}
"""Events have smaller signs than alerts of the same severity."""
RESOLVED_GLYPH = "○"
SIGNS = (
    (" ".join(ALERT_GLYPH.values()), "An alert fires"),
    (RESOLVED_GLYPH, "An alert is resolved"),
    (" ".join(EVENT_GLYPH.values()), "An event"),
    (HERE, "The position"),
    (UNKNOWN, "Not scanned yet"),
    ("≈", "Events and alerts are loading, or not known from before"),
)
"""Meaning of the bar's signs, for the help."""
_SURVEY_LAG_NS = 3 * NS_PER_S
"""Delay of scanning a growing recording. It is not shown as unscanned."""
_STEPS = 16
"""Least steps of the scale in a growing span."""
_ORDER: tuple[tuple[str, Severity | None], ...] = (
    ("alert", Severity.CRITICAL),
    ("alert", Severity.WARNING),
    ("event", Severity.CRITICAL),
    ("event", Severity.WARNING),
    ("resolved", None),
    ("alert", Severity.INFO),
    ("event", Severity.INFO),
)
"""The first kind of a cell is drawn."""


class Seek(NamedTuple):
    """A playback at one moment, as the seek bar shows it."""

    mode: Mode
    is_live_possible: bool
    rate: float
    reached_rate: float
    loops: bool
    seeking: bool
    incomplete: str
    """The missing part of events and alerts; empty for nothing."""
    position_ns: int
    start_ns: int
    end_ns: int
    surveyed_ns: int
    kept_s: int = 0
    """Seconds of history before the position."""
    one_in: int = 1
    """Of how many messages of a topic one is kept at the position."""

    @staticmethod
    def from_playback(playback: Playback, kept_s: int = 0) -> Seek:
        """Return the figures of a playback and of its history's length."""
        return Seek(
            playback.mode,
            playback.is_live_possible,
            playback.rate,
            playback.reached_rate,
            playback.loops,
            playback.seeking,
            playback.state.incomplete,
            playback.position_ns,
            playback.start_ns,
            playback.end_ns,
            playback.surveyed_ns,
            kept_s,
            playback.one_in,
        )

    @property
    def span_ns(self) -> int:
        """Length of the recording."""
        return max(0, self.end_ns - self.start_ns)

    @property
    def scale_ns(self) -> int:
        """Length of the whole bar: a file's length, or a growing recording's rounded up.

        The scale of a growing recording is up to a sixteenth longer and grows in steps: marks stay
        in place for a while instead of creeping, each at its own moment.
        """
        if not self.is_live_possible:
            return self.span_ns
        step_ns = NS_PER_S << max(0, (self.span_ns // (_STEPS * NS_PER_S)).bit_length() - 1)
        return -(-self.span_ns // step_ns) * step_ns

    @property
    def is_over(self) -> bool:
        """Whether a file is at its end."""
        return not self.is_live_possible and self.position_ns >= self.end_ns

    @property
    def behind_s(self) -> float:
        """Seconds from the position to the end."""
        return max(0, self.end_ns - self.position_ns) / NS_PER_S


def cell_of(time_ns: int, seek: Seek, cells: int) -> int:
    """Return the bar's cell for a time.

    The first cell is the begin, the last is the end of the scale.
    """
    if seek.span_ns <= 0 or cells <= 1:
        return 0
    share = (min(max(time_ns, seek.start_ns), seek.end_ns) - seek.start_ns) / seek.scale_ns
    return round(share * (cells - 1))


def time_at(cell: int, seek: Seek, cells: int) -> int:
    """Return the time of a cell of the bar.

    Cells beyond its ends are clamped.
    """
    if cells <= 1:
        return seek.start_ns
    if cell >= cell_of(seek.end_ns, seek, cells):
        return seek.end_ns
    return seek.start_ns + seek.scale_ns * max(cell, 0) // (cells - 1)


def mark_look(mark: Mark) -> tuple[int, str, Style]:
    """Return a mark's rank, sign and style.

    In a shared cell the lowest rank is drawn.
    """
    if mark.kind == "resolved":
        return _ORDER.index(("resolved", None)), RESOLVED_GLYPH, theme.BAR_SEEK_QUIET
    glyphs = ALERT_GLYPH if mark.kind == "alert" else EVENT_GLYPH
    rank = _ORDER.index((mark.kind, mark.severity))
    return rank, glyphs[mark.severity], theme.SEEK_SEVERITY[mark.severity]


def marked_cells(marks: Sequence[Mark], seek: Seek, cells: int) -> Marked:
    """Return sign and style of each cell with marks, from its worst mark."""
    looks: dict[int, tuple[int, str, Style]] = {}
    for mark in marks:
        if seek.start_ns <= mark.time_ns <= seek.end_ns:
            cell = cell_of(mark.time_ns, seek, cells)
            look = mark_look(mark)
            if cell not in looks or look[0] < looks[cell][0]:
                looks[cell] = look
    return {cell: (glyph, style) for cell, (_, glyph, style) in looks.items()}


def track(seek: Seek, cells: int, marked: Marked) -> Parts:
    """Return the bar: past and future, the scanned part, marks and the position."""
    here = cell_of(seek.position_ns, seek, cells)
    is_known = seek.end_ns - seek.surveyed_ns <= _SURVEY_LAG_NS
    known = cells if is_known else cell_of(seek.surveyed_ns, seek, cells)
    last = cell_of(seek.end_ns, seek, cells)
    parts: Parts = []
    for cell in range(cells):
        if cell == here:
            text = HERE
            style = theme.BAR_SEEK_STRONG
        elif cell in marked:
            text, style = marked[cell]
        else:
            text = NOT_YET if cell > last else KNOWN if cell <= known else UNKNOWN
            style = theme.BAR_SEEK_DONE if cell < here else theme.BAR_SEEK_QUIET
        if parts and parts[-1][1] is style:
            parts[-1] = (parts[-1][0] + text, style)
        else:
            parts.append((text, style))
    return parts


class SeekLine(NamedTuple):
    """The seek bar's line, and the cells of the bar itself."""

    parts: Parts
    track: range


def rate_text(rate: float) -> str:
    """Return a rate, such as `x1`, `x1/8` or `x250`."""
    return f"x1/{round(1 / rate)}" if 0 < rate < 1 else f"x{rate:g}"


def clock_text(time_ns: int, *, with_date: bool = False) -> str:
    """Return a time of day to the second, with its date if asked for."""
    day, time = format_rfc3339(time_ns)[:19].split("T")
    return f"{day} {time}" if with_date else time


def back_text(seek: Seek) -> str:
    """Return the time back from the present, or into a file."""
    if seek.is_live_possible:
        return f"{duration(seek.behind_s)} back" if seek.behind_s >= 1 else "now"
    return f"{_clock(seek.position_ns - seek.start_ns)} of {_clock(seek.span_ns)}"


def _longest_back(seek: Seek) -> int:
    """Return the most cells of `back_text` in this recording.

    Reserving them fixes the bar while the position moves.
    """
    at_ns = seek.start_ns if seek.is_live_possible else seek.end_ns
    # An hour has a shorter text than a little less.
    return len(back_text(seek._replace(position_ns=at_ns))) + 1


def seek_line(
    seek: Seek,
    width: int,
    marks: Sequence[Mark] = (),
    names: Names = NO_NAMES,
) -> SeekLine:
    """Return the whole line for a width.

    Texts shrink if there is little room, the time never does.

    Args:
        seek: The playback.
        width: Cells.
        marks: Alerts and events, in order of time.
        names: Display names of their places.
    """
    words = _words(seek, marks, names)
    track_cells = round(width * GOOD_TRACK)
    for name, room in _SHRINKING:
        if _used(words) + track_cells <= width:
            break
        if not room:
            words.pop(name, None)
        elif name in words:
            words[name] = _shortened(name, room, seek, marks, names)
    cells = max(1, width - _used(words))
    left = _side(words, _LEFT)
    right = _side(words, _RIGHT)
    parts: Parts = [
        *left,
        ("├", theme.BAR_SEEK_QUIET),
        *track(seek, cells, marked_cells(marks, seek, cells)),
        ("┤", theme.BAR_SEEK_QUIET),
        *right,
    ]
    first = width_of(left) + 1
    return SeekLine(parts, range(first, first + cells))


_LEFT = ("sign", "mode", "rate", "date", "time", "thinned", "kept", "start")
_RIGHT = ("end", "back", "note", "loop")
_SHRINKING = (
    ("note", _SHORT_NOTE),
    ("date", 0),
    ("kept", 0),
    ("start", 0),
    ("end", 0),
    ("note", 1),
    ("loop", 1),
    ("thinned", 1),
    ("rate", 1),
    ("mode", 0),
    ("back", 1),
    ("back", 0),
    ("note", 0),
    ("loop", 0),
)
"""Texts to shrink if there is little room, in this order. Each shrinks to these cells, to a short
form (1), or to nothing (0)."""


def _shortened(
    name: str, room: int, seek: Seek, marks: Sequence[Mark], names: Names
) -> tuple[str, Style]:
    """Return the short form of a text."""
    if name == "loop":
        return "↻", theme.BAR_SEEK
    if name == "thinned":
        return f"thinned 1/{seek.one_in}", theme.BAR_SEEK
    if name == "rate":
        return _rate(seek, is_short=True), theme.BAR_SEEK
    if name == "back":
        return _short_back(seek), theme.BAR_SEEK
    return _note(seek, marks, names, room)


def _words(seek: Seek, marks: Sequence[Mark], names: Names) -> dict[str, tuple[str, Style]]:
    """Return every text beside the bar, by name."""
    is_playing = seek.mode is Mode.PLAYING
    mode = (
        "seeking"
        if seek.seeking
        else "playing"
        if is_playing
        else "at end "
        if seek.is_over
        else "paused "
    )
    words = {
        "sign": (PLAYING if is_playing else PAUSED, theme.BAR_SEEK_STRONG),
        "mode": (mode, theme.BAR_SEEK_STRONG),
        "rate": (_rate(seek), theme.BAR_SEEK),
        "date": (clock_text(seek.position_ns, with_date=True)[:10], theme.BAR_SEEK),
        "time": (clock_text(seek.position_ns), theme.BAR_SEEK_STRONG),
        "start": (_end_text(seek.start_ns, seek), theme.BAR_SEEK_QUIET),
        "end": (_end_text(seek.end_ns, seek), theme.BAR_SEEK_QUIET),
        "back": (back_text(seek).ljust(_longest_back(seek)), theme.BAR_SEEK),
        "note": _note(seek, marks, names, _LONG_NOTE),
    }
    if seek.kept_s > seek.span_ns / NS_PER_S:
        words["kept"] = (
            f"◂ charts {duration(seek.kept_s, DurationStyle.LONG)}",
            theme.BAR_SEEK_QUIET,
        )
    if seek.one_in > 1:
        words["thinned"] = (thinned_text(seek.one_in), theme.BAR_SEEK)
    if seek.loops:
        words["loop"] = ("↻ loop", theme.BAR_SEEK)
    return words


def _rate(seek: Seek, *, is_short: bool = False) -> str:
    """Return the rate, and the reached rate if it is lower."""
    rate = rate_text(seek.rate)
    if seek.mode is not Mode.PLAYING or seek.reached_rate >= _KEEPS_UP * seek.rate:
        return rate
    reached = f"x{float(f'{seek.reached_rate:.2g}'):g}"
    # Always as many cells, so that the bar keeps its place while the rate changes.
    return (
        f"{rate} {f'({reached})':{_SHORT_REACHES}}"
        if is_short
        else f"{rate} {f'(reaches {reached})':{_REACHES}}"
    )


def thinned_text(one_in: int) -> str:
    """Return how much telemetry the past has where it was thinned."""
    return f"thinned: 1 of {one_in} messages"


def _end_text(time_ns: int, seek: Seek) -> str:
    """Return the time of an end of the bar, with its day if it differs."""
    day, time = format_rfc3339(time_ns)[:19].split("T")
    return time if day == format_rfc3339(seek.position_ns)[:10] else f"{day[5:]} {time}"


def _short_back(seek: Seek) -> str:
    if seek.is_live_possible:
        return f"-{_clock(seek.end_ns - seek.position_ns)}"
    return _clock(seek.position_ns - seek.start_ns)


def _clock(span_ns: int) -> str:
    return duration(span_ns // NS_PER_S, DurationStyle.CLOCK)


def _note(seek: Seek, marks: Sequence[Mark], names: Names, room: int) -> tuple[str, Style]:
    """Return the note in exactly `room` cells: missing alerts, or the last mark.

    Gaps in events and alerts come first, then the last mark before the position. An empty text has
    the same width, so that the bar stays in place.
    """
    if seek.incomplete:
        text = (
            f"≈ {seek.incomplete}" if seek.incomplete == LOADING else f"≈ alerts {seek.incomplete}"
        )
        return fit(text, room) if room > 1 else "≈", theme.SEEK_SEVERITY[Severity.WARNING]
    near_ns = max(2 * NS_PER_S, round(_NEAR_SHARE * seek.span_ns))
    place = bisect.bisect_right(marks, seek.position_ns, key=lambda mark: mark.time_ns)
    last = marks[place - 1] if place else None
    if last is None or seek.position_ns - last.time_ns > near_ns or room < _SHORT_NOTE:
        return " " * room, theme.BAR_SEEK
    _, glyph, style = mark_look(last)
    where = last_segments(plain(names.address(last.target)))
    return fit(f"{glyph} {where + ': ' if where else ''}{plain(last.text)}", room), style


def _used(words: dict[str, tuple[str, Style]]) -> int:
    """Return the cells of texts with the blanks between and the bar's two ends."""
    return sum(width_of([word]) + 1 for word in words.values()) + 4


def _side(words: dict[str, tuple[str, Style]], names: tuple[str, ...]) -> Parts:
    parts: Parts = [(" ", theme.BAR_SEEK)]
    for name in names:
        if name in words:
            parts += [words[name], (" ", theme.BAR_SEEK)]
    return parts


class SeekBar(Bar):
    """The line of a playback, read only; a click or drag posts `Sought`."""

    DEFAULT_CSS = "SeekBar { display: none; } SeekBar.-shown { display: block; }"

    @dataclass
    class Sought(Message):
        """A time was clicked, or the pointer was dragged to it."""

        time_ns: int
        is_end: bool
        """Whether the end is meant, even if it has moved since."""

    def __init__(self, playback: Playback | None, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(fill=lambda: theme.BAR_SEEK, id=id)
        self._playback = playback
        self._of: UiContext | None = None
        self._track = range(0)
        self._drawn: Seek | None = None
        self._pulled = -1
        """Cell of the bar under the dragged pointer; -1 while no button is down."""
        self._held: tuple[Seek, range] | None = None
        """The bar as drawn when the button went down. During a drag, a cell means the same time."""

    def show_playback(self, playback: Playback | None, context: UiContext | None = None) -> None:
        """Show another playback from now on, and how far the history of its fleet reaches."""
        self._of = context
        self._playback = playback
        self._drawn = None
        self._held = None

    @property
    def shown(self) -> UiContext | None:
        """The fleet that is shown."""
        return self._of

    @property
    def track(self) -> range:
        """Cells of the line used by the bar."""
        return self._track

    def follow(self) -> None:
        """Show the playback as it is now."""
        playback = self._playback
        if playback is not None:
            self._drawn = Seek.from_playback(playback, 0 if self._of is None else self._of.kept_s)
            self.show(self._line)

    def _line(self, width: int) -> list[Parts]:
        if self._playback is None or self._drawn is None:
            return []
        names = NO_NAMES if self._of is None else self._of.monitor.ingest.names
        line = seek_line(self._drawn, width, self._playback.marks, names)
        self._track = line.track
        return [line.parts]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Seek to the pointer, and follow it until the button is released."""
        if event.x in self._track and self._drawn is not None:
            self._held = self._drawn, self._track
            self.capture_mouse()
            self._pull(event.x)
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the pointer while the button is down."""
        if self._held is not None:
            self._pull(event.x)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Stop following the pointer."""
        self._pulled = -1
        self._held = None
        self.release_mouse()
        event.stop()

    def _pull(self, x: int) -> None:
        if self._held is None:
            return
        drawn, track = self._held
        cell = min(max(x - track.start, 0), len(track) - 1)
        if cell != self._pulled:
            self._pulled = cell
            time_ns = time_at(cell, drawn, len(track))
            self.post_message(self.Sought(time_ns, is_end=time_ns >= drawn.end_ns))
