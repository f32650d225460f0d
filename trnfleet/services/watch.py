"""The watch service: alerts of a fleet without a terminal, published by the leader among the watches.

Of several watches of a fleet the longest-running one is the leader: it publishes alerts and notifies receivers. The others are on
standby, and one of them takes over when the leader is gone. A watch without a connection is disconnected and publishes nothing;
after it has reconnected it listens for `LISTEN_S` before it takes part in the election.
"""

from __future__ import annotations

import enum
import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import fill, summary
from trnfleet.domain.severity import Severity
from trnfleet.errors import BrokerError, WireError
from trnfleet.export.election import HEARTBEAT_S, Election
from trnfleet.export.notification_log import FiringAlert, NotificationLog, Now
from trnfleet.export.receiver import finished_within
from trnfleet.services.discovery import find_fleet
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import CONNECT_LIMIT_S
from trnfleet.tasks import Ending, background, run_until
from trnfleet.text import plain
from trnfleet.wire.alerts import AlertMessage
from trnfleet.wire.messages import PublisherMessage, WatchMessage, decode_message, encode_message
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.topics import TopicClass, build_filter, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.export.receiver import Receiver
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.session import BrokerSession
    from trnfleet.transport.mqtt import MqttPublisher, MqttSource
    from trnfleet.wire.messages import Message

log = logs.get_logger(__name__)

LISTEN_S = 2.0
"""Time to listen before the first election: for other watches, and for their retained messages."""
CHECK_EVERY_S = 0.1
"""Time between two elections, each of which publishes the changes since the last."""
KEPT_NS = 3_600 * NS_PER_S
"""Age after their end, in the fleet's time, at which acknowledgements and silences are cleared."""
FORGOTTEN_AFTER_S = 900.0
"""Time after which the presence message of a watch that died is cleared."""
LAST_NOTIFICATIONS_S = 1.0
"""Longest wait for receivers at the end by `exit_on`."""
GOODBYE_S = 0.3
LONGEST_LINE = 1_000


class Role(enum.StrEnum):
    """Role of a watch among the watches of its fleet."""

    DISCONNECTED = "disconnected"
    STANDBY = "standby"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The fleet to watch, and when to end."""

    fleet: str | None
    """Name of the fleet; None for the broker's only one."""
    rules: tuple[Rule, ...]
    exit_on: str | None = None
    """Severity of an alert at which the watch ends; None for never."""
    exit_after_s: float | None = None
    """Wall time after which the watch ends; None for never."""


class Outcome(enum.Enum):
    """Outcome of a watch."""

    ENDED = enum.auto()
    FOUND = enum.auto()
    """An alert as severe as `exit_on` fires."""
    BLIND = enum.auto()
    """`exit_on` was given, and no alert could be seen at the end."""


async def watch_fleet(
    session: BrokerSession,
    request: WatchRequest,
    receivers: Sequence[Receiver],
    report: Callable[[str], None],
    on_end: Callable[[Outcome], None],
) -> Outcome:
    """Watch a fleet until a signal, a limit or an alert ends it.

    Args:
        session: The broker.
        request: The fleet, and when to end.
        receivers: Receivers of notifications.
        report: Receives a line for each change of role and for the alert that ends the watch.
        on_end: Called once only connections and threads are left to end.

    Raises:
        BrokerError: the broker cannot be reached, or `exit_on` was given and no alert could be seen at the end.
        ConfigError: the broker has several fleets and none is named.
    """
    clock, ending = session.clock, Ending()
    with ending.on_signals():
        fleet = await find_fleet(session, request.fleet)
        live = monitor_fleet(session, fleet, rules=request.rules, adopts_alerts=True)
        identity = Identity(
            fleet,
            session.root,
            f"trnfleet-watch-{secrets.token_hex(4)}",
            secrets.token_hex(8),
            clock.wall_ns(),
        )
        connections = Connections(
            live.source,
            session.source([(build_filter(fleet, TopicClass.PUBLISHER, session.root), 1)]),
            session.publisher(identity.client, will=identity.presence("offline")),
        )
        service = WatchService(
            identity,
            live.monitor,
            connections,
            NotificationLog(fleet, identity.client, receivers),
            Election(identity.client, identity.since_ns),
            clock=clock,
            exit_on=request.exit_on,
            ending=ending,
            report=report,
        )
        connections.publisher.on_connect(lambda: [identity.presence("online", clock.wall_ns())])
        works = {receiver.name: receiver.run() for receiver in receivers}
        async with background(
            source=live.source.run(),
            monitor=live.monitor.run(),
            presence=connections.presence.run(),
            publisher=connections.publisher.run(),
            **works,
        ):
            for each in (connections.publisher, connections.presence, connections.source):
                await each.wait_connected(CONNECT_LIMIT_S)
            names = ", ".join(receiver.name for receiver in receivers) or "the broker alone"
            report(
                f"watching {fleet} at {session.url}: {len(request.rules)} rules, notifies {names}; ctrl+c ends it"
            )
            await run_until(ending, service.run(request.exit_after_s))
            await service.leave()
            on_end(service.outcome)
    if service.outcome is Outcome.BLIND:
        raise BrokerError(f"--exit-on: no alert could be seen at the end: {service.blind}")
    return service.outcome


