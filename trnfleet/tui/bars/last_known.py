"""Jobs of which nothing comes at present, so that what is known of them is as last known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui.bars.brokers import away_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.wire.messages import JobMessage

LAST_KNOWN = "last known"


def last_known(monitor: FleetState) -> Callable[[JobMessage], bool]:
    """Return of which jobs nothing comes at present, so that what they do is as last known: of all while the connection is lost, or no chip is live.

    Of a fleet that is heard over several brokers, and has lost some of them, those without a live chip; of one with cells that no relay
    observes, those of them that are there.
    """
    rollups, link, layout = monitor.rollups, monitor.link, monitor.store.layout
    live = rollups.live(Level.INSTANCE) if rollups.ready else np.zeros(0, np.bool_)
    if not link.connected or (len(live) and not live.any()):
        return lambda _job: True
    if not rollups.ready or rollups.generation != monitor.store.generation:
        return lambda _job: False
    unobserved = rollups.states(Level.INSTANCE)[:, Freshness.UNOBSERVED] > 0
    is_broker_away = bool(away_from(monitor))
    if not is_broker_away and not unobserved.any():
        return lambda _job: False

    def is_away(job: JobMessage) -> bool:
        places = [place for place in map(layout.find_instances, job.on) if place]
        if not places or any(live[each.start : each.stop].any() for each in places):
            return False
        return is_broker_away or any(unobserved[each.start : each.stop].any() for each in places)

    return is_away
