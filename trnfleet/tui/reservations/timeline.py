"""The timeline of reservations: axis, cells of a reservation, and widget.

The widget pans and zooms it. Cells are half-open intervals. Past, present and future, paid and
unpaid, watched and unwatched differ in their characters, not in colour alone.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.durations import DAY_NS
from trnfleet.domain.quantities import DurationStyle, duration
from trnfleet.domain.reservations.states import BlockState, ExtensionState
from trnfleet.monitor.reservations.usage import HOUR_NS, UsageHour
from trnfleet.tui import theme
from trnfleet.tui.format.reservations import is_ended, is_waiting, severity, short_id
from trnfleet.tui.widgets.cells import Parts, fit
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rich.style import Style
    from textual import events

    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.tui.reservations.table import ReservationTable
    from trnfleet.tui.state.context import UiContext

CELLS_S = (900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 604_800)
"""Possible seconds per cell, from near to far."""
DEFAULT_ZOOM = 4
NOW_AT = 0.3
"""Where now stands in the window, as a share of it."""
LABEL_GAP = 2
"""Least cells between two dates of the axis."""
LABEL = 13
"""Cells of the names on the left, with the space behind them."""
_FAILED = frozenset(
    {BlockState.PAYMENT_FAILED.value, BlockState.CANCELLED.value, BlockState.FAILED.value}
)

HEIGHTS = "▁▂▃▄▅▆▇"
"""Glyphs for the use in a cell. None is full, so that lines stay apart."""
UNKNOWN = "·"
AHEAD = "━"
EXTENDED = "═"
SCHEDULED = "╌"
UNPAID = "?"
ENDED = "─"
FAILED = "✖"
NOW = "│"
LEGEND = (
    f"{HEIGHTS[0]}{HEIGHTS[3]}{HEIGHTS[6]} use  {UNKNOWN} no data  {AHEAD} active  {EXTENDED}"
    f" extension  {SCHEDULED} scheduled  {UNPAID} unpaid  {ENDED} ended  {FAILED} failed"
)


class TimelineWindow(NamedTuple):
    """The visible part of time."""

    begin_ns: int
    """Of the first cell."""
    cell_s: int
    cells: int
    now_ns: int

    @staticmethod
    def around(now_ns: int, zoom: int, pan: int, cells: int) -> TimelineWindow:
        """Return a window.

        Args:
            now_ns: The present.
            zoom: Index into `CELLS_S`.
            pan: Cells that it is moved into the future (past: negative) from where now stands at
                `NOW_AT`.
            cells: Its width.
        """
        cell_ns = CELLS_S[zoom] * NS_PER_S
        # Cells begin at whole multiples, so that nothing crawls while time goes on.
        now_cell = now_ns // cell_ns
        return TimelineWindow(
            (now_cell - int(cells * NOW_AT) + pan) * cell_ns, CELLS_S[zoom], cells, now_ns
        )

    @property
    def cell_ns(self) -> int:
        return self.cell_s * NS_PER_S

    @property
    def now_cell(self) -> int:
        """The cell of the present; may be out of the window."""
        return (self.now_ns - self.begin_ns) // self.cell_ns

    def cell_of(self, instant_ns: int) -> int:
        """Return the cell of an instant; may be out of the window."""
        return (instant_ns - self.begin_ns) // self.cell_ns

    def begin_of(self, cell: int) -> int:
        return self.begin_ns + cell * self.cell_ns


def covers(window: TimelineWindow, cell: int, start_ns: int, end_ns: int) -> bool:
    """Return whether [start, end) holds any of a cell."""
    begin_ns = window.begin_of(cell)
    return start_ns < begin_ns + window.cell_ns and begin_ns < end_ns


class Watched(NamedTuple):
    """How a reservation was used hour by hour, ascending."""

    hours: NDArray[np.int64]
    """Begins of the hours, in hours since 1970."""
    watched_s: NDArray[np.float64]
    util_pct: NDArray[np.float64]

    @staticmethod
    def from_hours(hours: Sequence[UsageHour]) -> Watched:
        """Return hours as columns, without hours of no watched second."""
        known = [hour for hour in hours if hour.watched_s > 0]
        return Watched(
            np.array([hour.hour_ns // HOUR_NS for hour in known], np.int64),
            np.array([hour.watched_s for hour in known], np.float64),
            np.array([hour.util_pct for hour in known], np.float64),
        )


def used_by_cell(watched: Watched, window: TimelineWindow) -> NDArray[np.float64]:
    """Return the mean utilisation in each cell, in %; NaN where nothing was watched.

    Cells of an hour share its value.
    """
    first = window.begin_ns // HOUR_NS
    if window.cell_ns < HOUR_NS:
        if not len(watched.hours):
            return np.full(window.cells, np.nan)
        numbers = window.begin_ns // window.cell_ns + np.arange(window.cells, dtype=np.int64)
        hours = numbers // (HOUR_NS // window.cell_ns)
        indices = np.minimum(np.searchsorted(watched.hours, hours), len(watched.hours) - 1)
        return np.where(watched.hours[indices] == hours, watched.util_pct[indices], np.nan)
    cells = (watched.hours - first) // (window.cell_ns // HOUR_NS)
    inside = (cells >= 0) & (cells < window.cells)
    cells = cells[inside]
    seconds = watched.watched_s[inside]
    total_s = np.bincount(cells, seconds, window.cells)
    util_s = np.bincount(cells, seconds * watched.util_pct[inside], window.cells)
    return np.where(total_s > 0, util_s / np.where(total_s > 0, total_s, 1.0), np.nan)


def glyphs(reservation: Reservation, watched: Watched, window: TimelineWindow) -> list[str]:
    """Return a reservation's character in every cell; a space where it is not."""
    start_ns = reservation.starts_ns
    end_ns = _end_ns(reservation)
    made = [" "] * window.cells
    first = max(0, window.cell_of(start_ns))
    after = min(window.cells, window.cell_of(end_ns - 1) + 1)
    fixed = _fixed(reservation)
    if first < after and fixed:
        made[first:after] = [fixed] * (after - first)
    elif first < after:
        unknown = ENDED if is_ended(reservation) else UNKNOWN
        ahead = min(max(first, window.now_cell + 1), after)
        for cell, used_pct in enumerate(used_by_cell(watched, window)[first:ahead].tolist(), first):
            made[cell] = unknown if math.isnan(used_pct) else _height(used_pct)
        made[ahead:after] = [AHEAD] * (after - ahead)
    for extension in reservation.message.extensions:
        begin_ns, until_ns = _span(extension.start, extension.end)
        if extension.state is ExtensionState.PAYMENT_PENDING:
            for cell in range(
                max(0, window.cell_of(begin_ns)), min(window.cells, window.cell_of(until_ns) + 1)
            ):
                if made[cell] == " " and covers(window, cell, begin_ns, until_ns):
                    made[cell] = UNPAID
        elif extension.state is ExtensionState.PAYMENT_SUCCEEDED:
            for cell in range(
                max(0, window.cell_of(begin_ns)), min(window.cells, window.cell_of(until_ns) + 1)
            ):
                if (
                    made[cell] in {AHEAD, SCHEDULED}
                    and begin_ns <= window.begin_of(cell) < until_ns
                ):
                    made[cell] = EXTENDED
    return made


