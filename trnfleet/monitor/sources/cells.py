"""The cells whose relays publish on this broker: their relays, and the watches that these pass on, by their presence messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.alerts.relays import DOUBT_S, GONE_S, CellRelays
from trnfleet.monitor.copies import copied
from trnfleet.monitor.sources.watches import Watches
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.domain.alerts.watches import WatchPresence
    from trnfleet.wire.messages import WatchMessage

MOST_OF_CELL = 64
"""Relays of a cell, and watches of it, that are kept."""


class Cells:
    """The relays and watches of all cells."""

    def __init__(self, most: int = DEFAULT_LIMITS.watches) -> None:
        """Begin without any.

        Args:
            most: Cells that are kept.
        """
        self._most = most
        self._relays: dict[str, Watches] = {}
        self._watches: dict[str, Watches] = {}

    def copy(self) -> Cells:
        """Return a copy."""
        return copied(
            self,
            _relays={cell: each.copy() for cell, each in self._relays.items()},
            _watches={cell: each.copy() for cell, each in self._watches.items()},
        )

    def put(self, cell: str, message: WatchMessage, now_s: float, *, is_retained: bool) -> bool:
        """Take the presence message of a relay or a watch, and return whether there was room: a cell of which none is present makes it."""
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
        """Forget a relay or a watch whose message was cleared."""
        for known in (self._relays, self._watches):
            if cell in known:
                known[cell].clear(client)

    def relays(self, now_s: float) -> tuple[CellRelays, ...]:
        """Return the relays of each cell that is known: also of one that has none any more, until another needs its room."""
        return tuple(
            CellRelays.of(cell, each.present(now_s)) for cell, each in sorted(self._relays.items())
        )

    def seen(self, described: Mapping[str, bool], now_s: float) -> dict[str, bool]:
        """Return whether each cell is seen: whether its roll-ups come, unless its active relay says that it does not hear it.

        Args:
            described: Whether roll-ups come of each cell that is described.
            now_s: Monotonic seconds.
        """
        unheard = {
            each.cell for each in self.relays(now_s) if each.active and each.active.hears is False
        }
        return {cell: is_seen and cell not in unheard for cell, is_seen in described.items()}

    def watches(self, cell: str, now_s: float) -> list[WatchPresence]:
        """Return the watches of a cell that are present."""
        return self._watches[cell].present(now_s) if cell in self._watches else []

    def watched(self, now_s: float) -> set[str]:
        """Return the cells in which a watch leads."""
        return {
            cell
            for cell, each in self._watches.items()
            if any(one.leads is not False for one in each.present(now_s))
        }
