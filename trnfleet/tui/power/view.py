"""The Power view: watts against caps by rack, UltraServer, job or reservation.

A table with the fleet's sum, and below it the power of jobs over time and the distributions of
chips. Everything is read at once, when the means of the screen have changed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on

from trnfleet.domain.filters.columns import parse_number
from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.layout import FLEET_NODE
from trnfleet.domain.power import FLEET, POWER_SHARE, POWER_W, power_key
from trnfleet.domain.quantities import bare, count, counted, duration, mean_label, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.monitor.goodput_report import ESTIMATED
from trnfleet.monitor.power import (
    HISTOGRAM_EDGES,
    PEAK_PCT,
    STEP_S,
    Distribution,
    Energy,
    PowerReader,
    PowerTable,
    distribution,
    energy_of,
)
from trnfleet.monitor.power_groups import (
    GROUPS,
    JOBS,
    RACKS,
    RESERVATIONS,
    ULTRASERVERS,
    CappedPlaces,
    groups_of,
)
from trnfleet.monitor.store.gaps import Reason
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts.axes import Limit
from trnfleet.tui.charts.chart import Chart, Series, draw
from trnfleet.tui.charts.history import MEAN_S, chart_inputs, fired_marks
from trnfleet.tui.charts.stack import fill_of, histogram
from trnfleet.tui.format.jobs import jobs_on
from trnfleet.tui.format.power import (
    EFFICIENCY,
    LEFT,
    NAME,
    NOW,
    PEAK,
    POWER,
    POWER_COLUMNS,
    SHARE,
    SORTS,
    TEMPERATURE,
    PowerPlan,
    energy_parts,
    hourly,
    kw,
    row_parts,
    sums,
)
from trnfleet.tui.keys import bind
from trnfleet.tui.snapshots.table import MOST_ROWS, ExportTable, titled
from trnfleet.tui.state.subjects import Subject, of_group
from trnfleet.tui.view import HIERARCHY, FilteredView, View, filter_keys, sort_key
from trnfleet.tui.widgets.bar import Bar, justified
from trnfleet.tui.widgets.cells import FixedParts, Parts, TextColumn, beside, fit, width_of
from trnfleet.tui.widgets.cursor_list import RowList
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray
    from rich.style import Style
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.tui.state.context import UiContext

    Floats = NDArray[np.float64]

MOST_LISTED = 200
"""Most rows of the table; a filter or another order brings the others."""
_PANEL_LEAST = 7
"""Least lines for what is below the table."""
_CHART_FROM = 70
_WIDE_FROM = 96
_BESIDE_FROM = 150
"""Cells from which there is a chart, a wide legend, and distributions beside the chart."""
_LEGENDS = (34, 44, 54)
_HISTOGRAM = 9
"""Cells of legends by width, and most lines of a distribution with its title."""
_WORDS = {"temperature_c": "temperature"}
_NAMES = {RACKS: "Racks", ULTRASERVERS: "UltraServers", JOBS: "Jobs", RESERVATIONS: "Reservations"}
_PAUSES = 50
"""Least time between two readings, in times of what one takes: 2 % of a core."""
_NO_POWER = (
    " This fleet does not publish power.",
    "",
    " Watts come from power_w, or are modelled from power_util_pct of a real host's driver.",
)


class PowerRows:
    """The rows of a table for a filter."""

    def __init__(self, table: PowerTable, context: UiContext) -> None:
        self._table = table
        self._monitor = context.monitor

    def having(self, part: str) -> NDArray[np.bool_]:
        """Return the mask of rows with a text in their place, its name, or a job."""
        names = self._monitor.ingest.names
        groups = self._table.groups
        mask = self.named("job", lambda name: part in name.lower())
        for row, place in enumerate(groups.places):
            mask[row] |= part in place.lower() or part in names.address(place).lower()
        return mask

    def numbers(self, column: str) -> Floats:
        """Return a column's numbers."""
        table = self._table
        numbers = {
            "power": table.watts,
            "headroom": table.headroom,
            "used": 100.0 * table.used,
            "temp": table.hottest_c,
            "p95": table.peak,
            "cap": table.cap,
            "chips": table.chips,
            "tflops_per_w": table.tflops_per_w,
        }
        return numbers[column][:-1]

    def named(self, _column: str, fits: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return the mask of rows with a fitting job."""
        monitor = self._monitor
        jobs = monitor.ingest.job_table.placed
        known = np.array(
            [*(fits(name) or fits(monitor.ingest.names.job(name)) for name in jobs), fits("")]
        )
        job_of = monitor.store.job_of
        return self._of_instances(known[np.where(job_of < len(jobs), job_of, -1)])

    def at(self, address: str) -> NDArray[np.bool_]:
        """Return the mask of rows with an instance at an address."""
        layout = self._table.groups.layout
        mask = np.zeros(len(layout.instances), np.bool_)
        node = layout.find(address.strip("/"))
        if node is not None:
            rows = layout.instance_range(node)
            mask[rows.start : rows.stop] = True
        return self._of_instances(mask)

    def _of_instances(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        groups = self._table.groups
        return np.bincount(groups.number_of, mask, groups.size) > 0


class PowerList(RowList[str, int]):
    """The groups, one a line; rows are numbers of the table's."""

    HELP_TITLE = "Power"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "enter", "open it in Hierarchy, or its reservation"),
        bind("group", "group", f"group: {', '.join(GROUPS)}"),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self._ui = context
        self.table: PowerTable | None = None
        self.empty: tuple[str, ...] = _NO_POWER
        """Lines without rows."""

    def key_of(self, row: int) -> str:
        return "" if self.table is None else self.table.place(row)

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        return [(fit(text, self.line_width), theme.QUIET) for text in self.empty]

    def parts_of(self, row: int, width: int, *, selected: bool) -> Parts:
        if self.table is None:
            return []
        plan = PowerPlan.arrange(width, self.table)
        parts = row_parts(self.table, row, self.name_of(row), self.jobs_of(row), plan)
        return [(text, style + theme.CURSOR_FILL) for text, style in parts] if selected else parts

    def name_of(self, row: int) -> str:
        """Return the text of a row's place, without what all places have in common."""
        table = self.table
        if table is None:
            return ""
        place = table.place(row)
        names = self._ui.monitor.ingest.names
        if row == table.fleet:
            return plain(self._ui.monitor.fleet_name, 64)
        if table.groups.kind == JOBS:
            return names.job(place)
        if table.groups.kind == RESERVATIONS:
            return plain(place)
        cluster, _, rest = place.partition("/")
        is_one = len(table.groups.layout.clusters) == 1 and rest
        shown = names.address(place)
        shown = shown.partition("/")[2] if is_one else shown
        segment = f"{'' if is_one else cluster + '/'}standalone/"
        return plain(shown.removeprefix(segment), 80)

    def jobs_of(self, row: int) -> str:
        """Return the jobs of a row: the only one's name, or their number, and idle chips."""
        table = self.table
        if table is None:
            return ""
        members = slice(None) if row == table.fleet else table.groups.members(row)
        return jobs_on(self._ui.monitor, members)

    def action_group(self) -> None:
        """Leave the group to the view."""
        if isinstance(self.parent, PowerView):
            self.parent.action_group()

    def address(self) -> str:
        """Return the address of the row under the cursor; empty for the fleet."""
        table = self.table
        if table is None or self.picked is None or self.picked >= table.fleet:
            return ""
        members = table.groups.members(self.picked)
        if not len(members):
            return ""
        path = table.groups.layout.instances[int(members[0])]
        return path if len(members) == 1 else path.rpartition("/")[0] or path

    def action_enter(self) -> None:
        table = self.table
        if table is None or self.picked is None:
            return
        is_held = table.groups.kind == RESERVATIONS and self.picked < table.fleet - 1
        if is_held:
            self.post_message(View.OpenReservation(table.place(self.picked)))
        else:
            self.post_message(View.Open(self.address(), HIERARCHY))


