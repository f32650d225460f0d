"""The Chip view: one chip at a glance, arranged for the available width and height."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from rich.segment import Segment
from textual.strip import Strip

from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.filters.language import EVERYTHING, Filter, hint
from trnfleet.domain.layout import Node
from trnfleet.domain.quantities import DurationStyle, count, counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.last_known import last_known_text
from trnfleet.tui import theme
from trnfleet.tui.charts.chart import value_axis
from trnfleet.tui.chip import panels
from trnfleet.tui.chip.reading import ChipFacts, CounterRates, chip_at, read_chip
from trnfleet.tui.format.alerts import alerts_line
from trnfleet.tui.format.freshness import describe
from trnfleet.tui.keys import bind
from trnfleet.tui.snapshots.table import ExportTable, Value
from trnfleet.tui.state.chip_table import CHIP_COLUMNS, ChipTable
from trnfleet.tui.state.descriptors import Descriptions
from trnfleet.tui.state.leases import why_no_chips
from trnfleet.tui.view import FilteredView, View, filter_keys
from trnfleet.tui.widgets.cells import TextColumn, beside, fit, width_of
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line, text_line

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.style import Style
    from textual.app import ComposeResult

    from trnfleet.domain.filters.columns import Columns
    from trnfleet.tui.chip.panels import Panel
    from trnfleet.tui.state.context import UiContext


TITLES = ("address", "metric", "lane", "value", "unit", "origin", "source", "freshness")


def metric_table(facts: ChipFacts) -> ExportTable:
    """Return a chip's metrics as a table, a row per lane.

    Values that are not live are marked.
    """
    rows: list[tuple[Value, ...]] = []
    instance = facts.address.rpartition("/")[0]
    freshness = facts.freshness.name.lower()
    for record in facts.provenance:
        name = record.metric.name
        unit = record.metric.unit
        lane_values = facts.values.get(name)
        values = [facts.host[name]] if lane_values is None else lane_values.tolist()
        address = instance if lane_values is None else facts.address
        for lane, value in enumerate(values):
            number = lane if len(values) > 1 else None
            rows.append(
                (address, name, number, value, unit, record.origin, record.source, freshness)
            )
    return ExportTable(TITLES, rows)


MEDIUM = 110
WIDE = 200
"""Least widths: for three columns, and for four with provenance beside the rest."""
MARGIN = 1
GAP = 3
_HEAD_ROWS = 2
"""Rows of the head: the chip, and its parents."""


class ChipView(FilteredView):
    """One chip."""

    BINDINGS: ClassVar = [
        bind("next-chip", "step(1)", "Next chip"),
        bind("previous-chip", "step(-1)", "Previous chip"),
        bind("down", "scroll(1)", "Down", show=False),
        bind("up", "scroll(-1)", "Up", show=False),
        *filter_keys("Filter the chips to step through, or find a part: power>450 & job=name, hbm"),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.board = ChipBoard(context)

    def compose(self) -> ComposeResult:
        yield self.board
        yield self.prompt

    @property
    def place(self) -> str:
        """Address of the chip, or the requested address while unknown."""
        return self.board.place

    def show_place(self, address: str) -> None:
        """Show a chip, a core's chip, or the first chip below an address."""
        self.board.show_address(address)

    def renew(self) -> None:
        self.board.renew()

    def tick(self) -> None:
        self.board.tick()

    def action_step(self, by: int) -> None:
        """Go to the next or previous chip of the fleet.

        The first follows the last.
        """
        self.board.step(by)
        self.post_message(View.Moved(self.place))

    def columns(self) -> Columns:
        return CHIP_COLUMNS

    def export(self) -> ExportTable:
        """Return the metrics of the chip and of its instance, a row a lane."""
        return self.board.export()

    def take_filter(self, wanted: Filter) -> None:
        self.board.take_filter(wanted)
        self.board.tick()

    def found_text(self) -> str:
        """Return the number of chips the filter leaves, or of lines with its text."""
        chips = self.board.chips_found
        lines = self.board.lines_found
        if chips:
            return counted(chips, "chip")
        return (
            counted(lines, "line")
            if lines
            else hint(self.pattern, CHIP_COLUMNS) or "no chip and no line matches"
        )

    def close_prompt(self, pattern: str) -> None:
        """Apply the filter and go to its first chip or line.

        The chip stays if it matches.
        """
        super().close_prompt(pattern)
        if self.wanted and not self.problem:
            self.board.go_to_found()
            self.post_message(View.Moved(self.place))

    def show_sources(self, *, toggles: bool) -> None:
        """Show the source of each value, or the panels again where they are shown already."""
        if toggles or not self.board.shows_provenance:
            self.board.toggle_provenance()

    def action_scroll(self, by: int) -> None:
        """Scroll by lines if not everything fits."""
        self.board.scroll_relative(y=by, animate=False)


