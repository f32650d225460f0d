"""The connections of a relay to its top broker, taken together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from trnfleet.wire.ports import LinkStatus


class Link(Protocol):
    """One connection."""

    @property
    def status(self) -> LinkStatus:
        """Its state."""

    def hurry(self) -> None:
        """Try to connect at once where it waits for that."""


class LinksState(NamedTuple):
    """State of all connections at a moment."""

    is_up: bool
    """Whether all are up."""
    connects: int
    """Number of connects; it grows with each reconnect."""
    waiting: int
    """Messages that have come and wait to be taken."""


class TopLinks:
    """The connections to the top broker."""

    def __init__(self, *links: Link) -> None:
        self._links = links
        self._connects = 0

    def look(self) -> LinksState:
        """Return their state; where one is made again, those that wait for their next attempt try at once, too."""
        states = [each.status for each in self._links]
        connects = sum(each.connects for each in states)
        if connects > self._connects:
            for each in self._links:
                each.hurry()
        self._connects = connects
        return LinksState(
            all(each.connected for each in states), connects, sum(each.waiting for each in states)
        )
