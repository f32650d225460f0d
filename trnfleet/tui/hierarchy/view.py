"""The Hierarchy view: a tree-table from cluster to NeuronCore.

It has a head, a filter, and the row under the cursor as a line and as charts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on

from trnfleet.domain import address
from trnfleet.domain.address import LEVEL_NAMES, Level
from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.quantities import count, counted, mean_label
from trnfleet.monitor.store.last_known import jobs_text
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.bars.brokers import where_text
from trnfleet.tui.charts.place import MOST_ROWS, ChartedPlace, PlaceCharts
from trnfleet.tui.format.alerts import tally_text, worst_of
from trnfleet.tui.hierarchy import columns
from trnfleet.tui.hierarchy.index import FlatIndex
from trnfleet.tui.hierarchy.rows import open_rows
from trnfleet.tui.hierarchy.table import TreeTable
from trnfleet.tui.state.chip_table import CHIP_COLUMNS
from trnfleet.tui.state.descriptors import Descriptions
from trnfleet.tui.state.leases import why_no_chips
from trnfleet.tui.view import CHARTS_FROM, FilteredView, filter_keys, in_steps, sort_key
from trnfleet.tui.widgets.cells import fit, width_of
from trnfleet.tui.widgets.focus import focus_on
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from rich.style import Style
    from textual.app import ComposeResult

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.domain.layout import Node
    from trnfleet.tui.hierarchy.index import Flat
    from trnfleet.tui.snapshots.table import ExportTable
    from trnfleet.tui.state.context import UiContext

_TALL_FROM = 48
_TALL_ROWS = 14
"""Least rows of the view for charts beside any tree, and their rows."""


class HierarchyView(FilteredView):
    """The tree-table with head, foot and filter prompt, and with charts if there is room."""

    DEFAULT_CSS = """
    HierarchyView { layout: vertical; }
    TreeTable { height: 1fr; }
    HierarchyView.asking TreeFoot { display: none; }
    """
    BINDINGS: ClassVar = [
        *filter_keys(
            "filter: part of an address or job, power>450 & job=name, sev>=warning, !text"
        ),
        sort_key(columns.NAME),
        sort_key(columns.STATE, "state: offline and stale first"),
        sort_key("nc_util_pct", "NC util; again: the other way round", "nc-util"),
        sort_key("hbm_bw_util_pct", "HBM bandwidth", "hbm-bw"),
        sort_key("link_tx_bytes_per_s", "link traffic", "links"),
        sort_key("power_w", "power", "power"),
        sort_key("temperature_c", "temperature: of more than one chip the highest", "temperature"),
        sort_key("throttle_pct", "throttling", "throttling"),
        sort_key("mfu_pct", "MFU", "mfu"),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.descriptions = Descriptions(context.monitor)
        self.table = TreeTable(context, self.descriptions)
        self.head = TreeHead(self.table)
        self.foot = TreeFoot(context, self.table, self.descriptions)
        self.charts = PlaceCharts(context, self._charted)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.table
        yield self.charts
        yield self.foot
        yield self.prompt

    @property
    def place(self) -> str:
        return self.table.cursor

    def show_place(self, address: str) -> None:
        """Move the cursor to an address and open its ancestors.

        A filter hiding it is cleared.
        """
        self.table.show_address(address)
        index = self.table.index
        node = index.layout.find(address)
        is_hidden = node is not None and index.row_of(node) is None
        if self.table.pattern and is_hidden and self.table.flat is None:
            self.close_prompt("")
        self._tell()

    def renew(self) -> None:
        self.table.renew()

    def tick(self) -> None:
        """Paint changes.

        Head and foot come first: they are only three lines.
        """
        self._lend_rows()
        self._tell()
        self.table.tick()
        self.charts.tick()

    @property
    def orders(self) -> tuple[str, ...]:
        """Keys of the visible columns."""
        return self.table.plan.sortable

    def put_in_order(self, order: str) -> None:
        """Sort by a column; once more, the other way round."""
        self.table.sort_by(order)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a flat list by Escape, too."""
        is_flat = action == "clear" and self.table.flat is not None
        return is_flat or super().check_action(action, parameters)

    def action_clear(self) -> None:
        """Clear the filter; without one, show the tree again."""
        if self.pattern or self.has_class("asking"):
            super().action_clear()
        else:
            self.table.show_flat(None)

    def show_flat(self, flat: Flat, query: str, sorting: columns.Sorting | None = None) -> None:
        """Show a flat list of what a filter leaves."""
        self.close_prompt(query)
        self.table.show_flat(flat, sorting)

    def columns(self) -> Columns:
        return CHIP_COLUMNS

    def export(self) -> ExportTable:
        """Return the open rows with all figures."""
        self.table.follow_layout()
        return open_rows(self.context, self.descriptions, self.table.index)

    def take_filter(self, wanted: Filter) -> None:
        self.table.filter(wanted)
        self._tell()

    def found_text(self) -> str:
        noun = "chip" if self.table.searches_chips else "instance"
        return (
            hint(self.pattern, CHIP_COLUMNS)
            if not self.table.matches
            else counted(self.table.matches, noun)
        )

    def take_focus(self) -> None:
        focus_on(self.table)

    @on(TreeTable.Changed)
    def _changed(self, event: TreeTable.Changed) -> None:
        event.stop()
        self._tell()

    def on_resize(self) -> None:
        self._lend_rows()

    def _tell(self) -> None:
        self.head.tick()
        self.foot.tick()

    def _charted(self) -> ChartedPlace:
        """Return the place for the charts: the row under the cursor."""
        fleet = self.table.fleet
        return (
            ChartedPlace(self.context, self.table.cursor) if fleet is None else ChartedPlace(fleet)
        )

    def _lend_rows(self) -> None:
        """Assign the rows left empty by the tree to the charts.

        A tall view reserves some for them.
        """
        width, height = self.size
        rows = height - self.head.size.height - 1 - 2 * self.has_class("asking")
        if width < CHARTS_FROM or not self.table.count:
            self.charts.lend(0)
            return
        spare = rows - in_steps(self.table.count + 1)
        self.charts.lend(min(MOST_ROWS, max(spare, _TALL_ROWS if rows >= _TALL_FROM else 0)))


