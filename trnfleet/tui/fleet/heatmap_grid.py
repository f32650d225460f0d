"""Places on the heat map: chips, zoom levels, and lookup by cell.

The map is a lattice of chips. An instance is a square tile with its chips laid out as in its
topology; the side is the longest of the fleet's topologies, such as 4. A group is 2 x 2 tiles (an
UltraServer, or four standalone instances of one type; a larger UltraServer takes several). Groups
form a grid, and its shape depends on the fleet alone. A zoom level defines the width of a pixel in
chips and in cells. Only the level that shows the whole fleet chooses the number of groups side by
side. Heights are counted in half rows, because a terminal cell can show two pixels. This module has
numbers only: no values, no colours, no Textual.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level, level_of, parent
from trnfleet.domain.layout import FLEET_NODE, Layout, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.fleet_state import FleetState


SHARED_TILE = 4
"""Chips along a side of a shared tile (all instances have one chip)."""
WIDER = 1.6
"""Columns of groups per row of groups, about: terminals are wider than high."""
MARGIN = 1
"""Cells left and right of the map, for the brackets of the cursor."""


class Rect(NamedTuple):
    """Cells of the map: columns `left` to `right`, half rows `top` to `bottom`, ends excluded."""

    left: int
    right: int
    top: int
    bottom: int


@dataclass(frozen=True)
class MapGrid:
    """Places of the chips; built with `MapGrid.build`."""

    tile: int
    """Chips along a side of a tile."""
    columns: int
    """Groups beside each other."""
    rows: int
    group_ultraserver: NDArray[np.int64]
    """For each group, its UltraServer's (or standalone segment's) number in the layout."""
    group_cell: NDArray[np.int64]
    """For each group, row x columns + column."""
    tile_group: NDArray[np.int64]
    """For each tile, in the order of chips, its group."""
    tile_corner: NDArray[np.int64]
    """Place of each tile in its group: 0 and 1 above, 2 and 3 below."""
    tile_chip: NDArray[np.int64]
    """First chip of each tile, then the number of chips. A tile's chips are consecutive."""
    tile_columns: NDArray[np.int64]
    """Chips per row of each tile, then the largest of them."""
    piece_tile: NDArray[np.int64]
    """Tile of each pair of a tile and an instance with chips in it."""
    piece_instance: NDArray[np.int64]

    @staticmethod
    def build(layout: Layout) -> MapGrid:
        """Lay a fleet out: one-chip instances share a tile."""
        instances = len(layout.instances)
        chips = np.diff(layout.chip_start)
        owner = layout.ultraserver_of_instance
        shapes = [kind.topology.shape for kind in layout.types if kind.chips > 1]
        tile = max((max(shape) for shape in shapes), default=SHARED_TILE)
        # Of one UltraServer, or segment of standalone instances, and one type.
        kind = owner * len(layout.types) + layout.instance_type
        begun = _tiles_begun(chips, kind, tile * tile)
        tile_owner = np.repeat(np.arange(instances), begun)
        tile_chip = np.append(layout.chip_start[tile_owner], layout.chips)
        of_type = [kind.topology.shape[1] if kind.chips > 1 else tile for kind in layout.types]
        _, first, number, tiles_of_kind = np.unique(
            kind[tile_owner], return_index=True, return_inverse=True, return_counts=True
        )
        # By their first instances.
        order = np.argsort(first)
        first = first[order]
        number = np.argsort(order)[number]
        tiles_of_kind = tiles_of_kind[order]
        rank = np.empty(len(tile_owner), np.int64)
        rank[np.argsort(number, kind="stable")] = _count_up(tiles_of_kind)
        groups_of_kind = -(-tiles_of_kind // 4)
        first_group = np.cumsum(groups_of_kind) - groups_of_kind
        group_us = np.repeat(owner[tile_owner[first]], groups_of_kind)
        columns, cells = _arrange(_clusters(layout, group_us))
        pieces = _instances_in_tiles(layout, tile_owner, tile_chip)
        return MapGrid(
            tile=tile,
            columns=columns,
            rows=int(cells[-1]) // columns + 1 if len(cells) else 0,
            group_ultraserver=group_us,
            group_cell=cells,
            tile_group=first_group[number] + rank // 4,
            tile_corner=rank % 4,
            tile_chip=tile_chip,
            tile_columns=np.append(
                np.array(of_type, np.int64)[layout.instance_type[tile_owner]], tile
            ),
            piece_tile=np.repeat(np.arange(len(tile_owner)), pieces),
            piece_instance=np.repeat(tile_owner, pieces) + _count_up(pieces),
        )

    def arranged(self, layout: Layout, columns: int) -> MapGrid:
        """Return the same grid with another number of groups beside each other.

        Args:
            layout: The fleet that the grid is of.
            columns: Groups beside each other, at most.
        """
        columns = max(1, min(columns, self.groups))
        if columns == self.columns or not self.groups:
            return self
        _, cells = _arrange(_clusters(layout, self.group_ultraserver), columns)
        return replace(self, columns=columns, rows=int(cells[-1]) // columns + 1, group_cell=cells)

    @property
    def group(self) -> int:
        """Chips along a side of a group of 2 x 2 tiles."""
        return 2 * self.tile

    @property
    def groups(self) -> int:
        return len(self.group_ultraserver)

    @property
    def tiles(self) -> int:
        return len(self.tile_group)

    def pixels_of_pieces(self, side: int) -> tuple[NDArray[np.int64], tuple[int, int]]:
        """Return the pixel of each pair of tile and instance, and the rows and columns.

        A pixel is `side` chips wide. Rows and columns count all pixels.
        """
        shape = -(-self.rows * self.group // side), -(-self.columns * self.group // side)
        of_tile = self.tile_y // side * shape[1] + self.tile_x // side
        return of_tile[self.piece_tile], shape

    @cached_property
    def tile_x(self) -> NDArray[np.int64]:
        """Chip lattice column of each tile's left edge."""
        return (
            self.group_cell[self.tile_group] % self.columns * self.group
            + self.tile_corner % 2 * self.tile
        )

    @cached_property
    def tile_y(self) -> NDArray[np.int64]:
        """Chip lattice row of each tile's upper edge."""
        return (
            self.group_cell[self.tile_group] // self.columns * self.group
            + self.tile_corner // 2 * self.tile
        )

    @cached_property
    def tile_at(self) -> NDArray[np.int32]:
        """Tile at each tile place, 2 x rows by 2 x columns; -1 if empty."""
        at = np.full((2 * self.rows, 2 * self.columns), -1, np.int32)
        at[self.tile_y // self.tile, self.tile_x // self.tile] = np.arange(self.tiles)
        return at

    @cached_property
    def group_at(self) -> NDArray[np.int32]:
        """Group at each place of the grid, rows by columns; -1 for none."""
        at = np.full(self.rows * self.columns, -1, np.int32)
        at[self.group_cell] = np.arange(self.groups)
        return at.reshape(self.rows, self.columns)

    def chips_at(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chips at lattice columns `x` by rows `y`.

        Rows come first. -1 without a chip.
        """
        tile = self.tile
        tiles = self.tile_at[np.ix_(y // tile, x // tile)]
        columns = self.tile_columns[tiles]
        inside = (x % tile)[None, :]
        chips = self.tile_chip[tiles] + (y % tile)[:, None] * columns + inside
        there = (tiles >= 0) & (inside < columns) & (chips < self.tile_chip[tiles + 1])
        return np.where(there, chips, -1)

    def chip_at(self, x: int, y: int) -> int:
        """Return the chip row at a place of the lattice; -1 without a chip."""
        return int(self.chips_at(np.array([x]), np.array([y]))[0, 0])

    def place_of(self, chip: int) -> tuple[int, int]:
        """Return lattice column and row of a chip: the inverse of `chips_at`."""
        tile = int(np.searchsorted(self.tile_chip, chip, side="right")) - 1
        inside = chip - int(self.tile_chip[tile])
        row, column = divmod(inside, int(self.tile_columns[tile]))
        return int(self.tile_x[tile]) + column, int(self.tile_y[tile]) + row

    def instances_of(self, group: int) -> NDArray[np.int64]:
        """Return the instances of a group, in order."""
        instances, start = self._instances_by_group
        return instances[start[group] : start[group + 1]]

    @cached_property
    def is_part(self) -> NDArray[np.bool_]:
        """For each group, whether its UltraServer (or standalone segment) has other groups, too."""
        is_part: NDArray[np.bool_] = (np.bincount(self.group_ultraserver) > 1)[
            self.group_ultraserver
        ]
        return is_part

    @cached_property
    def _instances_by_group(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        group = self.tile_group[self.piece_tile]
        order = np.argsort(group, kind="stable")
        return self.piece_instance[order], np.searchsorted(group[order], np.arange(self.groups + 1))


def _tiles_begun(
    chips: NDArray[np.int64], kind: NDArray[np.int64], tile_chips: int
) -> NDArray[np.int64]:
    """Return the number of tiles that begin with each instance.

    Instances with one chip share tiles with neighbours of the same kind.
    """
    begun = np.minimum(chips, 1)
    single = chips == 1
    if single.any():
        number = np.arange(len(chips))
        fresh = single & np.r_[True, ~single[:-1] | (kind[1:] != kind[:-1])]
        run_start = np.maximum.accumulate(np.where(fresh, number, 0))
        begun[single & ((number - run_start) % tile_chips != 0)] = 0
    return begun


def _clusters(layout: Layout, ultraservers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the clusters of some UltraServers."""
    of_all: NDArray[np.int64] = np.repeat(
        np.arange(len(layout.clusters)), np.diff(layout.cluster_start)
    )
    return of_all[ultraservers]


def _arrange(cluster: NDArray[np.int64], beside: int = 0) -> tuple[int, NDArray[np.int64]]:
    """Return the columns of the grid and each group's cell.

    A cluster begins on a new row if that wastes little.

    Args:
        cluster: The cluster of each group.
        beside: Columns; 0 for as many as suit the fleet.
    """
    groups = len(cluster)
    if not groups:
        return 1, np.zeros(0, np.int64)
    columns = beside or min(groups, math.ceil(math.sqrt(groups * WIDER)))
    rows = -(-groups // columns)
    columns = beside or -(-groups // rows)
    sizes = np.bincount(cluster)
    rows_of = -(-sizes // columns)
    if int(rows_of.sum()) > 1.5 * rows + 1:
        return columns, np.arange(groups)
    first_row = np.cumsum(rows_of) - rows_of
    return columns, np.repeat(first_row * columns, sizes) + _count_up(sizes)


def _instances_in_tiles(
    layout: Layout, tile_owner: NDArray[np.int64], tile_chip: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many instances lie in each tile."""
    if not len(tile_owner):
        return np.zeros(0, np.int64)
    last: NDArray[np.int64] = layout.instance_of_chip[tile_chip[1:] - 1].astype(np.int64)
    return last - tile_owner + 1


def _count_up(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, ... for each of some runs, one after the other."""
    ends = np.cumsum(sizes)
    counted: NDArray[np.int64] = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(
        ends - sizes, sizes
    )
    return counted


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
    tile: int
    """Chips along a side of an instance's tile."""
    gap: int = 0
    """Cells between groups; as many rows, less the one of the label."""
    tile_gap: int = 0
    """Cells, and rows, between the tiles of a group."""
    label: bool = False
    """Whether a row above each group names it."""
    chip_gap: int = 0
    """Cells between the chips of a tile."""
    side: int = 0
    """Cells beside the chips of a tile, for its figures."""
    head: int = 0
    """Rows above a tile, for its name."""
    foot: int = 0
    """Rows below a tile, for its job and past."""

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
        tile = _Tile(self.width, self.chip_gap, 0, self.side)
        return _template(self.block // self.chips, tile, 0, self.tile_gap, self.gap)

    @cached_property
    def down(self) -> NDArray[np.int64]:
        """Pixel row at each half row of a block; -1 for gap or label."""
        gap = 2 * max(0, self.gap - self.label)
        tile = _Tile(self.height, 0, 2 * self.head, 2 * self.foot)
        between = 0 if self.head else 2 * self.tile_gap
        return _template(self.block // self.chips, tile, 2 * self.label, between, gap)

    def blocks(self, grid: MapGrid) -> tuple[int, int]:
        """Return the number of blocks side by side and below each other."""
        step = self.block // self.group
        return -(-grid.columns // step), -(-grid.rows // step)

    def extent(self, grid: MapGrid) -> tuple[int, int]:
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
        self, grid: MapGrid, left: int, top: int, width: int, height: int
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
            rows = (places(self.down) // 2 == (self.height // 2 - 1) // 2)[
                np.arange(2 * top, 2 * (top + height), 2) % len(self.down)
            ]
        return (places(self.across) == (self.width - 1) // 2)[columns], rows

    def unit_at(self, grid: MapGrid, x: int, y: int) -> tuple[int, int]:
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
        self, grid: MapGrid, column: int, row: int, *, lower: bool = False
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
    of_chips: dict[str, Any] = {
        "unit": Level.CHIP,
        "gap": 2,
        "tile_gap": 1,
        "label": True,
        "tile": tile,
    }
    levels = [
        Zoom("1 chip", 1, 3, 4, chip_gap=1, side=9, head=1, foot=3, **of_chips),
        Zoom("1 chip", 1, 3, 4, chip_gap=1, head=1, **of_chips),
        Zoom("1 chip", 1, 2, 2, chip_gap=1, head=1, **of_chips),
        Zoom("1 chip", 1, 2, 2, **of_chips),
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
    zooms: tuple[Zoom, ...], grid: MapGrid, layout: Layout, width: int, height: int
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


class _Tile(NamedTuple):
    """Cells of a tile in one direction: of a pixel, between pixels, before and after them."""

    size: int
    between: int
    before: int
    after: int


def _template(pixels: int, tile: _Tile, lead: int, tile_gap: int, gap: int) -> NDArray[np.int64]:
    """Return the pixel of each cell along a block; -1 for none.

    The order is: lead, the two tiles of a group with a gap between them, gap.
    """
    cells = [-1] * lead
    for number in range(pixels):
        is_first = number in {0, pixels // 2}
        if number and is_first:
            cells += [-1] * (tile.after + tile_gap)
        cells += [-1] * (tile.before if is_first else tile.between) + [number] * tile.size
    return np.array([*cells, *[-1] * (tile.after + gap)], np.int64)


def places(template: NDArray[np.int64]) -> NDArray[np.int64]:
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


class Cursor:
    """A place on the map of a monitor's fleet."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._layout = monitor.store.layout
        self._grid = MapGrid.build(self._layout)
        self._address = ""
        """Address of the chip under the cursor, or the address it was asked to show."""

    @property
    def grid(self) -> MapGrid:
        """Places of the chips of the present layout."""
        layout = self._monitor.store.layout
        if layout is not self._layout:
            self._layout = layout
            self._grid = MapGrid.build(layout)
        return self._grid

    def arrange(self, columns: int) -> None:
        """Set the number of groups side by side on the map."""
        self._grid = self.grid.arranged(self._layout, columns)

    def point(self, address: str) -> None:
        """Go to an address, known or not yet; a core's means its chip's."""
        self._address = parent(address) if address and level_of(address) > Level.CHIP else address

    def point_chip(self, chip: int) -> None:
        """Go to a chip row of the present layout."""
        self._address = self._monitor.store.layout.path(Node(Level.CHIP, chip))

    @property
    def chip(self) -> int:
        """Chip row of the anchor: the first chip below the address.

        If the address is gone, the first chip below its remaining part.
        """
        layout = self._monitor.store.layout
        address = self._address
        node = layout.find(address)
        while node is None and address:
            address = parent(address)
            node = layout.find(address)
        return layout.chip_range(node or FLEET_NODE).start

    def unit(self, zoom: Zoom) -> tuple[int, int]:
        """Return the lattice place of the selection's upper left chip."""
        return zoom.unit_at(self.grid, *self.grid.place_of(self.chip))

    def address(self, zoom: Zoom) -> str:
        """Return the address of the selection.

        For several UltraServers, of the first.
        """
        layout = self._monitor.store.layout
        if not self.grid.groups:
            return ""
        node = Node(Level.CHIP, self.first_chip(zoom, self.unit(zoom)))
        instance = layout.parent(node)
        if layout.is_rolled[instance.number]:
            # The row of an UltraServer or an instance that has no chips here.
            return layout.path(instance)
        if zoom.unit is Level.CHIP:
            return layout.path(node)
        ultraserver = layout.parent(instance)
        # Many groups share the segment `standalone`; they differ in their first instance.
        if zoom.unit is Level.INSTANCE or layout.is_standalone[ultraserver.number]:
            return layout.path(instance)
        return layout.path(ultraserver)

    def first_chip(self, zoom: Zoom, unit: tuple[int, int]) -> int:
        """Return the first chip of the unit at a lattice place, -1 for a hole."""
        x, y = unit
        side = zoom.unit_chips
        if side == 1:
            return self.grid.chip_at(x, y)
        tile = self.grid.tile
        tiles = self.grid.tile_at[y // tile : (y + side) // tile, x // tile : (x + side) // tile]
        tiles = tiles[tiles >= 0]
        return int(self.grid.tile_chip[int(tiles.min())]) if len(tiles) else -1

    def neighbour(self, zoom: Zoom, right: int, down: int) -> int:
        """Return the first chip of the next unit in a direction.

        Holes are skipped. -1 at the end.
        """
        side = zoom.unit_chips
        x, y = self.unit(zoom)
        wide = self.grid.columns * self.grid.group
        high = self.grid.rows * self.grid.group
        while 0 <= (x := x + right * side) < wide and 0 <= (y := y + down * side) < high:
            chip = self.first_chip(zoom, (x, y))
            if chip < 0 and down:
                # A row that is not full: go to its last one.
                near = (self.first_chip(zoom, (left, y)) for left in range(x - side, -1, -side))
                chip = next((candidate for candidate in near if candidate >= 0), -1)
            if chip >= 0:
                return chip
        return -1