def _height(used_pct: float) -> str:
    return HEIGHTS[min(len(HEIGHTS) - 1, max(0, int(used_pct * len(HEIGHTS) / 100)))]


def _end_ns(reservation: Reservation) -> int:
    return 2**63 if reservation.ends_ns is None else reservation.ends_ns


def _span(start: str, end: str) -> tuple[int, int]:
    return parse_rfc3339(start), parse_rfc3339(end)


def _fixed(reservation: Reservation) -> str:
    """Return the character of all of a reservation's time; empty where past and future differ."""
    state = reservation.message.state.value
    if state in _FAILED:
        return FAILED
    if state == BlockState.PAYMENT_PENDING.value:
        return UNPAID
    return SCHEDULED if is_waiting(reservation) else ""


def line(
    reservation: Reservation, watched: Watched, window: TimelineWindow, *, selected: bool
) -> Parts:
    """Return a reservation's line: name, time with the now-line, and end if there is room."""
    trouble = severity(reservation)
    body: Style = theme.BASE
    if is_ended(reservation) or not reservation.is_current:
        body = theme.GHOST
    elif trouble is not None:
        body = theme.SEVERITY_STYLE[trouble]
    name = theme.SELECTED if selected else theme.GHOST if is_ended(reservation) else theme.QUIET
    parts: Parts = [
        (
            (">" if selected else " ")
            + fit(short_id(reservation.message.id, LABEL - 2), LABEL - 1),
            name,
        )
    ]
    now = window.now_cell
    drawn = glyphs(reservation, watched, window)
    at, note = words(reservation, drawn, window)
    chart = theme.CHART if trouble is None and body is not theme.GHOST else body
    quiet = theme.GHOST if body is theme.GHOST else theme.QUIET
    looks = {UNKNOWN: theme.GHOST, **dict.fromkeys(HEIGHTS, chart)}
    text = ""
    before = body
    for cell, own in enumerate(drawn):
        glyph = own
        style = looks.get(own, body)
        if at <= cell < at + len(note):
            glyph = note[cell - at]
            style = quiet
        if cell == now:
            glyph = NOW if glyph == " " else glyph
            style = theme.LINK
        if style is not before:
            parts.append((text, before))
            text = ""
            before = style
        text += glyph
    parts.append((text, before))
    return parts


