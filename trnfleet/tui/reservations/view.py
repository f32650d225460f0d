"""The Reservations view: reserved capacity as a table and as a timeline.

It shows the part of the fleet held by each reservation, owns the keys of the timeline and the
filter's prompt, and divides the space. The highlight in other views is the app's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on

from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.quantities import counted
from trnfleet.tui import theme
from trnfleet.tui.charts.place import LEAST_ROWS, ChartedPlace, PlaceCharts
from trnfleet.tui.format.reservations import head
from trnfleet.tui.keys import bind
from trnfleet.tui.reservations import timeline
from trnfleet.tui.reservations.details import ReservationDetails, alerts_of, foot, summary
from trnfleet.tui.reservations.table import (
    NOT_FOUND,
    NOTHING,
    RESERVATION_COLUMNS,
    SORTS,
    ReservationRow,
    ReservationTable,
)
from trnfleet.tui.reservations.timeline import CELLS_S, LABEL, TimelineView
from trnfleet.tui.snapshots.table import ExportTable, table_of
from trnfleet.tui.state.highlight import place_of
from trnfleet.tui.state.subjects import Subject, of_reservation
from trnfleet.tui.view import CHARTS_FROM, FilteredView, View, filter_keys, sort_key
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.cells import fit
from trnfleet.tui.widgets.focus import focus_on

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.tui.state.context import UiContext

_FIXED_ROWS = 6
"""Summary, head, the axis' two and the foot's two."""
_LEAST_DETAILS = 9
"""Least spare rows for details of the reservation under the cursor."""


class ReservationsView(FilteredView):
    """Table above, timeline below, the chosen reservation in words at the foot."""

    DEFAULT_CSS = """
    ReservationsView { layout: vertical; }
    ReservationTable { height: 1fr; }
    TimelineView { height: 1fr; }
    ReservationDetails { display: none; }
    """
    ORDERS = SORTS
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left", "pan(-1)", "timeline: into the past"),
        bind("right", "pan(1)", "timeline: into the future"),
        bind("now", "now", "timeline: back to now"),
        bind("zoom-in", "zoom(-1)", "timeline: zoom in"),
        bind("zoom-out", "zoom(1)", "timeline: zoom out"),
        bind("sort", "sort", f"sort: {', '.join(SORTS)}"),
        *filter_keys(
            "filter: part of anything, idle>40, util<10 & state=active, at=uc1/us-0001, !text"
        ),
        *map(sort_key, SORTS),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.table = ReservationTable(context)
        self.sorted_list = self.table
        self.timeline = TimelineView(context, self.table)
        self.details = ReservationDetails(context, self.table, self.timeline)
        self.charts = PlaceCharts(context, self._charted)
        self._summary = Bar()
        self._head = Bar(fill=lambda: theme.HEAD)
        self._axis = Bar(fill=lambda: theme.HEAD)
        self._axis.styles.height = 2
        self._foot = Bar(fill=lambda: theme.HEAD)
        self._foot.styles.height = 2
        self._note = ""
        """The note above the table, until the cursor moves."""

    def compose(self) -> ComposeResult:
        yield self._summary
        yield self._head
        yield self.table
        yield self._axis
        yield self.timeline
        yield self.details
        yield self.charts
        yield self._foot
        yield self.prompt

    def on_mount(self) -> None:
        self._write()

    @property
    def place(self) -> str:
        """The first address of the reservation under the cursor."""
        chosen = self.table.picked
        return "" if chosen is None else place_of(chosen, self.monitor.store.layout)

    @property
    def subject(self) -> Subject:
        """The reservation under the cursor."""
        chosen = self.table.picked
        if chosen is None:
            return super().subject
        return of_reservation(self.context.alerts, chosen.message.id, chosen.rows)

    @property
    def compared(self) -> tuple[str, ReservationTable]:
        return "reservation", self.table

    def show_place(self, _address: str) -> None:
        """Paint only: the reservation under the cursor is chosen by its id."""
        self.tick()

    def show_reservation(self, reservation_id: str) -> None:
        """Move the cursor to a reservation.

        A filter hiding it is cleared.
        """
        self._note = ""
        self.table.choose(reservation_id)
        chosen = self.table.picked
        if self.table.wanted and (chosen is None or chosen.message.id != reservation_id):
            self.filter("")
            self.table.choose(reservation_id)
        self.tick()

    def tell(self, note: str) -> None:
        """Show a note above the table until the cursor moves; printable characters only."""
        self._note = note
        self._write()

    def take_focus(self) -> None:
        focus_on(self.table)

    def renew(self) -> None:
        self.timeline.renew()

    def tick(self) -> None:
        self._share_space()
        self.table.tick()
        self.timeline.tick()
        self.details.tick()
        self.charts.tick()
        self._write()

    def action_pan(self, cells: int) -> None:
        """Move the timeline by an eighth of its width."""
        self.timeline.pan += cells * max(1, self.timeline.cells // 8)
        self.tick()

    def action_now(self) -> None:
        """Bring now back to its place."""
        self.timeline.pan = 0
        self.tick()

    def action_zoom(self, step: int) -> None:
        """Make a cell of the timeline longer (1) or shorter (-1)."""
        self.timeline.rezoom(min(max(self.timeline.zoom + step, 0), len(CELLS_S) - 1))
        self.tick()

    @on(ReservationTable.Changed)
    def _pointed(self, event: ReservationTable.Changed) -> None:
        event.stop()
        self._note = ""
        self.tick()
        self.post_message(View.Moved(self.place))

    def columns(self) -> Columns:
        return RESERVATION_COLUMNS

    def export(self) -> ExportTable:
        """Return the reservations that are listed."""
        use = self.table.use
        return table_of(
            RESERVATION_COLUMNS,
            [
                ReservationRow(reservation, use.util_pct(reservation))
                for reservation in self.table.rows
            ],
        )

    def take_filter(self, query: Filter) -> None:
        self.table.wanted = query
        self.tick()

    def found_text(self) -> str:
        rows = len(self.table.rows)
        return (
            counted(rows, "reservation")
            if rows
            else hint(self.pattern, RESERVATION_COLUMNS) or NOT_FOUND
        )

    def _share_space(self) -> None:
        """Divide the space: up to half for the table, the rest for the timeline.

        Rows left empty by the timeline go to the details.
        """
        rows = self.size.height - _FIXED_ROWS - 2 * self.has_class("asking")
        if rows <= 0:
            return
        known = len(self.monitor.reservations)
        # An axis without a line says nothing; the table says why there is none.
        if not self.table.rows:
            self.table.sync()
        is_listed = bool(self.table.rows)
        for pane in (self._axis, self.timeline, self._foot):
            pane.display = is_listed
        if not is_listed:
            self.charts.lend(0)
            self.details.display = False
            self.table.styles.height = "1fr"
            return
        table_rows = max(3, min(known, rows // 2)) if known else len(NOTHING)
        # The legend stands below the last line.
        spare = rows - table_rows - known - 2
        lent = spare if known and spare >= _LEAST_DETAILS else 0
        details = max(_LEAST_DETAILS, self.details.rows_wanted) if lent else 0
        charts = lent - details if self.size.width >= CHARTS_FROM else 0
        if lent and charts >= LEAST_ROWS:
            lent = details
        else:
            charts = 0
        self.charts.lend(charts)
        self.table.styles.height = table_rows
        self.details.styles.height = lent
        self.details.display = lent > 0

    def _charted(self) -> ChartedPlace | None:
        """Return the place for the charts: the first one of the reservation under the cursor.

        None if unknown.
        """
        place = self.place
        return ChartedPlace(self.context, place) if place else None

    def _write(self) -> None:
        window = self.timeline.window()
        labels, ticks = timeline.axis(window)
        indent = " " * LABEL
        self._axis.show(
            lambda _width: [
                [(indent + labels, theme.HEAD)],
                [
                    (fit(f" scale {timeline.cell_text(window)}", LABEL), theme.HEAD),
                    (ticks, theme.HEAD_ACCENT),
                ],
            ]
        )
        table, known, note = self.table, self.monitor.reservations.table(), self._note
        mean_s = table.use.seconds
        # A column of the table is its scroll bar's.
        self._head.show(lambda width: [head(max(1, width - 1), mean_s)])
        chosen = table.picked
        reservations = self.monitor.reservations
        silent = [] if chosen is None else reservations.without_telemetry(chosen)
        alerts = [] if chosen is None else alerts_of(self.context.alerts, chosen)
        self._summary.show(
            lambda width: [
                summary(known, len(table.rows), table.order, table.wanted.typed, note, width)
            ]
        )
        self._foot.show(lambda width: foot(chosen, width, silent, alerts))
