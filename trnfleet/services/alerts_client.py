"""Published alerts of a fleet: read once, and acknowledged or silenced by an operator."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.clock import NS_PER_S, Clock, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, named
from trnfleet.domain.alerts.matchers import Matcher, all_match, matchers_for
from trnfleet.domain.alerts.reach import Known, Preview, preview
from trnfleet.domain.alerts.silences import Ack, Silence, Span
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.watches import (
    DOUBT_S,
    GONE_S,
    ReceiverErrors,
    WatchPresence,
    Word,
    receiver_errors,
    word_of,
    word_text,
)
from trnfleet.errors import BrokerError, WireError, nearest
from trnfleet.monitor.alerting.cells import alert_of, unknown_rule
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.problems.problem import NO_PROBLEMS, Problems
from trnfleet.monitor.problems.state import known_of, problems_of
from trnfleet.monitor.problems.uncovered import CellWatch, are_watched, cells_of, doubts_of
from trnfleet.monitor.sources.watches import presence_of
from trnfleet.monitor.store.findings import NOTHING
from trnfleet.services.discovery import find_fleet, find_fleets
from trnfleet.services.files.rules import load_rules
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.operator import connect_operator
from trnfleet.services.session import CONNECT_LIMIT_S, QUIET_S, BatchReader, BrokerSession
from trnfleet.tasks import POLL_S, background
from trnfleet.text import plain
from trnfleet.wire.alerts import AlertMessage, CellAlertMessage
from trnfleet.wire.messages import WatchMessage, decode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.brokers import FleetSession
    from trnfleet.wire.ports import Envelope, LinkStatus, Source

WITHHELD = (
    "alerts, silences and acknowledgements are not known: the broker sent no retained message to a "
    "subscription with wildcards, which some (RabbitMQ) never do"
)
FIRST_PUBLISH_S = 3.0
"""Age at which a watch has published. It listens for 2 s first."""
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


class FleetAlerts(NamedTuple):
    """Alerts of a fleet as its watch published them, with acknowledgements and silences."""

    name: str
    """The fleet's name."""
    alerts: dict[str, AlertMessage]
    """Published alerts by fingerprint."""
    silences: Silences
    now_ns: int
    """The fleet's time."""
    watches: tuple[str, ...]
    """Client ids of the online watches."""
    gone: tuple[str, ...] = ()
    """Client ids of former watches with a message: last will sent, or no heartbeat."""
    present: tuple[WatchPresence, ...] = ()
    """The online watches, in detail."""
    problems: Problems = NO_PROBLEMS
    """The problems from the published alerts."""
    away: tuple[str, ...] = ()
    """Brokers out of reach while others answered. Their alerts are unknown."""
    is_withheld: bool = False
    """Whether no retained message arrived. Alerts, silences and acknowledgements are then unknown,
    not empty."""
    cells: tuple[CellWatch, ...] = ()
    """The cells, on a top broker, with the watches of each."""
    known: Known | None = None
    """Possible subjects of alerts. None if not read."""

    @property
    def is_watched(self) -> bool:
        """Whether the alerts are up to date: watched here, or in each cell."""
        return not self.is_withheld and (bool(self.watches) or are_watched(self.cells))

    @property
    def is_partly_watched(self) -> bool:
        """Whether some alerts are up to date: a watch runs here, or in a cell."""
        is_heard = bool(self.watches) or any(cell.word.leader is not None for cell in self.cells)
        return is_heard and not self.is_withheld

    def is_published(self, message: AlertMessage) -> bool:
        """Return whether a watch updates an alert: one here, or its cell's."""
        if self.is_withheld:
            return False
        if not isinstance(message, CellAlertMessage):
            return bool(self.watches)
        return any(
            place.cell == message.cell and place.word.leader is not None for place in self.cells
        )

    @property
    def word(self) -> Word:
        """The watch behind the published alerts, and reasons to doubt it."""
        if self.is_withheld:
            return Word(None)
        own = [
            message for message in self.alerts.values() if not isinstance(message, CellAlertMessage)
        ]
        word = word_of(self.present, sum(message.state == "firing" for message in own))
        return word._replace(doubts=(*word.doubts, *doubts_of(self.cells)))

    def is_unobserved(self, message: AlertMessage) -> bool:
        """Return whether an alert's cell is observed by no relay at present."""
        cell = message.cell if isinstance(message, CellAlertMessage) else None
        return any(place.cell == cell and not place.is_observed for place in self.cells)

    @property
    def receiver_errors(self) -> ReceiverErrors:
        """Errors of the leading watch's receivers."""
        return receiver_errors(self.present)

    def name_of(self, fingerprint: str) -> str:
        """Return rule and target of a published alert.

        Empty if unknown.
        """
        message = self.alerts.get(fingerprint)
        return "" if message is None else f"{message.rule} {message.target}".rstrip()

    @property
    def word_text(self) -> str:
        """The source of the published alerts in one line.

        Empty if no watch leads.
        """
        leader = self.word.leader
        since_ns = None if leader is None else leader.since_ns
        return word_text(self.word, "" if since_ns is None else format_rfc3339(since_ns))

    @property
    def unwatched_reason(self) -> str:
        """Why the state of all alerts is unknown, and what to do.

        Empty while a watch is online, here or in a cell.
        """
        if self.is_partly_watched:
            return ""
        if self.is_withheld:
            return WITHHELD
        named = ", ".join(self.gone[:3])
        gone = f" ({named} {'has' if len(self.gone) == 1 else 'have'} gone)" if self.gone else ""
        where = " on the broker of each cell" if self.cells else ""
        return (
            f"no watch publishes alerts of fleet {self.name}{gone}; start `trnfleet watch`{where}"
        )

    def status(self, message: AlertMessage) -> AlertStatus:
        """Return the status of an alert: unhandled, acknowledged, silenced or inhibited."""
        return self.silences.status(alert_of(message), self.now_ns)

    def ack_of(self, message: AlertMessage) -> Ack | None:
        """Return the acknowledgement of an alert."""
        return self.silences.ack_of(alert_of(message), self.now_ns)

    def silences_of(self, message: AlertMessage) -> list[Silence]:
        """Return the silences that hide an alert."""
        return self.silences.silences_of(alert_of(message), self.now_ns)

    def preview(self, matchers: tuple[Matcher, ...]) -> Preview:
        """Return the effect of a silence.

        It hides no alerts of cells.
        """
        own = [alert for alert in map(alert_of, self.alerts.values()) if not alert.cell]
        known = self.known or Known(self.name, ())
        return preview(matchers, dataclasses.replace(known, rules=load_rules(), alerts=own))

    def cells_matched(self, matchers: tuple[Matcher, ...]) -> tuple[str, ...]:
        """Return the cells whose alerts a silence matches here but does not hide.

        The watches of cells read only their own brokers.
        """
        of_cells = [alert for alert in map(alert_of, self.alerts.values()) if alert.cell]
        return tuple(
            sorted(
                {
                    alert.cell
                    for alert in of_cells
                    if alert.is_active and all_match(matchers, alert.labels)
                }
            )
        )