def words(
    reservation: Reservation, drawn: Sequence[str], window: TimelineWindow
) -> tuple[int, str]:
    """Return the text beside a reservation and its first cell.

    The text is the end, or the direction and time of a reservation out of sight. Text never covers
    the now-line and is never cut: empty if it does not fit.
    """
    cells = [cell for cell, glyph in enumerate(drawn) if glyph != " "]
    if cells:
        last = cells[-1]
        end_ns = _drawn_end_ns(reservation)
        text = (
            f" {end_text(end_ns, window)}"
            if end_ns is not None and window.cell_of(end_ns - 1) == last
            else ""
        )
        at = last + 1
    elif window.begin_of(0) >= _end_ns(reservation):
        at = 0
        text = f"◂ {end_text(_end_ns(reservation), window)}"
    else:
        text = f"{end_text(reservation.starts_ns, window)} ▸"
        at = window.cells - len(text)
    fits = at >= 0 and at + len(text) <= window.cells and not at <= window.now_cell < at + len(text)
    return (at, text) if fits else (0, "")


def _drawn_end_ns(reservation: Reservation) -> int | None:
    """Return the end of the drawn time, unpaid extensions included."""
    ends = [] if reservation.ends_ns is None else [reservation.ends_ns]
    ends += [
        _span(extension.start, extension.end)[1]
        for extension in reservation.message.extensions
        if extension.state is ExtensionState.PAYMENT_PENDING
    ]
    return max(ends, default=None)


def axis(window: TimelineWindow) -> list[str]:
    """Return the axis: a line of dates or times, and a line of ticks.

    Both have the window's width; the second has the mark of now.
    """
    labels = [" "] * window.cells
    ticks = [" "] * window.cells
    free = 0
    for cell in range(window.cells):
        text = label(window, cell)
        if not text:
            continue
        ticks[cell] = "┬"
        if cell >= free and cell + len(text) <= window.cells:
            labels[cell : cell + len(text)] = text
            free = cell + len(text) + LABEL_GAP
    if 0 <= window.now_cell < window.cells:
        ticks[window.now_cell] = "▼"
    return ["".join(labels), "".join(ticks)]


