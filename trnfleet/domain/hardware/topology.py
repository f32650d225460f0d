"""NeuronLink topology as index arithmetic.

A chip's id in a 16-chip instance is 4 x row + column of a 4 x 4 torus. In a Trn2 UltraServer each chip is also in a
ring (Z) with the chips of the same id in the other three instances. Source: AWS Neuron SDK 2.32 (neuron-ls sample)
and the Neuron driver's v3 neighbour table, which agree.
"""

from __future__ import annotations

from dataclasses import dataclass

DIRECTIONS = ("north", "south", "west", "east", "z_prev", "z_next")
"""Order of the lanes of every per-link metric, and of the bits of `links_up` (north is bit 0)."""

NORTH, SOUTH, WEST, EAST, Z_PREV, Z_NEXT = range(6)
OPPOSITE = (SOUTH, NORTH, EAST, WEST, Z_NEXT, Z_PREV)
"""The direction in which the other end of a link sees it."""

TORUS_MASK = 0b001111
Z_MASK = 0b110000


@dataclass(frozen=True, slots=True)
class Grid:
    """A torus of rows x columns of chips, wrapping both ways; 1 x 1 has no links."""

    rows: int
    columns: int

    @property
    def chips(self) -> int:
        """Chips on the grid."""
        return self.rows * self.columns

    @property
    def links(self) -> int:
        """Undirected links: one south and one east of each chip."""
        return 2 * self.chips if self.chips > 1 else 0

    def neighbour(self, chip: int, direction: int) -> int:
        """Return the id of the chip that lies in `direction` (NORTH, SOUTH, WEST or EAST)."""
        row, column = divmod(chip, self.columns)
        if direction == NORTH:
            row = (row - 1) % self.rows
        elif direction == SOUTH:
            row = (row + 1) % self.rows
        elif direction == WEST:
            column = (column - 1) % self.columns
        elif direction == EAST:
            column = (column + 1) % self.columns
        else:
            raise ValueError(f"{DIRECTIONS[direction]} leaves the instance; use ring_neighbour")
        return row * self.columns + column

    def neighbours(self, chip: int) -> frozenset[int]:
        """Return the ids of the chips that `chip` is linked to within its instance."""
        if self.chips == 1:
            return frozenset()
        return frozenset(self.neighbour(chip, direction) for direction in (NORTH, SOUTH, WEST, EAST))


TORUS_4X4 = Grid(4, 4)
SINGLE = Grid(1, 1)


def ring_neighbour(instance: int, direction: int, instances: int = 4) -> int:
    """Return the place (0-based) of the instance that `direction` (Z_PREV or Z_NEXT) leads to in the Z ring."""
    return (instance + (1 if direction == Z_NEXT else -1)) % instances


def z_links(instances: int, chips: int) -> int:
    """Return the undirected Z links of an UltraServer: a ring of `instances` for each of `chips` positions."""
    return instances * chips
