"""The seek bar's words at every width: pure functions from the playback's figures to styled texts.

Times are the recorder's wall clock in UTC; the fleet's own time is the header's.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.quantities import DurationStyle, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.replay.playback import Mode
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.playback.seek_track import Seek, mark_look, marked_cells, track
from trnfleet.tui.widgets.cells import Parts, fit, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.style import Style

    from trnfleet.monitor.replay.marks import Mark
    from trnfleet.tui.playback.seek_track import Marked

PLAYING, PAUSED = "▶", "‖"
LEAST_TRACK = 16
"""Cells that the bar itself has before words go."""
GOOD_TRACK = 0.3
"""Share of the line that it has before words go."""
_KEEPS_UP = 0.85
"""Share of the rate below which it is told what the machine manages instead."""
_REACHES = len(" (reaches x0.95)")
"""Cells in which that is told."""
_NEAR_SHARE = 0.015
"""Share of the recording, and at least two seconds, for which it is told what happened."""
_LONG_TOLD, _SHORT_TOLD = 44, 20
"""Cells in which that is told."""
_HOUR_NS = 3_600 * NS_PER_S
_FLOOR, _QUIET, _STRONG = theme.BAR_SEEK, theme.BAR_SEEK_QUIET, theme.BAR_SEEK_STRONG


class SeekLine(NamedTuple):
    """The seek bar's line, and which of its cells are the bar itself."""

    parts: Parts
    track: range


def rate_text(rate: float) -> str:
    """Return a rate, such as `x1`, `x1/8` or `x250`."""
    return f"x1/{round(1 / rate)}" if 0 < rate < 1 else f"x{rate:g}"


def clock_text(time_ns: int, *, with_date: bool = False) -> str:
    """Return a time of day to the second, with its date where that is asked for."""
    day, time = format_rfc3339(time_ns)[:19].split("T")
    return f"{day} {time}" if with_date else time


def back_text(seek: Seek) -> str:
    """Return how far back from the present one is, or how far into a file."""
    if seek.is_live_possible:
        return f"{duration(seek.behind_s)} back" if seek.behind_s >= 1 else "now"
    return f"{_clock(seek.position_ns - seek.start_ns)} of {_clock(seek.span_ns)}"


def _longest_back(seek: Seek) -> int:
    """Return the most cells that `back_text` takes in this recording, so that the bar stands still while the place moves."""
    at_ns = seek.start_ns if seek.is_live_possible else seek.end_ns
    longest = len(back_text(seek._replace(position_ns=at_ns)))
    # An hour in words is shorter than what is a little less.
    return longest + 1 if seek.span_ns >= _HOUR_NS else longest


def seek_line(
    seek: Seek,
    width: int,
    marks: Sequence[Mark] = (),
    find: Callable[[Sequence[Mark], Seek, int], Marked] = marked_cells,
) -> SeekLine:
    """Return the whole line for a width: words go first where there is little room, the time never.

    Args:
        seek: What is told.
        width: Cells.
        marks: What happened, in order.
        find: Returns the cells of the bar that are marked.
    """
    words = _words(seek, marks)
    wanted = max(LEAST_TRACK, round(width * GOOD_TRACK))
    for name, room in _GIVING_WAY:
        if _used(words) + wanted <= width:
            break
        if not room:
            words.pop(name, None)
        elif name in words:
            words[name] = _shortened(name, room, seek, marks)
    cells = max(1, width - _used(words))
    left, right = _side(words, _LEFT), _side(words, _RIGHT)
    parts: Parts = [
        *left,
        ("├", _QUIET),
        *track(seek, cells, find(marks, seek, cells)),
        ("┤", _QUIET),
        *right,
    ]
    first = width_of(left) + 1
    return SeekLine(parts, range(first, first + cells))


_LEFT = ("sign", "mode", "rate", "date", "time", "start")
_RIGHT = ("end", "back", "told", "loop")
_GIVING_WAY = (
    ("told", _SHORT_TOLD), ("date", 0), ("start", 0), ("end", 0), ("told", 1), ("loop", 1), ("mode", 0), ("back", 1),
    ("told", 0), ("back", 0), ("loop", 0),
)  # fmt: skip  # a list of names
"""What goes first where there is little room: into so few cells or a short form (1), or for good (0)."""