class Identity(NamedTuple):
    """Identity of a watch."""

    fleet: str
    root: str
    client: str
    boot: str
    since_ns: int
    """Wall clock at its start."""

    def presence(self, state: Literal["online", "offline"], wall_ns: int | None = None) -> Envelope:
        """Return the presence message; a heartbeat has its time in `wall_ns`, a last will has none."""
        since = format_rfc3339(self.since_ns)
        ts = None if wall_ns is None else format_rfc3339(wall_ns)
        message = WatchMessage(
            client=self.client, state=state, boot=self.boot, role="watch", since=since, ts=ts
        )
        return self.envelope(TopicClass.PUBLISHER, self.client, message)

    def envelope(self, topic_class: Any, path: str, message: Message | None) -> Envelope:
        """Return the retained envelope of a message; None clears the topic."""
        payload = b"" if message is None else encode_message(message)
        topic = build_topic(self.fleet, topic_class, path, self.root)
        return Envelope(topic, payload, qos=1, retain=True, content_type=CONTENT_TYPE_JSON)


class Connections(NamedTuple):
    """Connections of a watch; it takes part in elections only while all are up."""

    source: MqttSource
    presence: MqttSource
    """Presence messages of publishers."""
    publisher: MqttPublisher

    @property
    def are_up(self) -> bool:
        """Whether all are up."""
        return all(each.status.connected for each in self)

    @property
    def connects(self) -> int:
        """Number of connects; it grows with each reconnect."""
        return sum(each.status.connects for each in self)


