"""The relays of a cell as others hear them: which one is active, which wait, and whether any hears its cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import duration

if TYPE_CHECKING:
    from trnfleet.domain.alerts.watches import WatchPresence

HEARTBEAT_S = 1.0
"""Time between two heartbeats of a relay, the period of its roll-ups."""
GONE_S = 4.0
"""Time without a heartbeat after which a relay counts as gone where its last will has not come: four heartbeats."""
DOUBT_S = 2.5
"""Time for which a relay counts as present by a retained message alone: longer than one that begins listens."""


class CellRelays(NamedTuple):
    """The relays of a cell."""

    cell: str
    active: WatchPresence | None
    """The one that publishes; None where none does."""
    standby: tuple[WatchPresence, ...] = ()

    @staticmethod
    def of(cell: str, present: list[WatchPresence]) -> CellRelays:
        """Return the relays of a cell; of several that say that they lead, for a moment, the first by name."""
        known = sorted(present, key=lambda each: (not each.leads, each.client))
        if known and known[0].leads:
            return CellRelays(cell, known[0], tuple(known[1:]))
        return CellRelays(cell, None, tuple(known))

    @property
    def text(self) -> str:
        """Who is active and who waits, in a line without the cell's name."""
        if self.active is None:
            said = "no relay is active"
        else:
            said = f"{self.active.client} active"
            if self.active.heard_s is not None:
                said += f", heard {duration(max(0.0, self.active.heard_s))} ago"
            if self.active.hears is False:
                said += ", does not hear its cell"
        names = ", ".join(each.client for each in self.standby[:3])
        if len(self.standby) > 3:
            names += f" and {len(self.standby) - 3} more"
        return f"{said}; standby {names}" if names else f"{said}; no standby"