class PowerPanel(LineView, can_focus=False):
    """Power by job over time with its legend, and distributions of chips."""

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self._ui = context
        self._jobs = PowerReader(context.monitor)
        self.table: PowerTable | None = None
        self.summary = context.frame.summary
        self.distributions: list[Distribution] = []
        self._drawn_of: Hashable = None
        self._drawn: list[Line] = []

    def renew(self) -> None:
        """Drop what another monitor had."""
        self._jobs.renew()
        self._drawn_of = None

    def restyled(self) -> None:
        """Draw again in another theme."""
        self._drawn_of = None

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        """Return the charts, drawn again only for another table, sample, span or size."""
        context = self._ui
        end = context.monitor.history.end
        state = (id(self.table), end, context.window.span_s(end), context.shows_past)
        if self._drawn_of != (*state, height, width):
            self._drawn_of = (*state, height, width)
            self._drawn = self._charts(height, width)
        return self._drawn

    def _charts(self, height: int, width: int) -> list[Line]:
        table = self.table
        if table is None or height < _PANEL_LEAST:
            return []
        is_beside = width >= _BESIDE_FROM
        under = 0 if is_beside or height < 2 * _HISTOGRAM or width < _WIDE_FROM else _HISTOGRAM
        side = _LEGENDS[(width >= _WIDE_FROM) + is_beside]
        room = width - 2
        chart_height = height - under - 1
        layers, legend = self._legend(table, side)
        charted = width >= _CHART_FROM and not table.is_modelled
        right: list[FixedParts] = [*legend]
        if is_beside or not charted:
            for shown in self.distributions:
                block = self._distribution(shown, side)
                if len(right) + 1 + len(block) <= chart_height:
                    right += [(), *block]
        columns = [TextColumn((), 1), TextColumn(right, room)]
        if charted:
            chart = self._chart(table, layers, room - side - 2, chart_height)
            columns = [
                TextColumn((), 1),
                TextColumn(chart, room - side - 2),
                TextColumn((), 2),
                TextColumn(right, side),
            ]
        made = [blank_line(width), *beside(columns, width)]
        if under and charted and self.distributions:
            made += [blank_line(width)] * (height - under + 1 - len(made))
            each_width = (room - 4) // 3
            blocks: list[TextColumn] = []
            for shown in self.distributions:
                blocks += [
                    TextColumn((), 2 if blocks else 1),
                    TextColumn(self._distribution(shown, each_width), each_width),
                ]
            made += beside(blocks, width)
        return made[:height]

    def _layers(self, table: PowerTable) -> list[tuple[str, float]]:
        """Return jobs with their watts, the largest first, and last what has no job."""
        groups = self._jobs.groups(JOBS)
        watts = groups.sums(table.instance_w)
        names = groups.places
        known = [row for row in range(groups.size - 1) if not np.isnan(watts[row])]
        known.sort(key=lambda row: (-watts[row], names[row]))
        return [(names[row], float(watts[row])) for row in known]

    def _legend(self, table: PowerTable, width: int) -> tuple[list[str], list[FixedParts]]:
        """Return the charted jobs, and a line for each, for the rest and for the sum."""
        monitor = self._ui.monitor
        jobs = self._layers(table)
        history = set(monitor.history.job_names())
        shown = [name for name, _ in jobs if name in history][: len(theme.JOB_STYLES)]
        total = float(table.watts[-1])
        price = self._ui.fleets.kwh_price
        facility = self.summary.mean.facility_power_w
        cost = None if table.is_modelled else hourly(facility, price)
        money = f"{price.currency}/h" if cost is not None and price is not None else ""
        mark = ESTIMATED if table.is_modelled else ""
        cells = 0 if width < _LEGENDS[1] else 9 if money else 6
        name_cells = width - 19 - cells
        rows: list[tuple[str, Style, str, float, str]] = []
        slots = theme.job_slots(shown)
        by_name = dict(jobs)
        jobs_by_key = monitor.ingest.jobs
        for number, name in enumerate(shown):
            made = jobs_by_key[name].tokens_per_s if name in jobs_by_key else None
            tokens = "-" if made is None or not by_name[name] else bare(made / by_name[name], "")
            style = theme.JOB_STYLES[slots[name]]
            label = monitor.ingest.names.job(name)
            rows.append((fill_of(number), style, label, by_name[name], tokens))
        rest = total - sum(by_name[name] for name in shown)
        others = len(jobs) - len(shown)
        label = f"{others} more, no job" if others else "no job"
        if others or rest >= 1.0:
            rows.append((fill_of(len(shown)), theme.QUIET, label, rest, "-"))
        head = f"  {fit('job', name_cells)}{'kW' + mark:>9}{'share':>8}"
        head += f"{money or 'tok/J':>{cells}}" if cells else ""
        made_lines: list[FixedParts] = [((head, theme.GHOST),)]
        for sign, style, label, watts, tokens in rows:
            share = watts / total if total else 0.0
            last = f"{share * cost:,.2f}" if cost is not None else tokens
            text = f"{kw(watts):>9}{100 * share:>6.1f} %" + (f"{last:>{cells}}" if cells else "")
            made_lines.append(
                ((f"{sign} ", style), (fit(label, name_cells), theme.BASE), (text, theme.BASE))
            )
        last = f"{cost:>{cells},.2f}" if cost is not None and cells else ""
        text = f"  {fit('sum', name_cells)}{kw(total):>9}{100.0:>6.1f} %{last}"
        made_lines.append(((text, theme.STRONG),))
        return shown, made_lines

    def _chart(
        self, table: PowerTable, jobs: list[str], width: int, height: int
    ) -> list[FixedParts]:
        """Return the stacked power of jobs; the sum is the fleet's power."""
        context = self._ui
        monitor = context.monitor
        inputs = chart_inputs(monitor, context.window, shows_past=context.shows_past)
        span_s = inputs.times.span_s
        fleet = monitor.history.track(monitor.store.layout, FLEET_NODE, POWER_W, span_s)
        slots = theme.job_slots(jobs)
        watts = float(table.watts[-1])
        cap = float(table.cap[-1])
        is_read = not any(gap.reason is Reason.LOADING for gap in inputs.gaps)
        chart = Chart(
            [
                Series(
                    monitor.history.job_track(name, POWER_W, span_s).smoothed(MEAN_S),
                    theme.JOB_STYLES[slots[name]],
                    plain(monitor.ingest.names.job(name)),
                    has_band=False,
                    area=(theme.LAYERS[slots[name]],),
                )
                for name in jobs
            ],
            "W",
            inputs.times,
            limits=[Limit(cap, "cap", theme.CHART_CAP)],
            marks=fired_marks(monitor, span_s),
            gaps=inputs.gaps,
            before=Reason.BEFORE_START if is_read else Reason.LOADING,
            total=Series(fleet.smoothed(MEAN_S), theme.CHART, has_band=False),
        )
        note = f"{inputs.note}, {MEAN_S} s mean"
        title: Parts = [
            ("Power by job", theme.STRONG),
            (f" {with_unit(watts, 'W')} of {with_unit(cap, 'W')}", theme.BASE),
        ]
        head = tuple(justified(title, [(note, theme.GHOST)], width, theme.BASE))
        return [head, *draw(chart, width, height - 1)]

    def _distribution(self, shown: Distribution, width: int) -> list[FixedParts]:
        """Return a distribution with its title."""
        metric = shown.metric
        texts = [f"{edge:.3g}" for edge in shown.edges]
        if metric.name == "throttle_pct":
            texts[0] = "0"
        unit = {"degC": "°C"}.get(metric.unit, metric.unit)
        names = [f"< {texts[0]}" if metric.name != "throttle_pct" else "0"]
        names += [f"{low}-{high}" for low, high in pairwise(texts)]
        names.append(f"> {texts[-1]}")
        title: Parts = [
            (f"Chips by {_WORDS.get(metric.name, metric.short_title)}", theme.STRONG),
            (f", {unit}", theme.QUIET),
        ]
        known = counted(int(shown.chips.sum()), "live chip")
        bins = [*zip(names, shown.chips.tolist(), strict=True)]
        head = tuple(justified(title, [(known, theme.GHOST)], width, theme.BASE))
        return [head, *histogram(bins, width, theme.FILL)]


