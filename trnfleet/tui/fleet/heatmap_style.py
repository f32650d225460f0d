"""Looks of pixel codes: glyph and style of a cell with two pixels.

A silent or missing pixel differs in glyph, never in colour alone. Without enough colours a cell
shows one pixel, as the digit of its step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from rich.segment import Segment
from rich.style import Style

from trnfleet.domain.address import NO_NAMES, Level
from trnfleet.domain.layout import Node
from trnfleet.domain.quantities import NOT_AVAILABLE, counted, with_unit
from trnfleet.domain.severity import BY_RANK, Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.fields import BY_KEY, Field
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts import plot
from trnfleet.tui.charts.history import MEAN_S
from trnfleet.tui.charts.stack import EIGHTHS
from trnfleet.tui.fleet.heatmap_grid import MARGIN, MapGrid, Rect, Zoom
from trnfleet.tui.fleet.heatmap_health import HEALTH, STATES, MapHealth, health_of
from trnfleet.tui.fleet.heatmap_pixels import CODES, PixelCode, Scale, is_count
from trnfleet.tui.format.addresses import name_in_fleet, without_start
from trnfleet.tui.metric_display import ramp_of
from trnfleet.tui.state.alerts import NONE
from trnfleet.tui.state.descriptors import Descriptions
from trnfleet.tui.theme import RAMP_STEPS, Tile
from trnfleet.tui.theme.palettes import LOAD_STEPS as LOADS
from trnfleet.tui.widgets.bar import justified
from trnfleet.tui.widgets.cells import Parts, fit, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from rich.color import Color
    from textual.geometry import Region

    from trnfleet.tui.state.context import UiContext

    Span = tuple[int, str, Style]


BRACKETS = "[]┌┐└┘│"
ROOMY_CELLS = 3
"""Fewest cells per chip with room for its value, or for a glyph between brackets."""
ROOMY_TILE = 13
"""Fewest cells of a tile with room for its name and the unit of its power."""
PAIRS = CODES * CODES
"""Codes from here on are brackets."""

LOW_GLYPH = "↓"
HIGH_GLYPH = "↑"
STALE_GLYPH = "░"
PARTLY_GLYPH = "▓"
OFFLINE_GLYPH = "✖"
MISSING_GLYPH = "·"

_DIMMED = 0.45
"""Share of the colour in a stale value."""
_OUTSIDE = 0.18
"""Share of the colour in a value outside the highlight."""
OUTSIDE_DIGIT = "-"


_TILES = {
    MapHealth.MISSING: Tile.MISSING,
    MapHealth.IDLE: Tile.IDLE,
    MapHealth.RESERVED_IDLE: Tile.RESERVED_IDLE,
    MapHealth.NORMAL: Tile.NORMAL,
    MapHealth.HANDLED_WARNING: Tile.NORMAL,
    MapHealth.HANDLED_CRITICAL: Tile.NORMAL,
    MapHealth.VICTIM: Tile.VICTIM,
    MapHealth.STALE: Tile.STALE,
    MapHealth.OFFLINE: Tile.OFFLINE,
    MapHealth.WARNING: Tile.WARNING,
    MapHealth.STALE_WARNING: Tile.WARNING,
    MapHealth.OFFLINE_WARNING: Tile.WARNING,
    MapHealth.CRITICAL: Tile.CRITICAL,
    MapHealth.STALE_CRITICAL: Tile.CRITICAL,
    MapHealth.OFFLINE_CRITICAL: Tile.CRITICAL,
}
"""Tile with the colours of each health."""
_GLYPH_OF = {
    MapHealth.HANDLED_WARNING: Tile.WARNING,
    MapHealth.HANDLED_CRITICAL: Tile.CRITICAL,
    MapHealth.STALE_WARNING: Tile.STALE,
    MapHealth.OFFLINE_WARNING: Tile.OFFLINE,
    MapHealth.STALE_CRITICAL: Tile.STALE,
    MapHealth.OFFLINE_CRITICAL: Tile.OFFLINE,
}
"""The tile with the glyph of a health, if not the one with its colours."""


def tile_of(health: MapHealth) -> tuple[str, Style]:
    """Return glyph and style of a health."""
    tile = _TILES[health]
    return theme.TILE_GLYPH[_GLYPH_OF.get(health, tile)], theme.TILE_STYLE[tile]


def health_style(health: MapHealth) -> Style:
    """Return the style of words about a health, as on any other line."""
    tile = _TILES.get(health)
    if tile is Tile.CRITICAL or tile is Tile.WARNING:
        return theme.SEVERITY_STYLE[
            Severity.CRITICAL if tile is Tile.CRITICAL else Severity.WARNING
        ]
    return theme.STATE_STYLE[Freshness.OFFLINE] if tile is Tile.OFFLINE else theme.QUIET


def tiles_in(codes: NDArray[np.int16]) -> frozenset[Tile]:
    """Return the tiles of health codes: for their glyphs and for their colours."""
    present = np.unique(codes[codes >= PixelCode.HEALTH]) - PixelCode.HEALTH
    healths = {health_of(code % STATES) for code in present.tolist()} - {MapHealth.NOTHING}
    return frozenset(
        tile
        for health in healths
        for tile in (_TILES[health], _GLYPH_OF.get(health, _TILES[health]))
    )


def glyph_upon(rect: Rect, health: MapHealth, cells: int) -> tuple[int, Span] | None:
    """Return row and text of the glyph on a chip's cursor.

    It has the colours of a problem if there is one. None without room or without a chip.

    Args:
        rect: Half cells of the cursor.
        health: Of the chip.
        cells: Width of a chip.
    """
    rows = rect.bottom - rect.top
    is_loud = health >= MapHealth.WARNING
    if health is MapHealth.NOTHING or rows < 2 or cells < (2 if is_loud else ROOMY_CELLS):
        return None
    glyph, style = tile_of(health)
    # If brackets leave no cell, the glyph of a problem replaces the second one.
    column = rect.left + ((cells - 1) // 2 if cells >= ROOMY_CELLS else cells - 1)
    return rect.top // 2 + (rows // 2 - 1) // 2, (
        column,
        glyph,
        style if is_loud else theme.MAP_CURSOR,
    )


def bracket(glyph: str) -> int:
    """Return the cell code of a bracket."""
    return PAIRS + BRACKETS.index(glyph)


class Ink:
    """Glyphs and styles of cells, made on first use and cached for the theme."""

    def __init__(self, *, digits: bool = False, ramp: str = "") -> None:
        self.digits = digits
        """Whether steps are digits instead of colours."""
        self.ramp = ramp
        """Name of the colours of values."""
        self._looks: dict[int, tuple[str, Style]] = {}

    def look(self, cell: int) -> tuple[str, Style]:
        """Return glyph and style of a cell code.

        The code is upper pixel x `CODES` + lower pixel, or a bracket's code.
        """
        look = self._looks.get(cell)
        if look is None:
            if cell >= PAIRS:
                look = BRACKETS[cell - PAIRS], theme.MAP_CURSOR
            else:
                upper, lower = divmod(cell, CODES)
                look = _marked(upper) if upper == lower else None
                look = look or (
                    _digit(upper) if self.digits else _mixed(upper, lower, theme.RAMPS[self.ramp])
                )
            self._looks[cell] = look
        return look

    def segments(self, cells: NDArray[np.int16], spans: list[Span]) -> list[Segment]:
        """Return a row of cells as segments, with texts over them (in order, not overlapping)."""
        made: list[Segment] = []
        done = 0
        for at, text, style in spans:
            start, shown = (at, text) if at >= 0 else (0, text[-at:])
            shown = shown[: len(cells) - start]
            if not shown or start < done:
                continue
            made.extend(self._runs(cells[done:start]))
            made.append(Segment(shown, style))
            done = start + len(shown)
        made.extend(self._runs(cells[done:]))
        return made

    def _runs(self, cells: NDArray[np.int16]) -> list[Segment]:
        if not len(cells):
            return []
        starts = [0, *(np.flatnonzero(cells[1:] != cells[:-1]) + 1).tolist()]
        made: list[Segment] = []
        for start, end, cell in zip(
            starts, [*starts[1:], len(cells)], cells[starts].tolist(), strict=True
        ):
            glyph, style = self.look(cell)
            made.append(Segment(glyph * (end - start), style))
        return made


def _marked(code: int) -> tuple[str, Style] | None:
    """Return the look of a cell for a health or an outlier.

    None for any other code.
    """
    if code == PixelCode.LOW:
        return LOW_GLYPH, theme.SEVERITY_STYLE[Severity.WARNING]
    if code == PixelCode.HIGH:
        return HIGH_GLYPH, theme.TILE_STYLE[Tile.WARNING]
    if code < PixelCode.HEALTH_OUTSIDE:
        return None
    if code == PixelCode.HEALTH_OUTSIDE:
        return theme.TILE_GLYPH[Tile.OUTSIDE], theme.TILE_STYLE[Tile.OUTSIDE]
    is_plain, state = divmod(code - PixelCode.HEALTH, STATES)
    health = health_of(state)
    if health is MapHealth.NOTHING:
        return " ", theme.BASE
    glyph, style = tile_of(health)
    if health is MapHealth.NORMAL and state > health:
        if is_plain:
            return " ", Style(bgcolor=theme.LOADS[state - health - 1])
        # A level on the chip's ground, which is seen above the highest.
        level = str(EIGHTHS[(state - health) * len(EIGHTHS[1:-1]) // LOADS])
        return level, Style(color=theme.LOADS[-1], bgcolor=style.bgcolor)
    return (" " if is_plain and health is not MapHealth.VICTIM else glyph), style


def _mixed(upper: int, lower: int, ramp: Sequence[Color]) -> tuple[str, Style]:
    both = (upper, lower)
    if PixelCode.OFFLINE in both:
        return OFFLINE_GLYPH, Style(color=theme.RED, bgcolor=_under(both, ramp))
    for first, after, glyph in (
        (PixelCode.STALE, PixelCode.OFFLINE, STALE_GLYPH),
        (PixelCode.PARTLY, PixelCode.STALE, PARTLY_GLYPH),
    ):
        for code in both:
            if first <= code < after:
                return glyph, Style(color=_color(code, ramp), bgcolor=_under(both, ramp))
    for outlier, glyph in ((PixelCode.HIGH, HIGH_GLYPH), (PixelCode.LOW, LOW_GLYPH)):
        if outlier in both:
            return glyph, Style(color=_color(outlier, ramp), bgcolor=theme.BACKGROUND)
    if upper == lower:
        if upper == PixelCode.MISSING:
            return MISSING_GLYPH, theme.GHOST
        return " ", Style(color=_color(upper, ramp), bgcolor=_color(upper, ramp))
    if set(both) == {PixelCode.MISSING, PixelCode.GAP}:
        return MISSING_GLYPH, theme.GHOST
    return "▀", Style(color=_color(upper, ramp), bgcolor=_color(lower, ramp))


def _under(both: tuple[int, int], ramp: Sequence[Color]) -> Color:
    """Return the background for a marked cell: its other pixel's colour if that is live."""
    for code in both:
        if code < RAMP_STEPS or code >= PixelCode.CURSOR:
            return _color(code, ramp)
    return theme.BACKGROUND


