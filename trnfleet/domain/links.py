"""Links between the chips of a layout, as their instance types' topologies have them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.hardware.topology import MOST_LANES, LinkEnd, Topology, TopologyKind
from trnfleet.domain.layout import Layout, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray


def link_end(layout: Layout, chip: int, lane: int) -> LinkEnd | None:
    """Return the chip row and lane that send to a chip's lane.

    None without such a link.

    Through a switch, that is the chip before it in a ring. The known instances of an UltraServer
    count in the order of their names.
    """
    instance = int(layout.instance_of_chip[chip])
    kind = layout.type_of(instance)
    first = int(layout.chip_start[instance])
    inside = len(kind.topology.lanes)
    if lane < inside:
        end = kind.topology.ends[chip - first][lane]
        return None if end is None else LinkEnd(first + end.member, end.lane)
    members = layout.instance_range(layout.parent(Node(Level.INSTANCE, instance)))
    if kind.between is None or lane >= len(kind.lanes):
        return None
    end = kind.between.resized(len(members)).ends[instance - members.start][lane - inside]
    if end is None:
        return None
    other = members.start + end.member
    return LinkEnd(int(layout.chip_start[other]) + chip - first, inside + end.lane)


def neighbour(layout: Layout, chip: int, lane: int) -> int | None:
    """Return the chip row at the other end of a link.

    None without a link or at a switch.
    """
    end = link_end(layout, chip, lane)
    is_port = layout.type_of(int(layout.instance_of_chip[chip])).is_port(lane)
    return None if end is None or is_port else end.member


class LinkEnds(NamedTuple):
    """The far ends of all lanes of some chips; -1 without a known chip there."""

    chips: NDArray[np.int64]
    """Chip rows, ascending."""
    far: NDArray[np.int64]
    """Chips x lanes: the chip row at the other end. -1 without a link, at a switch, and in an
    UltraServer with instances that are not described."""
    far_lanes: NDArray[np.int64]
    """Chips x lanes: the other end's lane."""


def far_ends(layout: Layout, instances: NDArray[np.int64]) -> LinkEnds:
    """Return the far ends of the links of some instances, in columns.

    Args:
        layout: The layout.
        instances: Instance rows, ascending, without rows known from roll-ups.
    """
    chips = layout.chip_rows(instances)
    far = np.full((len(chips), MOST_LANES), -1, np.int64)
    far_lanes = np.full((len(chips), MOST_LANES), -1, np.int64)
    sizes = np.diff(layout.chip_start)[instances]
    begins = np.cumsum(sizes) - sizes
    groups = layout.ultraserver_of_instance[instances]
    described = np.add.reduceat(
        (~layout.is_rolled).astype(np.int64), layout.ultraserver_start[:-1].astype(np.intp)
    )
    for number, kind in enumerate(layout.types):
        some = np.flatnonzero(layout.instance_type[instances] == number)
        inside = len(kind.topology.lanes)
        if not len(some) or not kind.lanes:
            continue
        rows = begins[some][:, None] + np.arange(kind.chips)
        first = layout.chip_start[instances[some]]
        if inside and kind.topology.kind is not TopologyKind.SWITCHED:
            members, lanes = _tables(kind.topology)
            far[rows, :inside] = np.where(members < 0, -1, first[:, None, None] + members)
            far_lanes[rows, :inside] = lanes
        between = kind.between
        if between is None or between.kind is TopologyKind.SWITCHED:
            continue
        is_whole = (described[groups[some]] == between.members) & ~layout.is_standalone[
            groups[some]
        ]
        rows = rows[is_whole]
        start = layout.ultraserver_start[groups[some]][is_whole]
        members, lanes = _tables(between)
        # An UltraServer's own row of roll-ups stands before its instances.
        start = start + layout.is_rolled[start]
        place = instances[some][is_whole] - start
        others = layout.chip_start[start[:, None] + members[place]]
        far[rows, inside : inside + members.shape[1]] = (
            others[:, None, :] + np.arange(kind.chips)[:, None]
        )
        far_lanes[rows, inside : inside + members.shape[1]] = inside + lanes[place][:, None, :]
    return LinkEnds(chips, far, far_lanes)


@functools.lru_cache(maxsize=32)
def _tables(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return members x lanes: the member and the lane at the other end; -1 without a link."""
    shape = (topology.members, len(topology.lanes), 2)
    ends = [
        (-1, -1) if end is None else (end.member, end.lane)
        for lanes in topology.ends
        for end in lanes
    ]
    table = np.array(ends, np.int64).reshape(shape)
    return table[..., 0], table[..., 1]
