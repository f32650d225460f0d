"""The relays of a fleet's cells as `trnfleet status` prints them: which one is active, and which are on standby."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.domain.alerts.relays import CellRelays
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.watches import WatchPresence
    from trnfleet.monitor.monitor import Monitor

MOST_CELLS = 20
"""Cells with a line each; of more those without an active relay come first."""


def relays_of(monitor: Monitor, cells: Sequence[str]) -> list[CellRelays]:
    """Return the relays of each cell that is described, or has ever had one."""
    known = {each.cell: each for each in monitor.ingest.cells.relays(monitor.clock.monotonic_s())}
    return [known.get(cell) or CellRelays(cell, None) for cell in sorted({*known, *cells})]


def relay_facts(relays: Sequence[CellRelays]) -> list[dict[str, Any]]:
    """Return them as JSON values."""
    return [
        {
            "cell": each.cell,
            "active": None if each.active is None else _facts(each.active),
            "standby": [_facts(standby) for standby in each.standby],
        }
        for each in relays
    ]


def _facts(relay: WatchPresence) -> dict[str, Any]:
    return {"client": relay.client, "hears": relay.hears, "heard_s": relay.heard_s}


def relay_rows(relays: Sequence[CellRelays]) -> list[tuple[str, str]]:
    """Return a line for each cell."""
    ordered = sorted(relays, key=lambda each: each.active is not None)
    rows = [
        ("relays", f"{plain(each.cell)}: {plain(each.text, 400)}") for each in ordered[:MOST_CELLS]
    ]
    left = len(ordered) - len(rows)
    return [*rows, *([("relays", f"and of {left:,} more cells")] if left else [])]
