"""What is done with rows: flat lists, the first few by a metric, two rows side by side."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.screen import ModalScreen

from trnfleet.domain.address import LEVEL_NAMES, Level, level_of
from trnfleet.domain.filters.language import parse, quoted
from trnfleet.domain.quantities import with_unit
from trnfleet.errors import ConfigError
from trnfleet.monitor.power_groups import RACKS, racks_of
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.app.commands import checked
from trnfleet.tui.app.time_keys import TimeKeys
from trnfleet.tui.format.addresses import last_segments
from trnfleet.tui.hierarchy.columns import NAMES, Sorting
from trnfleet.tui.hierarchy.index import Flat, TreeRow, find_node
from trnfleet.tui.hierarchy.rows import rows_table
from trnfleet.tui.keys import bind, key_label
from trnfleet.tui.state.chip_table import CHIP_COLUMNS, FIELD_OF, ChipTable
from trnfleet.tui.state.descriptors import Descriptions
from trnfleet.tui.view import (
    ALERTS,
    EVENTS,
    HIERARCHY,
    JOBS,
    POWER,
    RESERVATIONS,
    TOPOLOGY,
    FilteredView,
)
from trnfleet.tui.views import hierarchy_view, power_view
from trnfleet.tui.widgets.cells import fit, right
from trnfleet.tui.widgets.cursor_list import CursorList
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.style import Style
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from trnfleet.tui.snapshots.table import ExportTable, Value
    from trnfleet.tui.view import View


class Mark(NamedTuple):
    """A row to compare."""

    fleet: str
    kind: str
    """What its list has, or the level of a place."""
    key: str
    """Its key in the list, or its address."""

    @property
    def name(self) -> str:
        """Its text for the screen."""
        is_whole = level_of(self.key) <= Level.INSTANCE and self.kind in LEVEL_NAMES.values()
        name = self.key.rpartition("/")[2] if is_whole else last_segments(self.key)
        return plain(name or f"no {self.kind}", 60)

    @staticmethod
    def under_cursor(page: View) -> Mark:
        """Return the mark of the row under the cursor; without one, that of the fleet."""
        kind, rows = page.compared
        if rows is not None and rows.count:
            return Mark(page.monitor.fleet_name, kind, str(rows.row_key(rows.row)))
        key = page.place if rows is None else ""
        kind = LEVEL_NAMES[level_of(key)]
        return Mark(page.monitor.fleet_name, kind, key)


def figures_of(page: View, marks: tuple[Mark, Mark]) -> ExportTable:
    """Return the figures of two rows at one moment, as the page's view shows them.

    No rows if one of them is gone, or hidden by a filter.
    """
    rows = page.compared[1]
    if rows is not None:
        table = page.export()
        places = {str(rows.row_key(number)): number for number in range(rows.count)}
        numbers = [places.get(mark.key, len(table.rows)) for mark in marks]
        is_there = max(numbers) < len(table.rows)
        return table._replace(rows=[table.rows[number] for number in numbers] if is_there else [])
    layout = page.monitor.store.layout
    nodes = [find_node(layout, mark.key) for mark in marks]
    chosen = [TreeRow(node, is_open=False) for node in nodes if node is not None]
    table = rows_table(page.context, Descriptions(page.monitor), layout, chosen)
    return table if len(chosen) == len(marks) else table._replace(rows=[])


def difference(one: Value, other: Value, unit: str) -> str:
    """Return how much the second value is above the first, in its unit and in percent."""
    if not _is_known(one) or not _is_known(other):
        return "n/a"
    if isinstance(one, str) or isinstance(other, str) or one is None or other is None:
        return "same" if one == other else "differs"
    more = other - one
    if with_unit(one, unit) == with_unit(other, unit):
        return "same"
    sign = "+" if more > 0 else "-"
    if unit == "%":
        return f"{sign}{abs(more):.1f} points"
    share = f"  {sign}{100.0 * abs(more / one):,.0f} %" if abs(more) >= abs(one) / 200 > 0 else ""
    return f"{sign}{with_unit(abs(more), unit)}{share}"


def _is_known(value: Value) -> bool:
    return value not in {None, ""} and not (isinstance(value, float) and math.isnan(value))


def _text(value: Value, unit: str) -> str:
    if not _is_known(value):
        return "n/a"
    return plain(value, 80) if isinstance(value, str) else with_unit(value, unit)


class CompareLines(LineView):
    """A line for each figure that one of them has."""

    def __init__(self, read: Callable[[], ExportTable], names: tuple[str, str]) -> None:
        """Make the lines.

        Args:
            read: Returns the figures of both at the present moment.
            names: Their names.
        """
        super().__init__()
        self.read = read
        self._names = names

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        table = self.read()
        room = max(12, (width - 2) // 4)
        name = width - 3 * room - 2

        def line(words: tuple[str, ...], style: Style) -> Line:
            first, *others = words
            texts = (
                fit(f" {first}", name),
                *(right(f" {fit(text, room - 1).rstrip()}", room) for text in others),
            )
            return text_line((("".join(texts), style),), width)

        made = [line(("", *self._names, "difference"), theme.HEAD)]
        if not table.rows:
            made.append(
                line(("One of them is gone, or hidden by a filter.", "", "", ""), theme.QUIET)
            )
        unknown = []
        for title, one, other in zip(table.columns, *table.rows, strict=True) if table.rows else ():
            words, _, unit = title.rstrip("]").partition(" [")
            if words in BY_KEY:
                words = BY_KEY[words].title
            if not _is_known(one) and not _is_known(other):
                unknown.append(words)
                continue
            change = difference(one, other, unit)
            style = theme.QUIET if change == "same" else theme.BASE
            made.append(line((words, _text(one, unit), _text(other, unit), change), style))
        if unknown:
            made.append(
                text_line(((fit(f" not known: {', '.join(unknown)}", width), theme.QUIET),), width)
            )
        self.set_extent(0, len(made))
        return made[top : top + height]


class CompareScreen(ModalScreen[None]):
    """The comparison over the view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            bind(key, "dismiss", show=False)
            for key in ("escape", "enter", "compare", "quit", "quit-anywhere")
        ),
        bind("snapshot", "app.snapshot", show=False),
    ]
    DEFAULT_CSS = """
    CompareScreen { align: center middle; background: $bg 60%; }
    CompareLines {
        width: 90%; max-width: 140; height: 90%; padding: 0 1; background: $bg;
        border: round $fg-faint; border-title-color: $fg-bright; border-subtitle-color: $fg-muted;
    }
    """

    def __init__(self, read: Callable[[], ExportTable], names: tuple[str, str]) -> None:
        super().__init__()
        self.shown = CompareLines(read, names)
        self.shown.border_title = " Compare "
        self.shown.border_subtitle = " ↑ ↓ scroll  Esc closes "

    def compose(self) -> ComposeResult:
        yield self.shown


