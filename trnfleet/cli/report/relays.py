"""The relays of a fleet's cells for `trnfleet status`: active or on standby."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.domain.alerts.relays import CellRelays
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.watches import WatchPresence
    from trnfleet.monitor.monitor import Monitor

MOST_CELLS = 20
"""Most cells with a line each. If there are more, cells without an active relay come first."""


def relays_of(monitor: Monitor, cells: Sequence[str]) -> list[CellRelays]:
    """Return the relays of each cell with descriptors, or with a relay at any time."""
    known = {cell.cell: cell for cell in monitor.ingest.cells.relays(monitor.clock.monotonic_s())}
    return [known.get(cell) or CellRelays(cell, None) for cell in sorted({*known, *cells})]


def relay_facts(relays: Sequence[CellRelays]) -> list[dict[str, Any]]:
    """Return them as JSON values."""
    return [
        {
            "cell": cell.cell,
            "active": None if cell.active is None else _facts(cell.active),
            "standby": [_facts(standby) for standby in cell.standby],
        }
        for cell in relays
    ]


def _facts(relay: WatchPresence) -> dict[str, Any]:
    return {"client": relay.client, "hears": relay.hears, "heard_s": relay.heard_s}


def relay_rows(relays: Sequence[CellRelays]) -> list[tuple[str, str]]:
    """Return a line for each cell."""
    ordered = sorted(relays, key=lambda cell: cell.active is not None)
    rows = [
        ("relays", f"{plain(cell.cell)}: {plain(cell.text, 400)}") for cell in ordered[:MOST_CELLS]
    ]
    left = len(ordered) - len(rows)
    return [*rows, *([("relays", f"and of {left:,} more cells")] if left else [])]