def _digit(code: int) -> tuple[str, Style]:
    if PixelCode.OUTSIDE <= code < PixelCode.LOW:
        return OUTSIDE_DIGIT, theme.GHOST
    if code < RAMP_STEPS:
        return str(code), theme.BASE
    if code < PixelCode.STALE:
        return PARTLY_GLYPH, theme.BASE
    if code < PixelCode.OFFLINE:
        return STALE_GLYPH, theme.QUIET
    glyphs: dict[int, str] = {
        PixelCode.OFFLINE: OFFLINE_GLYPH,
        PixelCode.MISSING: MISSING_GLYPH,
    }
    return glyphs.get(code, " "), theme.BASE


def _color(code: int, ramp: Sequence[Color]) -> Color:
    if code >= PixelCode.HEALTH_OUTSIDE:
        health = health_of((code - PixelCode.HEALTH) % STATES)
        if code == PixelCode.HEALTH_OUTSIDE or health is MapHealth.NOTHING:
            return theme.BACKGROUND
        return theme.TILE_COLOR[_TILES[health]]
    if code >= PixelCode.LOW:
        return theme.TILE_COLOR[Tile.WARNING]
    if code < PixelCode.STALE:
        return ramp[code % RAMP_STEPS]
    if code < PixelCode.OFFLINE:
        # A stale value of the lowest step would vanish in the background, so some grey goes in.
        return theme.mixed(ramp[code - PixelCode.STALE], theme.MUTED, _DIMMED)
    if code >= PixelCode.OUTSIDE:
        return theme.mixed(ramp[code - PixelCode.OUTSIDE], theme.BACKGROUND, _OUTSIDE)
    if code == PixelCode.MISSING:
        return theme.MISSING_COLOR
    return theme.BRIGHT if code == PixelCode.CURSOR else theme.BACKGROUND