FLAT_LISTS = {
    "chips": Level.CHIP,
    "instances": Level.INSTANCE,
    "ultraservers": Level.ULTRASERVER,
}
LISTS = {
    "links": TOPOLOGY,
    "jobs": JOBS,
    "racks": POWER,
    "blocks": RESERVATIONS,
    "alerts": ALERTS,
    "events": EVENTS,
}
"""Lists of Hierarchy, and those of other views, by name."""


class RowActions(TimeKeys):
    """The keys and commands of rows."""

    _marked: Mark | None = None
    """The row to compare with another one."""

    def list_rows(self, rest: str) -> None:
        """List chips, instances or UltraServers without the tree, or go to the list of a view."""
        what, _, query = rest.partition(" ")
        what = checked("list", what, (*FLAT_LISTS, *LISTS))
        if what in LISTS:
            # The links of the fleet are counted by UltraServer: there may be millions.
            self.go("" if what == "links" else self.page.place, LISTS[what])
            if what == "racks" and isinstance(self.page, power_view()):
                self.page.kind = RACKS
            if query:
                self.filter_view(query)
        else:
            self._list_flat(FLAT_LISTS[what], query)

    def rack_names(self) -> list[str]:
        """Return the places of racks that are not an instance or UltraServer."""
        layout = self.monitor.store.layout
        return [place for place in racks_of(layout).places if layout.find(place) is None]

    def go_to_rack(self, rest: str) -> None:
        """Show a rack in Power."""
        self.list_rows(f"racks {quoted(checked('rack', rest, self.rack_names()))}")

    def list_top(self, rest: str, *, descending: bool) -> None:
        """List the chips with the highest or lowest values of a metric."""
        most, metric, query = [*rest.split(None, 2), "", "", ""][:3]
        if not most.isdecimal() or not int(most):
            raise ConfigError("write how many, and of which metric: :top 10 power job=NAME")
        alike = [name for name in FIELD_OF if name.startswith(f"{metric.lower()}_")]
        if metric.lower() not in FIELD_OF and len(alike) > 1:
            raise ConfigError(f"which {metric}? {', '.join(alike)}")
        name = CHIP_COLUMNS.find(metric).name
        field = FIELD_OF[checked("metric", name, FIELD_OF)]
        self._list_flat(Level.CHIP, query, int(most), Sorting(field.key, descending))

    def _list_flat(
        self, level: Level, query: str, most: int | None = None, sorting: Sorting | None = None
    ) -> None:
        parse(query, CHIP_COLUMNS)
        self.go("", HIERARCHY)
        if isinstance(self.page, hierarchy_view()):
            self.page.show_flat(Flat(level, most), query, sorting)

    def filter_view(self, rest: str) -> None:
        """Filter the view on the screen."""
        page = self.page
        if not isinstance(page, FilteredView):
            raise ConfigError(f"{self.view_title} has no filter")
        page.filter(rest)
        if page.problem:
            raise ConfigError(page.problem)
        page.close_prompt(rest)

    def column_choices(self) -> list[str]:
        """Return what `:columns` takes, one word each."""
        return ["default", *(f"{sign}{name}" for sign in "-+" for name in NAMES)]

    def choose_columns(self, rest: str) -> None:
        """Hide and show columns of Hierarchy; without any, list them."""
        fleet = self.monitor.fleet_name
        choice: dict[str, bool] = {}
        for word in () if rest == "default" else rest.split():
            if word[0] not in "-+":
                raise ConfigError(f"{plain(word, 40)!r}: - hides and + shows: -power +hbm_bw")
            column = CHIP_COLUMNS.get(word[1:])
            name = word[1:] if column is None else column.name
            choice[NAMES[checked("column", name, NAMES)]] = word[0] == "+"
        if not rest:
            raise ConfigError(self._listed_columns())
        self.go(self.page.place, HIERARCHY)
        if not isinstance(self.page, hierarchy_view()):
            return
        sorting = self.page.table.sorting
        until = self.context.fleets.columns.put(fleet, choice)
        self.page.tick()
        stays = "" if choice.get(sorting.key, True) else "; you sort by it, so it stays"
        self.say(f"columns {plain(rest, 100)}{stays}; {until}")

    def _listed_columns(self) -> str:
        """Return which columns of Hierarchy are shown and hidden."""
        if not isinstance(self.page, hierarchy_view()):
            return "open Hierarchy (2) to list its columns, or write -power +hbm_bw"
        choice = self.context.fleets.columns.columns_of(self.monitor.fleet_name)
        shown = {column.key for column in self.page.table.plan.columns}
        lists: dict[str, list[str]] = {"shown": [], "hidden": [], "no room or no data": []}
        for name, key in NAMES.items():
            absent = "no room or no data" if choice.get(key, True) else "hidden"
            lists["shown" if key in shown else absent].append(name)
        words = (f"{state}: {' '.join(names)}" for state, names in lists.items() if names)
        problem = self.context.fleets.columns.problem
        return "; ".join([*words, "default follows the width", *([problem] if problem else [])])

    def action_compare(self) -> None:
        """Mark the row under the cursor; with a marked one of the same kind, compare the two."""
        before = self._marked
        mark = self._marked = Mark.under_cursor(self.page)
        if mark == before or mark.kind == LEVEL_NAMES[Level.FLEET]:
            self._marked = None
            self.say("no longer marked" if mark == before else "nothing to compare here")
        elif before is None or before[:2] != mark[:2]:
            self.say(f"marked {mark.name}: {key_label('compare')} on another row compares the two")
        else:
            self._marked = None
            self._compare(before, mark)

    def _compare(self, one: Mark, other: Mark) -> None:
        read = partial(figures_of, self.page, (one, other))
        self.push_screen(CompareScreen(read, (one.name, other.name)))

    def compare_named(self, rest: str) -> None:
        """Compare two jobs or places, by names or parts of addresses."""
        if not rest:
            self.action_compare()
            return
        names = rest.split()
        if len(names) != 2:
            raise ConfigError("name two: :compare us-0001 us-0002")
        chips = ChipTable(self.monitor, self.context.alerts)
        jobs = {*self.job_names()}
        if jobs.issuperset(names):
            kind = "job"
            title = JOBS
            keys = names
        else:
            nodes = [next(iter(chips.find(name, 1)), None) for name in names]
            layout = self.monitor.store.layout
            keys = ["" if node is None else layout.path(node) for node in nodes]
            kind = LEVEL_NAMES[Level.INSTANCE]
            title = HIERARCHY
        for name, key in zip(names, keys, strict=True):
            if not key:
                raise ConfigError(f"no place is called {plain(name, 60)!r}")
        self.go(self.page.place, title)
        self._compare(*(Mark(self.monitor.fleet_name, kind, key) for key in keys))

    def action_copy_row(self) -> None:
        """Copy the text of the row under the cursor through the terminal (OSC 52)."""
        rows = self.focused
        text = rows.row_text() if isinstance(rows, CursorList) and rows.count else ""
        if text:
            self.copy_to_clipboard(text)
        self.say(
            f"copied {text} (if the terminal allows OSC 52)"
            if text
            else f"no row here; {key_label('copy-address')} copies the address"
        )

    def job_names(self) -> Iterable[str]:
        """Return the names of all jobs."""
        return self.monitor.ingest.jobs
