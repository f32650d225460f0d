"""The Topology view: an instance's links drawn, its UltraServer's rings, and lists.

Above the UltraServer it lists UltraServers and instances, those with links that are not up first.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on

from trnfleet.domain.address import Level
from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.hardware.topology import TopologyKind
from trnfleet.domain.layout import Node
from trnfleet.domain.quantities import counted, with_unit
from trnfleet.monitor.problems import texts
from trnfleet.monitor.topology import LinkState
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts.place import ChartedPlace, PlaceCharts
from trnfleet.tui.keys import bind, key_label
from trnfleet.tui.snapshots.table import ExportTable, table_of
from trnfleet.tui.state.leases import why_no_chips
from trnfleet.tui.state.subjects import Subject, of_place
from trnfleet.tui.topology.lists import (
    DOMAIN_COLUMNS,
    SORTS,
    DomainList,
    LinkList,
    domain_address,
)
from trnfleet.tui.topology.reading import LINK_COLUMNS, TopologyReading
from trnfleet.tui.topology.torus import (
    COLOURS,
    GAP,
    SHARE,
    TIGHT_GAP,
    Picture,
    Sides,
    link_style,
    node_lines,
    ring_lines,
    width_of,
)
from trnfleet.tui.view import (
    CHARTS_FROM,
    CHIP,
    LEAST_LIST,
    TOPOLOGY,
    FilteredView,
    View,
    filter_keys,
    in_steps,
    tab_keys,
)
from trnfleet.tui.widgets.bar import Bar, justified, tab_parts
from trnfleet.tui.widgets.cells import Parts, fit
from trnfleet.tui.widgets.cells import width_of as cells_of
from trnfleet.tui.widgets.cursor_list import CursorList
from trnfleet.tui.widgets.focus import focus_on
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.tui.state.context import UiContext

RINGS = "rings"
LIST = "list"
TABS = ("torus", RINGS, LIST)
_BESIDE = 66
"""Least cells for the rings beside a drawing, and for the instances beside the rings."""


class TopologyBoard(LineView):
    """The drawing, with a cursor on a chip."""

    DEFAULT_CSS = "TopologyBoard { height: 1fr; overflow-x: hidden; }"

    def __init__(self, view: TopologyView) -> None:
        super().__init__()
        self._view = view

    def lines(self, _top: int, _height: int, width: int) -> list[Line]:
        return [text_line(parts, width) for parts in self._view.drawn(width)]


class TopologyView(FilteredView):
    """The drawing, the rings and the lists; which of them are shown depends on place and tab."""

    DEFAULT_CSS = """
    TopologyView { layout: vertical; }
    TopologyView .away { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *tab_keys(", ".join(TABS)),
        bind("left", "go('left')", "along the link to the left; at the edge to the other side"),
        bind("right", "go('right')", "along the link to the right"),
        bind("up", "go('up')", "along the link up"),
        bind("down", "go('down')", "along the link down"),
        bind("enter", "enter", "open the chip"),
        bind("other-end", "other_end", "the other end of the link"),
        bind("colour", "colour", f"colour: {', '.join(COLOURS)}"),
        bind("next-instance", "instance(1)", "next instance"),
        bind("previous-instance", "instance(-1)", "previous instance"),
        bind("fleet-links", "fleet", "UltraServers and instances of the fleet"),
        bind("sort", "sort", f"sort links: {', '.join(SORTS)}"),
        *filter_keys("filter: part of anything, job=name, !text; of links share<90, state=slow"),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.reading = TopologyReading(context)
        self.head = Bar(fill=lambda: theme.HEAD)
        self.board = TopologyBoard(self)
        self.said = Bar()
        self.list_head = Bar(fill=lambda: theme.HEAD)
        self.links = LinkList(self.reading)
        self.sorted_list = self.links
        self.domains = DomainList(self.reading)
        self.charts = PlaceCharts(context, self._charted)
        self.tab = TABS[0]
        self.colour = SHARE
        self._at = ""
        """Address of the chip under the cursor, or of an instance without chips; empty above."""
        self._lane = ""
        """Name of the chip's link under the cursor; empty for none."""
        self._wanted_place = ""
        """Place that was asked for, until its links are read."""
        self._is_asked = True
        self._read_of: Hashable = None

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.board
        yield self.said
        yield self.list_head
        yield self.links
        yield self.domains
        yield self.charts
        yield self.prompt

    # The place

    @property
    def place(self) -> str:
        # The list's own place, not that of its cursor: Esc leads back to it.
        return self._at or self._wanted_place

    @property
    def subject(self) -> Subject:
        return of_place(self.context.alerts, self._under_cursor)

    @property
    def _under_cursor(self) -> str:
        picked = self.domains.picked
        return self._at or ("" if picked is None else picked.address)

    def show_place(self, address: str) -> None:
        """Show an address; `…/chip06:west` puts the cursor on that link.

        An UltraServer or instance is shown with the cursor on its worst link.
        """
        path, _, lane = address.partition(":")
        if path == self._at and not lane:
            self.tick()
            return
        self._wanted_place = path
        self._lane = lane
        self._is_asked = True
        self.tick()

    def _resolve(self) -> None:
        """Go to the place that was asked for."""
        self._is_asked = False
        layout = self.reading.layout
        links = self.reading.links
        node = layout.find(self._wanted_place)
        self._at = ""
        if node is None or links is None or node.level < Level.ULTRASERVER:
            return
        if node.level is Level.ULTRASERVER and layout.is_standalone[node.number]:
            self.domains.point_at(
                next(iter(layout.instances[row] for row in layout.children(node)), "")
            )
            return
        covered = layout.instance_range(node)
        self.reading.choose(links.domain_at(covered.start))
        if node.level is not Level.CHIP:
            self._at = layout.path(Node(Level.INSTANCE, covered.start))
            self._go_to_worst(covered)
        else:
            self._at = layout.path(node)
        self.post_message(View.Moved(self.place))

    def _go_to_worst(self, covered: range) -> None:
        """Put the cursor on the worst link of some instances, on the first chip without one."""
        layout = self.reading.layout
        table = self.reading.table
        chips = range(int(layout.chip_start[covered.start]), int(layout.chip_start[covered.stop]))
        if table is None or not table.total or not chips:
            if chips and not layout.is_rolled[covered.start]:
                self._at = layout.path(Node(Level.CHIP, chips.start))
            return
        best = (LinkState.UP.value, chips.start, -1)
        for (chip, lane), number in self.reading.by_end.items():
            if chip in chips:
                best = min(best, (int(table.states[number]), chip, lane))
        self._point(best[1], best[2])

    def _point(self, chip: int, lane: int) -> None:
        """Put the cursor on a chip row and a lane, -1 for none."""
        layout = self.reading.layout
        self._at = layout.path(Node(Level.CHIP, chip))
        instance = int(layout.instance_of_chip[chip])
        self._lane = layout.lane_names_of(instance)[lane] if lane >= 0 else ""

    @property
    def cursor(self) -> tuple[int, int]:
        """Chip row and lane under the cursor; -1 for none."""
        layout = self.reading.layout
        node = layout.find(self._at)
        if node is None or node.level is not Level.CHIP:
            return -1, -1
        names = layout.lane_names_of(int(layout.instance_of_chip[node.number]))
        return node.number, names.index(self._lane) if self._lane in names else -1

    @property
    def instance(self) -> int:
        """Row of the instance shown; -1 above instances."""
        node = self.reading.layout.find(self._at) if self._at else None
        return -1 if node is None else self.reading.layout.instance_range(node).start

    # Painting

    def renew(self) -> None:
        self.reading.renew()
        self._read_of = None

    def take_focus(self) -> None:
        focus_on(self._focused)

    @property
    def _focused(self) -> LineView:
        if not self._at:
            return self.domains
        return self.links if self.tab == LIST else self.board

    def tick(self) -> None:
        if not self.reading.refresh():
            if self.reading.links is None:
                self._tell([[(" Waiting for telemetry of the fleet", theme.QUIET)]], [])
            return
        if self._is_asked:
            self._resolve()
        if self._at and self.instance < 0:
            # It has left the fleet.
            self._wanted_place = self._at = ""
        if not self.wanted.columns.issubset(self.columns().names):
            # It is about columns of the other list.
            self.filter("")
        if self._at and self.reading.links is not None:
            self.reading.choose(self.reading.links.domain_at(self.instance))
        self._read_lists()
        self._share_space()
        self._write()
        for lines in (self.board, self.links, self.domains, self.charts):
            lines.tick()

    def _read_lists(self) -> None:
        """Read the shown list again if anything has changed."""
        alerts = self.context.alerts.revision
        key = (
            self.reading.revision,
            alerts,
            self.reading.domain,
            bool(self._at),
            self.wanted.typed,
        )
        if (key, self.links.order) == self._read_of:
            return
        self._read_of = (key, self.links.order)
        if self._at:
            self.links.read()
            self._follow_cursor()
        else:
            self.domains.read()

    def _follow_cursor(self) -> None:
        """Put the list's cursor on the link under the cursor."""
        number = self.reading.by_end.get(self.cursor)
        if number is not None:
            self.links.choose(number)

    def _share_space(self) -> None:
        """Show what the place and the tab have, and divide the rows."""
        is_fleet = not self._at
        drawn = 0 if is_fleet or self.tab == LIST else len(self.drawn(self.size.width))
        rows = self.size.height - 3 - 2 * self.has_class("asking")
        drawn = min(drawn, max(1, rows - 4))
        for widget, is_shown in (
            (self.board, drawn > 0),
            (self.said, not is_fleet),
            (self.links, not is_fleet),
            (self.domains, is_fleet),
        ):
            if widget.has_class("away") is is_shown:
                widget.set_class(not is_shown, "away")
        # Links that are up are worth less than charts.
        is_whole = is_fleet or self.wanted or self.tab == LIST
        shown = self.domains.rows if is_fleet else self.links.rows
        listed = len(shown) if is_whole else max(2 * LEAST_LIST, in_steps(self.links.bad))
        has_charts = self.size.width >= CHARTS_FROM
        self.charts.lend(rows - drawn - max(LEAST_LIST, listed) if has_charts else 0)
        if drawn:
            # Textual lays out again only where that is another number.
            self.board.styles.height = drawn

    def _charted(self) -> ChartedPlace | None:
        """Return the chip, UltraServer or instance under the cursor."""
        return ChartedPlace(self.context, self._under_cursor) if self._under_cursor else None

    def drawn(self, width: int) -> list[Parts]:
        """Return the lines of the drawing."""
        instance = self.instance
        links = self.reading.links
        if instance < 0 or links is None or self.reading.table is None or width <= 0:
            return []
        layout = self.reading.layout
        if layout.is_rolled[instance]:
            why = why_no_chips(self.context, layout.instances[instance])
            return [[(f" Links are not known from roll-ups. {why}", theme.QUIET)]]
        kind = layout.type_of(instance)
        if kind.topology.kind is TopologyKind.NONE and kind.between is None:
            words = "one chip" if kind.chips == 1 else counted(kind.chips, "chip")
            return [[(f" {kind.name} has no NeuronLink: {words}.", theme.QUIET)]]
        members = [
            row for row in links.instances_of(self.reading.domain) if not layout.is_rolled[row]
        ]
        rings = self._rings(members, instance, width)
        if self.tab == RINGS:
            return rings
        wide = width_of(kind.topology, GAP)
        if len(members) > 1 and len(members) * wide <= width:
            pictures = [
                [
                    [
                        (
                            f"       {self.reading.instance_name(row)}",
                            theme.STRONG if row == instance else theme.QUIET,
                        )
                    ],
                    *self._picture(row, GAP),
                ]
                for row in members
            ]
            return [*_beside(pictures, wide), self._legend(width), [], *rings]
        if width - width_of(kind.topology, TIGHT_GAP) < _BESIDE:
            return [
                *self._picture(instance, GAP if wide <= width else TIGHT_GAP),
                self._legend(width),
            ]
        gap = GAP if width - wide >= _BESIDE + 12 else TIGHT_GAP
        left = width_of(kind.topology, gap)
        rings = self._rings(members, instance, width - left)
        return [*_beside([self._picture(instance, gap), rings], left), self._legend(width)]

    def _picture(self, instance: int, gap: int) -> list[Parts]:
        return Picture(self.reading, instance, gap, self.colour, self.cursor).lines()

    def _rings(self, members: list[int], instance: int, width: int) -> list[Parts]:
        is_beside = width >= 2 * _BESIDE
        lines = ring_lines(self.reading, members, _BESIDE if is_beside else width)
        nodes = node_lines(self.reading, members, instance, width - _BESIDE * is_beside)
        return _beside([lines, nodes], _BESIDE) if is_beside else [*lines, [], *nodes]

    def _legend(self, width: int) -> Parts:
        """Return what the glyphs on the screen mean."""
        rule = None if self.reading.links is None else self.reading.links.rule
        counts = None if self.reading.table is None else self.reading.table.counts
        if counts is None:
            return []
        below = "" if rule is None or rule.below is None else f", below {100 * rule.below:.0f} %"
        words = ["━ 90 % of peers or more", "─ less"]
        words += [f"▲ slow{below}"] * bool(counts.slow)
        words += ["✖ down"] * bool(counts.down) + ["┈ not known"] * bool(counts.unknown)
        words.append("┄ ┆ to the other side")
        while len(words) > 1 and len("   ".join(words)) + 2 > width:
            words.pop()
        return [(" " + "   ".join(words), theme.QUIET)]

    def _write(self) -> None:
        links = self.reading.links
        if links is None:
            return
        fleet = links.counts
        if not self._at:
            more = self.domains.left_out
            others = f"   {more:,} more are not listed" if more else ""
            text = f" Links of the fleet: {fleet.text}{others}"
            if self.wanted:
                listed = f"{plain(self.wanted.typed, 30)}: {len(self.domains.rows):,} listed"
                text = f" Links of /{listed}, {self.domains.counts.text}{others}"
            self._tell([[(text, theme.HEAD)]], [])
            self.list_head.show(lambda width: [self.domains.head(width)])
            return
        instance = self.instance
        counts = links.counts_of(self.reading.domain)
        group = domain_address(links, self.reading.domain).rpartition("/")[2]
        members = links.instances_of(self.reading.domain)
        name = self.reading.instance_name(instance)
        whose = "links"
        if len(members) > 1:
            name += (
                f"  {instance - members.start + 1}/{len(members)} ({key_label('next-instance')})"
            )
            whose = f"links of {plain(group, 40)}"
        knows = self.reading.knows_traffic(instance)
        told = "" if knows else "  traffic not known on this host"
        tabs = tab_parts({tab: tab for tab in TABS}, self.tab)
        right = [
            (text, theme.HEAD_ACCENT if style == theme.LINK else theme.HEAD) for text, style in tabs
        ]
        colour: Parts = [(f"colour: {self.colour} ({key_label('colour')}) ", theme.HEAD)]

        def head(width: int) -> list[Parts]:
            forms = [
                (f"  {whose}: {counts.text}{told}", [*right, *colour]),
                (f"  {whose}: {counts.text}{told}", right),
                (f"  {counts.text}{told}", right),
            ]
            shown: list[Parts] = [
                justified(
                    [(f" {name}", theme.HEAD_STRONG), (text, theme.HEAD)], end, width, theme.HEAD
                )
                for text, end in forms
            ]
            return [
                next(
                    (line for line in shown if len(line) > 2 and cells_of(line) <= width), shown[-1]
                )
            ]

        self.head.show(head)
        self.said.show(lambda width: [self._words(width)])
        self.list_head.show(lambda width: [self._list_head(width)])

    def _tell(self, head: list[Parts], said: list[Parts]) -> None:
        self.head.show(lambda _width: head)
        self.said.show(lambda _width: said)

    def _list_head(self, width: int) -> Parts:
        if not self.wanted:
            return self.links.head(width)
        number = f"{len(self.links.rows)} of {len(self.links.all_rows)}"
        note = f" /{plain(self.wanted.typed, 30)} {number} "
        text = self.links.head(width)[0][0]
        return [(fit(text, width - len(note)), theme.HEAD), (note, theme.HEAD_ACCENT)]

    def _words(self, width: int) -> Parts:
        """Return the link under the cursor in words, or the chip with its links."""
        reading = self.reading
        chip, lane = self.cursor
        if chip < 0 or reading.table is None:
            return []
        instance = int(reading.layout.instance_of_chip[chip])
        kind = reading.layout.type_of(instance)
        number = reading.by_end.get((chip, lane))
        if number is None:
            first = int(reading.layout.chip_start[instance])
            fault = "   driver reports a failed NeuronLink" if reading.has_fault(chip) else ""
            return [
                (f" chip{chip - first:02d}", theme.STRONG),
                (f"   {reading.job_of(instance) or 'no job'}{fault}", theme.QUIET),
            ]
        row = self.links.all_rows[number]
        words = [row.state.word]
        if not math.isnan(row.share):
            words.append(f"{row.share:.0f} % of its peers")
        if row.problem is not None:
            now_ns = self.context.alerts.now_ns
            words += filter(None, [texts.impact_text(row.problem, now_ns)])
        peak = kind.lane_bytes_per_s(lane)
        if not math.isnan(row.slower):
            limit = "" if peak is None else f" of {with_unit(peak.value, 'bytes/s')}"
            words.append(f"{with_unit(row.slower, 'bytes/s')}{limit}")
        if row.problem is not None:
            words.append(f"{plain(row.alert, 32)} {texts.age_text(row.problem, now_ns)}")
        while len(words) > 1 and len("  ".join(words)) + len(row.text) + 3 > width:
            words.pop()
        return [(f" {row.text}  ", theme.STRONG), ("  ".join(words), link_style(row.state))]

    # Keys

    def action_go(self, side: str) -> None:
        """Move along the link on a side of the chip, or to the next chip drawn there."""
        chip, _ = self.cursor
        if chip < 0:
            return
        layout = self.reading.layout
        instance = int(layout.instance_of_chip[chip])
        topology = layout.type_of(instance).topology
        first = int(layout.chip_start[instance])
        member = chip - first
        lane = getattr(Sides.from_topology(topology), side)
        end = topology.ends[member][lane] if lane >= 0 else None
        if end is not None:
            self._point(first + end.member, end.lane)
        else:
            columns = topology.shape[1]
            other = member + {"left": -1, "right": 1, "up": -columns, "down": columns}[side]
            if 0 <= other < topology.members:
                self._point(first + other, -1)
        self._moved()

    def action_other_end(self) -> None:
        """Move to the other end of the link under the cursor, perhaps in another instance."""
        table = self.reading.table
        number = self.reading.by_end.get(self.cursor)
        if number is None or table is None:
            return
        ends = np.stack((table.chips[number], table.lanes[number]), axis=1).tolist()
        chip, lane = ends[ends[0] == [*self.cursor]]
        if chip >= 0:
            self._point(chip, lane)
            self._moved()

    def action_enter(self) -> None:
        """Open the chip under the cursor."""
        if self._at:
            self.post_message(View.Open(self.place, CHIP))

    def _moved(self) -> None:
        self._follow_cursor()
        self.tick()
        self.post_message(View.Moved(self.place))

    def action_instance(self, step: int) -> None:
        """Go to the next or previous instance of the fleet, at its worst link."""
        if not self._at:
            return
        layout = self.reading.layout
        instance = (self.instance + step) % len(layout.instances)
        self.show_place(layout.instances[instance])
        self._moved()

    def action_fleet(self) -> None:
        """Go to the list of UltraServers and instances."""
        if self._at:
            self.post_message(View.Open("", TOPOLOGY))

    def action_tab(self, step: int) -> None:
        """Show the next or previous tab."""
        if self._at:
            self.tab = TABS[(TABS.index(self.tab) + step) % len(TABS)]
            self.tick()
            self.take_focus()

    def action_colour(self) -> None:
        """Let the colour mean the next thing."""
        self.colour = COLOURS[(COLOURS.index(self.colour) + 1) % len(COLOURS)]
        self.tick()

    @on(CursorList.Changed)
    def _pointed(self, event: CursorList.Changed) -> None:
        event.stop()
        table = self.reading.table
        picked = self.links.picked
        if self._at and picked is not None and table is not None:
            if self.reading.by_end.get(self.cursor) != picked.number:
                self._point(int(table.chips[picked.number, 0]), int(table.lanes[picked.number, 0]))
            self.tick()
        self.post_message(View.Moved(self.place))

    @on(CursorList.Entered)
    def _entered(self, event: CursorList.Entered) -> None:
        event.stop()
        picked = self.domains.picked
        if not self._at and picked is not None:
            self.post_message(View.Open(picked.address, TOPOLOGY))
        self.action_enter()

    # Order, filter, export

    @property
    def orders(self) -> tuple[str, ...]:
        return SORTS if self._at else ()

    def columns(self) -> Columns:
        return LINK_COLUMNS if self._at else DOMAIN_COLUMNS

    def take_filter(self, query: Filter) -> None:
        self.links.wanted = self.domains.wanted = query
        self.tick()

    def found_text(self) -> str:
        rows = self.links.count if self._at else self.domains.count
        noun = "link" if self._at else "UltraServer or instance"
        return counted(rows, noun) if rows else hint(self.pattern, self.columns())

    def export(self) -> ExportTable:
        """Return the links listed, or the UltraServers and instances."""
        rows = self.links.rows if self._at else self.domains.rows
        return table_of(self.columns(), rows)


def _beside(columns: list[list[Parts]], width: int) -> list[Parts]:
    """Return lines of columns beside each other, each in `width` cells."""
    made: list[Parts] = []
    for lines in itertools.zip_longest(*columns, fillvalue=[]):
        parts: Parts = []
        for own in lines:
            parts += [*own, (" " * max(0, width - cells_of(own)), theme.BASE)]
        made.append(parts)
    return made
