"""Outages of single connections in a fleet with several.

Other instances go on.

Messages at an unreachable broker are unheard, but their sources are not silent. After the outage
every source of that connection has its three periods again, plus the time it may need to reconnect.
The module reads no clock.
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
"""Seconds for sources to reconnect after an outage, at most its own length. Publishers are back
within it."""


class _Outage:
    """The last outage of one connection."""

    def __init__(self, connects: int) -> None:
        self.since_s: float | None = None
        """Monotonic seconds of its beginning. None while connected."""
        self.connects = connects
        self.ended_s = -math.inf
        self.more_s = 0.0
        """Seconds the sources have had to reconnect since its end."""


class LinkOutages:
    """The outages of all connections of one fleet, by their numbers."""

    def __init__(self) -> None:
        self._links: list[_Outage] = []
        self._heard = 0
        """Bit mask of connections with any message of the fleet."""

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
        """Monotonic seconds of the end of each connection's last outage. -inf without one."""
        return tuple([link.ended_s for link in self._links])

    def longest_s(self, now_s: float) -> float:
        """Return the seconds of the longest present outage; 0 for none.

        Only connections with earlier messages count.
        """
        lost = [
            now_s - link.since_s
            for number, link in enumerate(self._links)
            if link.since_s is not None and self._heard >> number & 1
        ]
        return max(lost, default=0.0)

    def unsettled(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return a mask of instances whose silence is meaningless for lack of a connection.

        None if there are none.
        """
        if not self._links:
            return None
        longest_s = STALE_AFTER_PERIODS * float(store.period_s.max(initial=0.0))
        if all(
            link.since_s is None and now_s >= link.ended_s + link.more_s + longest_s
            for link in self._links
        ):
            return None
        heard = np.zeros(len(store.links_of), np.bool_)
        for number, link in enumerate(self._links):
            if link.since_s is None:
                is_of_link = (store.links_of >> number) & 1 == 1
                heard |= is_of_link & (
                    now_s >= link.ended_s + link.more_s + STALE_AFTER_PERIODS * store.period_s
                )
        mask: NDArray[np.bool_] = (store.links_of != 0) & ~heard
        return mask if mask.any() else None
