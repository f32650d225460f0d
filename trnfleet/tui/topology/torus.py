"""Drawings of links: an instance's network on a grid, and the rings of its UltraServer.

Pure functions from a reading to styled lines. A link drawn to the edge goes on at the other side.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style

from trnfleet.domain.hardware.topology import Topology, TopologyKind
from trnfleet.domain.quantities import with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.topology import LinkState
from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import Parts, fit, right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.tui.topology.reading import TopologyReading

SHARE = "share of peers"
TRAFFIC = "traffic"
COLOURS = (SHARE, TRAFFIC)
"""What the colour of a sound link means."""
SOUND_SHARE = 0.9
"""Least share of peers of a link drawn heavy."""
GAP = 8
TIGHT_GAP = 6
"""Cells of a link between two chips of a row."""
BOX = 4
STUB = 6
"""Cells of a chip, and of a link to the edge."""


class Sides(NamedTuple):
    """Lanes by the side of a chip on which they are drawn; -1 for none."""

    left: int
    right: int
    up: int
    down: int

    @staticmethod
    def from_topology(topology: Topology) -> Sides:
        """Return the sides of a topology: along rows to the left and right, else up and down."""
        if topology.kind is TopologyKind.SWITCHED:
            return Sides(-1, -1, -1, -1)
        along = [lane for lane, spec in enumerate(topology.lanes) if spec.axis == "rows"]
        across = [lane for lane, spec in enumerate(topology.lanes) if spec.axis == "columns"]
        left = along[0] if along else -1
        up = across[0] if across else -1
        return Sides(left, along[-1] if along else -1, up, across[-1] if across else -1)


def width_of(topology: Topology, gap: int) -> int:
    """Return the cells of a drawing, with a gap behind it."""
    columns = topology.shape[1]
    if topology.kind is TopologyKind.SWITCHED:
        return columns * (BOX + 12) + 4
    return 2 + 2 * STUB + columns * BOX + (columns - 1) * gap


def rate_text(rate: float) -> str:
    """Return bytes/s as GB/s in four cells; blank if unknown."""
    giga = rate / 1e9
    return "    " if math.isnan(giga) else f"{giga:4.1f}" if rate < 99.95e9 else f"{giga:4.0f}"


class Picture:
    """The drawing of one instance's chips and links."""

    def __init__(
        self,
        reading: TopologyReading,
        instance: int,
        gap: int,
        colour: str,
        cursor: tuple[int, int],
    ) -> None:
        """Make the drawing.

        Args:
            reading: The links.
            instance: The instance's row.
            gap: Cells between chips.
            colour: One of `COLOURS`.
            cursor: Chip row and lane under the cursor; -1 for none.
        """
        self._reading = reading
        self._gap = gap
        self._colour = colour
        self._cursor = cursor
        self._kind = reading.layout.type_of(instance)
        self._topology = self._kind.topology
        self._first = int(reading.layout.chip_start[instance])
        self._sides = Sides.from_topology(self._topology)

    def lines(self) -> list[Parts]:
        """Return the lines from the top."""
        if self._topology.kind is TopologyKind.SWITCHED:
            return self._ports()
        rows, columns = self._topology.shape
        made: list[Parts] = []
        has_columns = self._sides.up >= 0
        if has_columns:
            made.append(self._upright(range(columns), self._sides.up))
        for row in range(rows):
            members = range(row * columns, min((row + 1) * columns, self._topology.members))
            made.append(self._row(members))
            if has_columns:
                made.append(self._upright(members, self._sides.down))
            elif row < rows - 1:
                made.append([])
        return made

    def _ports(self) -> list[Parts]:
        """Return the chips with their ports up and what they send."""
        rows, columns = self._topology.shape
        made: list[Parts] = []
        for row in range(rows):
            parts: Parts = [("  ", theme.BASE)]
            for member in range(row * columns, min((row + 1) * columns, self._topology.members)):
                chip = self._first + member
                lanes = range(len(self._topology.lanes))
                states = [
                    state
                    for lane in lanes
                    if (state := self._reading.state_of(chip, lane)) is not None
                ]
                rates = [self._reading.rate_of(chip, lane) for lane in lanes]
                worst = min(states, default=LinkState.UNKNOWN)
                up = f"{states.count(LinkState.UP)}/{len(states)}"
                text = f"{link_glyph(worst, math.nan, '  ?')}{up} {rate_text(sum(rates))}  "
                parts += [self._chip(member), (text, link_style(worst))]
            made += [parts, []]
        return made

    def _row(self, members: range) -> Parts:
        going_right = self._sides.right
        parts: Parts = [self._stub(members[0], self._sides.left, is_left=True)]
        for member in members:
            parts.append(self._chip(member))
            if member != members[-1]:
                parts.append(
                    self._segment(member, going_right)
                    if self._leads(member, going_right, member + 1)
                    else (" " * self._gap, theme.BASE)
                )
        parts.append(self._stub(members[-1], going_right, is_left=False))
        return parts

    def _leads(self, member: int, lane: int, other: int) -> bool:
        if lane < 0:
            return False
        end = self._topology.ends[member][lane]
        return end is not None and end.member == other

    def _chip(self, member: int) -> tuple[str, Style]:
        chip = self._first + member
        text = f"[{member:02d}]"
        style = theme.STRONG
        if self._reading.has_fault(chip):
            text = f"✖{member:02d}✖"
            style = theme.SEVERITY_STYLE[Severity.CRITICAL]
        elif not self._reading.is_live(chip):
            text = f"◌{member:02d}◌"
            style = theme.STATE_STYLE[Freshness.STALE]
        return text, theme.SELECTED if chip == self._cursor[0] else style

    def _segment(self, member: int, lane: int) -> tuple[str, Style]:
        """Return the link to the next chip of the row."""
        chip = self._first + member
        state = self._reading.state_of(chip, lane)
        if state is None:
            return " " * self._gap, theme.BASE
        glyph = link_glyph(state, self._reading.share_of(chip, lane), "━─┈")
        side = glyph * ((self._gap - 4) // 2)
        text = self._value(chip, lane, state) or glyph * 4
        return f"{side}{text}{side}", self._style(chip, lane, state)

    def _stub(self, member: int, lane: int, *, is_left: bool) -> tuple[str, Style]:
        """Return a link to the edge, unless it leads to the next chip of the drawing."""
        chip = self._first + member
        state = self._reading.state_of(chip, lane)
        neighbour = member - 1 if is_left else member + 1
        columns = self._topology.shape[1]
        if state is None or (
            self._leads(member, lane, neighbour) and neighbour // columns == member // columns
        ):
            return " " * STUB, theme.BASE
        glyph = link_glyph(state, self._reading.share_of(chip, lane), "┄┄┈")
        value = self._value(chip, lane, state) or " " * 4
        text = f" {value}{glyph}" if is_left else f"{glyph}{value} "
        return text, self._style(chip, lane, state)

    def _upright(self, members: range, lane: int) -> Parts:
        """Return a line of links up or down from a row of chips."""
        columns = self._topology.shape[1]
        parts: Parts = [(" " * (STUB + 1), theme.BASE)]
        for member in members:
            chip = self._first + member
            state = self._reading.state_of(chip, lane)
            room = BOX + self._gap
            if state is None:
                parts.append((" " * room, theme.BASE))
                continue
            is_inside = lane == self._sides.down and self._leads(member, lane, member + columns)
            glyphs = "┃│┊" if is_inside else "┆┆┊"
            glyph = link_glyph(state, self._reading.share_of(chip, lane), glyphs)
            text = f"{glyph}{self._value(chip, lane, state) or '    '}"
            parts += [
                (text, self._style(chip, lane, state)),
                (" " * (room - len(text)), theme.BASE),
            ]
        return parts[:-1]  # What follows the last link is wider than the drawing.

    def _value(self, chip: int, lane: int, state: LinkState) -> str:
        if state is LinkState.DOWN:
            return "down"
        text = rate_text(self._reading.rate_of(chip, lane))
        return "" if state is LinkState.UNKNOWN or not text.strip() else text

    def _style(self, chip: int, lane: int, state: LinkState) -> Style:
        reading = self._reading
        style = link_style(state)
        if state is LinkState.UP and self._colour == TRAFFIC and theme.HAS_RAMP:
            peak = self._kind.lane_bytes_per_s(lane)
            rate = reading.rate_of(chip, lane)
            if peak is not None and not math.isnan(rate):
                step = min(theme.RAMP_STEPS - 1, int(theme.RAMP_STEPS * rate / peak.value))
                style = Style(color=theme.RAMPS[""][step], bgcolor=theme.BASE.bgcolor)
        elif state is LinkState.UP and reading.share_of(chip, lane) < SOUND_SHARE:
            style = theme.BASE
        chosen = reading.by_end.get(self._cursor)
        return (
            style + theme.CURSOR_FILL
            if chosen is not None and chosen == reading.by_end.get((chip, lane))
            else style
        )


def link_glyph(state: LinkState, share: float, glyphs: str) -> str:
    """Return the glyph of a link: one of three for sound, weaker and unknown ones."""
    if state is LinkState.DOWN:
        return theme.SEVERITY_GLYPH[Severity.CRITICAL]
    if state is LinkState.SLOW:
        return theme.SEVERITY_GLYPH[Severity.WARNING]
    if state is LinkState.UNKNOWN:
        return glyphs[2]
    return glyphs[1] if share < SOUND_SHARE else glyphs[0]


def link_style(state: LinkState) -> Style:
    """Return the style of a state."""
    if state is LinkState.DOWN:
        return theme.SEVERITY_STYLE[Severity.CRITICAL]
    if state is LinkState.SLOW:
        return theme.SEVERITY_STYLE[Severity.WARNING]
    return theme.STATE_STYLE[Freshness.STALE] if state is LinkState.UNKNOWN else theme.QUIET


def ring_lines(reading: TopologyReading, instances: Sequence[int], width: int) -> list[Parts]:
    """Return the Z rings: a row for each hop to the next instance, a column for each chip."""
    layout = reading.layout
    kind = layout.type_of(instances[0])
    between = kind.between
    if between is None or not between.lanes:
        return [[(fit(f" {kind.name} has no links between instances", width), theme.QUIET)]]
    if between.kind is TopologyKind.SWITCHED:
        return [[(fit(" Between instances: through switches, see the table", width), theme.QUIET)]]
    lane = len(kind.lanes) - 1
    label = 7
    cells = 3 if label + 3 * kind.chips + 6 <= width else 2
    numbers = "".join(right(f"{chip:02d}", cells) for chip in range(kind.chips))
    head = f" {'Z hop':{label - 1}}{numbers}  GB/s"
    words = "  instance > next, by chip"
    made: list[Parts] = [[(head + words * (len(head + words) <= width), theme.QUIET)]]
    for place, instance in enumerate(instances):
        first = int(layout.chip_start[instance])
        end = between.ends[place % between.members][-1]
        after = "?" if end is None or len(instances) != between.members else str(end.member)
        parts: Parts = [(f" {place} > {after} "[:label].ljust(label), theme.QUIET)]
        rates = []
        for chip in range(first, first + kind.chips):
            state = reading.state_of(chip, lane)
            glyph = " " if state is None else link_glyph(state, reading.share_of(chip, lane), "▪▪?")
            parts.append((right(glyph, cells), theme.BASE if state is None else link_style(state)))
            rates.append(reading.rate_of(chip, lane))
        known = sorted(rate for rate in rates if not math.isnan(rate))
        middle = rate_text(known[len(known) // 2]) if known else "   -"
        made.append([*parts, (f"  {middle}", theme.BASE)])
    return made


def node_lines(
    reading: TopologyReading, instances: Sequence[int], chosen: int, width: int
) -> list[Parts]:
    """Return the instances with their links, GB/s out, EFA and job, one a line."""
    names = [reading.instance_name(instance) for instance in instances]
    room = min(max(len(name) for name in names) + 1, max(12, width - 48))
    head = f"   {fit('instance', room)}{fit('links', 15)}Z ends  GB/s out    EFA out  job"
    made: list[Parts] = [[(head, theme.QUIET)]]
    for instance, name in zip(instances, names, strict=True):
        node = reading.node(instance)
        is_chosen = instance == chosen
        style = theme.SELECTED_QUIET if is_chosen else theme.BASE
        inside = node.inside
        bad = (("✖", inside.down), ("▲", inside.slow), ("?", inside.unknown))
        links = " ".join(
            (f"{inside.up} up", *(f"{sign}{number}" for sign, number in bad if number))
        )
        ends = f"{node.ends_up}/{node.ends}" if node.ends else "-"
        sent = "-" if math.isnan(node.sent) else f"{node.sent / 1e9:,.0f}"
        efa = reading.efa_of(range(instance, instance + 1))
        out = "-" if math.isnan(efa) else with_unit(efa, "bytes/s")
        mark = f"{link_glyph(node.worst, math.nan, '  ?')} "
        figures = f"{fit(links, 15)}{fit(ends, 8)}{right(sent, 8)}{right(out, 11)}"
        made.append(
            [
                (">" if is_chosen else " ", style),
                (mark, style if is_chosen else link_style(node.worst)),
                (
                    fit(
                        f"{fit(name, room)}{figures}  {reading.job_of(instance) or '-'}", width - 3
                    ),
                    style,
                ),
            ]
        )
    return made
