"""NeuronLink topologies: the link lanes of a chip, and the chip that each of them leads to.

A topology belongs to an instance type (its chips) or to an UltraServer type (the same chip of several instances). A lane is
one link of a chip, or a port to a switch. Lanes are numbered within a chip: those of the instance first, then those of the
UltraServer. A lane's number is its place in every per-link metric and its bit in `links_up`; its name is the topology's.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Axis = Literal["rows", "columns", "z"]
"""Kind of traffic that a lane carries: along the rows or the columns of an instance, or between instances."""

DIRECTIONS = ("north", "south", "west", "east", "z_prev", "z_next")
"""Lane names of a 2D torus in a Z ring: those of schema version 1, which a descriptor may leave out."""
NORTH, SOUTH, WEST, EAST, Z_PREV, Z_NEXT = range(6)
"""Their numbers."""
MOST_LANES = len(DIRECTIONS)
"""Link lanes of a chip at most, which is the width of the per-link metrics. Parallel links to the same switch are one lane."""


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

    The same class describes an instance, whose members are its chips, and an UltraServer, whose members are its instances:
    there each chip is linked to the chips of the same number.
    """

    kind: TopologyKind
    shape: tuple[int, int]
    """Rows and columns in which the members are drawn; members are numbered row by row, and the last row may be shorter."""
    lanes: tuple[Lane, ...]
    ends: tuple[tuple[LinkEnd | None, ...], ...]
    """For each member and lane, the end whose traffic arrives there; None where the member has no such link."""

    @property
    def members(self) -> int:
        """Chips of an instance, or instances of an UltraServer."""
        return len(self.ends)

    @property
    def links(self) -> int:
        """Undirected links; those to a switch count one for each port."""
        count = sum(end is not None for ends in self.ends for end in ends)
        return count if self.kind is TopologyKind.SWITCHED else count // 2

    @property
    def masks(self) -> tuple[int, ...]:
        """For each member the bits of the lanes that it has."""
        return tuple(
            sum(1 << lane for lane, end in enumerate(ends) if end is not None) for ends in self.ends
        )

    def neighbour(self, member: int, lane: int) -> int | None:
        """Return the member at the other end of a lane; None where there is no link, or a switch."""
        end = self.ends[member][lane]
        return None if end is None or self.kind is TopologyKind.SWITCHED else end.member

    def neighbours(self, member: int) -> frozenset[int]:
        """Return the members that `member` reaches without passing another: through a switch, all of them."""
        if self.kind is TopologyKind.SWITCHED:
            return frozenset(range(self.members)) - {member}
        return frozenset(end.member for end in self.ends[member] if end is not None)

    def peers(self, member: int, lane: int) -> frozenset[int]:
        """Return the members that a lane of a member leads to: one, or all others where it is a port to a switch."""
        end = self.ends[member][lane]
        if end is None:
            return frozenset()
        return (
            self.neighbours(member)
            if self.kind is TopologyKind.SWITCHED
            else frozenset({end.member})
        )

    def resized(self, members: int) -> Topology:
        """Return the same kind of ring or switched network of another number of members, such as those that are known."""
        if members == self.members:
            return self
        return _resized(self, members)


def torus(
    rows: int, columns: int, names: tuple[str, str, str, str] = ("north", "south", "west", "east")
) -> Topology:
    """Return a 2D torus of chips that wraps both ways; both sides are at least 2.

    Args:
        rows: Chips along a column.
        columns: Chips along a row.
        names: Lane names: up, down, left and right.

    Raises:
        ValueError: a side is shorter than 2.
    """
    if min(rows, columns) < 2:
        raise ValueError(
            f"a torus of {rows} x {columns} chips has a side below 2: use a ring, a line or unlinked"
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
    """Return a ring, in which each member has a link to the one before it and one to the one after it."""
    ends = tuple(
        (LinkEnd((each - 1) % members, 1), LinkEnd((each + 1) % members, 0))
        for each in range(members)
    )
    return Topology(TopologyKind.RING, _drawn(members), _lanes(names, axis), ends)


def line(members: int, names: tuple[str, str] = ("prev", "next"), axis: Axis = "rows") -> Topology:
    """Return a ring that is open between its last member and its first."""
    last = members - 1
    ends = tuple(
        (LinkEnd(each - 1, 1) if each else None, LinkEnd(each + 1, 0) if each < last else None)
        for each in range(members)
    )
    return Topology(TopologyKind.LINE, _drawn(members), _lanes(names, axis), ends)


def switched(members: int, names: Iterable[str] = ("port0",), axis: Axis = "rows") -> Topology:
    """Return a network in which every member has ports to switches, through which it reaches all others.

    Collectives go round a ring through the switch: what arrives at a port was sent by the member before.
    """
    lanes = _lanes(names, axis)
    ends = tuple(
        tuple(LinkEnd((each - 1) % members, lane) for lane in range(len(lanes)))
        for each in range(members)
    )
    return Topology(TopologyKind.SWITCHED, _drawn(members), lanes, ends)


def unlinked(members: int = 1) -> Topology:
    """Return chips without NeuronLinks."""
    return Topology(TopologyKind.NONE, _drawn(members), (), ((),) * members)


def _lanes(names: Iterable[str], axis: Axis) -> tuple[Lane, ...]:
    return tuple(Lane(name, axis) for name in names)


def _drawn(members: int) -> tuple[int, int]:
    """Return rows and columns of a shape that is about as wide as it is high."""
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
"""Trn1 and Trn2: a chip's number is 4 x row + column. Source: AWS Neuron SDK 2.32 (neuron-ls sample) and the Neuron driver's
v3 neighbour table, which agree."""
SINGLE = unlinked()
Z_RING_4 = ring(4, ("z_prev", "z_next"), "z")
"""The ring of the chips of the same number in the four instances of a Trn2 UltraServer (same sources)."""
