"""Chips on a top broker, requested when a row of roll-ups is opened.

The module also words the reason for missing chips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import Level
from trnfleet.monitor.sources.leases import LeaseState
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.monitor.store.store import Store
    from trnfleet.tui.state.context import UiContext


def open_chips(context: UiContext, address: str) -> None:
    """Request the chips of the row of roll-ups with an address.

    The row is an UltraServer or a standalone instance.
    """
    leases = context.leases
    live = context.live
    if leases is None or context.shows_past or not live.store.rolled.blocks:
        return
    row, cell = live.store.rolled.row_of(address)
    if row:
        leases.open(row, cell, context.clock.monotonic_s())


def look_at_chips(context: UiContext, address: str) -> None:
    """Renew the lease of chips while an address among them is viewed.

    Chips forwarded under another viewer's lease are leased as well.
    """
    leases = context.leases
    store = context.live.store
    now_s = context.clock.monotonic_s()
    if leases is None or context.shows_past or not store.rolled.blocks:
        return
    if leases.can_ask and leases.of(address) is None:
        row, cell = _row_above(store, address)
        if leases.dwells(row, now_s) and row:
            leases.open(row, cell, now_s)
    leases.look(address, now_s)


def _row_above(store: Store, address: str) -> tuple[str, str]:
    """Return the forwarded row above an address, and its cell.

    Both are empty for the row itself, and if no such row is forwarded.
    """
    node = store.layout.find(address)
    if node is None or node.level < Level.INSTANCE:
        return "", ""
    if not store.is_forwarded[store.layout.instance_range(node).start]:
        return "", ""
    row, cell = store.rolled.row_of(address)
    return ("", "") if row == address else (row, cell)


def why_no_chips(context: UiContext, address: str) -> str:
    """Return why a row of roll-ups has no chips.

    Empty for an address in no such row.
    """
    store = context.monitor.store
    cell = store.rolled.cell_of(address) if store.rolled.blocks else ""
    if not cell:
        return ""
    cell = plain(cell)
    leases = context.leases
    if context.shows_past or leases is None:
        return (
            f"chips of cell {cell} were not forwarded then"
            if context.shows_past
            else f"no chips of cell {cell}"
        )
    lease = leases.of(address)
    if lease is None:
        return f"Enter asks cell {cell} for its chips" if leases.can_ask else leases.why_not
    if lease.reason:
        return f"no chips of cell {cell}: {lease.reason}"
    return (
        f"chips of cell {cell} are {'coming' if lease.state is LeaseState.GRANTED else 'asked for'}"
    )
