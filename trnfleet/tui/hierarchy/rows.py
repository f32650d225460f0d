"""Rows of the tree as styled texts.

Store, roll-ups and history are read for a window of rows at once, with one call per column and
level. Only the sparklines of the last second are cached.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.quantities import counted
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.problems import texts
from trnfleet.monitor.store.fields import BY_KEY, Field
from trnfleet.monitor.store.rings.record import trailing_mean
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.bars.brokers import away_from, where_text
from trnfleet.tui.charts import plot
from trnfleet.tui.charts.history import MEAN_S
from trnfleet.tui.format.freshness import FreshnessText, describe
from trnfleet.tui.format.reservations import PICKED
from trnfleet.tui.hierarchy import columns
from trnfleet.tui.hierarchy.index import (
    CORE_LANES,
    NO_FLEETS,
    FleetRows,
    TreeIndex,
    TreeRow,
    node_path,
    parent_of,
)
from trnfleet.tui.metric_display import TREE
from trnfleet.tui.snapshots.table import MOST_ROWS, ExportTable, Value, titled
from trnfleet.tui.state.descriptors import Descriptions
from trnfleet.tui.widgets.cells import FixedParts, fit, right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rich.style import Style

    from trnfleet.domain.layout import Layout, Node
    from trnfleet.tui.hierarchy.columns import TreeColumn, TreePlan
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.state.limits import Judge

    Group = tuple[list[int], NDArray[np.int64]]
    """Places in the window, and numbers, of the nodes of one level."""


_CORE_METRIC = BY_NAME["nc_util_pct"]


class TreeRows:
    """Reader of rows' contents."""

    def __init__(self, context: UiContext, descriptions: Descriptions) -> None:
        self._monitor = context.monitor
        self._alerts = context.alerts
        self._frame = context.frame
        self._highlight = context.highlight
        self._descriptions = descriptions
        self._context = context
        self._sparks: dict[Node, str] = {}
        self._sparks_of: tuple[Layout | None, int, int] = (None, -1, 0)

    @property
    def indent(self) -> int:
        """Extra indentation steps: 1 if fleets have rows of their own, else 0."""
        return int(self._context.fleets.are_several)

    def renew(self) -> None:
        """Drop caches: another monitor is shown."""
        self._sparks.clear()

    def parts(
        self, rows: list[TreeRow], plan: TreePlan, now_s: float, selected: TreeRow | None
    ) -> list[FixedParts]:
        """Return each row's styled texts, filling the plan's width.

        Args:
            rows: Rows of an index over the store's present layout.
            plan: The columns.
            now_s: Monotonic seconds, for ages.
            selected: The row under the cursor.
        """
        groups = by_level(rows)
        states = self._states(rows, groups, now_s)
        fields = [
            (column, self._field(column.field, rows, groups)) if column.field else (column, [])
            for column in plan.columns
        ]
        limits = self._alerts.limits
        judges = {
            level: [
                None if column.display is None else limits.judge(column.display, level)
                for column in plan.columns
            ]
            for level in groups
        }
        return [
            self._row(
                row,
                states[place],
                place,
                fields,
                judges[row.node.level],
                is_selected=row == selected,
            )
            for place, row in enumerate(rows)
        ]

    def values(self, key: str, level: Level, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a column's values for nodes of one level, as shown; NaN if unknown."""
        store = self._monitor.store
        averages = self._frame.averages
        if key == columns.STATE:
            counts = self.counts(level, numbers)
            # The worst are lowest: what is offline, then what has nothing live.
            total = np.maximum(1, counts.sum(axis=1))
            share: NDArray[np.float64] = (
                counts[:, Freshness.LIVE] - counts[:, Freshness.OFFLINE]
            ) / total
            return share
        field = BY_KEY[key]
        if level is Level.CORE:
            if key != _CORE_METRIC.name:
                return np.full(len(numbers), np.nan)
            codes: NDArray[Any] = store.columns[_CORE_METRIC.name].reshape(-1)[numbers]
            return _CORE_METRIC.decode(codes)
        if level is not Level.CHIP and averages.generation != store.generation:
            return np.full(len(numbers), np.nan)
        return field.values(store, averages, level, numbers)

    def _field(self, field: Field, rows: list[TreeRow], groups: dict[Level, Group]) -> list[float]:
        """Return a field's value for each row."""
        values = [np.nan] * len(rows)
        for level, (places, numbers) in groups.items():
            for place, value in zip(
                places, self.values(field.key, level, numbers).tolist(), strict=True
            ):
                values[place] = value
        return values

    def has_counts(self, level: Level) -> bool:
        """Return whether `counts` of a level are known.

        Chips are known at once; the levels above need a pass after a new layout.
        """
        return (
            level >= Level.CHIP or self._frame.rollups.generation == self._monitor.store.generation
        )

    def counts(self, level: Level, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return nodes x 5: how many chips of each node are in each state."""
        store = self._monitor.store
        rollups = self._frame.rollups
        if level >= Level.CHIP:
            chips = numbers // CORE_LANES if level is Level.CORE else numbers
            return np.eye(len(Freshness), dtype=np.int64)[store.chip_state[chips]]
        if not self.has_counts(level):
            counts = np.zeros((len(numbers), len(Freshness)), np.int64)
            counts[:, Freshness.UNKNOWN] = 1
            return counts
        return rollups.states(level)[numbers]

    def _states(
        self, rows: list[TreeRow], groups: dict[Level, Group], now_s: float
    ) -> list[FreshnessText]:
        store = self._monitor.store
        states: dict[int, FreshnessText] = {}
        for level, (places, numbers) in groups.items():
            for place, counts in zip(places, self.counts(level, numbers).tolist(), strict=True):
                age_s = np.inf
                if not counts[Freshness.LIVE] and counts[Freshness.UNKNOWN] != sum(counts):
                    node = rows[place].node
                    below = store.layout.chip_range(
                        parent_of(store.layout, node) if level is Level.CORE else node
                    )
                    age_s = now_s - float(
                        store.chip_seen_s[below.start : below.stop].max(initial=-np.inf)
                    )
                states[place] = describe(tuple(counts), age_s)
        return [states[place] for place in range(len(rows))]

    def _row(
        self,
        row: TreeRow,
        state: FreshnessText,
        place: int,
        fields: list[tuple[TreeColumn, list[float]]],
        judges: Sequence[Judge | None],
        *,
        is_selected: bool,
    ) -> FixedParts:
        """Return one row: neighbouring texts of one style are one part."""
        is_live = state.freshness is Freshness.LIVE
        cursor = (
            theme.SELECTED_QUIET
            if is_live
            else theme.STATE_STYLE[state.freshness] + theme.CURSOR_FILL
        )
        base = cursor if is_selected else theme.STATE_STYLE[state.freshness]
        parts: list[tuple[str, Style]] = []
        for (column, values), judge in zip(fields, judges, strict=True):
            style: Style | None = None
            if column.field is None or column.display is None:
                text, style = self._text(row, column, state)
            elif row.node.level is Level.CORE and column.key != _CORE_METRIC.name:
                text = " " * column.width
            else:
                value = values[place]
                text = columns.cell(column.field, value)
                severity = judge(value) if is_live and judge is not None else None
                if severity is not None:
                    text = theme.SEVERITY_GLYPH[severity] + text
                    style = theme.SEVERITY_STYLE[severity]
                elif is_live and value != value:  # noqa: PLR0124  NaN is the one value unlike itself
                    style = theme.GHOST
                text = right(text, column.width)
            if is_selected:
                style = theme.CHART if style is theme.SPARK else style
                style = (
                    style + theme.CURSOR_FILL
                    if style
                    else theme.SELECTED
                    if column.key == columns.NAME
                    else None
                )
            style = style or base
            if column.key == columns.NAME and (sign := self._alert(row.node)) is not None:
                glyph, ink = sign
                parts += [
                    (_fit_name(self._name(row), column.width - 2), style),
                    (f" {glyph}", ink + theme.CURSOR_FILL if is_selected else ink),
                ]
                continue
            if parts and parts[-1][1] == style:
                parts[-1] = (parts[-1][0] + text, style)
            else:
                parts.append((text, style))
        return tuple(parts)

    def _text(
        self, row: TreeRow, column: TreeColumn, state: FreshnessText
    ) -> tuple[str, Style | None]:
        """Return the text of a cell without a field, and its own style.

        None: the row's style.
        """
        node = row.node
        width = column.width
        if column.key == columns.NAME:
            return _fit_name(self._name(row), width), self._name_style(node, state)
        if column.key == columns.STATE and node.level is Level.FLEET:
            return " " + fit(self._fleet_state(state), width - 1), self._fleet_style(state)
        if column.key == columns.STATE:
            return " " + fit("" if node.level is Level.CORE else state.text, width - 1), state.style
        if column.key == columns.SPARK:
            return " " * (width - len(self._spark(node, width))) + self._spark(node, width), (
                None
                if state.freshness is not Freshness.LIVE
                else theme.SPARK
                if self._alerts.marks.at(node) is None
                else theme.CHART
            )
        if column.key == columns.CHIPS:
            return right(self._chips(node), width), None
        if column.key == columns.SOURCE:
            return " " + fit(self.source(node), width - 1), theme.QUIET
        return "  " + fit(self.job(node), width - 2), theme.QUIET

    def _name(self, row: TreeRow) -> str:
        layout = self._monitor.store.layout
        node = row.node
        if node.level is Level.CORE:
            chip, core = divmod(node.number, CORE_LANES)
            lnc = self._descriptions.lnc(chip)
            return "       " + "  " * self.indent + _core_name(core, lnc or 1)
        names = self._monitor.ingest.names
        path = layout.path(node)
        if row.is_flat:
            above = f"{names.segment(address.parent(path))}/" if node.level is Level.CHIP else ""
            return f"{self._mark(node)} {above}{names.segment(path)}"
        triangle = "▾" if row.is_open else "▸"
        name = names.segment(path)
        if node.level is Level.FLEET:
            name = plain(self._monitor.fleet_name, 64)
        return self._mark(node) + "  " * (node.level - 1 + self.indent) + f"{triangle} {name}"

    def _mark(self, node: Node) -> str:
        """Return the sign of a highlighted node, or a space."""
        mask = self._highlight.mask()
        if mask is None:
            return " "
        below = self._monitor.store.layout.instance_range(node)
        return PICKED if mask[below.start : below.stop].any() else " "

    def _alert(self, node: Node) -> tuple[str, Style] | None:
        """Return the sign of the worst alert at or below a node.

        It is quiet if all are acknowledged or silenced.
        """
        severity = self._alerts.marks.at(node)
        if severity is not None:
            return theme.SEVERITY_GLYPH[severity], theme.SEVERITY_STYLE[severity]
        handled = self._alerts.handled_marks.at(node)
        return None if handled is None else (theme.SEVERITY_GLYPH[handled], theme.QUIET)

    def _name_style(self, node: Node, state: FreshnessText) -> Style | None:
        if state.freshness is not Freshness.LIVE:
            return None
        if node.level <= Level.CLUSTER:
            return theme.STRONG
        if (
            node.level is Level.ULTRASERVER
            and self._monitor.store.layout.is_standalone[node.number]
        ):
            return theme.QUIET
        return theme.QUIET if node.level is Level.CORE else None

    def _spark(self, node: Node, width: int) -> str:
        if node.level is Level.CORE:
            return ""
        history = self._monitor.history
        layout = self._monitor.store.layout
        known, samples, cells = self._sparks_of
        if known is not layout or (samples, cells) != (history.samples, width):
            self._sparks_of = layout, history.samples, width
            self._sparks.clear()
        text = self._sparks.get(node)
        if text is None:
            if not history.seconds(node.level):
                history.glance(layout.path(node))
            series = history.series(layout, node, columns.SPARK_FIELD)
            # Steps of training take about as long as a cell: without a longer mean, cells would be
            # a saw.
            steady = trailing_mean(series, MEAN_S)
            values = plot.bucket(steady, width - 2, plot.SPARK_CELL_S, history.samples)
            text = self._sparks[node] = plot.spark(values, 0.0, 100.0, is_apart=True)
        return text

    def _chips(self, node: Node) -> str:
        if node.level >= Level.CHIP:
            return ""
        counts = self.counts(node.level, np.array([node.number]))[0]
        live = int(counts[Freshness.LIVE])
        total = int(counts.sum())
        return f"{live}/{total}" if total < 10_000 else f"{total:,}"

    def _fleet_state(self, state: FreshnessText) -> str:
        """Return the state of the fleet: a broker that is away, or freshness and problems.

        "Gone" replaces "offline": all of its publishers have ended, and the row shows the last
        known values.
        """
        if away := away_from(self._context.live):
            return f"✖ {counted(len(away), 'broker')} away"
        text = state.text
        if state.freshness is Freshness.OFFLINE:
            text = text.replace(Freshness.OFFLINE.name.lower(), "gone")
        return f"{text}  {self._signs()}"

    def _fleet_style(self, state: FreshnessText) -> Style:
        return (
            theme.SEVERITY_STYLE[Severity.CRITICAL]
            if away_from(self._context.live)
            else state.style
        )

    def _signs(self) -> str:
        """Return how many problems the fleet has by severity; empty for none."""
        return " ".join(
            f"{theme.SEVERITY_GLYPH[severity]} {number}"
            for severity, number in texts.severity_counts(self._alerts.problem_counts)
            if number and severity <= Severity.WARNING
        )

    def _fleet(self) -> str:
        """Return the problems of the fleet, and where it is heard."""
        where = where_text(self._context.live, self._context.clock.monotonic_s())
        return f"{self._signs() or 'OK'}  {where}"

    def source(self, node: Node) -> str:
        """Return the kind of source of a node's instances; `mixed` for several."""
        if node.level is Level.CORE:
            return ""
        store = self._monitor.store
        covered = store.layout.instance_range(node)
        sources = self._monitor.ingest.publishers.sources()
        boots = np.unique(store.publisher_of[covered.start : covered.stop]).tolist()
        kinds = {sources.get(boot, "") for boot in boots}
        return plain(kinds.pop()) if len(kinds) == 1 else "mixed"

    def job(self, node: Node, *, is_segment: bool = False) -> str:
        """Return a node's only job, or the number of its jobs.

        A fleet's row shows its problems and brokers.

        Args:
            node: The node.
            is_segment: Whether the job is named by its segment.
        """
        if node.level >= Level.CHIP:
            return ""
        if node.level is Level.FLEET:
            return self._fleet()
        store = self._monitor.store
        covered = store.layout.instance_range(node)
        jobs = store.job_of[covered.start : covered.stop]
        if (jobs == jobs[0]).all():
            number = int(jobs[0])
            job = self._descriptions.job(number) if is_segment else None
            return plain(job.job) if job else self._descriptions.job_name(number)
        count = len(set(jobs.tolist()) - {-1})
        return f"{count} job{'s' if count != 1 else ''}"


def triangle_at(row: TreeRow, indent: int = 0) -> range:
    """Return the clickable cells of a row's triangle.

    Args:
        row: The row.
        indent: Extra indentation steps.
    """
    if row.node.level is Level.CORE or row.is_flat:
        return range(0)
    start = 1 + 2 * (row.node.level - 1 + indent)
    return range(start - 1, start + 2)


def _fit_name(text: str, width: int) -> str:
    """Return a row's name cut to `width` cells.

    The beginning is cut, because names of neighbours differ at their ends.
    """
    before, space, name = text.rpartition(" ")
    room = width - len(before) - len(space) - 1
    return fit(text if len(text) <= width or room < 1 else f"{before}{space}…{name[-room:]}", width)


def _core_name(core: int, lnc: int) -> str:
    """Return a core's name with the bracket of its logical core."""
    name = address.format_core(core)
    if lnc == 1:
        return f"  {name}"
    first = core % lnc == 0
    last = core % lnc == lnc - 1
    bracket = "╭" if first else "╰" if last else "│"
    return f"{bracket} {name}  LNC {core // lnc}" if first else f"{bracket} {name}"


def by_level(rows: list[TreeRow]) -> dict[Level, Group]:
    """Return the list positions and node numbers of rows, by level."""
    levels: dict[Level, list[int]] = {}
    for place, row in enumerate(rows):
        levels.setdefault(row.node.level, []).append(place)
    return {
        level: (places, np.array([rows[place].node.number for place in places], dtype=np.int64))
        for level, places in levels.items()
    }


class FleetTreeRows:
    """Reader for the rows of one fleet's tree and for the other fleets' rows."""

    def __init__(self, context: UiContext, descriptions: Descriptions) -> None:
        self.own = TreeRows(context, descriptions)
        self.number = context.fleets.contexts.index(context)
        """The number of the tree's fleet."""
        self._fleets = context.fleets
        self._others: dict[int, TreeRows] = {}
        """Readers of other fleets shown so far, by fleet number."""

    def rows_of_fleets(self, *, is_shut: bool) -> FleetRows:
        """Return the rows that fleets have: none where there is one.

        Args:
            is_shut: Whether the tree is closed.
        """
        if not self._fleets.are_several:
            return NO_FLEETS
        return FleetRows(self.number, len(self._fleets.contexts), is_shut)

    def parts(
        self, rows: list[TreeRow], plan: TreePlan, selected: TreeRow | None
    ) -> list[FixedParts]:
        """Return each row's styled texts, filling the plan's width.

        Args:
            rows: Rows of an index over the present layout.
            plan: The columns.
            selected: The row under the cursor.
        """
        made: list[FixedParts] = []
        for fleet, run in itertools.groupby(
            rows, lambda row: self.number if row.fleet is None else row.fleet
        ):
            now_s = self._fleets.contexts[fleet].monitor.clock.monotonic_s()
            made += self._rows_of(fleet).parts(list(run), plan, now_s, selected)
        return made

    def _rows_of(self, number: int) -> TreeRows:
        if number == self.number:
            return self.own
        if number not in self._others:
            context = self._fleets.contexts[number]
            self._others[number] = TreeRows(context, Descriptions(context.monitor))
        return self._others[number]


_FIRST = ("address", "level", "chips", "live")


def open_rows(context: UiContext, descriptions: Descriptions, index: TreeIndex) -> ExportTable:
    """Return the rows of an index over the present layout, without rows of other fleets."""
    rows = [row for row in index.window(0, min(index.rows, MOST_ROWS)) if row.fleet is None]
    table = rows_table(context, descriptions, index.layout, rows)
    return table._replace(total=index.rows if index.rows > MOST_ROWS else 0)


def rows_table(
    context: UiContext, descriptions: Descriptions, layout: Layout, rows: list[TreeRow]
) -> ExportTable:
    """Return rows of the present layout with every figure.

    Figures computed from the chips in each pass are unknown until the first pass of that layout.
    """
    reader = TreeRows(context, descriptions)
    names = context.monitor.ingest.names
    table: list[list[Value]] = [[] for _ in rows]
    for level, (places, numbers) in by_level(rows).items():
        counts = reader.counts(level, numbers)
        figures = [reader.values(shown.field.key, level, numbers).tolist() for shown in TREE]
        has_counts = level is not Level.CORE and reader.has_counts(level)
        chips = counts.sum(axis=1).tolist()
        live = counts[:, Freshness.LIVE].tolist()
        for number, place in enumerate(places):
            node = rows[place].node
            table[place] = [
                node_path(layout, node),
                level.name.lower(),
                *((chips[number], live[number]) if has_counts else (None, None)),
                *(column[number] for column in figures),
                reader.job(node, is_segment=True),
                reader.source(node),
                names.segment(node_path(layout, node)),
                reader.job(node),
            ]
    figures_of = (titled(shown.field.key, shown.field.unit) for shown in TREE)
    titles = (*_FIRST, *figures_of, "job", "source", "display name", "display name of the job")
    return ExportTable(titles, table)
