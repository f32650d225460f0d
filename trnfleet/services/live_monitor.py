"""A monitor on a fleet of a broker, with the source that feeds it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.power import PUE
from trnfleet.errors import BrokerError
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.store.store import Freshness
from trnfleet.record.write.tapped_source import TappedSource
from trnfleet.services.session import CONNECT_LIMIT_S
from trnfleet.tasks import background
from trnfleet.transport.connection import KEEPALIVE_S
from trnfleet.transport.inbox import InboxLimits
from trnfleet.wire.topics import SUBSCRIPTIONS, TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.record.write.live import LiveBuffer
    from trnfleet.services.brokers.merged import RunningSource
    from trnfleet.services.brokers.session import FleetSession
    from trnfleet.wire.ports import Source

QUEUE_MESSAGES = 65_536
"""As many telemetry topics may have their newest message wait; the inbox's bytes bound them, too."""
PROOF_S = 2 * KEEPALIVE_S + 3.0
"""A half-open connection is found after at most two keepalives, and a little for a loop that is busy."""
CHECK_EVERY_S = 0.05
"""Time between two checks whether every chip has reported."""


class LiveMonitor(NamedTuple):
    """A monitor and the source that must run for it."""

    source: RunningSource
    monitor: Monitor


def monitor_fleet(
    session: FleetSession,
    fleet: str,
    *,
    pue: float | None = None,
    rules: Sequence[Rule] = (),
    adopts_alerts: bool = False,
    buffer: LiveBuffer | None = None,
) -> LiveMonitor:
    """Return a monitor of a fleet on a broker, or on several; run both, the source first.

    Args:
        session: The broker, or the brokers.
        fleet: The fleet's name.
        pue: Power usage effectiveness of the site; by default AWS's published one.
        rules: The alert rules to evaluate.
        adopts_alerts: Whether retained alerts of an earlier `watch` count as firing until they are evaluated.
        buffer: Recorder of everything that arrives.
    """
    # The cyclic collector walks all that is kept of a large fleet again and again, for cycles that hardly exist.
    gc.set_threshold(100_000, 20, 100)
    gc.enable()
    root = session.root
    telemetry = build_filter(fleet, TopicClass.TELEMETRY, root).removesuffix("#")
    source = session.source(
        ((build_filter(fleet, topic_class, root), qos) for topic_class, qos in SUBSCRIPTIONS),
        limits=InboxLimits(messages=QUEUE_MESSAGES, newest_of=telemetry),
    )
    tapped: Source = source if buffer is None else TappedSource(source, buffer)
    monitor = Monitor(
        tapped,
        fleet,
        clock=session.clock,
        root=root,
        pue=PUE if pue is None else pue,
        rules=rules,
        adopts_alerts=adopts_alerts,
        proof_s=PROOF_S,
    )
    return LiveMonitor(source, monitor)


async def observe_fleet(
    session: FleetSession,
    fleet: str,
    *,
    wait_s: float,
    pue: float | None = None,
    needs_chips: bool = True,
) -> Monitor:
    """Return a monitor that has observed a fleet until every described chip has reported, or for `wait_s`.

    Args:
        session: The broker, or the brokers.
        fleet: The fleet's name.
        wait_s: Longest time to observe.
        pue: Power usage effectiveness of the site; by default AWS's published one.
        needs_chips: Whether a fleet that has only reservations is refused.

    Raises:
        BrokerError: the broker cannot be reached, or nothing describes the fleet.
    """
    clock = session.clock
    source, monitor = monitor_fleet(session, fleet, pue=pue)
    async with background(source=source.run(), monitor=monitor.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        deadline_s = clock.monotonic_s() + wait_s
        while clock.monotonic_s() < deadline_s:
            await clock.sleep(CHECK_EVERY_S)
            store = monitor.store
            if any(monitor.ingest.topics.undescribed.counts(clock.monotonic_s())):
                # Their descriptors may be on the way.
                continue
            if store.layout.chips and not store.count(Freshness.UNKNOWN) and not store.count(Freshness.STALE):
                break
        monitor.compute()
    if not monitor.store.layout.chips and (needs_chips or not len(monitor.reservations)):
        raise BrokerError(
            f"{session.url}: nothing describes a fleet {fleet!r} within {wait_s:g} s; --wait waits longer"
        )
    return monitor
