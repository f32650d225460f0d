"""The fleet's last minutes: area charts for the space that a small fleet's heat map leaves.

It shows the whole fleet, whatever the cursor is on; a chip's own history is the Chip view's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.layout import FLEET_NODE
from trnfleet.domain.quantities import with_unit
from trnfleet.tui import theme
from trnfleet.tui.metric_display import FLEET_CHARTS
from trnfleet.tui.widgets import charts
from trnfleet.tui.widgets.cells import CHART, Column, FixedParts, beside
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line

if TYPE_CHECKING:
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.fields import Field

LEAST_ROWS = 6
"""Below this a chart says no more than a number."""
MOST_ROWS = 36
_CHART_WIDTH = 30
_CHART_ROWS = 5
_GAP = 3


class Trends(LineView, can_focus=False):
    """Charts of the fleet beside and below each other."""

    def __init__(self, monitor: FleetState, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = monitor

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the charts, divided evenly over the space."""
        inner = width - 2
        columns = max(1, min(3, (inner + _GAP) // (_CHART_WIDTH + _GAP)))
        rows = max(1, min(-(-len(FLEET_CHARTS) // columns), height // _CHART_ROWS))
        each = (inner - _GAP * (columns - 1)) // columns
        high = height // rows
        made: list[Line] = []
        for row in range(rows):
            shown = FLEET_CHARTS[row * columns : (row + 1) * columns]
            cells: list[Column] = []
            for field in shown:
                cells += [
                    Column((), 1 if not cells else _GAP),
                    Column(self._chart(field, each, high - 2), each),
                ]
            made += [blank_line(width), *beside(cells, width)]
        return made[top:height]

    def _chart(self, field: Field, width: int, height: int) -> list[FixedParts]:
        """Return a title line and an area chart of one field over the last seconds, one column a second."""
        store = self.monitor.store
        series = self.monitor.history.series(store.layout, FLEET_NODE, field.key)
        low, high = field.scale(store.layout)
        if not field.is_ratio:
            high *= max(1, store.layout.chips)
        values = charts.bucket(series, width, 1)
        now = with_unit(float(series[-1]) if len(series) else None, field.unit)
        # History has a sample for each second of the wall clock, whatever the fleet's own time does.
        span = f"last {width} s" + (" wall" if self.monitor.moment().speed != 1.0 else "")
        scale = f"of {with_unit(high, field.unit)}" if field.unit not in {"%", "degC"} else span
        room = width - len(field.title) - len(now) - len(scale) - 3
        if room < 2:
            scale, room = "", room + len(scale)
        title: FixedParts = (
            (field.title + " ", theme.QUIET),
            (now + " ", theme.STRONG),
            ("─" * max(0, room) + " ", theme.GHOST),
            (scale, theme.GHOST),
        )
        return [title, *(((text, CHART),) for text in charts.area(values, low, high, max(1, height)))]
