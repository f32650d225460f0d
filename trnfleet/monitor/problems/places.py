"""Places of problems: overlap of alerts, racks, and links with both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import Level, level_of
from trnfleet.domain.alerts.alert import Alert, address_of, common_place, is_below
from trnfleet.domain.alerts.subsystems import LINK
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.links import link_end
from trnfleet.monitor.problems.problem import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Link = tuple[str, str]
"""The two ends of a link as `address:lane`, sorted by address. A single end appears twice."""
MOST_ENDS = 2
"""Ends of one link: an alert with more of them is about several."""


def place_of(alert: Alert) -> Place:
    """Return the place of one alert about hardware."""
    address = address_of(alert)
    return Place(address, alert.rack if level_of(address) is Level.ULTRASERVER else "")


def has(one: Place, other: Place, layout: Layout) -> bool:
    """Return whether two places overlap.

    They are equal, one is above the other, or one is the rack of the other.
    """
    wide, deep = (one, other) if level_of(one.address) <= level_of(other.address) else (other, one)
    if not is_below(deep.address, wide.address):
        return False
    if not wide.rack:
        return True
    return rack_of(deep, layout) in {"", wide.rack}


def rack_of(place: Place, layout: Layout) -> str:
    """Return the rack name of a place in an UltraServer.

    Empty for several racks or none.
    """
    if place.rack or level_of(place.address) < Level.INSTANCE:
        return place.rack
    node = layout.find(place.address)
    if node is None:
        return ""
    return layout.rack_of(layout.instance_range(node).start)


def joined(places: Sequence[Place], layout: Layout) -> Place:
    """Return the deepest place around some places: an address, or one rack."""
    address = (
        common_place([place.address for place in places])
        if all(place.address for place in places)
        else ""
    )
    if level_of(address) is not Level.ULTRASERVER:
        return Place(address)
    racks = {rack_of(place, layout) for place in places}
    return Place(address, racks.pop() if len(racks) == 1 else "")


def link_of(alert: Alert, layout: Layout) -> Link | None:
    """Return the link of an alert; None for several links or no link."""
    if alert.subsystem != LINK or ":" not in alert.worst or alert.members > MOST_ENDS:
        return None
    return link_at(alert.worst, layout)


def link_at(end: str, layout: Layout) -> Link:
    """Return the link with an end `address:lane`."""
    other = other_end(end, layout)
    first, last = sorted((end, other or end))
    return first, last


def other_end(end: str, layout: Layout) -> str:
    """Return the other end of a link; empty if unknown or behind a switch."""
    address, _, lane = end.rpartition(":")
    node = layout.find(address)
    if node is None or node.level is not Level.CHIP:
        return ""
    instance = int(layout.instance_of_chip[node.number])
    names = layout.lane_names_of(instance)
    if lane not in names or layout.type_of(instance).is_port(names.index(lane)):
        return ""
    far = link_end(layout, node.number, names.index(lane))
    if far is None:
        return ""
    owner = int(layout.instance_of_chip[far.member])
    return f"{layout.path(Node(Level.CHIP, far.member))}:{layout.lane_names_of(owner)[far.lane]}"


def is_between(end: str, layout: Layout) -> bool:
    """Return whether a link, given as `address:lane`, leads to another instance."""
    address, _, lane = end.rpartition(":")
    node = layout.find(address)
    if node is None or node.level is not Level.CHIP:
        return False
    instance = int(layout.instance_of_chip[node.number])
    names = layout.lane_names_of(instance)
    return lane in names and layout.type_of(instance).is_between(names.index(lane))


def link_place(end: str, layout: Layout) -> Place:
    """Return the place of a link: the chip at one end, and the other end."""
    first, last = link_at(end, layout)
    address, _, lane = first.rpartition(":")
    return Place(address, lane=lane, other_end="" if last == first else last)


def instances_of(place: Place, layout: Layout) -> Iterable[int]:
    """Return the numbers of the instances at a place."""
    node = layout.find(place.address) if place.address else None
    if node is None:
        return ()
    covered = layout.instance_range(node)
    if not place.rack:
        return covered
    return [instance for instance in covered if layout.rack_of(instance) == place.rack]
