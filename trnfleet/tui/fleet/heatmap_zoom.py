"""The zoom levels of the heat map: from lattice to cells and back.

Whole windows are converted at once. A level defines the width of a pixel in chips and in cells, and
the places of gaps and labels. It has no values and no colours. `heatmap_grid` maps the lattice to
chips.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.tui.fleet.heatmap_grid import MARGIN, SHARED_TILE, Grid, Rect

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout


@dataclass(frozen=True)
class Zoom:
    """One zoom level."""

    title: str
    """What a pixel is."""
    chips: int
    """Chips along a side of a pixel."""
    width: int
    """Cells that a pixel is wide."""
    height: int
    """Half rows that a pixel is high."""
    unit: Level | None
    """Level of the selection. None if a pixel is several UltraServers."""
    gap: int = 0
    """Cells between groups; as many rows, less the one of the label."""
    tile_gap: int = 0
    """Cells, and rows, between the tiles of a group."""
    label: bool = False
    """Whether a row above each group names it."""
    tile: int = SHARED_TILE
    """Chips along a side of an instance's tile."""

    @property
    def group(self) -> int:
        """Chips along a side of a group of 2 x 2 tiles."""
        return 2 * self.tile

    @property
    def block(self) -> int:
        """Chips along a side of the repeating block: a group, or a larger pixel."""
        return max(self.group, self.chips)

    @property
    def unit_chips(self) -> int:
        """Chips along a side of the selection."""
        if self.unit is Level.CHIP:
            return 1
        if self.unit is Level.INSTANCE:
            return self.tile
        return self.block

    @cached_property
    def across(self) -> NDArray[np.int64]:
        """Pixel column at each cell column of a block; -1 for a gap."""
        return _template(self.block // self.chips, self.width, 0, self.tile_gap, self.gap)

    @cached_property
    def down(self) -> NDArray[np.int64]:
        """Pixel row at each half row of a block; -1 for gap or label."""
        gap = 2 * max(0, self.gap - self.label)
        return _template(
            self.block // self.chips, self.height, 2 if self.label else 0, 2 * self.tile_gap, gap
        )

    def blocks(self, grid: Grid) -> tuple[int, int]:
        """Return the number of blocks side by side and below each other."""
        step = self.block // self.group
        return -(-grid.columns // step), -(-grid.rows // step)

    def extent(self, grid: Grid) -> tuple[int, int]:
        """Return the width in cells and the height in rows of the whole map."""
        beside, below = self.blocks(grid)
        width = beside * len(self.across) - self.gap + 2 * MARGIN
        half_rows = below * len(self.down) - 2 * max(0, self.gap - self.label)
        return width, -(-half_rows // 2)

    def least_rows(self, groups: int, columns: int) -> int:
        """Return the fewest rows of cells for a number of groups."""
        step = self.block // self.group
        below = math.ceil(math.ceil(groups / columns) / step)
        return -(-(below * len(self.down) - 2 * max(0, self.gap - self.label)) // 2)

    def pixels(
        self, grid: Grid, left: int, top: int, width: int, height: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pixel columns and rows of a window of cells; -1 without a pixel.

        Args:
            grid: The fleet's places.
            left: First column of cells.
            top: First row of cells (whole rows).
            width: Columns of cells.
            height: Rows of cells; the answer has two half rows for each.
        """
        beside, below = self.blocks(grid)
        per_block = self.block // self.chips
        return (
            _spread(
                np.arange(left - MARGIN, left - MARGIN + width), self.across, per_block, beside
            ),
            _spread(np.arange(2 * top, 2 * (top + height)), self.down, per_block, below),
        )

    def centres(
        self, left: int, top: int, width: int, height: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the columns and rows of a window that cross the middle of pixels.

        Glyphs are painted there.
        """
        columns = np.arange(left - MARGIN, left - MARGIN + width) % len(self.across)
        if self.height < 2:
            rows = np.ones(height, np.bool_)
        else:
            rows = (_places(self.down) // 2 == (self.height // 2 - 1) // 2)[
                np.arange(2 * top, 2 * (top + height), 2) % len(self.down)
            ]
        return (_places(self.across) == (self.width - 1) // 2)[columns], rows

    def unit_at(self, grid: Grid, x: int, y: int) -> tuple[int, int]:
        """Return lattice column and row of the upper left chip of a chip's unit."""
        side = self.unit_chips
        limit_x = grid.columns * self.group - 1
        limit_y = grid.rows * self.group - 1
        return min(max(x, 0), limit_x) // side * side, min(max(y, 0), limit_y) // side * side

    def rect(self, x: int, y: int) -> Rect:
        """Return the cells of the unit with its upper left chip at (x, y)."""
        pixels = max(1, self.unit_chips // self.chips)
        left, right = _reach(x // self.chips, pixels, self.across, self.block // self.chips)
        top, bottom = _reach(y // self.chips, pixels, self.down, self.block // self.chips)
        return Rect(left + MARGIN, right + MARGIN, top, bottom)

    def hit(
        self, grid: Grid, column: int, row: int, *, lower: bool = False
    ) -> tuple[int, int] | None:
        """Return the lattice place of the pixel at a cell; None for a gap.

        With `lower`, the lower pixel of the cell.
        """
        across, down = self.pixels(grid, column, row, 1, 1)
        pixel_x = int(across[0])
        pixel_y = int(down[1 if lower else 0])
        if pixel_x < 0 or pixel_y < 0:
            return None
        return pixel_x * self.chips, pixel_y * self.chips


@functools.lru_cache(maxsize=16)
def zooms_of(tile: int, *, whole_cells: bool = False) -> tuple[Zoom, ...]:
    """Return the zoom levels for instances of `tile` x `tile` chips, from near to far.

    From the third level on, a cell shows two pixels, one above the other. Before each farther level
    is one with a pixel per cell.

    Args:
        tile: Chips along a side of an instance's tile.
        whole_cells: One pixel per cell, as a digit, for terminals without enough colours.
    """
    half = tile // 2
    levels = [
        Zoom("1 chip", 1, 4, 4, Level.CHIP, gap=2, tile_gap=1, label=True, tile=tile),
        Zoom("1 chip", 1, 2, 2, Level.CHIP, gap=2, tile_gap=1, label=True, tile=tile),
        Zoom("1 chip", 1, 1, 1, Level.INSTANCE, gap=1, label=True, tile=tile),
    ]
    if tile == 2 * half and half > 1:
        levels.append(Zoom(f"{half}x{half} chips", half, 1, 1, Level.INSTANCE, tile=tile))
    levels += [
        Zoom("an instance", tile, 1, 1, Level.ULTRASERVER, tile=tile),
        Zoom("an UltraServer", 2 * tile, 1, 1, Level.ULTRASERVER, tile=tile),
        Zoom("2x2 UltraServers", 4 * tile, 1, 1, None, tile=tile),
        Zoom("4x4 UltraServers", 8 * tile, 1, 1, None, tile=tile),
    ]
    if whole_cells:
        return tuple(replace(zoom, height=2) if zoom.height == 1 else zoom for zoom in levels)
    zooms: list[Zoom] = []
    for zoom in levels:
        # Between two levels, which differ by four times the chips of a cell, one with a pixel a
        # cell.
        if zoom.chips > 1:
            zooms.append(replace(zoom, height=2))
        zooms.append(zoom)
    return tuple(zooms)


def fitting(
    zooms: tuple[Zoom, ...], grid: Grid, layout: Layout, width: int, height: int
) -> tuple[int, int]:
    """Return the nearest zoom level that fits the whole fleet, and its columns.

    The size is `width` x `height` cells; columns are groups side by side. Groups fill the width, so
    that large fleets use all of it. If no level fits, the farthest is returned.
    """
    number = 0
    columns = 1
    for number, zoom in enumerate(zooms):
        step = zoom.block // zoom.group
        room = (width - 2 * MARGIN + zoom.gap) // len(zoom.across)
        columns = max(1, room) * step
        if room < 1 or zoom.least_rows(grid.groups, columns) > height:
            continue
        arranged = grid.arranged(layout, columns)
        wide, high = zoom.extent(arranged)
        if wide <= width and high <= height:
            return number, arranged.columns
    return number, max(1, min(columns, grid.groups))


def _template(pixels: int, size: int, lead: int, tile_gap: int, gap: int) -> NDArray[np.int64]:
    """Return the pixel of each cell along a block.

    The order is: lead, pixels (with a gap in the middle of a group), gap.
    """
    parts = [np.full(lead, -1), np.repeat(np.arange(pixels), size), np.full(gap, -1)]
    template = np.concatenate(parts)
    if tile_gap:
        template = np.insert(template, lead + pixels // 2 * size, [-1] * tile_gap)
    return template.astype(np.int64)


def _places(template: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many cells before each its pixel begins."""
    starts = np.r_[True, template[1:] != template[:-1]]
    cells = np.arange(len(template))
    places: NDArray[np.int64] = cells - np.maximum.accumulate(np.where(starts, cells, 0))
    return places


def _spread(
    cells: NDArray[np.int64], template: NDArray[np.int64], per_block: int, blocks: int
) -> NDArray[np.int64]:
    """Return the pixels of cells, by repeating a block's template."""
    block, inside = np.divmod(cells, len(template))
    pixel = template[inside]
    return np.where((pixel >= 0) & (block >= 0) & (block < blocks), block * per_block + pixel, -1)


def _reach(pixel: int, pixels: int, template: NDArray[np.int64], per_block: int) -> tuple[int, int]:
    """Return the cells of `pixels` pixels from one on, in one block.

    The result is the first cell and the cell after the last.
    """
    block, inside = divmod(pixel, per_block)
    covered = np.flatnonzero((template >= inside) & (template < inside + pixels))
    start = block * len(template)
    return start + int(covered[0]), start + int(covered[-1]) + 1


def reach(pixels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all pixels from the first to the last of a window's row or column."""
    there = pixels[pixels >= 0]
    return np.arange(int(there[0]), int(there[-1]) + 1) if len(there) else np.zeros(0, np.int64)
