"""Outages of single connections, of a fleet that is heard over several: the instances of the others go on.

What is published at a broker that cannot be reached is not silent, it is not heard. After the outage every source of that
connection has its three periods afresh, and the time that it may take to connect again. It reads no clock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.monitor.store.store import STALE_AFTER_PERIODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.ports import LinkStatus

RECONNECT_S = 10.0
"""Time that sources get to connect again after an outage, and at most as long as the outage was: publishers are back within it."""


class _Outage:
    """The last outage of one connection."""

    def __init__(self, connects: int) -> None:
        self.since_s: float | None = None
        """Monotonic seconds at which it began; None while the connection stands."""
        self.connects = connects
        self.ended_s = -math.inf
        self.more_s = 0.0
        """Time that the sources have had to connect again since its end."""


class LinkOutages:
    """The outages of all connections of one fleet, by their numbers."""

    def __init__(self) -> None:
        self._links: list[_Outage] = []
        self._heard = 0
        """A bit for each connection over which anything of the fleet has been heard."""

    def update(self, now_s: float, links: Sequence[LinkStatus], store: Store) -> None:
        """Look at the connections.

        Args:
            now_s: Monotonic seconds.
            links: The connections, the same ones each time.
            store: For which of them anything is heard over.
        """
        self._heard = store.links_heard
        is_first = not self._links
        if is_first:
            self._links = [_Outage(link.connects) for link in links]
        for outage, link in zip(self._links, links, strict=True):
            if not link.connected:
                if outage.since_s is None:
                    outage.since_s = now_s if is_first else link.changed_s
            elif outage.since_s is not None or outage.connects != link.connects:
                # It may have been lost and made between two passes.
                missed_s = 0.0 if outage.since_s is None else now_s - outage.since_s
                outage.since_s, outage.ended_s, outage.more_s = (
                    None,
                    now_s,
                    min(RECONNECT_S, missed_s),
                )
            outage.connects = link.connects

    @property
    def since_s(self) -> tuple[float, ...]:
        """Monotonic seconds at which the last outage of each connection ended; -inf where there was none."""
        return tuple([each.ended_s for each in self._links])

    def longest_s(self, now_s: float) -> float:
        """Return for how long the connection that was lost first has been lost, of those over which anything was heard; 0 for none."""
        lost = [
            now_s - each.since_s
            for number, each in enumerate(self._links)
            if each.since_s is not None and self._heard >> number & 1
        ]
        return max(lost, default=0.0)

    def unsettled(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return the instances whose silence says nothing, because no connection over which they are heard stands; None for none."""
        if not self._links:
            return None
        longest_s = STALE_AFTER_PERIODS * float(store.period_s.max(initial=0.0))
        if all(
            each.since_s is None and now_s >= each.ended_s + each.more_s + longest_s
            for each in self._links
        ):
            return None
        heard = np.zeros(len(store.links_of), np.bool_)
        for number, each in enumerate(self._links):
            if each.since_s is None:
                is_of_link = (store.links_of >> number) & 1 == 1
                heard |= is_of_link & (
                    now_s >= each.ended_s + each.more_s + STALE_AFTER_PERIODS * store.period_s
                )
        found: NDArray[np.bool_] = (store.links_of != 0) & ~heard
        return found if found.any() else None
