"""A watch from its connections to its end, and its report to a service manager."""

from __future__ import annotations

import enum
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnfleet.domain.alerts.watches import ReceiverErrors, receiver_error_text
from trnfleet.domain.quantities import counted
from trnfleet.domain.site import DEFAULT_SITE, Site
from trnfleet.errors import BrokerError, TrnfleetError
from trnfleet.export.election import Election
from trnfleet.export.notification_log import NotificationLog
from trnfleet.garbage import collect_garbage
from trnfleet.services.discovery import find_fleet
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.services.watch.identity import Connections, Identity
from trnfleet.services.watch.receivers import Deliveries
from trnfleet.services.watch.service import Role, WatchService
from trnfleet.services.watch.silence_exchange import SilenceExchange, SilenceMode
from trnfleet.systemd import ServiceManager, Work, link_works
from trnfleet.tasks import Ending, background, run_until
from trnfleet.text import LONGEST, plain
from trnfleet.wire.topics import TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.export.alertmanager_silences import AlertmanagerSilences
    from trnfleet.export.receiver import Receiver
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.wire.ports import LinkStatus

PEERS = (TopicClass.PUBLISHER, TopicClass.ACK, TopicClass.SILENCE)


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
    external_url: str = ""
    """Base of the links to alerts; empty for none."""
    runbook_base: str = ""
    """Base page of links to runbooks. Empty for none."""
    silences: SilenceMode = SilenceMode.BOTH
    """Silences to exchange with Alertmanager."""
    site: Site = DEFAULT_SITE
    """Limits, prices and power caps."""


class Outcome(enum.Enum):
    """Outcome of a watch."""

    ENDED = enum.auto()
    FOUND = enum.auto()
    """An alert as severe as `exit_on` fires."""
    BLIND = enum.auto()
    """`exit_on` was given, and no alert could be seen at the end."""
    REFUSED = enum.auto()
    """The broker refuses its writes or reads."""
    UNHEARD = enum.auto()
    """No receiver can be notified."""


async def watch_fleet(
    session: BrokerSession,
    request: WatchRequest,
    receivers: Sequence[Receiver],
    alertmanagers: Sequence[AlertmanagerSilences],
    report: Callable[[str], None],
    on_end: Callable[[Outcome], None],
) -> Outcome:
    """Watch a fleet until a signal, a limit or an alert ends it.

    Args:
        session: The broker.
        request: The fleet, and when to end.
        receivers: Receivers of notifications.
        alertmanagers: The silences of those among them that are Alertmanagers.
        report: Receives a line for each change of role and for the alert that ends the watch.
        on_end: Called once only connections and threads are left to end.

    Raises:
        BrokerError: the broker cannot be reached or does not let a watch write or read, or
            `exit_on` was given and no alert could be seen at the end.
        TrnfleetError: no receiver can be notified.
        ConfigError: the broker has several fleets and none is named.
    """
    clock = session.clock
    ending = Ending()
    manager = ServiceManager(clock)
    with ending.on_signals():
        fleet = await find_fleet(session, request.fleet)
        live = monitor_fleet(
            session, fleet, site=request.site, rules=request.rules, adopts_alerts=True
        )
        client = f"trnfleet-watch-{secrets.token_hex(4)}"
        election = Election(client, clock.wall_ns())
        identity = Identity(
            fleet,
            session.root,
            client,
            secrets.token_hex(8),
            election.since_ns,
            request.external_url,
            request.runbook_base,
        )
        connections = Connections(
            live.source,
            session.source(
                [(build_filter(fleet, topic_class, session.root), 1) for topic_class in PEERS]
            ),
            session.publisher(client, will=identity.presence("offline")),
        )
        service = WatchService(
            identity,
            live.monitor,
            connections,
            NotificationLog(fleet, client, receivers),
            election,
            clock=clock,
            exit_on=request.exit_on,
            ending=ending,
            report=report,
            receiver_errors=lambda: ReceiverErrors.sum(
                [exchange.errors(), *(receiver.errors() for receiver in receivers)]
            ),
        )
        connections.publisher.on_connect(lambda: [identity.presence("online", clock.wall_ns())])
        exchange = SilenceExchange(
            fleet,
            alertmanagers,
            request.silences,
            live.monitor,
            clock=clock,
            leads=lambda: service.leads,
            publish=service.publish,
            report=lambda line: report(plain(line, LONGEST)),
        )
        deliveries = Deliveries(receivers, clock, ending)
        works = {receiver.name: deliveries.run(receiver) for receiver in receivers}
        async with background(
            source=live.source.run(),
            monitor=live.monitor.run(),
            peers=connections.peers.run(),
            publisher=connections.publisher.run(),
            exchange=exchange.run(),
            garbage=collect_garbage(clock),
            **works,
        ):
            for connection in (connections.publisher, connections.peers, connections.source):
                await connection.wait_connected(CONNECT_LIMIT_S)
            _require_telemetry(session, fleet, connections.source.status)
            names = ", ".join(receiver.name for receiver in receivers) or "the broker alone"
            report(
                f"watching {fleet} at {session.url}: {len(request.rules)} rules, notifies {names};"
                " ctrl+c ends it"
            )
            health = WatchHealth(service, live.monitor, connections)
            async with background(service_manager=manager.run(health.works(), health.status)):
                await run_until(ending, service.run(request.exit_after_s))
            await service.leave()
            outcome = Outcome.UNHEARD if deliveries.problem else outcome_of(service)
            on_end(outcome)
    if outcome is Outcome.REFUSED:
        raise BrokerError(f"broker {session.url}: {service.refusal}")
    if outcome is Outcome.UNHEARD:
        raise TrnfleetError(deliveries.problem)
    if outcome is Outcome.BLIND:
        raise BrokerError(f"--exit-on: no alert could be seen at the end: {service.blind}")
    return outcome