def _shortened(name: str, room: int, seek: Seek, marks: Sequence[Mark]) -> tuple[str, Style]:
    """Return the short form of a word."""
    if name == "loop":
        return "↻", _FLOOR
    return (_short_back(seek), _FLOOR) if name == "back" else _told(seek, marks, room)


def _words(seek: Seek, marks: Sequence[Mark]) -> dict[str, tuple[str, Style]]:
    """Return all that could be told beside the bar, by name."""
    is_playing = seek.mode is Mode.PLAYING
    rate = rate_text(seek.rate)
    if is_playing and seek.reached_rate < _KEEPS_UP * seek.rate:
        # As many cells whatever it is, so that the bar stands still while it changes.
        rate += f" (reaches x{float(f'{seek.reached_rate:.2g}'):g})".ljust(_REACHES)
    mode = "seeking" if seek.seeking else "playing" if is_playing else "paused "
    words = {
        "sign": (PLAYING if is_playing else PAUSED, _STRONG),
        "mode": (mode, _STRONG),
        "rate": (rate, _FLOOR),
        "date": (clock_text(seek.position_ns, with_date=True)[:10], _FLOOR),
        "time": (clock_text(seek.position_ns), _STRONG),
        "start": (_end_text(seek.start_ns, seek), _QUIET),
        "end": (_end_text(seek.end_ns, seek), _QUIET),
        "back": (back_text(seek).ljust(_longest_back(seek)), _FLOOR),
        "told": _told(seek, marks, _LONG_TOLD),
    }
    if seek.loops:
        words["loop"] = ("↻ loop", _FLOOR)
    return words


def _end_text(time_ns: int, seek: Seek) -> str:
    """Return the time of an end of the bar, with its day where that is another one."""
    day, time = format_rfc3339(time_ns)[:19].split("T")
    return time if day == format_rfc3339(seek.position_ns)[:10] else f"{day[5:]} {time}"


def _short_back(seek: Seek) -> str:
    if seek.is_live_possible:
        return f"-{_clock(seek.end_ns - seek.position_ns)}"
    return _clock(seek.position_ns - seek.start_ns)


def _clock(span_ns: int) -> str:
    return duration(span_ns // NS_PER_S, DurationStyle.CLOCK)


def _told(seek: Seek, marks: Sequence[Mark], room: int) -> tuple[str, Style]:
    """Return how far alerts can be trusted, else what happened just before the place, in `room` cells.

    It takes these cells whatever there is to tell, so that the bar does not jump about.
    """
    if not seek.is_exact:
        since = "" if seek.alerts_since_ns is None else f" since {clock_text(seek.alerts_since_ns)[:5]}"
        return fit(f"≈ alerts{since}", room) if room > 1 else "≈", theme.SEEK_SEVERITY[Severity.WARNING]
    near_ns = max(2 * NS_PER_S, round(_NEAR_SHARE * seek.span_ns))
    place = bisect.bisect_right(marks, seek.position_ns, key=lambda mark: mark.time_ns)
    last = marks[place - 1] if place else None
    if last is None or seek.position_ns - last.time_ns > near_ns or room < _SHORT_TOLD:
        return " " * room, _FLOOR
    _, glyph, style = mark_look(last)
    where = "/".join(plain(last.target).split("/")[-2:])
    return fit(f"{glyph} {where + ': ' if where else ''}{plain(last.text)}", room), style


def _used(words: dict[str, tuple[str, Style]]) -> int:
    """Return the cells that words take with the blanks between and the bar's two ends."""
    return sum(width_of([each]) + 1 for each in words.values()) + 4


def _side(words: dict[str, tuple[str, Style]], names: tuple[str, ...]) -> Parts:
    parts: Parts = [(" ", _FLOOR)]
    for name in names:
        if name in words:
            parts += [words[name], (" ", _FLOOR)]
    return parts