class ChipBoard(LineView):
    """The lines of the chip view."""

    DEFAULT_CSS = "ChipBoard { height: 1fr; overflow-x: hidden; }"

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self._ui = context
        self._monitor = context.monitor
        self._alerts = context.alerts
        self._descriptions = Descriptions(context.monitor)
        self._rates = CounterRates()
        self.shows_provenance = False
        self._wanted = ""
        self._table = ChipTable(context.monitor, context.alerts)
        self._filter = EVERYTHING
        self._made_of: tuple[object, ...] = ()
        self._content: list[Line] = []

    @property
    def place(self) -> str:
        """Address of the chip, or the requested address while unknown."""
        chip = self._chip()
        return (
            self._wanted
            if chip is None
            else self._monitor.store.layout.path(Node(Level.CHIP, chip))
        )

    def show_address(self, address: str) -> None:
        if address != self._wanted:
            self._wanted = address
            self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self._monitor.history.watch(self.place)
        self.tick()

    def renew(self) -> None:
        """Drop caches, and have the other monitor's history keep the chip."""
        self._rates = CounterRates()
        if self._wanted:
            self._monitor.history.watch(self.place)

    def step(self, by: int) -> None:
        """Move by chips in the order of addresses.

        With matches of the filter, only by these.
        """
        chip = self._chip()
        layout = self._monitor.store.layout
        if chip is None:
            return
        matches = self._found()
        if layout.has_rolled:
            matches = matches if len(matches) else np.arange(layout.chips)
            matches = matches[~layout.is_rolled[layout.instance_of_chip[matches]]]
        if len(matches):
            after = int(np.searchsorted(matches, chip, side="right" if by > 0 else "left"))
            number = int(matches[(after if by > 0 else after - 1) % len(matches)])
        else:
            number = (chip + by) % layout.chips
        self.show_address(layout.path(Node(Level.CHIP, number)))

    def take_filter(self, wanted: Filter) -> None:
        """Mark the lines with a filter's text, and step by its chips."""
        self._filter = wanted
        self._painted.clear()

    def _found(self) -> NDArray[np.int64]:
        """Return the chips that match the filter; empty without a filter."""
        mask = self._filter.mask(self._table)
        return np.zeros(0, np.int64) if mask is None else np.flatnonzero(mask)

    @property
    def chips_found(self) -> int:
        """How many chips the filter leaves; 0 for none, and without a filter."""
        return len(self._found())

    @property
    def lines_found(self) -> int:
        """Number of lines with a text of the filter."""
        return len(self._lines_with())

    def _lines_with(self) -> list[int]:
        parts = self._filter.parts
        return [
            number
            for number, line in enumerate(self._content)
            if any(part in line.make().text.lower() for part in parts)
        ]

    def go_to_found(self) -> None:
        """Go to the filter's first chip, unless this one matches, or to its first line."""
        matches = self._found()
        chip = self._chip()
        if len(matches) and chip is not None and chip not in matches:
            self.show_address(self._monitor.store.layout.path(Node(Level.CHIP, int(matches[0]))))
        elif not len(matches) and (lines := self._lines_with()):
            self.scroll_to(y=max(0, lines[0] - 2), animate=False, force=True, immediate=True)
        self.tick()

    def toggle_provenance(self) -> None:
        """Show provenance instead of the panels, or the panels again."""
        self.shows_provenance = not self.shows_provenance
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.tick()

    def tick(self) -> None:
        """Read the chip again and paint changes."""
        width, height = self.lines_size()
        if width > 0 and height > 0:
            self._read(width, height)
            self.set_extent(0, len(self._content))
        super().tick()

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        if not self._content or self._made_of != (width, self.size.height):
            self._read(width, height)
        shown = self._content[top : top + height]
        parts = self._filter.parts
        return [marked(line, parts) for line in shown] if parts else shown

    def _chip(self) -> int | None:
        return chip_at(self._monitor.store.layout, self._wanted)

    def _read(self, width: int, height: int) -> None:
        chip = self._chip()
        self._made_of = (width, self.size.height)
        if chip is None:
            self._content = _unknown(self._ui, self._wanted, width)
            return
        now_s = self._monitor.clock.monotonic_s()
        facts = self._facts(chip, now_s)
        alerts = self._alert_lines(facts.address, width)
        made = arrange(facts, width, height - len(alerts), provenance=self.shows_provenance)
        self._content = [*made[:_HEAD_ROWS], *alerts, *made[_HEAD_ROWS:]]

    def _facts(self, chip: int, now_s: float) -> ChipFacts:
        return read_chip(self._ui, self._descriptions, chip, now_s, self._rates)

    def export(self) -> ExportTable:
        """Return the metrics of the chip and its instance, a row per lane.

        Empty if no chip is shown.
        """
        chip = self._chip()
        return (
            ExportTable()
            if chip is None
            else metric_table(self._facts(chip, self._monitor.clock.monotonic_s()))
        )

    def _alert_lines(self, address: str, width: int) -> list[Line]:
        """Return a line with the alerts of the chip and its parents; empty without alerts."""
        alerts = self._alerts.touching(address)
        handled = self._alerts.handled_touching(address)
        if not alerts and not handled:
            return []
        quiet = ", ".join(f"{count(number)} {status.value}" for status, number in handled.items())
        words = alerts_line(alerts, self._alerts.now_ns, width - 10 - len(quiet))
        return [text_line([(" alerts: ", theme.QUIET), *words, (quiet, theme.QUIET)], width)]