def _require_telemetry(session: BrokerSession, fleet: str, link: LinkStatus) -> None:
    """Refuse to watch without telemetry: every chip would count as silent.

    Raises:
        BrokerError: the broker refuses it to this user.
    """
    telemetry = build_filter(fleet, TopicClass.TELEMETRY, session.root)
    if telemetry in link.refused_filters:
        raise BrokerError(f"broker {session.url}: not authorised: a watch has to read {telemetry}")


def outcome_of(service: WatchService) -> Outcome:
    """Return how a watch has ended."""
    if service.found:
        return Outcome.FOUND
    if service.refusal:
        return Outcome.REFUSED
    return Outcome.BLIND if service.blind else Outcome.ENDED


class WatchHealth:
    """The loops and the status of one watch."""

    def __init__(self, service: WatchService, monitor: Monitor, connections: Connections) -> None:
        """Count the monitor's passes from here on."""
        self._service = service
        self._monitor = monitor
        self._connections = connections
        self._passes = 0
        monitor.on_pass.append(self._count_pass)

    def works(self) -> list[Work]:
        """Return the loops: messages, passes, elections with publishing, and connections."""
        source = self._connections.source
        monitor = self._monitor
        service = self._service
        return [
            Work("messages", lambda: monitor.applied_s, lambda: not source.waiting),
            Work("passes", lambda: self._passes),
            Work("elections", lambda: service.elections),
            *_links("telemetry", source.status),
            *_links("peers", self._connections.peers.status),
            *_links("publisher", self._connections.publisher.status),
        ]

    def status(self) -> str:
        """Return role, alerts and a failing receiver, or why there is no connection."""
        service = self._service
        if service.role is Role.DISCONNECTED:
            away = next(
                (
                    connection.status
                    for connection in self._connections
                    if not connection.status.connected
                ),
                None,
            )
            return (
                "listening for other watches"
                if away is None
                else f"no connection: {away.last_error}"
            )
        role = "leader" if service.role is Role.LEADER else f"standby, {service.leader} leads"
        chips = counted(self._monitor.store.layout.chip_count, "chip")
        errors = "".join(
            f"; {receiver_error_text(error)}" for error in service.receiver_errors().first[:1]
        )
        return f"{role}; {chips}, {counted(service.firing, 'firing alert')}{errors}"

    def _count_pass(self) -> None:
        self._passes += 1


def _links(name: str, status: LinkStatus) -> list[Work]:
    return link_works(name, status.parts or (status,))
