"""The relays of a cell as heard by others: active or standby.

Also whether any of them hears its cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import duration

if TYPE_CHECKING:
    from trnfleet.domain.alerts.watches import WatchPresence

HEARTBEAT_S = 1.0
"""Time between two heartbeats of a relay, the period of its roll-ups."""
GONE_S = 4.0
"""Seconds without a heartbeat before a relay without a last will is gone: four heartbeats."""
DOUBT_S = 2.5
"""Seconds for which a retained message alone marks a relay as present. Longer than a starting relay
listens."""


class CellRelays(NamedTuple):
    """The relays of a cell."""

    cell: str
    active: WatchPresence | None
    """The publishing relay; None if none publishes."""
    standby: tuple[WatchPresence, ...] = ()

    @staticmethod
    def of(cell: str, present: list[WatchPresence]) -> CellRelays:
        """Return the relays of a cell.

        If several claim to lead for a moment, the first by name does.
        """
        known = sorted(present, key=lambda relay: (not relay.leads, relay.client))
        if known and known[0].leads:
            return CellRelays(cell, known[0], tuple(known[1:]))
        return CellRelays(cell, None, tuple(known))

    @property
    def text(self) -> str:
        """Active and standby relays in one line, without the cell's name."""
        if self.active is None:
            said = "no relay is active"
        else:
            said = f"{self.active.client} active"
            if self.active.heard_s is not None:
                said += f", heard {duration(max(0.0, self.active.heard_s))} ago"
            if self.active.hears is False:
                said += ", does not hear its cell"
        names = ", ".join(relay.client for relay in self.standby[:3])
        if len(self.standby) > 3:
            names += f" and {len(self.standby) - 3} more"
        return f"{said}; standby {names}" if names else f"{said}; no standby"