FIELDS = (BY_KEY["power_w"], BY_KEY["temperature_c"])
TILE_FIELDS = (*FIELDS, BY_KEY["nc_util_pct"], BY_KEY["mfu_pct"])
_LEAST = 8
"""Cells below which nothing of it fits."""


class GroupDetails:
    """Details of the groups of one map, from the tree's rows on screen."""

    def __init__(self, context: UiContext) -> None:
        self._monitor = context.monitor
        self._frame = context.frame
        self._descriptions = Descriptions(context.monitor)

    def fitting(self, group: int, grid: MapGrid, room: int) -> list[tuple[int, str]]:
        """Return the texts for the available room, with their offsets.

        Args:
            group: Number of the group.
            grid: Its grid.
            room: Cells behind its name.
        """
        number = int(grid.group_ultraserver[group])
        if room < _LEAST or self._monitor.store.layout.is_standalone[number]:
            # Standalone instances share a group and a type, and nothing else.
            return []
        texts: list[tuple[int, str]] = []
        used = 0
        for text in self._texts(group, grid):
            if text and used + 1 + len(text) <= room:
                texts.append((used, f" {text}"))
                used += 1 + len(text)
        return texts

    def _texts(self, group: int, grid: MapGrid) -> Iterator[str]:
        store = self._monitor.store
        averages = self._frame.averages
        instances = grid.instances_of(group)
        jobs = set(store.job_of[instances].tolist())
        if len(jobs) == 1:
            yield self._descriptions.job_name(jobs.pop())
        else:
            yield counted(len(jobs - {-1}), "job")
        if not averages.rollups.ready or averages.generation != store.generation:
            return
        level = Level.ULTRASERVER
        nodes = grid.group_ultraserver[group : group + 1]
        if grid.is_part[group]:
            level = Level.INSTANCE
            nodes = instances
        for field in FIELDS:
            values = field.values(store, averages, level, nodes)
            known = values[~np.isnan(values)]
            if len(known):
                yield with_unit(float(known.max() if field.is_max else known.sum()), field.unit)