def label(window: TimelineWindow, cell: int) -> str:
    """Return the label of a cell: its new day, or its hour.

    Hours appear if cells are short; most cells have no label.
    """
    begin_ns = window.begin_of(cell)
    end_ns = begin_ns + window.cell_ns
    day_ns = -(-begin_ns // DAY_NS) * DAY_NS
    if day_ns < end_ns:
        return _text(day_ns, "%m-%d")
    step_ns = max(6 * window.cell_ns, HOUR_NS)
    if window.cell_ns <= 2 * HOUR_NS and begin_ns % step_ns == 0:
        return _text(begin_ns, "%H:%M")
    return ""


def end_text(instant_ns: int, window: TimelineWindow) -> str:
    """Return an instant's day and minute in UTC.

    Beyond 300 days from now it is year and day.
    """
    is_near = abs(instant_ns - window.now_ns) < 300 * DAY_NS
    return _text(instant_ns, "%m-%d %H:%M" if is_near else "%Y-%m-%d")


def _text(instant_ns: int, pattern: str) -> str:
    try:
        return datetime.fromtimestamp(instant_ns // NS_PER_S, UTC).strftime(pattern)
    except (ValueError, OverflowError, OSError):
        # Years that a calendar does not have.
        return ""


def cell_text(window: TimelineWindow) -> str:
    """Return how long a cell is."""
    return duration(window.cell_s, DurationStyle.COARSE)


FRESH_S = 1.0
"""Wall seconds before the hours of a reservation are read again: 8 ms for 4,000 hours."""


class TimelineView(LineView, can_focus=False):
    """The table's reservations over time, in its order."""

    DEFAULT_CSS = "TimelineView { scrollbar-gutter: stable; overflow-x: hidden; }"

    def __init__(self, context: UiContext, table: ReservationTable) -> None:
        super().__init__()
        self._monitor = context.monitor
        self._clock = context.clock
        self._watched: dict[str, Watched] = {}
        """Use of visible reservations."""
        self._watched_s = -math.inf
        """Monotonic seconds from which on it was read."""
        self._table = table
        self.zoom = DEFAULT_ZOOM
        """Index into `CELLS_S`."""
        self.pan = 0
        """Cells from where now is at its place."""

    @property
    def cells(self) -> int:
        """Cells of time in a line."""
        return max(1, self.scrollable_content_region.width - LABEL)

    def window(self) -> TimelineWindow:
        """Return the visible part of time."""
        return TimelineWindow.around(
            self._monitor.moment().time_ns, self.zoom, self.pan, self.cells
        )

    def rezoom(self, zoom: int) -> None:
        """Change the length of cells.

        A panned window's middle stays in place; without panning, now does.
        """
        window = self.window()
        if zoom == self.zoom:
            return
        if not self.pan:
            self.zoom = zoom
            return
        middle_ns = window.begin_of(self.cells // 2)
        self.zoom = zoom
        self.pan = 0
        self.pan = self.window().cell_of(middle_ns) - self.cells // 2

    def watched(self, reservation_id: str) -> Watched:
        """Return how a reservation was used, as of a moment ago."""
        now_s = self._clock.monotonic_s()
        if now_s - self._watched_s >= FRESH_S:
            self._watched.clear()
            self._watched_s = now_s
        if reservation_id not in self._watched:
            hours = self._monitor.reservations.usage(reservation_id)
            self._watched[reservation_id] = Watched.from_hours(hours)
        return self._watched[reservation_id]

    def renew(self) -> None:
        self._watched.clear()

    def on_click(self, event: events.Click) -> None:
        number = self.top + event.y
        if number < len(self._table.rows):
            self._table.point(number)

    def tick(self) -> None:
        """Scroll to the table's cursor, and paint changes."""
        shown = self._table.rows
        self.set_extent(0, len(shown))
        height = max(1, self.scrollable_content_region.height)
        top = min(max(self.top, self._table.row - height + 1), self._table.row)
        if top != self.top:
            self.scroll_to(y=top, animate=False, force=True)
        super().tick()

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        window = self.window()
        made: list[Line] = []
        for number in range(top, min(top + height, len(self._table.rows))):
            reservation = self._table.rows[number]
            watched = self.watched(reservation.message.id)
            parts = line(reservation, watched, window, selected=number == self._table.row)
            made.append(text_line(parts, width))
        if self._table.rows and len(made) < height:
            made.append(text_line([(" " * LABEL + LEGEND, theme.GHOST)], width))
        return made
