"""The connections of a relay to its top broker, taken together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.wire.ports import LinkStatus


class Link(Protocol):
    """One connection."""

    @property
    def status(self) -> LinkStatus:
        """Its state."""

    def hurry(self) -> None:
        """Try to connect at once where it waits for that."""


class LinksState(NamedTuple):
    """State of the needed connections at a moment."""

    is_up: bool
    """Whether all are up."""
    connects: int
    """Number of connects; it grows with each reconnect."""
    waiting: int
    """Messages that have come and wait to be taken."""


class TopLinks:
    """The connections to the top broker: those without which a relay does not publish, and others."""

    def __init__(self, *needed: Link, others: Sequence[Link] = ()) -> None:
        self._needed, self._all = needed, (*needed, *others)
        self._connects = 0

    def look(self) -> LinksState:
        """Return the state of those that are needed; where any is made again, those that wait for their next attempt try at once, too."""
        connects = sum(each.status.connects for each in self._all)
        if connects > self._connects:
            for each in self._all:
                each.hurry()
        self._connects = connects
        states = [each.status for each in self._needed]
        return LinksState(
            all(each.connected for each in states),
            sum(each.connects for each in states),
            sum(each.waiting for each in states),
        )
