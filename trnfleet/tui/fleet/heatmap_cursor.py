"""The heat map's cursor: an address that survives changes of zoom level and layout.

It is anchored to a chip. The selection (a chip, an instance, an UltraServer, or several) depends on
the zoom level. It scrolls and paints nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import Level, level_of, parent
from trnfleet.domain.layout import FLEET_NODE, Node
from trnfleet.tui.fleet.heatmap_grid import Grid

if TYPE_CHECKING:
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.tui.fleet.heatmap_zoom import Zoom


class Cursor:
    """A place on the map of a monitor's fleet."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._layout = monitor.store.layout
        self._grid = Grid.of(self._layout)
        self._address = ""
        """Address of the chip under the cursor, or the address it was asked to show."""
        self._found: tuple[Layout | None, int] = (None, 0)
        """Layout of the last chip lookup, and the chip."""

    @property
    def grid(self) -> Grid:
        """Places of the chips of the present layout."""
        layout = self._monitor.store.layout
        if layout is not self._layout:
            self._layout, self._grid = layout, Grid.of(layout)
        return self._grid

    def arrange(self, columns: int) -> None:
        """Set the number of groups side by side on the map."""
        self._grid = self.grid.arranged(self._layout, columns)

    def point(self, address: str) -> None:
        """Go to an address, known or not yet; a core's means its chip's."""
        self._address = parent(address) if address and level_of(address) > Level.CHIP else address
        self._found = (None, 0)

    def point_chip(self, chip: int) -> None:
        """Go to a chip row of the present layout."""
        layout = self._monitor.store.layout
        self._address = layout.path(Node(Level.CHIP, chip))
        self._found = layout, chip

    @property
    def chip(self) -> int:
        """Chip row of the anchor: the first chip below the address.

        If the address is gone, the first chip below its remaining part.
        """
        layout = self._monitor.store.layout
        if self._found[0] is not layout:
            address = self._address
            node = layout.find(address)
            while node is None and address:
                address = parent(address)
                node = layout.find(address)
            self._found = layout, layout.chip_range(node or FLEET_NODE).start
        return self._found[1]

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
