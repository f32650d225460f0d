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
        """Try to connect at once if it waits for the next attempt."""


class LinksState(NamedTuple):
    """State of the needed connections at a moment."""

    is_up: bool
    """Whether all are up."""
    connects: int
    """Number of connects; it grows with each reconnect."""
    waiting: int
    """Received messages that wait to be read."""


class TopLinks:
    """The connections to the top broker: those needed for publishing, and others."""

    def __init__(self, *needed: Link, others: Sequence[Link] = ()) -> None:
        self._needed, self._all = needed, (*needed, *others)
        self._connects = 0

    def look(self) -> LinksState:
        """Return the state of the needed connections.

        When one reconnects, the others also try at once.
        """
        connects = sum(link.status.connects for link in self._all)
        if connects > self._connects:
            for link in self._all:
                link.hurry()
        self._connects = connects
        states = [link.status for link in self._needed]
        return LinksState(
            all(state.connected for state in states),
            sum(state.connects for state in states),
            sum(state.waiting for state in states),
        )