class TreeFoot(LineView, can_focus=False):
    """The entity under the cursor and its place in the tree, in one line."""

    DEFAULT_CSS = "TreeFoot { height: 1; background: $bg-surface; }"

    def __init__(self, context: UiContext, table: TreeTable, descriptions: Descriptions) -> None:
        super().__init__()
        self._ui = context
        self._monitor = context.monitor
        self._alerts = context.alerts
        self._table = table
        self._descriptions = descriptions

    def lines(self, _top: int, _height: int, width: int) -> list[Line]:
        table = self._table
        right: list[tuple[str, Style]] = []
        fleet = table.fleet
        touching = self._alerts if fleet is None else fleet.alerts
        if table.pattern:
            right.append((f"/{plain(table.pattern, 30)} ", theme.HEAD_ACCENT))
            if table.flat is None:
                right.append((f"{count(table.matches)} found  ", theme.HEAD))
        alerts = touching.touching(table.cursor)
        if alerts:
            right.append(
                (
                    f"{tally_text(alerts)}  ",
                    theme.SEVERITY_STYLE[worst_of(alerts)] + theme.SURFACE_FILL,
                )
            )
        rows = table.index.rows
        if isinstance(table.index, FlatIndex):
            whole = f" of {count(table.index.total)}" if rows < table.index.total else ""
            noun = LEVEL_NAMES[table.index.flat.level]
            right.append((f"{counted(rows, noun)}{whole}, Esc shows the tree  ", theme.HEAD_ACCENT))
        right.append((f"{count(min(table.row + 1, rows))}/{count(rows)} ", theme.HEAD))
        left = " " + "  ".join(self._words())
        room = width - width_of(tuple(right))
        # What is cut keeps a blank before what is on the right.
        return [
            text_line(((fit(left, max(0, room - 1)) + " ", theme.HEAD), *right), width, theme.HEAD)
        ]

    def _words(self) -> list[str]:
        """Return the words about the entity under the cursor."""
        if self._table.fleet is not None:
            return self._fleet_words(self._table.fleet)
        layout = self._monitor.store.layout
        path = self._table.cursor
        node = layout.find(path)
        if not path or node is None:
            return [path] if path else []
        level = address.level_of(path)
        if level is Level.CLUSTER:
            groups = layout.children(node)
            servers = int((~layout.is_standalone[groups.start : groups.stop]).sum())
            return [path, LEVEL_NAMES[level], counted(servers, "UltraServer"), self._chips(node)]
        if level is Level.ULTRASERVER:
            kind = (
                "instances outside UltraServers"
                if layout.is_standalone[node.number]
                else LEVEL_NAMES[level]
            )
            covered = layout.instance_range(node)
            instances = int(layout.members[covered.start : covered.stop].sum())
            words = [path, kind, counted(instances, "instance"), self._chips(node)]
            return [*words, *self._source_words(node, path)]
        instance = layout.instance_range(node).start
        words = [
            path,
            layout.type_of(instance).name,
            self._descriptions.ec2_id(layout.instances[instance]),
        ]
        words.append(self._descriptions.job_name(int(self._monitor.store.job_of[instance])))
        return [word for word in (*words, *self._source_words(node, path)) if word]

    def _source_words(self, node: Node, path: str) -> list[str]:
        """Return the source of the figures and the reason for missing chips.

        Used on a top broker.
        """
        store = self._monitor.store
        if not store.rolled.blocks:
            return []
        if store.layout.is_rolled_up(node):
            return ["from roll-ups", why_no_chips(self._ui, path)]
        is_forwarded = bool(store.is_forwarded[store.layout.instance_range(node).start])
        return (
            [f"from chips under a lease of cell {plain(store.rolled.cell_of(path))}"]
            if is_forwarded
            else []
        )

    def _fleet_words(self, fleet: UiContext) -> list[str]:
        """Return the texts about a fleet: name, contents, brokers."""
        layout = fleet.monitor.store.layout
        monitor = fleet.monitor
        return [
            plain(monitor.fleet_name, 64),
            "fleet",
            counted(layout.instance_count, "instance"),
            counted(layout.chip_count, "chip"),
            jobs_text(len(monitor.ingest.jobs), len(monitor.ingest.job_table.last_known)),
            where_text(fleet.live, fleet.clock.monotonic_s()),
        ]

    def _chips(self, node: Node) -> str:
        return counted(self._monitor.store.layout.chips_below(node), "chip")


