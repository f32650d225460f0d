"""One watch of a fleet: its role, its alerts as leader, and its end.

Every watch evaluates, whatever its role. The leader publishes alerts and notifies receivers. A
standby takes over when the leader is gone. It replaces a leader that does not publish for
`MUTED_S` what fires here, until that one starts again. The replaced one steps back once its
successor publishes all that fires there. A watch without a connection is disconnected and publishes
nothing; after it has reconnected it listens for `LISTEN_S` before it takes part in the election.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import Clock, format_rfc3339
from trnfleet.domain.alerts.links import generator_url, runbook_url
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import fill, summary, title, value_text
from trnfleet.domain.alerts.watches import HEARTBEAT_S, MUTED_S, NO_ERRORS, ReceiverErrors
from trnfleet.domain.quantities import duration
from trnfleet.domain.severity import Severity
from trnfleet.export.election import LISTEN_S, UNHEARD_S, Attendance, Election
from trnfleet.export.notification_log import REFRESHED_EVERY_S, FiringAlert, NotificationLog, Now
from trnfleet.export.receiver import finished_within
from trnfleet.monitor.alerting.lifecycle import UNHEARD
from trnfleet.monitor.alerting.unpublished import Unpublished, notifying
from trnfleet.services.watch.peers import OperatorMessage, Peers
from trnfleet.tasks import POLL_S, Ending, background
from trnfleet.text import LONGEST, plain
from trnfleet.wire.alerts import AckMessage, AlertMessage
from trnfleet.wire.topics import TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.watch.identity import Connections, Identity
    from trnfleet.wire.ports import Envelope, LinkStatus
    from trnfleet.wire.structs import Message

log = logs.get_logger(__name__)

ANSWER_EVERY_S = 1.0
"""Shortest time between two heartbeats, however many newcomers there are."""
LAST_NOTIFICATIONS_S = 1.0
"""Longest wait for receivers at the end by `exit_on`."""
GOODBYE_S = 0.3


class Role(enum.StrEnum):
    """Role of a watch among the watches of its fleet."""

    DISCONNECTED = "disconnected"
    STANDBY = "standby"
    LEADER = "leader"


class WatchService:
    """One watch: its role, the alerts it publishes as leader, and its end."""

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
        receiver_errors: Callable[[], ReceiverErrors] = lambda: NO_ERRORS,
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
            receiver_errors: Returns what receivers do not take at present.
        """
        self.found = False
        """Whether an alert as severe as `exit_on` fires."""
        self.blind = ""
        """Why no alert could be observed before its time was over. Only set if `exit_on` names a
        severity."""
        self.refusal = ""
        """Reason of the broker's refusal of a write or read. It ended the watch."""
        self.role = Role.DISCONNECTED
        """Disconnected until it has listened for `LISTEN_S` on working connections."""
        self._identity = identity
        self._monitor = monitor
        self._connections = connections
        self._notification_log = notification_log
        self._election = election
        self._peers = Peers(identity, connections.peers, election, clock)
        self._unpublished = Unpublished()
        self._clock = clock
        self._exit_on = None if exit_on is None else Severity(exit_on)
        self._ending = ending
        self._report = report
        self.receiver_errors = receiver_errors
        """Returns the present errors of receivers."""
        self._attendance = Attendance()
        self.leader = ""
        self._is_unheard = self._has_taken_part = False
        self._rivals: set[str] = set()
        self._handed: set[str] = set()
        """Alerts firing here that a successor has published and not ended, by fingerprint."""
        self._beat_s = -math.inf
        self._beat_due = False
        """Whether others have to hear something before the next heartbeat."""
        self.firing = self.elections = 0
        """Alerts firing and notified of here, and elections so far."""
        self._errors = NO_ERRORS
        self._outgoing: list[Envelope] = []
        self._connection_rules = {
            rule.name for rule in monitor.alerts.rules if rule.figure == UNHEARD
        }
        self._monitor.alerts.listener = lambda _news: self.step()

    async def run(self, exit_after_s: float | None = None) -> None:
        """Take part in elections until cancelled or asked to end."""
        async with background(peers=self._peers.read(), elections=self._elect()):
            if exit_after_s is None:
                await self._ending.wait()
            await self._clock.sleep(exit_after_s or 0.0)
            if (
                exit_after_s is not None
                and self._exit_on is not None
                and self.role is Role.DISCONNECTED
            ):
                self.blind = next(
                    (
                        connection.status.last_error
                        for connection in self._connections
                        if not connection.status.connected
                    ),
                    f"a watch listens for {LISTEN_S:g} s before it sees any",
                )
        self._ending.ask()

    def step(self) -> None:
        """Publish the alerts after an evaluation, and end at one as severe as `exit_on`."""
        if self.role is Role.DISCONNECTED:
            self._notify_of_connection()
            return
        alerts = self._monitor.alerts
        now_s = self._clock.monotonic_s()
        published = self._monitor.ingest.alert_messages
        self._unpublished.update(alerts, published, now_s)
        firing = [alert for alert in alerts.active() if alert.fired_ns is not None]
        own = [alert.fingerprint for alert in notifying(alerts)]
        self._beat_due = self._beat_due or bool(own) != bool(self.firing)
        self.firing = len(own)
        if self.role is Role.LEADER and self._is_succeeded(own, now_s):
            self._election.step_back(now_s)
        elif self.role is Role.LEADER:
            self._lead(now_s)
        if self._exit_on is not None and not self.found:
            worst = next(
                (
                    alert
                    for alert in firing
                    if alert.severity <= self._exit_on
                    and alerts.status(alert) is AlertStatus.FIRING
                ),
                None,
            )
            if worst is not None:
                self.found = True
                where = f"cell {worst.cell}: " if worst.cell else ""
                self._say(f"{worst.severity.value}: {where}{plain(summary(worst), LONGEST)}")
                self._ending.ask()

    def _is_succeeded(self, own: Sequence[str], now_s: float) -> bool:
        """Return whether a successor publishes all alerts that fire here.

        An alert counts from its first message until its end, because this watch publishes it, too.

        Args:
            own: Alerts that fire here, by fingerprint.
            now_s: Monotonic seconds.
        """
        successors = self._election.successors(now_s)
        if not successors:
            self._handed = set()
            return False
        published = self._monitor.ingest.alert_messages
        firing = {name for name in own if name in published and published[name].state == "firing"}
        self._handed = {
            name for name in firing if name in self._handed or published[name].watch in successors
        }
        publishes = any(message.watch in successors for message in published.values())
        return publishes and len(self._handed) == len(own)

    def _lead(self, now_s: float) -> None:
        """Publish the alerts, and notify receivers."""
        alerts = self._monitor.alerts
        notification_log = self._notification_log
        now = self._now()
        published = self._monitor.ingest.alert_messages
        theirs = self._theirs(now_s)
        # Retained alerts may arrive late, behind a large fleet's descriptors.
        notification_log.take_late(
            (message for name, message in published.items() if name not in theirs), now
        )
        firing = to_publish(alerts, notification_log, theirs)
        notification_log.step(map(self._firing_alert, firing), self._resolved_ns, now)
        overwritten = self._unpublished.missing(alerts, now_s, REFRESHED_EVERY_S).alerts
        notification_log.publish_again(alert.fingerprint for alert in overwritten)

    def _theirs(self, now_s: float) -> set[str]:
        """Return the published alerts that only another leader sees, by fingerprint.

        It ends them itself. A leader that repeated them would seem to see them, and end them.
        """
        rivals = self._election.rivals(now_s)
        return {
            name
            for name, message in self._monitor.ingest.alert_messages.items()
            if message.watch in rivals and not self._monitor.alerts.fires(name)
        }

    def _notify_of_connection(self) -> None:
        """Notify receivers of a lost or restored connection.

        They may be reachable when the broker is not. Only the leader notifies; the alert is
        published once the broker is back.
        """
        if self.leader != self._identity.client:
            return
        alerts = self._monitor.alerts
        only = self._connection_rules
        firing = [
            alert
            for alert in alerts.evaluated()
            if alert.fired_ns is not None and alert.name in only
        ]
        self._notification_log.step(
            map(self._firing_alert, firing), self._resolved_ns, self._now(), only
        )

    @property
    def leads(self) -> bool:
        """Whether it leads and has read all retained acknowledgements and silences."""
        return self.role is Role.LEADER and self._peers.is_complete

    def publish(self, topic_class: TopicClass, name: str, message: Message | None) -> None:
        """Publish a retained message with the next election; None clears its topic."""
        self._outgoing.append(self._identity.envelope(topic_class, name, message))

    async def leave(self) -> None:
        """Withdraw from the fleet; where an alert ended the watch, wait for receivers first."""
        until_s = self._clock.monotonic_s() + LAST_NOTIFICATIONS_S
        while self.found and self.role is Role.LEADER and self._clock.monotonic_s() < until_s:
            if not self._notification_log.has_changes and not any(
                receiver.tally.waiting for receiver in self._notification_log.receivers
            ):
                break
            await self._publish(GOODBYE_S)
            await self._clock.sleep(POLL_S / 2)
        await self._publish(GOODBYE_S)
        farewell = self._identity.envelope(TopicClass.PUBLISHER, self._identity.client, None)
        # A watch that ends in order leaves no presence message, so that no watch waits for it.
        sent = self._connections.publisher.publish([self._identity.presence("offline"), farewell])
        await finished_within(sent, self._clock, GOODBYE_S)

    # The role

    async def _elect(self) -> None:
        """Update the role, publish changes, and clear outdated retained messages."""
        while True:
            now_s = self._clock.monotonic_s()
            self._choose_role(now_s)
            if self._connections.are_up:
                self._beat(now_s)
            if self.role is Role.LEADER:
                self._restore()
            await self._publish()
            refusal = self._connections.publisher.status.last_refusal
            if refusal is not None and not self._ending.asked:
                self.refusal = str(refusal)
                self._ending.ask()
            self.elections += 1
            await self._clock.sleep(POLL_S)

    def _choose_role(self, now_s: float) -> None:
        connections = self._connections
        election = self._election
        attendance = self._attendance
        if attendance.was_away(now_s, is_up=connections.are_up, connects=connections.connects):
            if self.role is not Role.DISCONNECTED:
                self.role = Role.DISCONNECTED
                self._notification_log.lose_connection()
                reason = away_text(connections.source.status, attendance.paused_s)
                log.warning("watch_disconnected", client=self._identity.client, reason=reason)
                self._say(reason)
            if not connections.are_up:
                return
        self._peers.note_session(connections.peers.status.connects)
        if attendance.begins(now_s):
            election.listen(now_s)
            # It asks for the heartbeats of others, and shows when all that is retained has come.
            self._beat_s = -math.inf
        if (
            not attendance.has_listened(now_s)
            or connections.source.waiting
            or connections.peers.waiting
            or not self._hears_itself(now_s)
        ):
            return
        if self.role is Role.DISCONNECTED:
            self._has_taken_part = True
            self._unpublished.reset()
            election.take_part(now_s)
        self._identity.since_ns = election.since_ns
        reason = self._replace_leader(now_s)
        leader = election.leader(now_s)
        own = self._identity.client
        role = Role.LEADER if leader == own else Role.STANDBY
        if role is not self.role or leader != self.leader:
            self._take_role(role, leader, now_s, reason)
        elif role is Role.LEADER:
            self._note_rivals(now_s)

    def _hears_itself(self, now_s: float) -> bool:
        """Return whether its own heartbeat has come back.

        Otherwise it would receive no other watch either, and lead.
        """
        if self._peers.is_complete:
            self._is_unheard = False
            return True
        listening_since_s = self._attendance.listening_since_s
        if not self._is_unheard and now_s - (listening_since_s or now_s) >= UNHEARD_S:
            self._is_unheard = True
            topics = build_filter(self._identity.fleet, TopicClass.PUBLISHER, self._identity.root)
            reason = (
                f"its own heartbeat does not come back within {UNHEARD_S:g} s; a watch has to read"
                f" {topics}"
            )
            log.warning("watch_unheard", client=self._identity.client, reason=reason)
            if self._has_taken_part:
                self._say(f"no notifications: {reason}")
            else:
                self.refusal = reason
                self._ending.ask()
        return False

    def _take_role(self, role: Role, leader: str, now_s: float, reason: str) -> None:
        self._rivals = set(self._election.rivals(now_s))
        if role is Role.LEADER:
            theirs = self._theirs(now_s)
            published = self._monitor.ingest.alert_messages.items()
            self._notification_log.take_over(
                (message for name, message in published if name not in theirs), self._now()
            )
        else:
            self._notification_log.end_leadership(self._now(), self._connection_rules)
        self.role = role
        self.leader = leader
        self._beat_due = True
        log.info(
            "watch_role",
            role=role.value,
            client=self._identity.client,
            leader=leader,
            reason=reason,
        )
        leads = role is Role.LEADER
        words = f"leader for {self._identity.fleet}" if leads else f"standby: {leader} leads"
        self._say(f"{words}: {reason}" if reason else words)

    def _replace_leader(self, now_s: float) -> str:
        """Replace a leader that does not publish the alerts that fire here.

        Return the reason, empty for none. The next in rank, this watch or another, has as long to
        publish them.
        """
        alerts = self._monitor.alerts
        missing = self._unpublished.missing(alerts, now_s, MUTED_S).alerts
        leader = self._election.leader(now_s)
        if self.role is not Role.STANDBY or not missing or leader == self._identity.client:
            return ""
        self._election.replace(leader)
        self._unpublished.reset()
        worst = min(missing, key=lambda alert: alert.severity.rank)
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        return (
            f"{leader} led and did not publish {worst.name} {worst.target}{more} for {MUTED_S:g} s;"
            " it is replaced until it starts again"
        )

    def _note_rivals(self, now_s: float) -> None:
        """Report other watches that begin to claim to lead."""
        rivals = set(self._election.rivals(now_s))
        names = sorted(rivals - self._rivals)
        self._rivals = rivals
        if names:
            log.warning("watch_rival", client=self._identity.client, rivals=", ".join(names[:3]))
            self._say(
                f"{', '.join(names[:3])} also claims to lead {self._identity.fleet}; it"
                " started later or was replaced"
            )

    # Messages

    def _beat(self, now_s: float) -> None:
        """Add a due heartbeat with corrections, and as leader clear outdated messages."""
        passed_s = now_s - self._beat_s
        if self.role is Role.LEADER and passed_s >= ANSWER_EVERY_S:
            former = self._errors
            self._errors = self.receiver_errors()
            self._beat_due = self._beat_due or self._errors != former
        is_regular = passed_s >= HEARTBEAT_S
        if not is_regular and not (
            (self._beat_due or self._peers.owes_answer) and passed_s >= ANSWER_EVERY_S
        ):
            return
        self._beat_s = now_s
        self._beat_due = self._peers.owes_answer = False
        leads = self.role is Role.LEADER
        firing = None if self.role is Role.DISCONNECTED else self.firing
        presence = self._identity.presence
        wall_ns = self._clock.wall_ns()
        self._outgoing.append(
            presence(
                "online",
                wall_ns,
                leads=leads,
                firing=firing,
                errors=self._errors if leads else None,
            )
        )
        if is_regular and self.role is not Role.DISCONNECTED:
            envelope = self._identity.envelope
            for key, message in list(self._peers.operators.overruled()):
                self._outgoing.append(envelope(key.topic_class, key.name, message))
                self._peers.operators.restored(key)
            if leads:
                self._outgoing += self._peers.tidied(now_s, self._monitor.moment().time_ns)

    def _restore(self) -> None:
        """Publish acknowledgements and silences lost by the broker again.

        A leader has read all retained ones.
        """
        operators = self._peers.operators
        count = 0
        for key, message in operators.lost(self._monitor.moment().time_ns, self._is_needed):
            self._outgoing.append(self._identity.envelope(key.topic_class, key.name, message))
            operators.restored(key)
            count += message.withdrawn_until is None
        if count:
            log.info("operator_state_restored", count=count)
            self._say(f"restored {count:,} acknowledgements and silences that the broker had lost")

    def _is_needed(self, message: OperatorMessage) -> bool:
        """Return whether an acknowledgement or a silence still counts.

        An acknowledgement ends with its alert.
        """
        if not isinstance(message, AckMessage):
            return True
        alerts = self._monitor.alerts
        alert = alerts.find(message.fingerprint)
        return (
            alert is not None
            and alert.is_active
            and alerts.silences.ack_of(alert, alerts.instant.now_ns) is not None
        )

    async def _publish(self, limit_s: float | None = None) -> None:
        """Publish presence, and as leader the changed alerts."""
        if not self._connections.publisher.status.connected:
            return
        outgoing = self._outgoing
        self._outgoing = []
        if self.role is Role.LEADER:
            envelope = self._identity.envelope
            outgoing += [
                envelope(TopicClass.ALERT, path, message)
                for path, message in self._notification_log.take_changes()
            ]
            silences = self._monitor.alerts.silences
            ended = self._notification_log.ended
            self._notification_log.ended = []
            outgoing += [
                envelope(TopicClass.ACK, fingerprint, None)
                for fingerprint in ended
                if silences.has_ack(fingerprint)
            ]
        if not outgoing:
            return
        sent = self._connections.publisher.publish(outgoing)
        if limit_s is None:
            await sent
        else:
            await finished_within(sent, self._clock, limit_s)

    def _say(self, text: str) -> None:
        self._report(plain(text, LONGEST))

    def _now(self) -> Now:
        moment = self._monitor.moment()
        clock = self._clock
        # Alerts change at whole seconds; their instants are never after this one.
        fleet_ns = max(moment.time_ns, self._monitor.alerts.instant.now_ns)
        return Now(fleet_ns, moment.speed, moment.is_wall, clock.wall_ns(), clock.monotonic_s())

    def _firing_alert(self, alert: Alert) -> FiringAlert:
        status = self._monitor.alerts.status(alert)
        return FiringAlert(
            alert.fingerprint,
            alert.fired_ns or 0,
            is_quiet=status in {AlertStatus.SILENCED, AlertStatus.INHIBITED},
            is_unseen=alert.is_silent,
            urgent=(alert.inhibited_by, alert.is_flapping, alert.cause),
            figures=(alert.revision, alert.fired_ns),
            describe=lambda: describe(
                alert,
                self._identity.client,
                external_url=self._identity.external_url,
                runbook_base=self._identity.runbook_base,
            ),
        )

    def _resolved_ns(self, fingerprint: str) -> int | None:
        alert = self._monitor.alerts.find(fingerprint)
        return None if alert is None else alert.resolved_ns


