"""NeuronLink topologies: a chip's link lanes, and the chip at each end.

A topology belongs to an instance type (its chips) or to an UltraServer type (the same chip of
several instances). A lane is one link of a chip, or a port to a switch. Lanes are numbered within a
chip: first the instance's, then the UltraServer's. A lane's number is its place in every per-link
metric and its bit in `links_up`; its name is the topology's.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Axis = Literal["rows", "columns", "z"]
"""Direction of a lane: along rows or columns of an instance, or between instances."""

DIRECTIONS = ("north", "south", "west", "east", "z_prev", "z_next")
"""Lane names of a 2D torus in a Z ring: schema version 1. A descriptor may omit them."""
NORTH, SOUTH, WEST, EAST, Z_PREV, Z_NEXT = range(6)
"""Their numbers."""
MOST_LANES = len(DIRECTIONS)
"""Link lanes of a chip at most, which is the width of the per-link metrics. Parallel links to the
same switch are one lane."""


class TopologyKind(enum.StrEnum):
    """The shape of a network of chips."""

    TORUS = "torus"
    RING = "ring"
    LINE = "line"
    SWITCHED = "switched"
    NONE = "none"


class Lane(NamedTuple):
    """One link of every chip of a topology."""

    name: str
    axis: Axis


class LinkEnd(NamedTuple):
    """One end of a link."""

    member: int
    """Number of the chip in its instance, or place of the instance in its UltraServer."""
    lane: int


class Topology(NamedTuple):
    """A network of chips; build it with `torus`, `ring`, `line`, `switched` or `unlinked`.

    The same class describes an instance with chips as members, and an UltraServer with instances as
    members: there each chip is linked to the chips of the same number.
    """

    kind: TopologyKind
    shape: tuple[int, int]
    """Rows and columns of the drawing. Members are numbered row by row, and the last row may be
    shorter."""
    lanes: tuple[Lane, ...]
    ends: tuple[tuple[LinkEnd | None, ...], ...]
    """Sending end per member and lane; None without such a link."""

    @property
    def members(self) -> int:
        """Chips of an instance, or instances of an UltraServer."""
        return len(self.ends)

    @property
    def links(self) -> int:
        """Number of undirected links; a link to a switch counts one for each port."""
        count = sum(end is not None for ends in self.ends for end in ends)
        return count if self.kind is TopologyKind.SWITCHED else count // 2

    @property
    def masks(self) -> tuple[int, ...]:
        """Bits of existing lanes per member."""
        return tuple(
            sum(1 << lane for lane, end in enumerate(ends) if end is not None) for ends in self.ends
        )

    def neighbour(self, member: int, lane: int) -> int | None:
        """Return the member at the other end of a lane.

        None without a link or at a switch.
        """
        end = self.ends[member][lane]
        return None if end is None or self.kind is TopologyKind.SWITCHED else end.member

    def neighbours(self, member: int) -> frozenset[int]:
        """Return the members one hop from `member`; through a switch, all of them."""
        if self.kind is TopologyKind.SWITCHED:
            return frozenset(range(self.members)) - {member}
        return frozenset(end.member for end in self.ends[member] if end is not None)

    def peers(self, member: int, lane: int) -> frozenset[int]:
        """Return the members reached by a lane: one, or all others through a switch."""
        end = self.ends[member][lane]
        if end is None:
            return frozenset()
        return (
            self.neighbours(member)
            if self.kind is TopologyKind.SWITCHED
            else frozenset({end.member})
        )

    def resized(self, members: int) -> Topology:
        """Return the same kind of ring or switched network with another number of members.

        For UltraServers with only some instances known.
        """
        if members == self.members:
            return self
        return _resized(self, members)


def torus(
    rows: int, columns: int, names: tuple[str, str, str, str] = ("north", "south", "west", "east")
) -> Topology:
    """Return a 2D torus of chips that wraps both ways.

    Both sides are at least 2.

    Args:
        rows: Chips along a column.
        columns: Chips along a row.
        names: Lane names: up, down, left and right.

    Raises:
        ValueError: a side is shorter than 2.
    """
    if min(rows, columns) < 2:
        raise ValueError(
            f"a torus of {rows} x {columns} chips has a side below 2: use a ring, a line or"
            " unlinked"
        )

    def ends(chip: int) -> tuple[LinkEnd, ...]:
        row, column = divmod(chip, columns)
        return (
            LinkEnd((row - 1) % rows * columns + column, 1),
            LinkEnd((row + 1) % rows * columns + column, 0),
            LinkEnd(row * columns + (column - 1) % columns, 3),
            LinkEnd(row * columns + (column + 1) % columns, 2),
        )

    axes: tuple[Axis, ...] = ("columns", "columns", "rows", "rows")
    lanes = tuple(Lane(name, axis) for name, axis in zip(names, axes, strict=True))
    return Topology(
        TopologyKind.TORUS, (rows, columns), lanes, tuple(map(ends, range(rows * columns)))
    )


def ring(members: int, names: tuple[str, str] = ("prev", "next"), axis: Axis = "rows") -> Topology:
    """Return a ring: each member has links to both of its neighbours."""
    ends = tuple(
        (LinkEnd((member - 1) % members, 1), LinkEnd((member + 1) % members, 0))
        for member in range(members)
    )
    return Topology(TopologyKind.RING, _drawn(members), _lanes(names, axis), ends)


def line(members: int, names: tuple[str, str] = ("prev", "next"), axis: Axis = "rows") -> Topology:
    """Return a ring without the link between its last and first member."""
    last = members - 1
    ends = tuple(
        (
            LinkEnd(member - 1, 1) if member else None,
            LinkEnd(member + 1, 0) if member < last else None,
        )
        for member in range(members)
    )
    return Topology(TopologyKind.LINE, _drawn(members), _lanes(names, axis), ends)


def switched(members: int, names: Iterable[str] = ("port0",), axis: Axis = "rows") -> Topology:
    """Return a network of members with ports to switches; each reaches all others.

    Collectives go round a ring through the switch: traffic arriving at a port was sent by the
    member before.
    """
    lanes = _lanes(names, axis)
    ends = tuple(
        tuple(LinkEnd((member - 1) % members, lane) for lane in range(len(lanes)))
        for member in range(members)
    )
    return Topology(TopologyKind.SWITCHED, _drawn(members), lanes, ends)


def unlinked(members: int = 1) -> Topology:
    """Return chips without NeuronLinks."""
    return Topology(TopologyKind.NONE, _drawn(members), (), ((),) * members)


def _lanes(names: Iterable[str], axis: Axis) -> tuple[Lane, ...]:
    return tuple(Lane(name, axis) for name in names)


def _drawn(members: int) -> tuple[int, int]:
    """Return rows and columns of a roughly square shape."""
    columns = max(1, int(members**0.5))
    columns += columns * columns < members
    return -(-members // columns), columns


@functools.lru_cache(maxsize=64)
def _resized(topology: Topology, members: int) -> Topology:
    names = tuple(lane.name for lane in topology.lanes)
    axis = topology.lanes[0].axis
    if topology.kind is TopologyKind.SWITCHED:
        return switched(members, names, axis)
    if topology.kind is TopologyKind.RING:
        return ring(members, (names[0], names[1]), axis)
    raise ValueError(f"a {topology.kind} of {topology.members} has no form with {members}")


TORUS_4X4 = torus(4, 4)
"""Trn1 and Trn2: a chip's number is 4 x row + column. Source: AWS Neuron SDK 2.32 (neuron-ls
sample) and the Neuron driver's v3 neighbour table, which agree."""
SINGLE = unlinked()
Z_RING_4 = ring(4, ("z_prev", "z_next"), "z")
"""Ring of equally numbered chips in a Trn2 UltraServer's four instances (same sources)."""
