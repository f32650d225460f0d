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

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

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
class Grid:
    """Places of the chips; built with `Grid.of`."""

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
    def of(layout: Layout) -> Grid:
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
        return Grid(
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

    def arranged(self, layout: Layout, columns: int) -> Grid:
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
        pixels = self._pixels.get(side)
        if pixels is None:
            shape = -(-self.rows * self.group // side), -(-self.columns * self.group // side)
            of_tile = self.tile_y // side * shape[1] + self.tile_x // side
            pixels = self._pixels[side] = of_tile[self.piece_tile], shape
        return pixels

    @cached_property
    def _pixels(self) -> dict[int, tuple[NDArray[np.int64], tuple[int, int]]]:
        return {}

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
        """Return the chip at a lattice column and row; -1 without a chip."""
        tile = self.tile
        number = int(self.tile_at[y // tile, x // tile])
        columns = int(self.tile_columns[number])
        inside = x % tile
        chip = int(self.tile_chip[number]) + y % tile * columns + inside
        is_there = number >= 0 and inside < columns and chip < int(self.tile_chip[number + 1])
        return chip if is_there else -1

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
