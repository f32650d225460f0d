"""The heat map: the whole fleet, chip by chip, coloured by one field.

It owns cursor, zoom level and field. Places, values, styles and labels come from the other modules
`heatmap_...`. Only the cells of the window are painted.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from textual.geometry import Region
from textual.strip import Strip

from trnfleet.domain.address import Level, level_of
from trnfleet.domain.quantities import in_three
from trnfleet.monitor.reservations.table import IDLE_BELOW_PCT
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_grid import (
    MARGIN,
    Cursor,
    MapGrid,
    Rect,
    Zoom,
    fitting,
    places,
    reach,
    zooms_of,
)
from trnfleet.tui.fleet.heatmap_health import HEALTH, HealthValues, MapHealth, health_of
from trnfleet.tui.fleet.heatmap_pixels import (
    CODES,
    UTIL,
    HeatValues,
    Image,
    PixelCode,
    Scale,
    Scales,
    Trust,
    codes_of,
    health_codes,
    is_count,
)
from trnfleet.tui.fleet.heatmap_style import (
    ROOMY_CELLS,
    GroupLabels,
    Ink,
    TileLabels,
    bracket,
    count_text,
    glyph_upon,
    health_legend,
    scale_legend,
    tiles_in,
)
from trnfleet.tui.keys import bind
from trnfleet.tui.metric_display import HEAT_MAP, ramp_of
from trnfleet.tui.theme import RAMP_STEPS, Tile
from trnfleet.tui.theme.palettes import LOAD_STEPS as LOADS
from trnfleet.tui.view import HIERARCHY, View
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line, text_line

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.style import Style
    from textual import events
    from textual.binding import BindingType

    from trnfleet.monitor.store.fields import Field
    from trnfleet.tui.fleet.heatmap_style import Span
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.widgets.cells import Parts


class Written(NamedTuple):
    """What is written into the chips, and how."""

    field: Field
    cells: int
    """Of a chip."""
    selected: tuple[int, int]
    """The pixel that the cursor is on."""
    ink: Ink


def write_values(
    spans: dict[int, list[Span]],
    written: Written,
    codes: NDArray[np.int16],
    image: Image,
    pixels: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """Write each chip's value into the upper row of its block.

    Args:
        spans: What is written, by rows of the window, to which the values are added.
        written: What is written, and how.
        codes: Looks of the half cells of the window.
        image: The values of the pixels in it.
        pixels: The pixels of its columns and of its half rows.
    """
    across, down = pixels
    wide = written.cells
    columns = reach(across)
    rows = reach(down)
    starts = [at for at in range(len(across) - wide + 1) if _begins(across, at)]
    for row in range(len(down) // 2):
        if down[2 * row] < 0 or (row > 0 and down[2 * row - 1] == down[2 * row]):
            continue
        # In a window that begins amid a block, its upper row is out of sight.
        if row == 0 and len(down) > 2 and down[2] != down[0]:
            continue
        y = int(down[2 * row])
        for at in starts:
            x = int(across[at])
            code = int(codes[2 * row, at])
            if code == PixelCode.GAP:
                continue
            text = in_three(float(image.values[y - rows[0], x - columns[0]]), written.field.unit)
            chosen = (x, y) == written.selected
            glyph, style = _look(written.ink, code)
            # A value that is not live is surrounded by the glyph of its state.
            shown = f"{text or glyph:{glyph}^{wide}}"[:wide]
            spans.setdefault(row, []).append((at, shown, theme.MAP_CURSOR if chosen else style))


def _look(ink: Ink, code: int) -> tuple[str, Style]:
    if code in {PixelCode.LOW, PixelCode.HIGH}:
        return ink.look(code * CODES + code)
    if code < RAMP_STEPS:
        return " ", theme.BASE if ink.digits else theme.RAMP_TEXTS[ink.ramp][code]
    if code >= PixelCode.OUTSIDE:
        return " ", theme.GHOST
    glyph, _ = ink.look(code * CODES + code)
    return glyph, theme.QUIET


def _begins(across: NDArray[np.int64], at: int) -> bool:
    """Return whether a pixel begins at a cell of the window."""
    return bool(across[at] >= 0) and (
        (at == 0 and bool((across[:ROOMY_CELLS] == across[0]).all()))
        or (at > 0 and bool(across[at - 1] != across[at]))
    )


FIELDS = (HEALTH, *HEAT_MAP)
"""What `m` walks through."""


class HeatMap(LineView):
    """The map with its cursor; it posts `View.Moved` and `View.Open`."""

    HELP_TITLE = "Fleet: heat map"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left", "move(-1, 0)", "left"),
        bind("right", "move(1, 0)", "right"),
        bind("up", "move(0, -1)", "up"),
        bind("down", "move(0, 1)", "down"),
        bind("enter", "enter", "open, or zoom in"),
        bind("zoom-in", "zoom(-1)", "zoom in"),
        bind("zoom-out", "zoom(1)", "zoom out"),
        bind("whole-fleet", "fit", "show the whole fleet"),
        bind("next-metric", "field(1)", "next metric"),
        bind("previous-metric", "field(-1)", "previous metric"),
        bind("full-range", "full_scale", "full range / busy range"),
    ]

    def __init__(self, context: UiContext, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = monitor = context.monitor
        self._alerts = context.alerts
        self._highlight = context.highlight
        self._frame = context.frame
        self.values = HeatValues(monitor)
        self.healths = HealthValues(monitor, context.alerts)
        self.scales = Scales(monitor, self.values)
        self.filtered: NDArray[np.bool_] | None = None
        """Which chips the filter leaves; None for all."""
        self.labels = GroupLabels(context)
        self.tiles = TileLabels(context)
        self.ink = Ink()
        self.field = HEALTH
        self.shown: frozenset[Tile] = frozenset()
        """Tiles in the visible part of the health map."""
        self.cursor = Cursor(monitor)
        self._layout = monitor.store.layout
        """Layout at the last choice of the zoom level."""
        self._level = 0
        self.room_rows = 0
        """Rows available to the map. Rows that it does not need can be lent to another widget."""
        self._chosen = False
        """Whether the zoom level was chosen by hand, and so stays."""

    # What is shown

    @property
    def zooms(self) -> tuple[Zoom, ...]:
        """The zoom levels that this terminal can show."""
        return zooms_of(self.grid.tile, whole_cells=self.ink.digits)

    @property
    def zoom(self) -> Zoom:
        zooms = self.zooms
        return zooms[min(self._level, len(zooms) - 1)]

    @property
    def level(self) -> int:
        """Number of the present zoom level, 0 for the nearest."""
        return self._level

    @property
    def grid(self) -> MapGrid:
        """Places of the chips."""
        return self.cursor.grid

    @property
    def place(self) -> str:
        """Address of the selection: a chip, an instance or an UltraServer, by zoom level."""
        return self.cursor.address(self.zoom)

    def reading(self, field: Field) -> tuple[float, int]:
        """Return a field's value and its `Trust` for the selection.

        For a chip it is the chip's own value, else the value of its row in the tree.
        """
        x, y = self.cursor.unit(self.zoom)
        side = self.zoom.unit_chips
        image = self.values.window(
            self.grid, field, side, np.array([x // side]), np.array([y // side])
        )
        value = float(image.values[0, 0])
        trust = int(image.trust[0, 0])
        if self.zoom.unit is None or level_of(self.place) is Level.CHIP:
            return value, trust
        store = self.monitor.store
        averages = self._frame.averages
        node = store.layout.find(self.place)
        if node is not None:
            is_ready = averages.rollups.ready and averages.generation == store.generation
            number = np.array([node.number])
            value = (
                float(field.values(store, averages, node.level, number)[0]) if is_ready else value
            )
        return value, trust

    def health(self) -> MapHealth:
        """Return the worst health in the selection."""
        x, y = self.cursor.unit(self.zoom)
        side = self.zoom.unit_chips
        window = self.healths.window(self.grid, side, np.array([x // side]), np.array([y // side]))
        return health_of(int(window[0, 0]))

    def scale(self) -> Scale:
        """Return the values at the ends of the colour ramp."""
        return self.scales.scale(self.grid, self.field, self.zoom.chips)

    def legend(self, width: int) -> Parts:
        """Return the map's head: field, key of colours or glyphs, and chips per cell.

        Empty without a fleet. The chips per cell are unknown before the map has cells.
        """
        if not self.grid.groups:
            return []
        has_rolled = self.monitor.store.layout.has_rolled
        amount = count_text(self.zoom, self.field, has_rolled=has_rolled) if self.size.area else ""
        right: Parts = [(f"{amount} ", theme.QUIET)] if amount else []
        if self.field is HEALTH:
            return health_legend(self.shown, right, width)
        return scale_legend(self.field, self.scale(), right, width, digits=self.ink.digits)

    def show_place(self, address: str) -> None:
        """Put the cursor on an address and bring it into the window."""
        self.cursor.point(address)
        self._reveal()
        self.tick()

    # Pictures

    def tick(self) -> None:
        """Follow a changed layout, then paint changes."""
        self._follow_layout()
        super().tick()

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        if not self.grid.groups:
            return [blank_line(width)] * (height // 2) + [
                text_line([(" waiting for the fleet …", theme.QUIET)], width)
            ]
        left = int(self.scroll_offset.x)
        zoom = self.zoom
        grid = self.grid
        across, down = zoom.pixels(grid, left, top, width, height)
        codes, image = self.codes(across, down)
        window = Region(left, top, width, height)
        spans = self.labels.spans(grid, zoom, self.cursor.unit(zoom), window)
        for row, span in self.tiles.spans(grid, zoom, window):
            spans.setdefault(row, []).append(span)
        is_health = self.field is HEALTH
        if is_health:
            self._put_glyphs(codes, left, top)
            self.shown = tiles_in(codes)
        elif zoom.width >= ROOMY_CELLS:
            written = Written(self.field, zoom.width, self.cursor.unit(zoom), self.ink)
            write_values(spans, written, codes, image, (across, down))
            if self.ink.digits:
                # The value is enough; its step's digits around it would be read as numbers.
                codes[codes < RAMP_STEPS] = PixelCode.GAP
        self._mark_cursor(codes, left, top)
        cells = codes[0::2] * CODES + codes[1::2]
        self._put_brackets(cells, left, top)
        if is_health and zoom.unit is Level.CHIP:
            self._write_health(spans, left, top)
        if zoom.chip_gap:
            self._draw_links(spans, left, top)
        return [
            self._line(row, sorted(spans.get(number, []), key=itemgetter(0)))
            for number, row in enumerate(cells)
        ]

    def codes(
        self, across: NDArray[np.int64], down: NDArray[np.int64]
    ) -> tuple[NDArray[np.int16], Image]:
        """Return the code of every half cell of the window, and its pixels."""
        columns = reach(across)
        rows = reach(down)
        side = self.zoom.chips
        codes = np.full((len(down), len(across)), PixelCode.GAP, np.int16)
        if not len(columns) or not len(rows):
            return codes, _NO_IMAGE
        mask = self._picked()
        inside = None if mask is None else self.values.inside(self.grid, mask, side, columns, rows)
        image = _NO_IMAGE
        if self.field is HEALTH:
            pixels = health_codes(self.healths.window(self.grid, side, columns, rows), inside)
        else:
            image = self.values.window(self.grid, self.field, side, columns, rows)
            scale = self.scale()
            pixels = codes_of(image, scale.ends, counts=is_count(self.field))
            if scale.is_automatic:
                self._mark_outliers(pixels, image, scale, columns, rows)
            if inside is not None:
                # What is silent stays to be seen wherever it is.
                pixels[~inside & (pixels < RAMP_STEPS)] += PixelCode.OUTSIDE
        picked = pixels[np.ix_(np.maximum(down - rows[0], 0), np.maximum(across - columns[0], 0))]
        return np.where((down >= 0)[:, None] & (across >= 0)[None, :], picked, codes), image

    def _picked(self) -> NDArray[np.bool_] | None:
        """Return the highlighted chips: in the picked reservation and left by the filter."""
        instances = self._highlight.mask()
        layout = self.monitor.store.layout
        mask = (
            self.filtered
            if self.filtered is not None and len(self.filtered) == layout.chips
            else None
        )
        if instances is None:
            return mask
        chips: NDArray[np.bool_] = instances[layout.instance_of_chip]
        return chips if mask is None else chips & mask

    def _mark_outliers(
        self,
        pixels: NDArray[np.int16],
        image: Image,
        scale: Scale,
        columns: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> None:
        """Mark live values far beyond the scale, for fields where low is not good.

        A low value of a chip without work is idle, not an outlier.
        """
        below, above = scale.outside
        live = image.trust == Trust.LIVE
        pixels[live & (image.values > above)] = PixelCode.HIGH
        low = live & (image.values < below)
        if low.any() and not self.field.is_max:
            util = self.values.window(self.grid, UTIL, self.zoom.chips, columns, rows)
            pixels[low] = np.where(
                util.values[low] > IDLE_BELOW_PCT, PixelCode.LOW, PixelCode.HEALTH + MapHealth.IDLE
            )

    def _put_glyphs(self, codes: NDArray[np.int16], left: int, top: int) -> None:
        """Paint both halves of each cell like the worse one.

        A pixel's glyph remains in its middle only.
        """
        worst = np.maximum(codes[0::2], codes[1::2])
        columns, rows = self.zoom.centres(left, top, codes.shape[1], len(worst))
        no_load = PixelCode.HEALTH + MapHealth.NORMAL
        loads = (worst > no_load) & (worst <= no_load + LOADS)
        if self.ink.digits:
            worst[loads] = no_load
        elif self.zoom.chip_gap:
            self._put_levels(worst, loads, top)
        plain = (worst >= PixelCode.HEALTH) & ~(rows[:, None] & columns[None, :])
        if not self.ink.digits:
            plain = np.where(loads, not self.zoom.chip_gap, plain & (worst < PixelCode.PLAIN))
        worst[plain] += PixelCode.PLAIN - PixelCode.HEALTH
        codes[0::2] = codes[1::2] = worst

    def _put_levels(self, worst: NDArray[np.int16], loads: NDArray[np.bool_], top: int) -> None:
        """Let the loads of chips of two rows fill them from below."""
        if self.zoom.height < 4:
            return
        no_load = PixelCode.HEALTH + MapHealth.NORMAL
        half = LOADS // 2
        place = places(self.zoom.down)[2 * np.arange(top, top + len(worst)) % len(self.zoom.down)]
        upper = (place < 2)[:, None] & loads
        lower = (place >= 2)[:, None] & loads
        full = PixelCode.PLAIN + MapHealth.NORMAL + LOADS
        worst[lower] = np.where(worst[lower] > no_load + half, full, 2 * worst[lower] - no_load)
        worst[upper] = np.maximum(no_load, 2 * (worst[upper] - half) - no_load)

    def _write_health(self, spans: dict[int, list[Span]], left: int, top: int) -> None:
        """Write the glyph of the selected chip upon the cursor."""
        overlay = glyph_upon(self._rect(), self.health(), self.zoom.width)
        if overlay is not None and overlay[1][0] >= left:
            row, (column, glyph, style) = overlay
            spans.setdefault(row - top, []).append((column - left, glyph, style))

    def _draw_links(self, spans: dict[int, list[Span]], left: int, top: int) -> None:
        """Draw links with a problem between chips beside each other."""
        find = self.monitor.store.layout.find
        for problem in self._alerts.problems.all:
            ends = (problem.place.address, problem.place.other_end.rpartition(":")[0])
            nodes = [node for node in map(find, ends) if node is not None]
            if not problem.is_loud or not problem.place.lane or len(nodes) < 2:
                continue
            first, last = sorted(self.grid.place_of(node.number) for node in nodes)
            if last == (first[0] + 1, first[1]) and last[0] % self.grid.tile:
                rect = self.zoom.rect(*first)
                row = rect.top // 2 + (self.zoom.height // 2 - 1) // 2 - top
                style = theme.SEVERITY_STYLE[problem.severity]
                spans.setdefault(row, []).append((rect.right - left, "╍", style))

    def _line(self, cells: NDArray[np.int16], spans: list[Span]) -> Line:
        ink = self.ink
        width = len(cells)
        return Line(
            (cells.tobytes(), tuple(spans), width),
            lambda: Strip(ink.segments(cells, spans), width),
        )

    # Cursor

    def _mark_cursor(self, codes: NDArray[np.int16], left: int, top: int) -> None:
        """Whiten the unselected half of a cell.

        For a chip with a value in it, whiten the whole block.
        """
        rect = self._rect()
        column = rect.left - left
        first = rect.top - 2 * top
        last = rect.bottom - 2 * top
        if self.zoom.width >= ROOMY_CELLS:
            codes[max(0, first) : max(0, last), max(0, column) : max(0, rect.right - left)] = (
                PixelCode.CURSOR
            )
        elif last - first == 1 and 0 <= column < codes.shape[1]:
            other = first ^ 1
            if 0 <= other < len(codes):
                codes[other, column : rect.right - left] = PixelCode.CURSOR

    def _put_brackets(self, cells: NDArray[np.int16], left: int, top: int) -> None:
        rect = self._rect()
        first = rect.top // 2 - top
        last = -(-rect.bottom // 2) - top
        inside = self.zoom.unit is Level.CHIP
        columns = (rect.left - left - (not inside), rect.right - left - inside)
        for row in range(max(0, first), min(len(cells), last)):
            if last - first == 1 or inside:
                marks = "[]"
            else:
                marks = "┌┐" if row == first else "└┘" if row == last - 1 else "││"
            for column, mark in zip(columns, marks, strict=True):
                if 0 <= column < cells.shape[1]:
                    cells[row, column] = bracket(mark)

    def _rect(self) -> Rect:
        return self.zoom.rect(*self.cursor.unit(self.zoom))

    def _select(self, chip: int) -> None:
        self.cursor.point_chip(chip)
        self._reveal()
        self.tick()
        self.post_message(View.Moved(self.place))

    def _reveal(self) -> None:
        """Scroll the selected unit and its label into the window."""
        if not self.grid.groups or not self.is_attached:
            return
        rect = self._rect()
        size = self.scrollable_content_region.size
        x = int(self.scroll_offset.x)
        y = int(self.scroll_offset.y)
        self.scroll_to(
            _into(x, size.width, rect.left - MARGIN, rect.right + MARGIN),
            _into(y, size.height, rect.top // 2 - self.zoom.label, -(-rect.bottom // 2)),
            animate=False,
            force=True,
        )

    # Layout and size

    def _follow_layout(self) -> None:
        layout = self.monitor.store.layout
        if layout is not self._layout:
            self._layout = layout
            self._fit()

    def resized(self) -> None:
        """Choose the zoom level again, unless it was chosen by hand."""
        self._fit()

    def on_mount(self) -> None:
        """Read the terminal's capabilities."""
        self.restyled()

    def restyled(self) -> None:
        """Paint in other colours, or in digits with too few colours."""
        self._renew_ink()
        self._fit()

    def _renew_ink(self) -> None:
        colours = self.app.console.color_system
        self.ink = Ink(
            digits=theme.is_ascii or not theme.HAS_RAMP or colours not in {"256", "truecolor"},
            ramp=ramp_of(self.field.key),
        )

    def give_room(self, rows: int) -> None:
        """Set the rows available to the map.

        They decide the fitting zoom level.
        """
        if rows != self.room_rows:
            self.room_rows = rows
            self._fit()

    def _fit(self) -> None:
        fits = self._arrange()
        self._set_level(self._level if self._chosen else fits)

    def _arrange(self) -> int:
        """Arrange the groups for the level that fits.

        Return the level.
        """
        width = self.size.width
        height = self.room_rows or self.size.height
        level, columns = fitting(self.zooms, self.grid, self.monitor.store.layout, width, height)
        if width and height:
            self.cursor.arrange(columns)
        return level

    def _set_level(self, level: int) -> None:
        self._level = level
        if self.grid.groups:
            self.set_extent(*self.zoom.extent(self.grid))
            self._reveal()
        else:
            self.set_extent(0, 0)

    # Keys and mouse

    def action_move(self, right: int, down: int) -> None:
        """Move the cursor by a unit, over holes."""
        if not self.grid.groups:
            return
        chip = self.cursor.neighbour(self.zoom, right, down)
        if chip >= 0:
            self._select(chip)

    def action_zoom(self, step: int) -> None:
        """Go a zoom level farther (1) or nearer (-1), round the cursor."""
        level = min(max(self._level + step, 0), len(self.zooms) - 1)
        if level != self._level:
            self._chosen = True
            self._rezoom(level)

    def action_fit(self) -> None:
        """Zoom out until the whole fleet fits."""
        self._chosen = False
        self._rezoom(self._arrange())

    def action_field(self, step: int) -> None:
        """Show the next (1) or previous (-1) field."""
        fields = [field for field in FIELDS if field is self.field or self.knows(field)]
        self.show_field(fields[(fields.index(self.field) + step) % len(fields)])

    def knows(self, field: Field) -> bool:
        """Return whether any source of the fleet can know a field."""
        return self._frame.summary.announced.knows(field.parts)

    def show_field(self, field: Field) -> None:
        """Show a field."""
        self.field = field
        self._renew_ink()
        self.tick()
        self.post_message(View.Moved(self.place))

    def action_full_scale(self) -> None:
        """Switch the colours between a field's whole range and the range of busy chips."""
        self.scales.is_full = not self.scales.is_full
        self.tick()
        self.post_message(View.Moved(self.place))

    def action_enter(self) -> None:
        """Open the selection, or zoom in if a pixel is several UltraServers."""
        if not self.grid.groups:
            return
        if self.zoom.unit is None:
            self.action_zoom(-1)
        else:
            place = self.place
            self.post_message(
                View.Open(place, None if level_of(place) is Level.CHIP else HIERARCHY)
            )

    def on_click(self, event: events.Click) -> None:
        """Select the unit under the pointer; open it on the second click."""
        hit = self.zoom.hit(
            self.grid, event.x + int(self.scroll_offset.x), event.y + int(self.scroll_offset.y)
        )
        if hit is None or not self.grid.groups:
            return
        chip = self.cursor.first_chip(self.zoom, self.zoom.unit_at(self.grid, *hit))
        if chip >= 0:
            self._select(chip)
            if event.chain == 2:
                self.action_enter()

    def _rezoom(self, level: int) -> None:
        self._set_level(level)
        rect = self._rect() if self.grid.groups else Rect(0, 0, 0, 0)
        size = self.scrollable_content_region.size
        self.scroll_to(
            max(0, (rect.left + rect.right - size.width) // 2),
            max(0, ((rect.top + rect.bottom) // 2 - size.height) // 2),
            animate=False,
            force=True,
        )
        self.invalidate()
        self.post_message(View.Moved(self.place))


_NO_IMAGE = Image(np.zeros((0, 0)), np.zeros((0, 0), np.uint8))


def _into(position: int, size: int, first: int, last: int) -> int:
    """Return the scroll position nearest to `position` that shows `first` to `last`.

    `size` is the length of the window.
    """
    if last - first > size or first < position:
        return max(0, first)
    return max(position, last - size)
