"""A monitor of a fleet on a broker, with its source."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.site import DEFAULT_SITE, Site
from trnfleet.errors import BrokerError
from trnfleet.garbage import THRESHOLDS
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.store.history import History
from trnfleet.record.write.tapped_source import Taker, TappedSource
from trnfleet.services.discovery import FoundFleet, find_fleets
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.tasks import POLL_S, background
from trnfleet.transport.inbox import InboxLimits
from trnfleet.transport.security import KEEPALIVE_S
from trnfleet.wire.topics import SUBSCRIPTIONS, TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.reachability.pipeline_reader import Recorder
    from trnfleet.services.brokers import FleetSession, RunningSource
    from trnfleet.wire.ports import Source

QUEUE_MESSAGES = 65_536
"""Most telemetry topics with a waiting message. The inbox's bytes limit them, too."""
PROOF_S = 2 * KEEPALIVE_S + 3.0
"""Two keepalives reveal a half-open connection. The rest is for a busy loop."""


class LiveMonitor(NamedTuple):
    """A monitor and its source, to be run together."""

    source: RunningSource
    monitor: Monitor


def monitor_fleet(
    session: FleetSession,
    fleet: str,
    *,
    site: Site = DEFAULT_SITE,
    rules: Sequence[Rule] = (),
    adopts_alerts: bool = False,
    tap: Taker | None = None,
    recorder: Recorder | None = None,
    has_charts: bool = False,
    kind: type[Monitor] = Monitor,
    subscriptions: Sequence[tuple[TopicClass, int]] = SUBSCRIPTIONS,
) -> LiveMonitor:
    """Return a monitor of a fleet on one or several brokers.

    Run both, the source first.

    Args:
        session: The broker, or the brokers.
        fleet: The fleet's name.
        site: Facts and limits that a person sets.
        rules: The alert rules to evaluate.
        adopts_alerts: Whether retained alerts of an earlier `watch` count as firing until they are
            evaluated.
        tap: Receives everything that arrives, before the monitor has it; None for nobody.
        recorder: Of which the monitor says when it keeps nothing more; None for none.
        has_charts: Whether samples are kept for charts, up to 80 MiB.
        kind: The monitor's class.
        subscriptions: The classes of topics subscribed to, with their QoS.
    """
    # The cyclic collector walks all that is kept of a large fleet again and again, for cycles that
    # hardly exist.
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    root = session.root
    telemetry = build_filter(fleet, TopicClass.TELEMETRY, root).removesuffix("#")
    source = session.source(
        ((build_filter(fleet, topic_class, root), qos) for topic_class, qos in subscriptions),
        limits=InboxLimits(messages=QUEUE_MESSAGES, newest_of=telemetry),
        reads_figures=True,
    )
    tapped: Source = source if tap is None else TappedSource(source, tap)
    monitor = kind(
        tapped,
        fleet,
        clock=session.clock,
        root=root,
        site=site,
        rules=rules,
        adopts_alerts=adopts_alerts,
        proof_s=PROOF_S,
        recorder=recorder,
        history=None if has_charts else History(0),
    )
    return LiveMonitor(source, monitor)


class BrokerState(NamedTuple):
    """The connection to one broker of a fleet, at the end of an observation."""

    broker: str
    """Its address without a password."""
    connected: bool
    error: str
    """Reason why it is not connected; empty where it is."""


class Observation(NamedTuple):
    """The observed state of a fleet."""

    fleet: str
    brokers: tuple[BrokerState, ...]
    monitor: Monitor | None
    """None where nothing describes the fleet, or none of its brokers can be reached."""
    error: BrokerError | None = None
    """The reason then."""


async def observe_fleets(
    sessions: Sequence[BrokerSession],
    names: Sequence[str],
    *,
    takes_all: bool = False,
    wait_s: float,
    watch_s: float = 0.0,
    site: Site = DEFAULT_SITE,
    needs_chips: bool = True,
) -> list[Observation]:
    """Observe several fleets at once and return the results.

    Each fleet is observed until every described chip has reported, or for `wait_s`; and at least
    for `watch_s`.

    Args:
        sessions: The brokers.
        names: The fleets' names; none for the only one that there is.
        takes_all: Whether all fleets are observed that there are.
        wait_s: Longest time to wait for chips.
        watch_s: Time to observe in any case, for figures that add up over time.
        site: Facts and limits that a person sets.
        needs_chips: Whether a fleet that has only reservations is refused.

    Raises:
        BrokerError: no broker can be reached, or nothing describes any of the fleets.
        ConfigError: there are several fleets and no name.
    """
    fleets = await find_fleets(sessions, names, takes_all=takes_all, wait_s=wait_s)
    seen = await asyncio.gather(
        *(
            _observe(fleet, wait_s=wait_s, watch_s=watch_s, site=site, needs_chips=needs_chips)
            for fleet in fleets
        )
    )
    failed = [observation.error for observation in seen if observation.error is not None]
    if len(failed) == len(seen):
        raise failed[0]
    return seen


async def _observe(
    fleet: FoundFleet, *, wait_s: float, watch_s: float, site: Site, needs_chips: bool
) -> Observation:
    session = fleet.session
    clock = session.clock
    source, monitor = monitor_fleet(session, fleet.name, site=site)
    brokers: tuple[BrokerState, ...] = ()
    try:
        async with background(source=source.run(), monitor=monitor.run()):
            try:
                await source.wait_connected(CONNECT_LIMIT_S)
                since_s = clock.monotonic_s()
                while clock.monotonic_s() < since_s + wait_s and not _is_complete(monitor, since_s):
                    await clock.sleep(POLL_S)
                await clock.sleep(max(0.0, since_s + watch_s - clock.monotonic_s()))
                monitor.compute()
                # Its connections are judged while they stand.
                monitor.pipeline()
            finally:
                links = source.status.parts or (source.status,)
                brokers = tuple(
                    BrokerState(
                        link.broker, link.connected, "" if link.connected else link.last_error
                    )
                    for link in links
                )
    except BrokerError as error:
        return Observation(fleet.name, brokers, None, error)
    if not monitor.store.layout.chips and (needs_chips or not len(monitor.reservations)):
        why = f"{session.url}: nothing describes a fleet {fleet.name!r} within {wait_s:g} s; "
        why += fleet.unknown or "--wait waits longer"
        return Observation(fleet.name, brokers, None, BrokerError(why))
    return Observation(fleet.name, brokers, monitor)


def _is_complete(monitor: Monitor, since_s: float) -> bool:
    """Return whether every described chip has reported, and nothing is left to wait for.

    That is a descriptor on the way, or whether two publishers contest a path: one that is online
    and describes nothing may be the other.
    """
    store = monitor.store
    ingest = monitor.ingest
    now_s = monitor.clock.monotonic_s()
    return (
        store.layout.chips > 0
        and not any(ingest.topics.undescribed.counts(now_s))
        and not store.count(Freshness.UNKNOWN)
        and not store.count(Freshness.STALE)
        and not ingest.contests.is_open(now_s)
        and not (ingest.publishers.has_idle() and now_s - since_s < 2 * float(store.period_s.max()))
    )
