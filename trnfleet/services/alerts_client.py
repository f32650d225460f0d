"""Published alerts of a fleet: read once, and acknowledged or silenced by an operator."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.alert import Alert, fingerprint_of
from trnfleet.domain.alerts.matchers import all_match
from trnfleet.domain.alerts.preview import preview
from trnfleet.domain.alerts.silences import Span
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.watches import (
    GONE_S,
    WatchPresence,
    Word,
    receiver_errors,
    word_of,
    word_text,
)
from trnfleet.errors import BrokerError, WireError, nearest
from trnfleet.monitor.alerting.cells import alert_of, unknown_rule
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.problems.cell_watches import CellWatch, are_watched, cells_of, doubts_of
from trnfleet.monitor.problems.problem import NO_PROBLEMS
from trnfleet.monitor.problems.state import problems_of
from trnfleet.monitor.sources.watches import presence_of
from trnfleet.monitor.store.findings import NOTHING
from trnfleet.services.discovery import find_fleet, find_fleets
from trnfleet.services.files.rules import load_rules
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.operator import connect_operator
from trnfleet.services.session import CONNECT_LIMIT_S, QUIET_S, BatchReader
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.wire.alerts import CellAlertMessage
from trnfleet.wire.messages import WatchMessage, decode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.matchers import Matcher
    from trnfleet.domain.alerts.preview import Preview
    from trnfleet.domain.alerts.silences import Ack, Silence
    from trnfleet.domain.alerts.watches import ReceiverErrors
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.problems.problem import Problems
    from trnfleet.services.brokers.session import FleetSession
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.alerts import AlertMessage
    from trnfleet.wire.ports import Envelope, Source

CHECK_EVERY_S = 0.05
"""Time between two checks whether telemetry has arrived."""
HEARTBEAT_LIMIT_S = 12.0
"""Longest wait for a heartbeat of watches whose last one is old or has no time: one interval and a little."""
WITHHELD = (
    "the broker gives retained messages to no subscription with wildcards: alerts, silences and acknowledgements "
    "from before this command began are not known"
)
FIRST_PUBLISH_S = 3.0
"""Age at which a watch has published: it listens for 2 s before."""
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
    """Client ids of the watches that are online."""
    gone: tuple[str, ...] = ()
    """Client ids of those that left a message and are not online: ended by their last will, or without heartbeat."""
    present: tuple[WatchPresence, ...] = ()
    """The watches that are online, in detail."""
    problems: Problems = NO_PROBLEMS
    """The problems that the published alerts make."""
    away: tuple[str, ...] = ()
    """Brokers that could not be reached, while others were: what is there is not known."""
    is_withheld: bool = False
    """Whether the broker withholds retained messages, so that alerts, silences and acknowledgements are unknown, not none."""
    cells: tuple[CellWatch, ...] = ()
    """The cells, on a top broker, with who watches each."""

    @property
    def is_watched(self) -> bool:
        """Whether the alerts are kept up to date: by a watch here, or by one in each cell."""
        return bool(self.watches) or are_watched(self.cells)

    @property
    def is_partly_watched(self) -> bool:
        """Whether a watch keeps some alerts up to date: one here, or one of a cell."""
        return bool(self.watches) or any(each.word.leader is not None for each in self.cells)

    def is_published(self, message: AlertMessage) -> bool:
        """Return whether a watch keeps an alert up to date: one here, or that of its cell."""
        if not isinstance(message, CellAlertMessage):
            return bool(self.watches)
        return any(
            each.cell == message.cell and each.word.leader is not None for each in self.cells
        )

    @property
    def word(self) -> Word:
        """Whose word the published alerts are, and what speaks against it."""
        own = [each for each in self.alerts.values() if not isinstance(each, CellAlertMessage)]
        word = word_of(self.present, sum(each.state == "firing" for each in own))
        return word._replace(doubts=(*word.doubts, *doubts_of(self.cells)))

    def is_unobserved(self, message: AlertMessage) -> bool:
        """Return whether an alert is of a cell that no relay sees at present."""
        cell = message.cell if isinstance(message, CellAlertMessage) else None
        return any(each.cell == cell and not each.is_observed for each in self.cells)

    @property
    def receiver_errors(self) -> ReceiverErrors:
        """What receivers of the watch that leads do not take."""
        return receiver_errors(self.present)

    def name_of(self, fingerprint: str) -> str:
        """Return rule and target of a published alert; empty where there is none."""
        message = self.alerts.get(fingerprint)
        return "" if message is None else f"{message.rule} {message.target}".rstrip()

    @property
    def word_text(self) -> str:
        """Whose word the published alerts are, in a line; empty where no watch leads."""
        leader = self.word.leader
        since_ns = None if leader is None else leader.since_ns
        return word_text(self.word, "" if since_ns is None else format_rfc3339(since_ns))

    @property
    def unwatched_reason(self) -> str:
        """Reason why the state of all alerts is unknown, and what to do; empty while a watch is online, here or in a cell."""
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
        """Return the alerts that a silence matches now; it hides none of cells."""
        return preview(
            matchers, [each for each in map(alert_of, self.alerts.values()) if not each.cell]
        )

    def cells_matched(self, matchers: tuple[Matcher, ...]) -> tuple[str, ...]:
        """Return the cells of alerts that a silence matches here and does not hide: their watches read their own brokers alone."""
        of_cells = [each for each in map(alert_of, self.alerts.values()) if each.cell]
        return tuple(
            sorted(
                {
                    each.cell
                    for each in of_cells
                    if each.is_active and all_match(matchers, each.labels)
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
    return await asyncio.gather(*(_read_alerts(each.session, each.name, wait_s) for each in fleets))


async def _read_alerts(session: FleetSession, fleet: str, wait_s: float) -> FleetAlerts:
    clock, root = session.clock, session.root
    source, monitor = monitor_fleet(session, fleet)
    presence = session.source([(build_filter(fleet, TopicClass.PUBLISHER, root), 1)])
    async with background(source=source.run(), monitor=monitor.run(), presence=presence.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        await presence.wait_connected(CONNECT_LIMIT_S)
        deadline_s = clock.monotonic_s() + wait_s
        publishers = await find_publishers(presence, root, clock)
        # Without a publisher there is no telemetry to wait for, and the wall clock is as good as any.
        while (
            (publishers.has_telemetry or monitor.counts.undescribed)
            and not monitor.counts.messages
            and clock.monotonic_s() < deadline_s
        ):
            await clock.sleep(CHECK_EVERY_S)
        # A watch that has just begun has not published anything yet.
        await clock.sleep(max(0.0, FIRST_PUBLISH_S - publishers.watched_s))
        monitor.compute()
        of_cells, silences = monitor.alerts.cells.firing, monitor.alerts.silences
        own = [
            each
            for each in monitor.ingest.alert_messages.values()
            if each.fingerprint not in of_cells
        ]
        alerts: dict[str, AlertMessage] = {each.fingerprint: each for each in own}
        for message in monitor.ingest.retained[CellAlertMessage].by_key.values():
            shown = of_cells.get(message.fingerprint)
            if shown is None or message.cell == shown.labels["cell"]:
                alerts.setdefault(message.fingerprint, message)
        now_ns = monitor.moment().time_ns
        active = active_of(own, silences, now_ns, of_cells.values())
        return FleetAlerts(
            fleet,
            alerts,
            silences,
            now_ns,
            publishers.watches,
            publishers.gone,
            publishers.present,
            problems_of(monitor, active, findings=NOTHING, now_ns=now_ns),
            tuple(each.broker for each in source.status.parts if not each.connected),
            source.status.withholds_retained,
            cells_of(monitor),
        )


@contextlib.asynccontextmanager
async def open_operator(
    session: BrokerSession, fleet: str, owner: str | None = None
) -> AsyncIterator[OperatorActions]:
    """Yield a connected writer of acknowledgements and silences of a fleet.

    Raises:
        BrokerError: the broker cannot be reached.
        NotConfirmedError: in MQTT 3.1.1, by what is done with it: nothing shows that it was written.
    """
    operator, publisher = connect_operator(session, fleet, owner=owner, reads_back_from=session)
    async with background(operator=publisher.run()):
        await publisher.wait_connected(CONNECT_LIMIT_S)
        yield operator


def find_alert(fleet: FleetAlerts, which: str) -> Alert:
    """Return the alert of a fingerprint, or of a rule and a target.

    Raises:
        BrokerError: no such alert fires. Without a watch every name is accepted.
    """
    firing = {each.fingerprint: each for each in fleet.alerts.values() if each.state == "firing"}
    rule, _, target = which.strip().partition(" ")
    named = fingerprint_of(fleet.name, rule, target.strip())
    message = firing.get(which) or firing.get(named)
    if message is not None:
        return alert_of(message)
    if not fleet.watches and _FINGERPRINT.fullmatch(which):
        return Alert(unknown_rule("alert"), which, which)
    if not fleet.watches and target and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", rule):
        return Alert(unknown_rule(rule), target.strip(), named)
    names = [plain(f"{each.rule} {each.target}".strip()) for each in firing.values()]
    raise BrokerError(f"{which!r} does not fire: {nearest(which, names[:20])}")


def active_of(
    messages: Iterable[AlertMessage],
    silences: Silences,
    now_ns: int,
    of_cells: Iterable[Alert] = (),
) -> list[AlertWithStatus]:
    """Return the published alerts that fire, and those of cells: the worst first, inhibited ones last."""
    alerts = [alert_of(message) for message in messages if message.state == "firing"]
    alerts += of_cells
    active = [AlertWithStatus(alert, silences.status(alert, now_ns)) for alert in alerts]
    return sorted(active, key=_urgency)


def _urgency(held: AlertWithStatus) -> tuple[bool, int, int, str, str]:
    alert = held.alert
    is_inhibited = held.status is AlertStatus.INHIBITED
    return is_inhibited, alert.severity.rank, -(alert.fired_ns or 0), alert.name, alert.target


class PublishedProblems(NamedTuple):
    """Problems, and whether a watch keeps their alerts up to date."""

    problems: Problems
    is_watched: bool
    now_ns: int
    """Monitor time."""
    cell_doubts: tuple[str, ...] = ()
    """Why alerts of cells may not be as they are shown, a line a cell."""


def published_problems(monitor: Monitor) -> PublishedProblems:
    """Return the problems of a fleet that a monitor has observed."""
    now_ns = monitor.moment().time_ns
    now_s = monitor.clock.monotonic_s()
    cells, has_own = cells_of(monitor), bool(monitor.ingest.watches.present(now_s))
    is_watched = has_own or are_watched(cells)
    silences = monitor.alerts.silences
    # Without a watch nobody knows whether a published alert still fires: thresholds of the moment say more.
    messages = monitor.ingest.alert_messages.values() if has_own else ()
    of_cells = monitor.alerts.cells.firing
    own = [each for each in messages if each.fingerprint not in of_cells]
    active = active_of(own, silences, now_ns, of_cells.values())
    rules = load_rules() if is_watched else ()
    problems = problems_of(monitor, active, rules=rules, now_ns=now_ns)
    return PublishedProblems(problems, is_watched, now_ns, doubts_of(cells))


def silence_facts(fleet: FleetAlerts) -> list[dict[str, Any]]:
    """Return the silences that have not expired as JSON values, the first to end in front."""
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
                each.receiver: each.reason
                for each in fleet.receiver_errors.first
                if (each.kind, each.id) == ("silence", silence.id)
            },
            "hides": sum(
                message.state == "firing"
                and silence.covers(message.labels)
                and not isinstance(message, CellAlertMessage)
                for message in fleet.alerts.values()
            ),
        }
        for silence in sorted(fleet.silences.known, key=lambda each: each.ends_ns)
        if silence.span(fleet.now_ns) is not Span.OVER
    ]


class Publishers(NamedTuple):
    """Publishers of a fleet."""

    watches: tuple[str, ...]
    """Client ids of the watches that are online."""
    gone: tuple[str, ...]
    """Client ids of the watches that have left a message and are not online."""
    has_telemetry: bool
    """Whether any other publisher is online."""
    watched_s: float
    """Wall time for which the oldest of the watches has been online; infinite where that is unknown."""
    present: tuple[WatchPresence, ...] = ()
    """The watches that are online, in detail."""


async def find_publishers(presence: Source, root: str, clock: Clock) -> Publishers:
    """Return the publishers; where every watch is in doubt, wait until a heartbeat arrives or is overdue."""
    known: dict[str, WatchMessage] = {}
    heard: dict[str, float] = {}
    """Watches whose heartbeat arrived meanwhile, with the monotonic seconds of it."""
    deadline_s = clock.monotonic_s() + HEARTBEAT_LIMIT_S
    while True:
        reader = BatchReader(
            presence, clock, limit_s=deadline_s - clock.monotonic_s(), quiet_s=QUIET_S
        )
        while batch := await reader.next():
            for envelope in batch:
                _note_presence(envelope, root, known, heard, clock.monotonic_s())
        online = {client: each for client, each in known.items() if each.state == "online"}
        watches = {client: each for client, each in online.items() if each.role == "watch"}
        alive = [
            client
            for client, each in watches.items()
            if client in heard or _is_fresh(each, clock.wall_ns())
        ]
        if alive or not watches or clock.monotonic_s() >= deadline_s:
            break
    since_ns = [_time_ns(watches[client].since) for client in alive]
    return Publishers(
        tuple(sorted(alive)),
        tuple(
            sorted(
                name for name, each in known.items() if each.role == "watch" and name not in alive
            )
        ),
        len(watches) < len(online),
        max(
            (abs(clock.wall_ns() - each) / NS_PER_S for each in since_ns if each is not None),
            default=math.inf,
        ),
        tuple(_presence(watches[client], heard.get(client), clock) for client in sorted(alive)),
    )


def _presence(message: WatchMessage, heard_s: float | None, clock: Clock) -> WatchPresence:
    """Return a watch in detail; without a heartbeat the time in its retained message tells its age."""
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