_NAME_GAP = 3
"""Cells before the head of the names: where the signs of the tree are."""


class TreeHead(LineView, can_focus=False):
    """The columns' titles and units; a click on one sorts by it."""

    DEFAULT_CSS = "TreeHead { height: 2; }"

    def __init__(self, table: TreeTable) -> None:
        super().__init__()
        self._table = table

    def lines(self, _top: int, _height: int, width: int) -> list[Line]:
        titles: list[tuple[str, Style]] = []
        units: list[tuple[str, Style]] = []
        for column in self._table.plan.columns:
            title = column.title
            unit = column.unit
            style = theme.HEAD
            if column.key == self._table.sorting.key:
                title = theme.sort_mark(is_descending=self._table.sorting.descending) + title
                style = theme.HEAD_ACCENT
            if column.key == columns.NAME and self._table.mean_s:
                unit = mean_label(self._table.mean_s)
                if len(whole := f"{unit}; chips now") + _NAME_GAP < column.width:
                    unit = whole
            if column.field is not None and column.field.is_max:
                unit = f"max {unit}"
            if column.key == columns.SPARK and self._table.is_sped_up:
                # History has a sample for each second of the wall clock.
                unit += " wall"
            titles.append((_placed(title, column), style))
            units.append((_placed(unit, column), theme.HEAD))
        return [text_line(parts, width, theme.HEAD) for parts in (titles, units)]

    def on_click(self, event: events.Click) -> None:
        column = self._table.plan.column_at(event.x)
        if column is not None and column.key in self._table.plan.sortable:
            self._table.sort_by(column.key)
            self.tick()


def _placed(text: str, column: columns.TreeColumn) -> str:
    """Return a head's text above the column's values."""
    if not column.is_left:
        return text[: column.width].rjust(column.width)
    gap = _NAME_GAP if column.key == columns.NAME else 2 if column.key == columns.JOB else 1
    if column.key == columns.SPARK:
        gap = 2
    if not text[:1].isalpha() and column.key == columns.NAME:
        gap -= 1
    return (" " * gap + text)[: column.width].ljust(column.width)
