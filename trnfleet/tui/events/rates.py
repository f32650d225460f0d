"""Events over time: the number per severity, below the list, on the charts' scale.

It counts the events that match the list's filter. Each severity has a line, so that a critical
event is visible among hundreds of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.quantities import count
from trnfleet.domain.severity import BY_RANK
from trnfleet.tui import theme
from trnfleet.tui.charts import plot
from trnfleet.tui.charts.axes import ChartMark, time_axis
from trnfleet.tui.charts.chart import LEAST_WIDTH, head
from trnfleet.tui.charts.history import ChartInputs, chart_inputs
from trnfleet.tui.charts.place import LEAST_ROWS, MOST_ROWS
from trnfleet.tui.view import CHARTS_FROM, LEAST_LIST, in_steps
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line, text_line

if TYPE_CHECKING:
    from collections.abc import Hashable

    from trnfleet.tui.events.list import EventList
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.cells import Parts


RATES_FROM = 100
"""Least cells of the view for the time line."""
TALL_FROM = 40
"""Rows from which time line and charts are shown beside a list of any length."""
LEAST_BESIDE = 14
"""Least rows of the list beside the details."""


def rates_rows(rows: int) -> int:
    """Return the rows of the time line: blank, title and axis, and some for each severity."""
    return 3 + len(BY_RANK) * rows


RATES = rates_rows(1)
TALL_RATES = rates_rows(2)


class EventSpace(NamedTuple):
    """Rows below the list."""

    rates: int = 0
    charts: int = 0

    @staticmethod
    def share(width: int, rows: int, listed: int, *, is_beside: bool) -> EventSpace:
        """Return the rows shared out.

        Args:
            width: Cells of the view.
            rows: Rows without tabs, head and foot.
            listed: Rows needed by the whole list.
            is_beside: Whether the event's details are beside the list.
        """
        if width < RATES_FROM:
            return EventSpace()
        spare = rows - max(LEAST_BESIDE if is_beside else LEAST_LIST, in_steps(listed + 1))
        if rows >= TALL_FROM:
            spare = max(spare, rows // 2)
        if spare < RATES:
            return EventSpace()
        charts = min(MOST_ROWS, spare - TALL_RATES) if width >= CHARTS_FROM else 0
        if charts >= LEAST_ROWS:
            return EventSpace(TALL_RATES, charts)
        return EventSpace(TALL_RATES if spare >= TALL_RATES else RATES)


_LABEL = 24
"""Cells before the time line: severity, number, and maximum per cell."""
_PICKED = "◆"
"""Marks the event under the cursor on the time axis."""


class EventRates(LineView, can_focus=False):
    """The time line of the list's events."""

    DEFAULT_CSS = "EventRates { display: none; overflow: hidden; }"

    def __init__(self, context: UiContext, events: EventList) -> None:
        super().__init__()
        self._ui = context
        self._events = events
        self._read_of: Hashable = None
        self._times_ns = np.zeros(0, np.int64)
        self._ranks = np.zeros(0, np.int64)

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        """Return a title, a line or two for each severity, and the time axis."""
        self._read()
        context = self._ui
        cells = width - _LABEL - 2
        if cells < LEAST_WIDTH:
            return []
        inputs = chart_inputs(context.monitor, context.window, shows_past=context.shows_past)
        times = inputs.times
        grid = plot.Grid(times.span_s, cells * plot.COLUMNS, times.end_s)
        ends_ns = context.monitor.moment().time_ns
        speed = times.speed
        seconds = times.end_s - np.maximum(ends_ns - self._times_ns, 0) / NS_PER_S / speed
        at = (
            np.array([grid.column_of(second) for second in seconds.tolist()], np.int64)
            // plot.COLUMNS
        )
        shown = (at >= 0) & (at < cells)
        rows = 2 if height >= TALL_RATES else 1
        made = [self._title(inputs, cells, width)]
        for severity in BY_RANK:
            here = at[shown & (self._ranks == severity.rank)]
            counts = np.bincount(here, minlength=cells).astype(np.float64)
            most = int(counts.max())
            label = f"{theme.SEVERITY_GLYPH[severity]} {severity.value:<9}{count(len(here)):>6}"
            note = f"most {count(most)}" if most else ""
            drawn = plot.area(np.where(counts > 0, counts, np.nan), 0.0, max(most, 1), rows)
            for number, text in enumerate(drawn):
                is_last = number == rows - 1
                words = label if is_last else note.rjust(len(label))
                style = (
                    theme.QUIET if not len(here) or not is_last else theme.SEVERITY_STYLE[severity]
                )
                parts: Parts = [
                    (f" {words}".ljust(_LABEL), style),
                    ("┤", theme.CHART_AXIS),
                    (text, theme.SEVERITY_STYLE[severity]),
                ]
                made.append(text_line(parts, width))
        made.append(text_line(self._axis(inputs, grid, cells, ends_ns), width))
        return [blank_line(width), *made] if len(made) < height else made

    def _title(self, inputs: ChartInputs, cells: int, width: int) -> Line:
        per_s = inputs.times.span_s / cells
        every = f"{per_s:.2g} s" if per_s < 60 else f"{per_s / 60:.2g} min"
        parts: Parts = [(" ", theme.BASE), ("Events by severity", theme.STRONG)]
        return text_line(head(parts, f"{inputs.note}, {every} a cell", width - 1), width)

    def _axis(self, inputs: ChartInputs, grid: plot.Grid, cells: int, ends_ns: int) -> Parts:
        """Return the time axis, with a mark for the event under the cursor.

        Labels make room for the mark.
        """
        indent = (" " * (_LABEL + 1), theme.BASE)
        event = self._events.picked
        times = inputs.times
        back_s = -1.0 if event is None else max(0, ends_ns - event.ts_ns) / NS_PER_S / times.speed
        column = grid.column_of(times.end_s - back_s)
        if event is None or not 0 <= column < grid.columns:
            return [indent, *time_axis(times, (), grid, cells)]
        mark = ChartMark(back_s, event.severity)
        made: Parts = [indent]
        at = column // plot.COLUMNS
        for text, style in time_axis(times, (mark,), grid, cells):
            if 0 <= at < len(text):
                made += [(text[:at], style), (_PICKED, theme.LINK), (text[at + 1 :], style)]
            else:
                made.append((text, style))
            at -= len(text)
        return made

    def _read(self) -> None:
        """Read times and severities of events if they changed."""
        events = self._events
        read_of = (self._ui.monitor.revision.source, events.changes)
        if read_of == self._read_of:
            return
        self._read_of = read_of
        number = events.count
        event_rows = [events.row_key(index) for index in range(number)]
        self._times_ns = np.fromiter((event.ts_ns for event in event_rows), np.int64, number)
        self._ranks = np.fromiter((event.severity.rank for event in event_rows), np.int64, number)
