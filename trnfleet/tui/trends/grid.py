"""The widget for charts beside and below each other.

They are drawn in whole rows, once per sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui.widgets import charts
from trnfleet.tui.widgets.cells import Column, FixedParts, beside
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.trends.trend import Trend

LEAST_ROWS = 7
"""Title, four rows, time axis and a blank line. A smaller chart shows no more than a number."""
MOST_ROWS = 40
_CHART_WIDTH = 42
_WORDS_FROM = 60
"""Least cells of a chart, and least cells for unabridged titles and limits."""
_COMFORTABLE_ROWS = 9
_MOST_COLUMNS = 3
_GAP = 2


class Plan(NamedTuple):
    """How charts share the space."""

    columns: int
    rows: int
    width: int
    """Cells of each."""

    @staticmethod
    def of(number: int, width: int, height: int) -> Plan:
        """Return the arrangement of as many charts as fit, in whole rows."""
        most = max(1, min(_MOST_COLUMNS, number, (width + _GAP) // (_CHART_WIDTH + _GAP)))
        high = max(1, height // _COMFORTABLE_ROWS)
        roomy = (width + _GAP) // (_WORDS_FROM + _GAP)
        # Below each other where beside each other titles and limits would lack their words.
        columns = next(
            (across for across in range(min(most, roomy), 0, -1) if across * high >= number), most
        )
        rows = max(1, min(number // columns, high))
        return Plan(columns, rows, (width - _GAP * (columns - 1)) // columns)


class ChartGrid(LineView, can_focus=False):
    """Charts beside and below each other; subclasses choose them."""

    def __init__(self, context: UiContext, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._ui = context
        self._drawn_of: Hashable = None
        self._drawn: list[tuple[Trend, list[FixedParts]]] = []
        self._plan = Plan(1, 1, 1)
        self._heights = [1]

    def makers(self) -> list[Callable[[], Trend]]:
        """Return a function per chart, the most important first.

        Only charts with room are made.
        """
        raise TypeError(f"{type(self).__name__} does not implement makers()")

    def figure(self, key: str) -> str:
        """Return the text of a field's present value, the value of a chart's last column."""
        raise TypeError(f"{type(self).__name__} does not implement figure({key!r})")

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the charts, divided evenly over the space."""
        return self.rows_of_charts(height, width)[top:height]

    def rows_of_charts(self, height: int, width: int) -> list[Line]:
        """Return the charts' lines; none where there are no charts."""
        drawn, plan, heights = self._charts(width - 2, height)
        made: list[Line] = []
        for row in range(plan.rows if drawn else 0):
            cells: list[Column] = []
            for trend, body in drawn[row * plan.columns : (row + 1) * plan.columns]:
                head = charts.head(trend.title(self.figure, plan.width), trend.note, plan.width)
                cells += [Column((), _GAP if cells else 1), Column([head, *body], plan.width)]
            lines = beside(cells, width)
            made += [blank_line(width)] * (heights[row] - len(lines)) + lines
        return made

    def restyled(self) -> None:
        """Draw again in another theme."""
        self._drawn_of = None

    def drawn_of(self) -> tuple[Hashable, ...]:
        """Return the inputs of the charts besides their size.

        A change redraws them.
        """
        context = self._ui
        monitor = context.monitor
        return (
            monitor.revision.source,
            monitor.history.end,
            monitor.store.generation,
            context.alerts.revision,
            context.window.span_s(monitor.history.end),
            context.shows_past,
            None if context.history is None else context.history.revision,
        )

    def _charts(
        self, width: int, height: int
    ) -> tuple[list[tuple[Trend, list[FixedParts]]], Plan, list[int]]:
        """Return the charts, redrawn only for a new sample, alert or size."""
        drawn_of = (*self.drawn_of(), width, height)
        if drawn_of != self._drawn_of:
            self._drawn_of = drawn_of
            makers = self.makers()
            plan = Plan.of(max(1, len(makers)), width, height)
            heights = _shared(height, plan.rows)
            placed = [
                (make(), number % plan.columns, heights[number // plan.columns] - 2)
                for number, make in enumerate(makers[: plan.columns * plan.rows])
            ]
            axes = [charts.value_axis(trend.chart, plan.width, rows) for trend, _, rows in placed]
            shared = [0] * plan.columns
            # A chart alone in its column has the axis that it needs.
            for (_, column, _), axis in zip(placed, axes, strict=True) if plan.rows > 1 else ():
                shared[column] = max(shared[column], axis.cells)
            self._drawn = [
                (trend, charts.draw(trend.chart, plan.width, rows, axis=shared[column], own=axis))
                for (trend, column, rows), axis in zip(placed, axes, strict=True)
            ]
            self._plan = plan
            self._heights = heights
        return self._drawn, self._plan, self._heights


def _shared(height: int, rows: int) -> list[int]:
    """Return the height of each row of charts."""
    return [height // rows + (row < height % rows) for row in range(rows)]