def _tile_figure(value: float, field: Field) -> str:
    """Return a figure beside a tile; shares have their name, the others a unit of their own."""
    if field.unit != "%" or math.isnan(value):
        return with_unit(value, field.unit)
    return f"{field.title.partition(' ')[0]} {value:.0f} %"


class TileLabels:
    """Name, job and figures of each instance of one map, around its chips."""

    def __init__(self, context: UiContext) -> None:
        self._context = context
        self._monitor = context.monitor
        self._descriptions = Descriptions(context.monitor)

    def spans(self, grid: MapGrid, zoom: Zoom, window: Region) -> Iterator[tuple[int, Span]]:
        """Yield the texts in a window of the map, with their rows."""
        store = self._monitor.store
        averages = self._context.frame.averages
        if not zoom.head or not averages.rollups.ready or averages.generation != store.generation:
            return
        slots = theme.job_slots(self._monitor.ingest.jobs)
        announced = self._context.frame.summary.announced
        fields = [field for field in TILE_FIELDS if announced.knows(field.parts)]
        del fields[len(fields) if zoom.side else 1 :]
        left, top = window.offset
        size = grid.tile * (zoom.width + zoom.chip_gap) - zoom.chip_gap
        tiles = _in_window(grid, zoom, window)
        numbers = store.layout.instance_of_chip[grid.tile_chip[tiles]].astype(np.int64)
        values = [field.values(store, averages, Level.INSTANCE, numbers) for field in fields]
        for place, (tile, number) in enumerate(zip(tiles.tolist(), numbers.tolist(), strict=True)):
            corner = zoom.rect(int(grid.tile_x[tile]), int(grid.tile_y[tile]))
            row = corner.top // 2 - zoom.head - top
            at = corner.left - left
            job_name = self._descriptions.job_name(int(store.job_of[number]))
            hue = theme.JOB_STYLES[slots[job_name]] if job_name in slots else theme.QUIET
            figures = [
                _tile_figure(float(value[place]), field)
                for field, value in zip(fields, values, strict=True)
            ]
            name = plain(store.layout.instances[number].rpartition("/")[2])
            # Narrow tiles name an instance by its numbers.
            name = name if zoom.side else name.partition("-")[2] or name
            yield row, (at, "▌", hue)
            is_roomy = zoom.side or size >= ROOMY_TILE or not figures
            first = "".join(figures[:1]) if is_roomy else _short(float(values[0][place]), fields[0])
            room = size - 2 - (0 if zoom.side else len(first))
            yield row, (at + 1, f"{without_start(name, room):<{room}} ", theme.BASE)
            if not zoom.side:
                yield row, (at + 2 + room, first, theme.QUIET)
                continue
            for line, text in enumerate(figures):
                yield row + 1 + line, (at + size, f"{text:>{zoom.side}}", theme.QUIET)
            below = row + 1 + (corner.bottom - corner.top) // 2 * grid.tile
            wide = size + zoom.side
            yield below, (at, f"▌{fit(job_name or 'no job', wide - 1)}", hue)
            yield below + 1, (at, self._past(number, wide), hue)

    def _past(self, number: int, cells: int) -> str:
        """Return the power of an instance in the charts' span, on a scale of its own."""
        history = self._monitor.history
        node = Node(Level.INSTANCE, number)
        span_s = self._context.window.span_s(history.end)
        if not history.seconds(Level.INSTANCE):
            history.watch(self._monitor.store.layout.path(node))
        track = history.track(self._monitor.store.layout, node, FIELDS[0].key, span_s)
        grid = plot.Grid(span_s, cells * plot.COLUMNS, history.end)
        mean = grid.bands(track.smoothed(MEAN_S), has_extremes=False).mean
        known = mean[~np.isnan(mean)]
        high = float(known.max(initial=1.0))
        tops = plot.row_of(mean, 0.8 * float(known.min(initial=high)), high, plot.ROWS)
        dots = plot.picture(np.minimum(tops, 0), tops, plot.ROWS)
        return "".join(plot.CHARACTERS[plot.cells_of(dots)[0]].tolist())


