"""Addresses and names in little room: the end remains, because it tells siblings apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.domain.address import Names
    from trnfleet.domain.layout import Layout


def shortened(address: str, room: int) -> str:
    """Return the longest end of an address that fits, from a segment's beginning.

    The last segment always remains.
    """
    while len(address) > room and "/" in address:
        address = address.partition("/")[2]
    return address


def without_start(text: str, room: int) -> str:
    """Return a text in at most `room` cells, with an ellipsis for a cut beginning."""
    return text if len(text) <= room else f"…{text[len(text) + 1 - max(room, 1) :]}"


def in_room(address: str, room: int) -> str:
    """Return the longest end of an address that fits.

    The end of its instance's name precedes a chip's number if it fits.
    """
    short = shortened(address, room)
    is_bare = short != address and short.startswith("chip") and len(short) + len("…/") < room
    return without_start(address, room) if is_bare else short


def last_segments(address: str) -> str:
    """Return the last two segments of an address, because a chip's number needs its instance.

    A broker's address is returned whole.
    """
    return address if "://" in address else "/".join(address.split("/")[-2:])


def name_in_fleet(address: str, layout: Layout, names: Names, room: int) -> str:
    """Return an address's last segment, with its cluster if another cluster has the same name.

    Without room the beginning of the name is cut.
    """
    cluster, _, rest = address.partition("/")
    name = names.segment(address)
    others = (other for other in layout.clusters if other != cluster)
    if not any(layout.find(f"{other}/{rest}") for other in others):
        return name
    whole = f"{cluster}/{name}"
    return whole if len(whole) <= room else f"{cluster}{without_start(name, room - len(cluster))}"
