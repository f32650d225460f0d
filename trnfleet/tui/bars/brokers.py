"""Several brokers in a few words, for the status line, the banner and the rows of fleets; pure functions without a widget."""

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
    """Return how many brokers there are and which are away for how long, such as `2 brokers, b1:1883 away 12 s`; empty for one broker.

    Args:
        links: A connection to each broker.
        now_s: Real monotonic seconds.
    """
    if len(links) < 2:
        return ""
    return ", ".join(
        [f"{len(links)} brokers", *(away_text(each, now_s) for each in links if not each.connected)]
    )


def away_text(link: LinkStatus, now_s: float) -> str:
    """Return for how long a broker is away; it has never been there where nothing else is known."""
    since = duration(max(0.0, now_s - link.changed_s)) if link.connects else "since the start"
    return f"{short_name(link)} away {since}"


def away_from(fleet: FleetState) -> list[LinkStatus]:
    """Return the connections that a fleet has lost over which it was heard, while others stand."""
    heard = fleet.store.links_heard
    if not heard or not fleet.link.connected:
        return []
    return [part for part in fleet.link.of_parts(heard) if not part.connected]


def where_text(fleet: FleetState, now_s: float) -> str:
    """Return where a fleet is heard: its broker, or its brokers with those that are away."""
    parts = fleet.link.of_parts(fleet.store.links_heard)
    return ", ".join(
        short_name(each) if each.connected else away_text(each, now_s) for each in parts
    )
