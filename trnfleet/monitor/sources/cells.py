"""Cells with relays on this broker: presence of the relays and their watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.alerts.relays import DOUBT_S, GONE_S, CellRelays
from trnfleet.monitor.sources.watches import Watches
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.domain.alerts.watches import WatchPresence
    from trnfleet.wire.messages import WatchMessage

MOST_OF_CELL = 64
"""Most relays, and most watches, stored per cell."""


class Cells:
    """The relays and watches of all cells."""

    def __init__(self, most: int = DEFAULT_LIMITS.watches) -> None:
        """Create an empty table.

        Args:
            most: Most cells.
        """
        self._most = most
        self._relays: dict[str, Watches] = {}
        self._watches: dict[str, Watches] = {}

    def put(self, cell: str, message: WatchMessage, now_s: float, *, is_retained: bool) -> bool:
        """Apply the presence message of a relay or a watch.

        Return whether there was room.

        A cell with nothing present makes room.
        """
        is_relay = message.role == "relay"
        known = self._relays if is_relay else self._watches
        members = known.pop(cell, None)
        if members is None:
            if len(known) >= self._most:
                # Each message puts its cell last.
                oldest = next(iter(known))
                if known[oldest].has_present(now_s):
                    return False
                del known[oldest]
            times = {"gone_s": GONE_S, "doubt_s": DOUBT_S} if is_relay else {}
            members = Watches(MOST_OF_CELL, **times)
        known[cell] = members
        return members.put(message, now_s, is_retained=is_retained)

    def clear(self, cell: str, client: str) -> None:
        """Remove a relay or a watch after its message was cleared.

        Drop an empty cell.
        """
        for known in (self._relays, self._watches):
            members = known.get(cell)
            if members is not None:
                members.clear(client)
                if not members:
                    del known[cell]

    def has_relay(self, cell: str, client: str) -> bool:
        """Return whether a relay of a cell has announced itself, online or offline."""
        return client in self._relays.get(cell, ())

    def relays(self, now_s: float) -> tuple[CellRelays, ...]:
        """Return the relays of each cell with a presence message, even if all are offline."""
        return tuple(
            CellRelays.of(cell, relays.present(now_s))
            for cell, relays in sorted(self._relays.items())
        )

    def seen(self, described: Mapping[str, bool], now_s: float) -> dict[str, bool]:
        """Return whether each cell is seen.

        A cell is seen if its roll-ups arrive, unless its active relay reports the cell as not
        heard.

        Args:
            described: Whether roll-ups of each described cell arrive.
            now_s: Monotonic seconds.
        """
        unheard = {
            relays.cell
            for relays in self.relays(now_s)
            if relays.active and relays.active.hears is False
        }
        return {cell: is_seen and cell not in unheard for cell, is_seen in described.items()}

    def watches(self, cell: str, now_s: float) -> list[WatchPresence]:
        """Return the present watches of a cell."""
        return self._watches[cell].present(now_s) if cell in self._watches else []

    def watched(self, now_s: float) -> set[str]:
        """Return the cells in which a watch leads."""
        return {
            cell
            for cell, watches in self._watches.items()
            if any(one.leads is not False for one in watches.present(now_s))
        }
