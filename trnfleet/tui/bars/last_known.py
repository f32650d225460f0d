"""Jobs of which nothing comes at present, so that what is known of them is as last known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui.bars.brokers import away_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.wire.messages import JobMessage

LAST_KNOWN = "last known"


def last_known(monitor: FleetState) -> Callable[[JobMessage], bool]:
    """Return of which jobs nothing comes at present, so that what they do is as last known: of all while the connection is lost, or no chip is live.

    Of a fleet that is heard over several brokers, those without a live chip that have instances of which every broker is away; of one with
    cells that no relay observes, those of them that are there. Hosts that are silent behind a broker that stands are dead, whatever other
    brokers do.
    """
    rollups, link, layout = monitor.rollups, monitor.link, monitor.store.layout
    live = rollups.live(Level.INSTANCE) if rollups.ready else np.zeros(0, np.bool_)
    if not link.connected or (len(live) and not live.any()):
        return lambda _job: True
    if not rollups.ready or rollups.generation != monitor.store.generation:
        return lambda _job: False
    unheard = (rollups.states(Level.INSTANCE)[:, Freshness.UNOBSERVED] > 0) | _behind_lost(monitor)
    if not unheard.any():
        return lambda _job: False

    def is_away(job: JobMessage) -> bool:
        places = [place for place in map(layout.find_instances, job.on) if place]
        if not places or any(live[each.start : each.stop].any() for each in places):
            return False
        return any(unheard[each.start : each.stop].any() for each in places)

    return is_away


def _behind_lost(monitor: FleetState) -> NDArray[np.bool_]:
    """Return the instances that were heard, and of which every connection is lost while others of the fleet stand."""
    links_of = monitor.store.links_of
    if not away_from(monitor):
        return np.zeros(len(links_of), np.bool_)
    standing = sum(1 << number for number, part in enumerate(monitor.link.parts) if part.connected)
    behind: NDArray[np.bool_] = (links_of != 0) & (links_of & standing == 0)
    return behind
