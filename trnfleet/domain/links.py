"""Links between the chips of a layout, as their instance types' topologies have them."""

from __future__ import annotations

from trnfleet.domain.address import Level
from trnfleet.domain.hardware.topology import LinkEnd
from trnfleet.domain.layout import Layout, Node


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