class PowerView(FilteredView):
    """Sums above, the table, the fleet's row, and charts below."""

    DEFAULT_CSS = """
    PowerView { layout: vertical; }
    PowerList { height: 1fr; }
    PowerPanel { height: 1fr; overflow: hidden; }
    """
    ORDERS = SORTS
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("sort", "sort", f"sort: {', '.join(SORTS)}"),
        *filter_keys("filter: part of a place or job, headroom<2kW & temp>70, used>90, !text"),
        *map(sort_key, SORTS),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.reader = PowerReader(context.monitor)
        self._capped = CappedPlaces()
        self.list = PowerList(context)
        self.sorted_list = self.list
        self.panel = PowerPanel(context)
        self.kind = RACKS
        """How instances are grouped; one of `GROUPS`."""
        self.list.order = SHARE
        self.table: PowerTable | None = None
        self._energy: Energy | None = None
        self._matches = 0
        self._jobs = ""
        """Text of the fleet's jobs."""
        self._read_of: tuple[Hashable, ...] | None = None
        self._read_s = -np.inf
        self._pause_s = 1.0
        self._sums = Bar()
        self._sums.styles.height = 3
        self._head = Bar(fill=lambda: theme.HEAD)
        self._fleet = Bar()
        self._fleet.styles.height = 2

    def compose(self) -> ComposeResult:
        yield self._sums
        yield self._head
        yield self.list
        yield self._fleet
        yield self.panel
        yield self.prompt

    def on_mount(self) -> None:
        self.tick()

    @property
    def place(self) -> str:
        """The first place of the row under the cursor."""
        return self.list.address()

    @property
    def subject(self) -> Subject:
        """What the row under the cursor stands for: a rack is not its UltraServer."""
        if self.table is None or self.list.picked is None:
            return super().subject
        return of_group(self.context.alerts, self.table.groups, self.list.picked)

    @property
    def compared(self) -> tuple[str, PowerList]:
        return self.kind, self.list

    def show_place(self, address: str) -> None:
        """Move the cursor to the row of an address."""
        self._read()
        table = self.table
        node = table.groups.layout.find(address) if table is not None and address else None
        if table is not None and node is not None:
            instance = table.groups.layout.instance_range(node).start
            if address != self.place:
                self.list.point_at(table.place(int(table.groups.number_of[instance])))
        self.tick()

    def renew(self) -> None:
        self.reader.renew()
        self.panel.renew()
        self._read_of = None

    def tick(self) -> None:
        self._read()
        self._share_space()
        self.list.tick()
        self.panel.tick()
        self._write()

    def action_group(self) -> None:
        """Group by the next kind."""
        self.kind = GROUPS[(GROUPS.index(self.kind) + 1) % len(GROUPS)]
        self.tick()
        self.list.to_top()

    def set_cap(self, place: str, watts: str) -> str:
        """Set a cap, and return what was done.

        Args:
            place: A row's place or name, or `fleet`; empty for the row under the cursor.
            watts: Such as `12kW`; `off` for the one before `:cap`.

        Raises:
            ConfigError: An unknown place or a wrong number.
        """
        picked = self.list.picked
        if not place:
            if self.table is None or picked is None:
                raise ConfigError("cap: name a place, such as :cap us-0001/rack-a 12kW")
            label = self.table.place(picked)
        else:
            label = self._label_of(place)
        monitor = self.monitor
        limit_w = None
        if watts.lower() != "off":
            try:
                limit_w = parse_number(POWER_COLUMNS.find("cap"), watts)
            except ConfigError:
                raise ConfigError(
                    f"cap: {plain(watts, 40)!r} is neither watts, such as 12kW, nor off"
                ) from None
            if limit_w <= 0:
                raise ConfigError(f"cap: {watts} is not above 0")
        until = self.context.fleets.caps.put(monitor.fleet_name, label, limit_w)
        given_w = dict(monitor.site.power_caps).get(label)
        monitor.caps.pop(label, None)
        if limit_w is not None or given_w is not None:
            monitor.caps[label] = limit_w or given_w or 0.0
        self.tick()
        if limit_w is None and given_w is not None:
            return f"cap of {label}: {kw(given_w)} kW of --power-cap or the fleet file again"
        return f"cap of {label}: {watts}, {until}"

    def _label_of(self, place: str) -> str:
        """Return the place of a row in any group, by its address or name."""
        if place == FLEET:
            return place
        monitor = self.monitor
        for kind in dict.fromkeys((self.kind, *GROUPS)):
            places = groups_of(
                kind, monitor.store, monitor.ingest.job_table, monitor.reservations.table()
            ).places
            near = [label for label in places if label == place or label.endswith(f"/{place}")]
            if len(near) == 1:
                return near[0]
        raise ConfigError(f"cap: no place is called {plain(place, 60)!r}")

    @on(PowerList.Changed)
    def _pointed(self, event: PowerList.Changed) -> None:
        event.stop()
        self.post_message(View.Moved(self.place))

    def columns(self) -> Columns:
        return POWER_COLUMNS

    def take_filter(self, query: Filter) -> None:
        del query
        self.tick()

    def found_text(self) -> str:
        return counted(self._matches, "row") if self._matches else hint(self.pattern, POWER_COLUMNS)

    def export(self) -> ExportTable:
        """Return the rows that the filter leaves, and the fleet's."""
        self._read()
        table = self.table
        if table is None:
            return ExportTable()
        rows = PowerRows(table, self.context)
        numbers = [column for column in POWER_COLUMNS.all if column.name not in {"job", "at"}]
        names = (
            table.groups.kind,
            *(titled(column.name, column.unit) for column in numbers),
            "job",
        )
        values = [rows.numbers(column.name) for column in numbers]
        picked = self._picked(table)
        return ExportTable(
            names,
            [
                [table.place(row), *(float(value[row]) for value in values), self.list.jobs_of(row)]
                for row in picked[:MOST_ROWS]
            ],
            len(picked) if len(picked) > MOST_ROWS else 0,
        )

    # What is shown

    def _read(self) -> None:
        """Read the table, at most once a second and only if it has changed."""
        monitor = self.monitor
        averages = self.context.frame.averages
        asked = (
            monitor.revision.source,
            monitor.store.generation,
            self.kind,
            tuple(monitor.caps.items()),
            self.wanted,
            self.list.order,
        )
        now_s = self.clock.monotonic_s()
        newest = averages.samples[-1].at_s if averages.samples else averages.rollups.revision
        state = (*asked, newest)
        is_asked = self._read_of is None or self._read_of[:-1] != asked
        if state == self._read_of or (not is_asked and 0 <= now_s - self._read_s < self._pause_s):
            return
        self._read_of = state
        self._read_s = now_s
        self.panel.summary = self.context.frame.summary
        self.table = self.reader.read(self.kind, averages, self.panel.summary.announced)
        self.list.table = self.panel.table = self.table
        shown = self._picked(self.table) if self.table is not None else []
        self._matches = len(shown)
        self.list.empty = self._empty()
        self.list.put(shown[:MOST_LISTED])
        self.panel.distributions = []
        if self.table is not None:
            other = POWER_W if self.table.is_modelled else POWER_SHARE
            names = (name for name in HISTOGRAM_EDGES if name != other)
            published = (distribution(monitor.store, name) for name in names)
            self.panel.distributions = [shown for shown in published if shown is not None]
            span_s = self.context.window.span_s(monitor.history.end)
            self._energy = energy_of(monitor, span_s)
            self._jobs = self.list.jobs_of(self.table.fleet)
        self._pause_s = max(1.0, _PAUSES * (self.clock.monotonic_s() - now_s))

    def _empty(self) -> tuple[str, ...]:
        if self.table is not None:
            return (" Nothing matches. Esc clears the filter.",)
        if power_key(self.context.frame.summary.announced.knows) is None:
            return _NO_POWER
        return (" Waiting for telemetry.",)

    def _picked(self, table: PowerTable) -> list[int]:
        """Return the numbers of the rows that the filter leaves, in order."""
        mask = self.wanted.mask(PowerRows(table, self.context))
        rows = np.flatnonzero((table.chips[:-1] > 0) & (True if mask is None else mask))
        if self.list.order == NAME:
            return sorted(rows.tolist(), key=table.groups.places.__getitem__)
        values = {
            SHARE: table.used,
            POWER: table.watts,
            TEMPERATURE: table.hottest_c,
            EFFICIENCY: table.tflops_per_w,
        }[self.list.order]
        # What is not known comes last.
        return [*map(int, rows[np.argsort(-values[rows], kind="stable")])]

    def _share_space(self) -> None:
        """Divide the space: up to a third for the table, the rest for the charts."""
        rows = self.size.height - 6 - 2 * self.has_class("asking")
        listed = max(1, len(self.list.rows))
        table = min(listed, rows if self.size.width < _WIDE_FROM else max(4, rows // 3))
        panel = rows - table if self.table is not None else 0
        panel = panel if panel >= _PANEL_LEAST else 0
        self.panel.lend(panel)
        # The fleet's row stands below the last one.
        self.list.styles.height = max(1, min(listed if self.list.rows else rows, rows - panel))

    def _write(self) -> None:
        table = self.table
        price = self.context.fleets.kwh_price
        if table is None:
            self._sums.show(lambda _width: [])
            self._head.show(lambda _width: [])
            self._fleet.show(lambda _width: [])
            return
        summary = self.panel.summary
        is_loading = self.context.is_loading
        energy = self._energy
        kind = table.groups.kind
        self._sums.show(
            lambda width: [
                sums(summary, table, price, width, is_loading=is_loading),
                energy_parts(energy, table, width),
                self._title(table, width),
            ]
        )
        # A column of the table is its scroll bar's.
        self._head.show(
            lambda width: [
                [(fit(PowerPlan.arrange(width - 1, table).head(kind), width), theme.HEAD)]
            ]
        )
        row = table.fleet
        jobs = self._jobs
        self._fleet.show(
            lambda width: [
                row_parts(
                    table,
                    row,
                    self.list.name_of(row),
                    jobs,
                    PowerPlan.arrange(width - 1, table),
                    is_strong=True,
                ),
                self._signs(table, width),
            ]
        )

    def _title(self, table: PowerTable, width: int) -> Parts:
        """Return the table's title: what it lists, in which order, and the window of peaks."""
        total = int(np.count_nonzero(table.chips[:-1]))
        number = count(total)
        if len(self.list.rows) < self._matches:
            number = f"{count(len(self.list.rows))} of {count(self._matches)}"
        order = self.list.order
        parts: Parts = [
            (f" {_NAMES[table.groups.kind]} ", theme.STRONG),
            (f"{number}, {order}{' first' if order == SHARE else ''}", theme.QUIET),
        ]
        window = duration(table.window_s)
        peak = (
            f"p{PEAK_PCT}: {mean_label(STEP_S)}s of {window}"
            if table.window_s and not np.isnan(table.peak[:-1]).all()
            else f"p{PEAK_PCT} not known: headroom is cap - now"
        )
        right: Parts = [(f"{peak} ", theme.QUIET)]
        if self.pattern:
            pattern = f"/{plain(self.pattern, 30)} "
            right = [(pattern, theme.LINK), (f"{count(self._matches)} found ", theme.QUIET)]
        return justified(parts, right, width, theme.BASE)

    def _signs(self, table: PowerTable, width: int) -> Parts:
        """Return the meaning of the bar's parts and of caps, as far as there is room."""
        types = {kind.chip.power_max_w.value for kind in table.groups.layout.types}
        cap = f"cap: {types.pop():g} W a chip" if len(types) == 1 else "cap: of the catalogue"
        own = "* yours" if table.is_own_cap.any() else ":cap 12kW sets one"
        fleets = self.context.fleets
        monitor = self.monitor
        capped = self._capped.find(
            monitor.caps, monitor.store, monitor.ingest.job_table, monitor.reservations.table()
        )
        missing = monitor.caps.keys() - capped.keys()
        wrong = fleets.caps.problem
        if missing and not fleets.are_several:
            wrong = f"cap of {plain(', '.join(sorted(missing)), 60)}: not there now"
        parts: Parts = [
            (f" {plain(wrong, 120)} " if wrong else "", theme.SEVERITY_STYLE[Severity.WARNING]),
            (f" {NOW}", theme.FILL),
            (" now  ", theme.GHOST),
            (PEAK, theme.CHART),
            (f" to p{PEAK_PCT}  ", theme.GHOST),
            (LEFT, theme.RULE),
            (" to cap", theme.GHOST),
        ]
        for words in (f"headroom: cap - now or p{PEAK_PCT}", own, cap):
            word = (f"   {words}", theme.GHOST)
            if width_of([*parts, word]) <= width:
                parts.append(word)
        return parts