class WatchService:
    """One watch: its role, the alerts that it publishes as leader, and its end."""

    def __init__(
        self,
        identity: Identity,
        monitor: Monitor,
        connections: Connections,
        notification_log: NotificationLog,
        election: Election,
        *,
        clock: Clock,
        exit_on: str | None,
        ending: Ending,
        report: Callable[[str], None],
    ) -> None:
        """Prepare a watch; the caller runs connections, monitor and receivers.

        Args:
            identity: Its identity.
            monitor: The monitor of the fleet.
            connections: The connections.
            notification_log: The notification log.
            election: The election of the leader.
            clock: The time to go by.
            exit_on: Severity of an alert at which it ends; None for never.
            ending: The request to end.
            report: Receives a line for each change of role and for the alert that ends the watch.
        """
        self.found = False
        """Whether an alert as severe as `exit_on` fires."""
        self.blind = ""
        """Reason why no alert could be seen when its time was over; only set where `exit_on` asks for one."""
        self.role = Role.DISCONNECTED
        """Disconnected until it has listened for `LISTEN_S` on connections that are up."""
        self._identity = identity
        self._monitor = monitor
        self._connections = connections
        self._notification_log = notification_log
        self._election = election
        self._clock = clock
        self._exit_on = None if exit_on is None else Severity(exit_on)
        self._ending = ending
        self._report = report
        self._listening_since_s: float | None = None
        self._connects = 0
        self._leader = ""
        self._tidied_s = -math.inf
        self._gone: dict[str, float] = {}
        """Watches that died and left a presence message, with the time at which that was seen."""
        self._outgoing: list[Envelope] = []
        self._monitor.alerts.listener = lambda _news: self.step()

    @property
    def outcome(self) -> Outcome:
        """Outcome so far."""
        if self.found:
            return Outcome.FOUND
        return Outcome.BLIND if self.blind else Outcome.ENDED

    async def run(self, exit_after_s: float | None = None) -> None:
        """Take part in elections until cancelled or asked to end."""
        async with background(presence_reader=self._read_presence(), elections=self._elect()):
            if exit_after_s is None:
                await self._ending.wait()
            await self._clock.sleep(exit_after_s or 0.0)
            if exit_after_s is not None and self._exit_on is not None and self.role is Role.DISCONNECTED:
                self.blind = next(
                    (each.status.last_error for each in self._connections if not each.status.connected),
                    f"a watch listens for {LISTEN_S:g} s before it sees any",
                )
        self._ending.ask()

    def step(self) -> None:
        """Publish the alerts after an evaluation, and end at one as severe as `exit_on`."""
        if self.role is Role.DISCONNECTED:
            return
        alerts = self._monitor.alerts
        firing = [alert for alert in alerts.active() if alert.fired_ns is not None]
        if self.role is Role.LEADER:
            notification_log, published = self._notification_log, self._monitor.ingest.alert_messages
            now = self._now()
            # Retained alerts may arrive late, behind a large fleet's descriptors.
            notification_log.take_late(published.values(), now)
            notification_log.step(map(self._firing, firing), self._resolved_ns, now)
        if self._exit_on is not None and not self.found:
            worst = next(
                (
                    alert
                    for alert in firing
                    if alert.severity <= self._exit_on and alerts.status(alert) is AlertStatus.FIRING
                ),
                None,
            )
            if worst is not None:
                self.found = True
                self._say(f"{worst.severity.value}: {plain(summary(worst), LONGEST_LINE)}")
                self._ending.ask()

    async def leave(self) -> None:
        """Withdraw from the fleet; where an alert ended the watch, wait for receivers first."""
        until_s = self._clock.monotonic_s() + LAST_NOTIFICATIONS_S
        while self.found and self.role is Role.LEADER and self._clock.monotonic_s() < until_s:
            if not self._notification_log.has_changes and not any(
                each.tally.waiting for each in self._notification_log.receivers
            ):
                break
            await self._publish(GOODBYE_S)
            await self._clock.sleep(CHECK_EVERY_S / 2)
        await self._publish(GOODBYE_S)
        farewell = self._identity.envelope(TopicClass.PUBLISHER, self._identity.client, None)
        # A watch that ends in order leaves no presence message, so that no watch waits for it.
        sent = self._connections.publisher.publish([self._identity.presence("offline"), farewell])
        await finished_within(sent, self._clock, GOODBYE_S)

    async def _read_presence(self) -> None:
        while batch := await self._connections.presence.take():
            for envelope in batch:
                try:
                    client = parse_topic(envelope.topic, self._identity.root).path
                    self._election.take(client, envelope.payload, self._clock.monotonic_s())
                    self._note_gone(client, envelope.payload)
                except WireError as error:
                    log.debug("presence_rejected", topic=envelope.topic[:200], error=str(error))

    def _note_gone(self, client: str, payload: bytes) -> None:
        message = decode_message(payload, PublisherMessage) if payload else None
        if message is not None and message.role == "watch" and message.state == "offline":
            if client in self._gone or len(self._gone) < 1_000:
                self._gone.setdefault(client, self._clock.monotonic_s())
        else:
            self._gone.pop(client, None)

    async def _elect(self) -> None:
        """Update the role, publish changes, and clear outdated retained messages."""
        while True:
            now_s = self._clock.monotonic_s()
            self._choose_role(now_s)
            if now_s - self._tidied_s >= HEARTBEAT_S and self._connections.are_up:
                self._tidied_s = now_s
                self._outgoing.append(self._identity.presence("online", self._clock.wall_ns()))
                if self.role is Role.LEADER:
                    self._outgoing += self._tidy(now_s)
            await self._publish()
            await self._clock.sleep(CHECK_EVERY_S)

    def _choose_role(self, now_s: float) -> None:
        connections = self._connections
        if not connections.are_up or connections.connects != self._connects:
            self._connects = connections.connects
            self._listening_since_s = None
            self._election.reset_heartbeats(now_s)
            if self.role is not Role.DISCONNECTED:
                self.role = Role.DISCONNECTED
                status = connections.source.status
                log.warning("watch_disconnected", broker=status.broker, reason=status.last_error)
                self._say(f"no connection to {status.broker}: no notifications until it is back")
            if not connections.are_up:
                return
        if self._listening_since_s is None:
            self._listening_since_s = now_s
        if (
            now_s - self._listening_since_s < LISTEN_S
            or connections.source.waiting
            or connections.presence.waiting
        ):
            return
        leader = self._election.leader(now_s)
        own = self._identity.client
        role = Role.LEADER if leader == own else Role.STANDBY
        if role is self.role and leader == self._leader:
            return
        if role is Role.LEADER:
            self._notification_log.take_over(self._monitor.ingest.alert_messages.values(), self._now())
        else:
            self._notification_log.end_leadership()
        self.role, self._leader = role, leader
        log.info("watch_role", role=role.value, client=own, leader=leader)
        self._say(f"leader for {self._identity.fleet}" if role is Role.LEADER else f"standby: {leader} leads")

    def _say(self, text: str) -> None:
        self._report(plain(text, LONGEST_LINE))

    def _now(self) -> Now:
        moment, clock = self._monitor.moment(), self._clock
        # Alerts change at whole seconds; their instants are never after this one.
        fleet_ns = max(moment.time_ns, self._monitor.alerts.instant.now_ns)
        return Now(fleet_ns, moment.speed, moment.is_wall, clock.wall_ns(), clock.monotonic_s())

    def _firing(self, alert: Alert) -> FiringAlert:
        status = self._monitor.alerts.status(alert)
        return FiringAlert(
            alert.fingerprint,
            alert.fired_ns or 0,
            is_quiet=status in {AlertStatus.SILENCED, AlertStatus.INHIBITED},
            is_unseen=alert.is_silent,
            urgent=(alert.inhibited_by, alert.is_flapping, alert.cause),
            figures=(alert.revision, alert.fired_ns),
            describe=lambda: describe(alert, self._identity.client),
        )

    def _resolved_ns(self, fingerprint: str) -> int | None:
        alert = self._monitor.alerts.find(fingerprint)
        return None if alert is None else alert.resolved_ns

    async def _publish(self, limit_s: float | None = None) -> None:
        """Publish presence, and as leader the alerts that have changed."""
        if not self._connections.publisher.status.connected:
            return
        outgoing, self._outgoing = self._outgoing, []
        if self.role is Role.LEADER:
            envelope = self._identity.envelope
            outgoing += [
                envelope(TopicClass.ALERT, path, each) for path, each in self._notification_log.take_changes()
            ]
            silences = self._monitor.alerts.silences
            ended, self._notification_log.ended = self._notification_log.ended, []
            outgoing += [envelope(TopicClass.ACK, each, None) for each in ended if silences.has_ack(each)]
        if not outgoing:
            return
        sent = self._connections.publisher.publish(outgoing)
        if limit_s is None:
            await sent
        else:
            await finished_within(sent, self._clock, limit_s)

    def _tidy(self, now_s: float) -> Iterable[Envelope]:
        """Yield messages that clear outdated acknowledgements, silences and presence of dead watches."""
        silences, envelope = self._monitor.alerts.silences, self._identity.envelope
        over_ns = self._monitor.moment().time_ns - KEPT_NS
        for ack in silences.acks:
            if ack.ends_ns <= over_ns:
                yield envelope(TopicClass.ACK, ack.fingerprint, None)
        for silence in silences.known:
            if silence.ends_ns <= over_ns:
                yield envelope(TopicClass.SILENCE, silence.id, None)
        for client, since_s in self._gone.items():
            if now_s - since_s >= FORGOTTEN_AFTER_S:
                yield envelope(TopicClass.PUBLISHER, client, None)


def describe(alert: Alert, client: str) -> AlertMessage:
    """Return the message of a firing alert."""
    rule, value = alert.rule, alert.value
    fired_ns = alert.fired_ns or 0
    return AlertMessage(
        fingerprint=alert.fingerprint,
        rule=alert.name,
        severity=rule.severity,
        state="firing",
        target=alert.target,
        place=alert.place,
        labels=dict(alert.labels),
        summary=summary(alert)[:LONGEST_LINE],
        description=fill(rule.description, alert)[:LONGEST_LINE] if rule.description else "",
        runbook=rule.runbook or "",
        cause=alert.cause[:LONGEST_LINE],
        value=None if value is None or not math.isfinite(value) else value,
        members=alert.members,
        chips=alert.chips,
        since=format_rfc3339(min(alert.since_ns, fired_ns)),
        fired=format_rfc3339(fired_ns),
        inhibited_by=alert.inhibited_by or None,
        flapping=alert.is_flapping,
        times=alert.times,
        watch=client,
    )
