"""The Jobs view: the table, the fleet's sums, the job under the cursor and its charts.

It shares out the space. In little room the details have a screen of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on

from trnfleet.domain.address import Level
from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.goodput import TimeCause, goodput_of
from trnfleet.domain.layout import Node
from trnfleet.domain.quantities import NOT_AVAILABLE, counted
from trnfleet.domain.severity import Severity
from trnfleet.monitor.goodput_report import NO_JOB, lost_of
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts.place import LEAST_ROWS, ChartedPlace, PlaceCharts
from trnfleet.tui.format.jobs import begin_of, place_of
from trnfleet.tui.jobs.details import JobDetails
from trnfleet.tui.jobs.table import (
    JOB_COLUMNS,
    MOST_ROWS,
    NOT_FOUND,
    NOTHING,
    SORTS,
    JobTable,
    amount_text,
    amounts_of,
    at_least,
    legend_items,
)
from trnfleet.tui.keys import bind, key_label
from trnfleet.tui.snapshots.table import ExportTable, table_of
from trnfleet.tui.state.subjects import Subject, of_job
from trnfleet.tui.view import CHARTS_FROM, FilteredView, View, filter_keys, sort_key
from trnfleet.tui.widgets.bar import Bar, cut, justified
from trnfleet.tui.widgets.cells import Parts, width_of
from trnfleet.tui.widgets.cursor_list import CursorList
from trnfleet.tui.widgets.focus import focus_on
from trnfleet.tui.widgets.targets import ClickTarget, Pressed, TargetKind

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.tui.state.context import UiContext

_FIXED_ROWS = 3
"""Summary, head and sum."""
_LEAST_DETAILS = 8
"""Least rows for details below the table."""
_ALONE = "-alone"
"""Style class of a view with the details alone."""


class JobsView(FilteredView):
    """Table above, the job under the cursor below."""

    DEFAULT_CSS = """
    JobsView { layout: vertical; }
    JobTable { height: 1fr; }
    JobDetails { display: none; }
    JobsView.-alone JobTable { display: none; }
    JobsView.-alone JobDetails { display: block; height: 1fr; }
    """
    ORDERS = SORTS
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("job-details", "details", "the job's details alone, and back"),
        bind("enter", "cause", "go to the cause of the job's loss, or to its place"),
        bind("money", "unit", "hours or money"),
        bind("sort", "sort", f"sort: {', '.join(SORTS)}"),
        *filter_keys("filter: part of anything, lost>10, goodput<80, kind=training, !text"),
        *map(sort_key, SORTS),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.table = JobTable(context)
        self.sorted_list = self.table
        self.details = JobDetails(context, self.table)
        self.charts = PlaceCharts(context, self._charted)
        self._summary = Bar()
        self._head = Bar(fill=lambda: theme.HEAD)
        self._sum = Bar()
        self._legend = Bar(least=0)
        self._shown_of: tuple[object, ...] = ()
        """What is on the screen; figures are others once a second."""

    def compose(self) -> ComposeResult:
        yield self._summary
        yield self._head
        yield self.table
        yield self._sum
        yield self._legend
        yield self.details
        yield self.charts
        yield self.prompt

    def on_mount(self) -> None:
        super().on_mount()
        self.tick()

    @property
    def place(self) -> str:
        """The first address of the job under the cursor, or of the instances without one."""
        row = self.table.picked
        layout = self.monitor.store.layout
        if row is None:
            return ""
        if row.key == NO_JOB:
            free = (self.monitor.store.job_of < 0).nonzero()[0]
            return layout.path(Node(Level.INSTANCE, int(free[0]))) if len(free) else ""
        return "" if row.job is None else begin_of(row.job, layout)

    @property
    def subject(self) -> Subject:
        """The job under the cursor."""
        row = self.table.picked
        if row is None or row.job is None:
            return super().subject
        return of_job(self.context.alerts, row.key)

    @property
    def compared(self) -> tuple[str, JobTable]:
        return "job", self.table

    def show_place(self, _address: str) -> None:
        """Paint only: the job under the cursor is chosen by its name."""
        self.tick()

    def take_focus(self) -> None:
        focus_on(self.details if self.has_class(_ALONE) else self.table)

    def renew(self) -> None:
        self.table.report = None
        self._shown_of = ()

    def tick(self) -> None:
        table = self.table
        table.sync()
        shown_of = (
            table.rows_of,
            table.row,
            self.size,
            self.classes,
            self.context.window.place,
            theme.NAME,
        )
        if shown_of == self._shown_of:
            return
        self._shown_of = shown_of
        self._share_space()
        self.table.tick()
        self._write()
        self.details.tick()
        self.charts.tick()

    # Keys

    def action_details(self) -> None:
        """Show the details alone, or the table again."""
        self.toggle_class(_ALONE)
        self.tick()
        self.take_focus()

    def action_cause(self) -> None:
        """Go to the place of the cause of a job's largest loss, else to its problem, or to it.

        Where the details have no room, or not all of it, the first press opens them alone.
        """
        row = self.table.picked
        if row is None:
            return
        has_room = self.details.display and self.size.width >= CHARTS_FROM
        if not has_room and not self.has_class(_ALONE):
            self.action_details()
            return
        layout = self.monitor.store.layout
        trouble = row.trouble.partition(" (")[0]
        if trouble and row.key == NO_JOB:
            self.post_message(View.OpenReservation(trouble))
            return
        place = self.place
        if trouble and layout.find(trouble) is not None:
            place = trouble
        elif row.job is not None:
            place = place_of(row.job, self.context.alerts.problems, layout)
        if place:
            self.post_message(Pressed(ClickTarget(TargetKind.PLACE, place)))
        elif row.job is not None:
            self.post_message(Pressed(ClickTarget(TargetKind.JOB, row.key)))

    def action_unit(self) -> None:
        """Show hours in place of money, or money again."""
        self.table.shows_hours = not self.table.shows_hours
        self.tick()

    def action_clear(self) -> None:
        """Go back to the table, then clear the filter."""
        if self.has_class(_ALONE):
            self.action_details()
        else:
            super().action_clear()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "clear" and self.has_class(_ALONE):
            return True
        return super().check_action(action, parameters)

    @on(CursorList.Changed)
    def _pointed(self, event: CursorList.Changed) -> None:
        event.stop()
        self.tick()
        self.post_message(View.Moved(self.place))

    @on(CursorList.Entered)
    def _entered(self, event: CursorList.Entered) -> None:
        event.stop()
        self.action_cause()

    # Filter

    def columns(self) -> Columns:
        return JOB_COLUMNS

    def export(self) -> ExportTable:
        """Return the jobs that are listed."""
        return table_of(JOB_COLUMNS, self.table.rows)

    def take_filter(self, query: Filter) -> None:
        self.table.wanted = query
        self.tick()

    def found_text(self) -> str:
        rows = self.table.matching
        return counted(rows, "row") if rows else hint(self.pattern, JOB_COLUMNS) or NOT_FOUND

    # Space

    def _share_space(self) -> None:
        """Give the table its rows, up to a half, and the rest to details and charts."""
        has_rows = bool(self.table.rows)
        is_alone = self.has_class(_ALONE) and has_rows
        self.set_class(is_alone, _ALONE)
        for pane in (self._sum, self._head):
            pane.display = has_rows and not is_alone
        self._legend.display = has_rows and not is_alone and "meter" in self.table.plan()
        if is_alone:
            self.details.styles.height = "1fr"
            self.details.display = True
            self.charts.lend(0)
            return
        legend = max(1, self._legend.size.height) if self._legend.display else 0
        rows = self.size.height - _FIXED_ROWS - legend - 2 * self.has_class("asking")
        listed = max(len(NOTHING), min(len(self.table.rows), max(rows // 2, rows - 45)))
        spare = rows - listed
        needed = len(self.details.made(max(1, self.size.width)))
        shown = spare >= _LEAST_DETAILS and has_rows
        self.details.display = shown
        if not shown:
            self.table.styles.height = "1fr"
            self.charts.lend(0)
            return
        self.table.styles.height = listed
        charts = spare - needed if self.size.width >= CHARTS_FROM else 0
        charts = charts if charts >= LEAST_ROWS else 0
        self.details.styles.height = min(needed, spare) if charts else spare
        self.charts.lend(charts)

    def _charted(self) -> ChartedPlace | None:
        """Return the job under the cursor with its first place."""
        row = self.table.picked
        if row is None or (row.job is None and row.key != NO_JOB):
            return None
        return ChartedPlace(self.context, self.place, row.key)

    # Bars

    def _write(self) -> None:
        table = self.table
        self._summary.show(lambda width: [self._summary_parts(width)])
        self._head.show(lambda _width: [table.head()])
        self._sum.show(lambda _width: [table.sum_parts()])
        self._legend.show(self._legend_lines)

    def _legend_lines(self, width: int) -> list[Parts]:
        """Return the legend of the meters in as many lines as it needs."""
        lines: list[Parts] = [[("  ", theme.BASE)]]
        for item in legend_items(self.table.drawn_meters()):
            if width_of([*lines[-1], item]) > width:
                lines.append([("  ", theme.BASE)])
            lines[-1].append(item)
        return lines

    def _summary_parts(self, width: int) -> Parts:
        """Return the fleet's paid time and its parts, and order or filter."""
        table = self.table
        report = table.report
        if report is None or not report.lasts_s:
            return [(f" {table.window_text}", theme.QUIET)]
        amounts = amounts_of(report.fleet, in_usd=table.in_usd)
        assert amounts is not None  # noqa: S101  USD only where a price is known
        share = goodput_of(report.fleet.seconds)
        lost = lost_of(amounts)
        loud = theme.SEVERITY_STYLE[Severity.WARNING] if lost else theme.STRONG
        goodput = NOT_AVAILABLE if share is None else f"{100 * share:.1f} %"
        unit = "USD" if table.in_usd else "instance-hours"
        least = "≥" if table.in_usd and report.fleet.unpriced_s else ""
        paid = least + amount_text(float(amounts.sum()))
        parts: Parts = [
            (f" {table.window_text}  goodput ", theme.QUIET),
            (goodput, theme.STRONG),
            ("  paid ", theme.QUIET),
            (paid, theme.STRONG),
            (" = lost ", theme.QUIET),
            (least + amount_text(lost), loud),
        ]
        for cause in (TimeCause.PRODUCTIVE, TimeCause.HEADROOM, TimeCause.UNSPLIT):
            if amounts[cause] > 0:
                parts += [
                    (f" + {cause.label} ", theme.QUIET),
                    (amount_text(float(amounts[cause])), theme.BASE),
                ]
        parts.append((f" {unit}", theme.QUIET))
        if width_of(parts) > width:
            parts = [
                (" lost ", theme.QUIET),
                (at_least(report.fleet, in_usd=table.in_usd) + amount_text(lost), loud),
                (f" of {paid} {unit.replace('instance-hours', 'inst h')}  goodput ", theme.QUIET),
                (goodput, theme.STRONG),
                (f"  {table.window_text}", theme.QUIET),
            ]
            parts = cut(parts, width)
        right: Parts = [(f"sort: {table.order} ", theme.QUIET)]
        if table.wanted.typed:
            right = [
                (f"/{plain(table.wanted.typed, 30)} ", theme.LINK),
                (f"{table.matching:,} found ", theme.QUIET),
            ]
        if table.matching > MOST_ROWS:
            right = [
                (
                    f"first {MOST_ROWS} of {table.matching:,}, {key_label('filter')} finds others ",
                    theme.QUIET,
                )
            ]
        return justified(parts, right, width, theme.BASE)