async def read_alerts(session: BrokerSession, name: str | None, *, wait_s: float) -> FleetAlerts:
    """Return the retained alerts of a fleet, with the fleet's time.

    Args:
        session: The broker.
        name: The fleet's name; None for the broker's only one.
        wait_s: Longest wait for telemetry, which carries the time of a simulated fleet.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: the broker has several fleets and none is named.
    """
    return await _read_alerts(session, await find_fleet(session, name), wait_s)


async def read_alerts_of_fleets(
    sessions: Sequence[BrokerSession], names: Sequence[str], *, takes_all: bool, wait_s: float
) -> list[FleetAlerts]:
    """Return the retained alerts of some fleets, each on all brokers, with the fleets' times.

    Args:
        sessions: The brokers.
        names: The fleets' names; none for the only one that there is.
        takes_all: Whether all fleets are read that there are.
        wait_s: Longest wait for telemetry, which carries the time of a simulated fleet.

    Raises:
        BrokerError: no broker can be reached, or none has a fleet.
        ConfigError: there are several fleets and no name.
    """
    fleets = await find_fleets(sessions, names, takes_all=takes_all)
    return await asyncio.gather(
        *(_read_alerts(fleet.session, fleet.name, wait_s) for fleet in fleets)
    )


async def _read_alerts(session: FleetSession, fleet: str, wait_s: float) -> FleetAlerts:
    clock = session.clock
    root = session.root
    source, monitor = monitor_fleet(session, fleet)
    presence = session.source([(build_filter(fleet, TopicClass.PUBLISHER, root), 1)])
    async with background(source=source.run(), monitor=monitor.run(), presence=presence.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        await presence.wait_connected(CONNECT_LIMIT_S)
        deadline_s = clock.monotonic_s() + wait_s
        publishers = await find_publishers(presence, root, clock)
        # Without a publisher there is no telemetry to wait for, and the wall clock is as good as
        # any.
        while clock.monotonic_s() < deadline_s and (
            not (_has_retained(source.status) or source.status.withholds_retained)
            or (
                (publishers.has_telemetry or monitor.counts.undescribed)
                and not monitor.counts.messages
            )
        ):
            await clock.sleep(POLL_S)
        # A watch that has just begun has not published anything yet.
        await clock.sleep(max(0.0, FIRST_PUBLISH_S - publishers.watched_s))
        monitor.compute()
        of_cells = monitor.alerts.cells.firing
        silences = monitor.alerts.silences
        own = [
            message
            for message in monitor.ingest.alert_messages.values()
            if message.fingerprint not in of_cells
        ]
        alerts: dict[str, AlertMessage] = {message.fingerprint: message for message in own}
        for message in monitor.ingest.retained[CellAlertMessage].by_key.values():
            shown = of_cells.get(message.fingerprint)
            if shown is None or message.cell == shown.labels["cell"]:
                alerts.setdefault(message.fingerprint, message)
        now_ns = monitor.moment().time_ns
        active = active_of(own, silences, now_ns, of_cells.values())
        is_withheld = not _has_retained(source.status)
        return FleetAlerts(
            fleet,
            alerts,
            silences,
            now_ns,
            publishers.watches,
            publishers.gone,
            publishers.present,
            problems_of(monitor, active, findings=NOTHING, now_ns=now_ns),
            tuple(part.broker for part in source.status.parts if not part.connected),
            is_withheld,
            cells_of(monitor),
            known_of(
                monitor, (), (), is_complete=not is_withheld and not monitor.counts.undescribed
            ),
        )


def _has_retained(status: LinkStatus) -> bool:
    """Return whether every reachable broker sent retained messages to a wildcard subscription."""
    parts = [part for part in status.parts or (status,) if part.connected]
    return all(part.retained for part in parts)


@contextlib.asynccontextmanager
async def open_operator(
    session: BrokerSession, fleet: str, owner: str | None = None
) -> AsyncIterator[OperatorActions]:
    """Yield a connected writer of acknowledgements and silences of a fleet.

    Raises:
        BrokerError: the broker cannot be reached.
        NotConfirmedError: in MQTT 3.1.1, by what is done with it: nothing shows that it was
            written.
    """
    operator, publisher = connect_operator(session, fleet, owner=owner, reads_back_from=session)
    async with background(operator=publisher.run()):
        await publisher.wait_connected(CONNECT_LIMIT_S)
        yield operator


def find_alert(fleet: FleetAlerts, which: str) -> Alert:
    """Return the firing alert with an id, rule, place, or rule and place.

    Raises:
        BrokerError: no such alert fires, or several do. Without a watch every name is accepted.
    """
    firing = [alert_of(message) for message in fleet.alerts.values() if message.state == "firing"]
    matching = named(which, firing)
    if len(matching) > 1:
        some = ", ".join(
            plain(f"{alert.fingerprint} {alert.name} {alert.target}", 200) for alert in matching[:5]
        )
        more = f" and {len(matching) - 5:,} more" if len(matching) > 5 else ""
        raise BrokerError(f"{which!r} names {len(matching):,} alerts: {some}{more}; give an id")
    if matching:
        return matching[0]
    rule, _, target = which.strip().partition(" ")
    is_watched = bool(fleet.watches) and not fleet.is_withheld
    if not is_watched and _FINGERPRINT.fullmatch(which):
        return Alert(unknown_rule("alert"), which, which)
    if not is_watched and target and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", rule):
        target = target.strip()
        return Alert(unknown_rule(rule), target, fingerprint_of(fleet.name, rule, target))
    names = [plain(f"{alert.name} {alert.target}".strip()) for alert in firing]
    raise BrokerError(f"{which!r} does not fire: {nearest(which, names[:20])}")


def matchers_of(fleet: FleetAlerts, which: str) -> tuple[Matcher, ...]:
    """Return matchers for the named alert and for no other firing one.

    Raises:
        BrokerError: no such alert fires, or several do.
    """
    alert = find_alert(fleet, which)
    others = [
        message.labels
        for message in fleet.alerts.values()
        if message.state == "firing" and message.fingerprint != alert.fingerprint
    ]
    return matchers_for([alert.labels], others)


def active_of(
    messages: Iterable[AlertMessage],
    silences: Silences,
    now_ns: int,
    of_cells: Iterable[Alert] = (),
) -> list[AlertWithStatus]:
    """Return the firing published alerts and those of cells.

    The worst come first, inhibited ones last.
    """
    alerts = [alert_of(message) for message in messages if message.state == "firing"]
    alerts += of_cells
    active = [AlertWithStatus(alert, silences.status(alert, now_ns)) for alert in alerts]
    return sorted(active, key=_urgency)


def _urgency(held: AlertWithStatus) -> tuple[bool, int, int, str, str]:
    alert = held.alert
    is_inhibited = held.status is AlertStatus.INHIBITED
    return is_inhibited, alert.severity.rank, -(alert.fired_ns or 0), alert.name, alert.target


class PublishedProblems(NamedTuple):
    """Problems, and whether a watch updates their alerts."""

    problems: Problems
    is_watched: bool
    now_ns: int
    """Monitor time."""
    cell_doubts: tuple[str, ...] = ()
    """Why alerts of cells may not be as they are shown, a line a cell."""


def published_problems(monitor: Monitor) -> PublishedProblems:
    """Return the problems of an observed fleet."""
    now_ns = monitor.moment().time_ns
    now_s = monitor.clock.monotonic_s()
    cells = cells_of(monitor)
    has_own = bool(monitor.ingest.watches.present(now_s)) and not monitor.link.withholds_retained
    is_watched = has_own or are_watched(cells)
    silences = monitor.alerts.silences
    # Without a watch nobody knows whether a published alert still fires: thresholds of the moment
    # say more.
    messages = monitor.ingest.alert_messages.values() if has_own else ()
    of_cells = monitor.alerts.cells.firing
    own = [message for message in messages if message.fingerprint not in of_cells]
    active = active_of(own, silences, now_ns, of_cells.values())
    rules = load_rules() if is_watched else ()
    problems = problems_of(monitor, active, rules=rules, now_ns=now_ns)
    return PublishedProblems(problems, is_watched, now_ns, doubts_of(cells))


def silence_facts(fleet: FleetAlerts) -> list[dict[str, Any]] | None:
    """Return the unexpired silences as JSON values, by end time.

    None if unknown.
    """
    if fleet.is_withheld:
        return None
    return [
        {
            "id": silence.id,
            "matchers": [str(matcher) for matcher in silence.matchers],
            "state": silence.span(fleet.now_ns).value,
            "starts": format_rfc3339(silence.starts_ns),
            "until": format_rfc3339(silence.ends_ns),
            "who": silence.who,
            "why": silence.why,
            "source": silence.source,
            "not_applied": silence.not_applied,
            "refused": {
                error.receiver: error.reason
                for error in fleet.receiver_errors.first
                if (error.kind, error.id) == ("silence", silence.id)
            },
            "hides": sum(
                message.state == "firing"
                and silence.covers(message.labels)
                and not isinstance(message, CellAlertMessage)
                for message in fleet.alerts.values()
            ),
        }
        for silence in sorted(fleet.silences.known, key=lambda silence: silence.ends_ns)
        if silence.span(fleet.now_ns) is not Span.OVER
    ]


class Publishers(NamedTuple):
    """Publishers of a fleet."""

    watches: tuple[str, ...]
    """Client ids of the online watches."""
    gone: tuple[str, ...]
    """Client ids of watches with a message but not online."""
    has_telemetry: bool
    """Whether any other publisher is online."""
    watched_s: float
    """Wall time since the oldest watch came online. Infinite if unknown."""
    present: tuple[WatchPresence, ...] = ()
    """The online watches, in detail."""


async def find_publishers(presence: Source, root: str, clock: Clock) -> Publishers:
    """Return the publishers.

    If every watch is in doubt, wait until a heartbeat arrives or is overdue.
    """
    known: dict[str, WatchMessage] = {}
    heard: dict[str, float] = {}
    """Monotonic seconds of the heartbeats received meanwhile, by watch."""
    deadline_s = clock.monotonic_s() + DOUBT_S
    while True:
        reader = BatchReader(
            presence, clock, limit_s=deadline_s - clock.monotonic_s(), quiet_s=QUIET_S
        )
        while batch := await reader.next():
            for envelope in batch:
                _note_presence(envelope, root, known, heard, clock.monotonic_s())
        online = {
            client: presence for client, presence in known.items() if presence.state == "online"
        }
        watches = {
            client: presence for client, presence in online.items() if presence.role == "watch"
        }
        alive = [
            client
            for client, presence in watches.items()
            if client in heard or _is_fresh(presence, clock.wall_ns())
        ]
        if alive or not watches or clock.monotonic_s() >= deadline_s:
            break
    since_ns = [_time_ns(watches[client].since) for client in alive]
    return Publishers(
        tuple(sorted(alive)),
        tuple(
            sorted(
                name
                for name, presence in known.items()
                if presence.role == "watch" and name not in alive
            )
        ),
        len(watches) < len(online),
        max(
            (
                abs(clock.wall_ns() - began_ns) / NS_PER_S
                for began_ns in since_ns
                if began_ns is not None
            ),
            default=math.inf,
        ),
        tuple(_presence(watches[client], heard.get(client), clock) for client in sorted(alive)),
    )


def _presence(message: WatchMessage, heard_s: float | None, clock: Clock) -> WatchPresence:
    """Return a watch in detail.

    Without a heartbeat, its age follows from the time in its retained message.
    """
    ts_ns = _time_ns(message.ts)
    age_s = None if ts_ns is None else abs(clock.wall_ns() - ts_ns) / NS_PER_S
    if heard_s is not None:
        age_s = clock.monotonic_s() - heard_s
    return presence_of(message, age_s)


def _note_presence(
    envelope: Envelope,
    root: str,
    known: dict[str, WatchMessage],
    heard: dict[str, float],
    now_s: float,
) -> None:
    try:
        client = parse_topic(envelope.topic, root).path
        message = decode_message(envelope.payload, WatchMessage) if envelope.payload else None
    except WireError:
        return
    if message is None or message.client != client:
        known.pop(client, None)
        return
    known[client] = message
    if not envelope.retain:
        heard[client] = now_s


def _is_fresh(message: WatchMessage, wall_ns: int) -> bool:
    """Return whether the heartbeat in a retained message is recent."""
    ts_ns = _time_ns(message.ts)
    return ts_ns is not None and abs(wall_ns - ts_ns) < GONE_S * NS_PER_S


def _time_ns(text: str | None) -> int | None:
    try:
        return None if text is None else parse_rfc3339(text)
    except (ValueError, OverflowError):
        return None
