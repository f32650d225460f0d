"""Several brokers in a few words, for the status line, banner and fleet rows.

Pure functions without a widget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.quantities import duration
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.wire.ports import LinkStatus


def short_name(link: LinkStatus) -> str:
    """Return a broker's address without its usual scheme."""
    return plain(link.broker, 60).removeprefix("mqtt://")


def brokers_text(links: Sequence[LinkStatus], now_s: float) -> str:
    """Return the number of brokers, and the absent ones with their time away.

    For example `2 brokers, b1:1883 away 12 s`. Empty for one broker.

    Args:
        links: A connection to each broker.
        now_s: Real monotonic seconds.
    """
    if len(links) < 2:
        return ""
    return ", ".join(
        [f"{len(links)} brokers", *(away_text(link, now_s) for link in links if not link.connected)]
    )


def away_text(link: LinkStatus, now_s: float) -> str:
    """Return the time a broker has been away; without a time it was never there."""
    since = duration(max(0.0, now_s - link.changed_s)) if link.connects else "since the start"
    return f"{short_name(link)} away {since}"


def away_from(fleet: FleetState) -> list[LinkStatus]:
    """Return the lost connections of a fleet, while others are up.

    Only connections over which the fleet was heard.
    """
    heard = fleet.store.links_heard
    if not heard or not fleet.link.connected:
        return []
    return [part for part in fleet.link.of_parts(heard) if not part.connected]


def where_text(fleet: FleetState, now_s: float) -> str:
    """Return the broker of a fleet, or its brokers with the absent ones."""
    parts = fleet.link.of_parts(fleet.store.links_heard)
    return ", ".join(
        short_name(link) if link.connected else away_text(link, now_s) for link in parts
    )