def marked(line: Line, parts: tuple[str, ...]) -> Line:
    """Return a line with its texts marked if they contain any of `parts`.

    Parts are in lower case.
    """

    def make() -> Strip:
        made: list[Segment] = []
        strip = line.make()
        for text, style, _ in strip:
            has = any(part in text.lower() for part in parts)
            made.append(Segment(text, (style or theme.BASE) + theme.SELECTED if has else style))
        return Strip(made, strip.cell_length)

    return Line((line.signature, parts), make)


def arrange(facts: ChipFacts, width: int, height: int, *, provenance: bool) -> list[Line]:
    """Return all lines of the view.

    A small screen scrolls: they may exceed `height`.
    """
    lines = _head(facts, width)
    inner = width - 2 * MARGIN
    if provenance:
        return [*lines, *_columns([panels.provenance(facts, inner)], [inner], width)]
    if width >= MEDIUM:
        lines.append(blank_line(width))
        lines.extend(_wide(facts, width, inner))
    else:
        lines.extend(_compact(facts, width, inner))
    fields = facts.fields
    across = min(3 if width >= MEDIUM else 2, max(1, len(fields)))
    rows = max(1, -(-len(fields) // across))
    widths = [(inner - GAP * (across - 1)) // across] * across
    free = height - len(lines)
    tall = min(14, max(3, free // rows - 1 - (width >= MEDIUM)))
    axes = [
        max(value_axis(facts.charts[field.key], cells, tall).cells for field in fields[at::across])
        for at, cells in enumerate(widths)
        if at < len(fields)
    ]
    for row in range(rows):
        if width >= MEDIUM:
            lines.append(blank_line(width))
        made = [
            panels.chart(facts, field, cells, tall, axis)
            for field, cells, axis in zip(
                fields[row * across : (row + 1) * across], widths, axes, strict=False
            )
        ]
        lines.extend(_columns(made, widths[: len(made)], width))
    return lines


def _compact(facts: ChipFacts, width: int, inner: int) -> list[Line]:
    """Return two columns for narrow screens: all panels but the instance's in 18 lines."""
    half = (inner - GAP) // 2
    halves = [half, inner - GAP - half]
    small = [
        panel
        for panel in (
            panels.cores(facts, half, in_pairs=True, with_spark=True),
            panels.engines(facts, half),
            panels.hbm(facts, half, with_spark=True),
            panels.power(facts, half, with_spark=True),
        )
        if panel
    ]
    return [
        *(
            line
            for at in range(0, len(small), 2)
            for line in _columns(small[at : at + 2], halves[: len(small) - at], width)
        ),
        *_columns([panels.links(facts, inner, columns=2, with_spark=True)], [inner], width),
        *_columns([panels.counters(facts, inner, columns=2)], [inner], width),
        *_columns([panels.other(facts, inner)], [inner], width),
        *_columns([panels.unknown(facts, inner)], [inner], width),
    ]


def _wide(facts: ChipFacts, width: int, inner: int) -> list[Line]:
    """Return three columns, plus provenance as the fourth if there is room."""
    across = 4 if width >= WIDE else 3
    room = inner - GAP * (across - 1)
    # Links and provenance have the longest lines.
    widths = [room // 5, room * 23 // 100, room * 28 // 100] if across == 4 else [room // 3] * 3
    widths += [room - sum(widths)] * (across - 3)
    stacks = [
        _stack(
            panels.cores(facts, widths[0], in_pairs=False, with_spark=False),
            panels.counters(facts, widths[0], columns=1),
        ),
        _stack(
            panels.engines(facts, widths[1]),
            panels.hbm(facts, widths[1], with_spark=False),
            panels.power(facts, widths[1], with_spark=False),
        ),
        _stack(
            panels.links(facts, widths[2], columns=1, with_spark=False),
            panels.host(facts, widths[2]),
            panels.other(facts, widths[2]),
            panels.unknown(facts, widths[2]),
        ),
    ]
    if across == 4:
        stacks.append(panels.provenance(facts, widths[3]))
    return _columns(stacks, widths, width)


def _stack(*parts: Panel) -> Panel:
    """Return panels below each other with an empty line between."""
    stacked: Panel = []
    for panel in parts:
        if stacked and panel:
            stacked.append(())
        stacked.extend(panel)
    return stacked


def _columns(stacks: list[Panel], widths: list[int], width: int) -> list[Line]:
    """Return panels beside each other, with margin and gaps."""
    columns = [TextColumn((), MARGIN)]
    for number, (panel, cells) in enumerate(zip(stacks, widths, strict=True)):
        if number:
            columns.append(TextColumn((), GAP))
        columns.append(TextColumn(panel, cells))
    return beside(columns, width)


def _head(facts: ChipFacts, width: int) -> list[Line]:
    """Return two lines: the chip and its freshness, then its parents."""
    counts = tuple(int(state is facts.freshness) for state in Freshness)
    state = describe(counts, facts.age_s)
    when = f"{format_rfc3339(facts.ts_ns)[:19]}Z".replace("T", " ") if facts.ts_ns else ""
    right: list[tuple[str, Style]] = [(state.text, state.style)]
    if facts.late_s:
        late = f", {duration(facts.late_s, DurationStyle.COARSE)} late"
        right.append((late, theme.SEVERITY_STYLE[Severity.WARNING]))
    elif facts.freshness is Freshness.LIVE:
        right.append((f" {duration(facts.age_s, DurationStyle.COARSE)} ago", theme.QUIET))
    right.append((f"  {when} ", theme.QUIET))
    left = ((" " + facts.shown, theme.STRONG),)
    room = max(1, width - width_of(left) - width_of(tuple(right)))
    job = f"job {facts.job}" if facts.job else "no job"
    said = [facts.job_state] if facts.job_state not in {"", "running"} else []
    if facts.job_age_s is not None:
        said.append(last_known_text(facts.job_age_s))
    if said:
        job += f" ({', '.join(said)})"
    words = [
        facts.chip.title,
        facts.kind.name,
        facts.ec2_id,
        job,
        {"neuron": "real host"}.get(facts.origin, facts.origin),
        f"under a lease of cell {facts.lease_of}" if facts.lease_of else "",
    ]
    about = " " + "  ".join(word for word in words if word)
    return [
        text_line((*left, (" " * room, theme.BASE), *right), width),
        text_line(((fit(about, width), theme.QUIET),), width),
    ]


def _unknown(context: UiContext, wanted: str, width: int) -> list[Line]:
    layout = context.monitor.store.layout
    if why := why_no_chips(context, wanted):
        text = f" {wanted}: {why}"
    elif layout.has_rolled and layout.is_rolled.all():
        text = (
            " Relays pass chips on where an UltraServer is opened: Enter on one in Fleet or"
            " Hierarchy"
        )
    else:
        text = f" {wanted} is not known" if wanted else " No chip is known yet"
    return [blank_line(width), text_line(((text, theme.QUIET),), width)]