def to_publish(
    alerts: Alerts, notification_log: NotificationLog, theirs: Container[str] = ()
) -> list[Alert]:
    """Return the firing alerts for a leader to publish: none of cells or of another leader.

    Their watches notify of them. An alert already notified of here goes on, so that no receiver is
    notified of its end.

    Args:
        alerts: The alerts here.
        notification_log: The alerts published by this watch.
        theirs: Alerts that only another leader sees, by fingerprint.
    """
    return [
        alert
        for alert in alerts.evaluated()
        if alert.fired_ns is not None
        and (
            notification_log.publishes(alert.fingerprint)
            or not (alert.fingerprint in theirs or alerts.is_left_to_cells(alert))
        )
    ]


def describe(
    alert: Alert, client: str, *, external_url: str = "", runbook_base: str = ""
) -> AlertMessage:
    """Return the message of a firing alert.

    Args:
        alert: The alert.
        client: Client id of the watch.
        external_url: Base of the link to the alert; empty for none.
        runbook_base: Page of rules that has an anchor for each; empty for none.
    """
    rule = alert.rule
    value = alert.value
    fired_ns = alert.fired_ns or 0
    return AlertMessage(
        fingerprint=alert.fingerprint,
        rule=alert.name,
        severity=rule.severity,
        state="firing",
        target=alert.target,
        place=alert.place,
        rack=alert.rack,
        worst=alert.worst,
        subsystem=alert.subsystem,
        figure=alert.figure,
        labels=dict(alert.labels),
        summary=summary(alert)[:LONGEST],
        title=title(alert)[:LONGEST],
        description=fill(rule.description, alert)[:LONGEST] if rule.description else "",
        runbook=rule.runbook or "",
        runbook_url=rule.runbook_url or runbook_url(runbook_base, rule.name),
        generator_url=generator_url(external_url, alert.labels),
        cause=alert.cause[:LONGEST],
        value=None if value is None or not math.isfinite(value) else value,
        value_text=value_text(rule, value, alert.text)[:LONGEST],
        members=alert.members,
        chips=alert.chips,
        since=format_rfc3339(min(alert.since_ns, fired_ns)),
        fired=format_rfc3339(fired_ns),
        inhibited_by=alert.inhibited_by or None,
        flapping=alert.is_flapping,
        times=alert.times,
        watch=client,
    )


def away_text(link: LinkStatus, paused_s: float) -> str:
    """Return why a watch publishes nothing at present.

    Args:
        link: Its connection.
        paused_s: Time for which it did not run; 0 if it was not paused.
    """
    if link.connected and paused_s:
        return f"did not run for {duration(paused_s)}: listens for other watches first"
    because = f": {link.last_error}" if link.last_error else ""
    return f"no connection to {link.broker}{because}; only that is notified until it is back"