def _short(value: float, field: Field) -> str:
    """Return a figure in three cells: kW without the unit, or percent."""
    if math.isnan(value):
        return NOT_AVAILABLE
    if field.unit == "W":
        return f"{value / 1e3:.1f}" if value < 9_950 else f"{value / 1e3:.0f}"
    return f"{value:.0f}%"


def _in_window(grid: MapGrid, zoom: Zoom, window: Region) -> NDArray[np.int64]:
    """Return the tiles in a window, and those whose head or foot may be."""
    sides = []
    for pixels, most in zip(zoom.pixels(grid, *window), grid.tile_at.shape[::-1], strict=True):
        seen = pixels[pixels >= 0] // grid.tile
        sides.append(slice(max(0, seen.min(initial=most) - 1), seen.max(initial=-1) + 2))
    tiles = grid.tile_at[sides[1], sides[0]].ravel()
    return tiles[tiles >= 0].astype(np.int64)


class GroupLabels:
    """The lines above the groups of one map."""

    def __init__(self, context: UiContext) -> None:
        self._monitor = context.monitor
        self._alerts = context.alerts
        self._details = GroupDetails(context)

    def spans(
        self, grid: MapGrid, zoom: Zoom, selected_at: tuple[int, int], window: Region
    ) -> dict[int, list[Span]]:
        """Return the labels of the groups in a window of the map, by row.

        Args:
            grid: The groups and their places.
            zoom: The size of everything.
            selected_at: The pixel that the cursor is on, whose group is marked.
            window: The part of the map that is on the screen, in cells.
        """
        left, top, width, height = window
        labels: dict[int, list[Span]] = {}
        if not zoom.label:
            return labels
        pitch = len(zoom.across)
        high = len(zoom.down) // 2
        beside, below = zoom.blocks(grid)
        marks = self._marks(grid)
        x, y = selected_at
        selected = y // zoom.block * beside + x // zoom.block
        for block_row in range(max(0, top // high), min(below, (top + height) // high + 1)):
            row = block_row * high - top
            if not 0 <= row < height:
                continue
            for column in range(
                max(0, (left - MARGIN) // pitch), min(beside, (left + width) // pitch + 1)
            ):
                group = int(grid.group_at[block_row, column])
                if group >= 0:
                    style = theme.LINK if block_row * beside + column == selected else theme.QUIET
                    at = column * pitch + MARGIN - left
                    room = pitch - zoom.gap
                    worst = int(marks[group]) if group < len(marks) else NONE
                    name = self._name(grid, group, room if worst == NONE else room - 2)
                    spans = labels.setdefault(row, [])
                    spans.append((at, name, style))
                    if worst != NONE:
                        severity = BY_RANK[worst]
                        sign = f" {theme.SEVERITY_GLYPH[severity]}"
                        spans.append((at + len(name), sign, theme.SEVERITY_STYLE[severity]))
                    used = len(name) + (0 if worst == NONE else 2)
                    spans.extend(
                        (at + used + before, text, theme.QUIET)
                        for before, text in self._details.fitting(group, grid, room - used)
                    )
        return labels

    def _marks(self, grid: MapGrid) -> NDArray[np.int8]:
        """Return the worst alert severity of each group; `NONE` without an alert."""
        alerts = self._alerts
        layout = self._monitor.store.layout
        if not alerts.has_rules or len(alerts.marks.instances) != len(layout.instances):
            return np.zeros(0, np.int8)
        marks = np.full(grid.groups, NONE, np.int8)
        np.minimum.at(
            marks, grid.tile_group[grid.piece_tile], alerts.marks.instances[grid.piece_instance]
        )
        # A segment of standalone instances is no group of its own.
        is_server = ~layout.is_standalone[grid.group_ultraserver]
        servers = alerts.marks.ultraservers
        # A mark that the whole has from an instance is not that of its other parts.
        below = np.minimum.reduceat(alerts.marks.instances, layout.ultraserver_start[:-1])
        own = np.where(servers < below, servers, NONE)
        servers = np.where(
            grid.is_part, own[grid.group_ultraserver], servers[grid.group_ultraserver]
        )
        marks[is_server] = np.minimum(marks, servers)[is_server]
        return marks

    def _name(self, grid: MapGrid, group: int, width: int) -> str:
        """Return a group's name.

        For an UltraServer it is its name, plus the ends of its instances' names if it has other
        groups. For standalone instances it is the first name, plus the end of the last.
        """
        layout = self._monitor.store.layout
        number = int(grid.group_ultraserver[group])
        first, last = (
            layout.instances[index] for index in grid.instances_of(group)[[0, -1]].tolist()
        )
        path = first if layout.is_standalone[number] else layout.ultraservers[number]
        name = name_in_fleet(path, layout, NO_NAMES, width)
        if len(layout.clusters) > 1 and width >= 16:
            name = plain(f"{path.partition('/')[0]}/{path.rpartition('/')[2]}")
        first, last = (plain(end.rpartition("/")[2].rpartition("-")[2]) for end in (first, last))
        if grid.is_part[group] and not layout.is_standalone[number]:
            part = f"{first}..{last}"
            name = next((form for form in (f"{name} {part}", part) if len(form) <= width), first)
        elif layout.is_standalone[number] and first != last:
            name = next(
                (form for form in (f"{name}..{last}", f"{name}..") if len(form) <= width), name
            )
        return without_start(name, width)


def scale_legend(field: Field, scale: Scale, right: Parts, width: int, *, digits: bool) -> Parts:
    """Return the key of a field's map: its name, the colours and their range, and signs.

    Args:
        field: The field.
        scale: Its scale.
        right: What stands at the right.
        width: Cells.
        digits: Whether steps are digits instead of colours.
    """
    low, high = scale.ends
    form = end_text if not scale.is_automatic else with_unit
    parts = [(f" {field.title} ", theme.STRONG), (f" {form(low, field.unit)} ", theme.QUIET)]
    if digits:
        parts.append(("01234567", theme.BASE))
    else:
        wide = 1 if width < 64 else 2 if width < 100 else 3
        parts.extend(
            (" " * wide, Style(bgcolor=color)) for color in theme.RAMPS[ramp_of(field.key)]
        )
    parts.append((f" {form(high, field.unit)}", theme.QUIET))
    beyond = f"  {LOW_GLYPH}{HIGH_GLYPH} far off  {tile_of(MapHealth.IDLE)[0]} idle"
    signs = (
        beyond if scale.is_automatic else "",
        (
            f"  {STALE_GLYPH} stale  {PARTLY_GLYPH} some stale  {OFFLINE_GLYPH} offline "
            f" {MISSING_GLYPH} n/a"
        ),
    )
    room = width - width_of([*parts, *right]) - 1
    span = " full range"
    if scale.is_automatic:
        whole = " 5th to 95th percentile of busy chips"
        span = whole if len(whole) + len("".join(signs)) <= room else " p5-p95 of busy"
    for text in (span, *signs):
        if width_of([*parts, *right]) + len(text) + 1 > width:
            break
        parts.append((text, theme.QUIET))
    return justified(parts, right, width, theme.BASE)


def health_legend(shown: frozenset[Tile], right: Parts, width: int) -> Parts:
    """Return the key of what is on the health map, cut to the room."""
    parts: Parts = [(f" {HEALTH.title} ", theme.STRONG)]
    room = width - width_of([*parts, *right])
    for health, word in _HEALTH_KEY:
        if _TILES[health] not in shown:
            continue
        glyph, style = tile_of(health)
        label = word
        if health is MapHealth.NORMAL and theme.HAS_RAMP and not theme.is_ascii:
            level = _marked(PixelCode.HEALTH + MapHealth.NORMAL + LOADS * 3 // 4)
            glyph, style = level or (glyph, style)
            label = "NC util"
        entry: Parts = [
            (" ", theme.BASE),
            (glyph if glyph.strip() else " ", style),
            (f" {label} ", theme.QUIET),
        ]
        room -= width_of(entry)
        if room < 0:
            break
        parts += entry
    return justified(parts, right, width, theme.BASE)


_HEALTH_KEY = (
    (MapHealth.CRITICAL, "critical"),
    (MapHealth.WARNING, "warning"),
    (MapHealth.VICTIM, "stopped by it"),
    (MapHealth.NORMAL, "normal"),
    (MapHealth.IDLE, "idle"),
    (MapHealth.STALE, "stale"),
    (MapHealth.OFFLINE, "offline"),
    (MapHealth.RESERVED_IDLE, "reserved, idle"),
    (MapHealth.MISSING, "n/a"),
)
"""The health map's key, the most important first."""


def count_text(zoom: Zoom, field: Field, *, has_rolled: bool) -> str:
    """Return the number of chips per cell and the statistic; empty for one or less."""
    chips = zoom.chips**2
    noun = "chips or rows" if has_rolled else "chips"
    is_health = field is HEALTH
    what = "cell"
    if zoom.height == 1:
        # Two pixels share a cell; of health the worse one has it.
        chips, what = (2 * chips, "cell") if is_health else (chips, "half a cell")
    if chips == 1:
        return ""
    statistic = (
        "worst" if is_health else "total" if is_count(field) else "max" if field.is_max else "mean"
    )
    return f"{what}: {chips:,} {noun}, {statistic}"


def end_text(value: float, unit: str) -> str:
    """Return a value at an end of the scale: a round number, so without tenths."""
    if unit in {"%", "degC"}:
        return with_unit(value, unit).replace(".0 ", " ")
    return with_unit(value, unit)
