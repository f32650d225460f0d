"""A watch without broker, monitor and real time.

Its alerts are set by hand, and a bus in memory is its broker.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from support.memory_bus import MemoryBus
from support.monitor.alert_messages import BEGIN_NS
from support.sim.simulation import Recorder
from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.alerts.status import AlertState
from trnfleet.domain.alerts.watches import NO_ERRORS, ReceiverErrors
from trnfleet.export.election import Election
from trnfleet.export.notification_log import NotificationLog
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.inputs import Instant
from trnfleet.monitor.alerting.store import AlertStore
from trnfleet.monitor.sources.clocks import Moment
from trnfleet.services.watch.identity import Connections, Identity
from trnfleet.services.watch.run import PEERS
from trnfleet.services.watch.service import Role, WatchService
from trnfleet.tasks import Ending
from trnfleet.wire.alerts import AckMessage, AlertMessage, SilenceMessage
from trnfleet.wire.messages import WatchMessage, decode_message, encode_message
from trnfleet.wire.topics import TopicClass, build_filter, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.export.receiver import Receiver
    from trnfleet.wire.ports import Envelope, PublishResult

RULE = Rule.model_validate(
    {
        "name": "down",
        "scope": "publisher",
        "severity": "warning",
        "figure": "state",
        "equals": "x",
        "summary": "{target}",
    }
)


class LoopedRecorder(Recorder):
    """A publisher recording its messages, and passing them to a bus in memory."""

    def __init__(self, clock: ManualClock, bus: MemoryBus, told: dict[str, AlertMessage]) -> None:
        super().__init__(clock)
        self._bus = bus
        self._told = told
        self.is_heard = True
        """Whether what it publishes reaches the bus."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        envelopes = list(batch)
        result = await super().publish(envelopes)
        for envelope in envelopes if self.is_heard else ():
            self._bus.deliver(envelope)
            topic = parse_topic(envelope.topic)
            if topic.topic_class is TopicClass.ALERT:
                self._told.pop(topic.path, None)
                if envelope.payload:
                    self._told[topic.path] = decode_message(envelope.payload, AlertMessage)
        return result


class Bench:
    """A watch with manual alerts on a bus in memory."""

    def __init__(
        self,
        exit_on: str | None = None,
        *,
        client: str = "watch-m",
        beside: Bench | None = None,
        since_ns: int = BEGIN_NS,
        clock: ManualClock | None = None,
        receivers: Sequence[Receiver] = (),
        receiver_errors: Callable[[], ReceiverErrors] = lambda: NO_ERRORS,
    ) -> None:
        if beside is not None:
            clock = beside.clock
        self.clock: ManualClock = clock or ManualClock(BEGIN_NS, 100.0)
        self.bus: MemoryBus = MemoryBus(self.clock) if beside is None else beside.bus
        store = AlertStore("demo")
        self.active = store.active
        self.alerts = Alerts("demo", [RULE], adopts=True, store=store)
        self.told: dict[str, AlertMessage] = {} if beside is None else beside.told
        """What is published."""
        self.ending = Ending()
        self.identity = Identity("demo", "trnfleet", client, f"boot-of-{client}", since_ns)
        self.publisher: Any = LoopedRecorder(self.clock, self.bus, self.told)
        self.peers: Any = self.bus.source([(build_filter("demo", each), 1) for each in PEERS])
        self.peers.connect()
        source = SimpleNamespace(
            status=SimpleNamespace(connected=True, connects=1, broker="b", last_error=""), waiting=0
        )
        self.source: Any = source
        self.election = Election(client, since_ns)
        monitor: Any = SimpleNamespace(
            alerts=self.alerts,
            ingest=SimpleNamespace(alert_messages=self.told),
            moment=lambda: Moment(self.clock.wall_ns(), 1.0, is_wall=True),
        )
        self.lines: list[str] = []
        self.watch = WatchService(
            self.identity,
            monitor,
            Connections(*cast("tuple[Any, Any, Any]", (source, self.peers, self.publisher))),
            NotificationLog("demo", client, receivers),
            self.election,
            clock=self.clock,
            exit_on=exit_on,
            ending=self.ending,
            report=self.lines.append,
            receiver_errors=receiver_errors,
        )

    async def pass_by(self, seconds: float, *firing: str) -> None:
        """Let so much time pass, then evaluate: these targets fire."""
        await self.clock.advance(seconds)
        now_ns = self.clock.wall_ns()
        self.alerts.instant = Instant(now_ns, now_ns)
        for target in firing:
            name = fingerprint_of("demo", "down", target)
            alert = Alert(
                RULE, target, name, state=AlertState.FIRING, since_ns=now_ns, fired_ns=now_ns
            )
            alert.labels = labels_of("demo", RULE, target)
            self.active.setdefault(name, alert)
        for name, alert in list(self.active.items()):
            if alert.target not in firing:
                del self.active[name]
        self.alerts.revision += 1
        assert self.alerts.listener is not None
        self.alerts.listener([])
        await self.clock.advance(0.2)

    def write(self, message: AckMessage | SilenceMessage) -> None:
        """Let an operator write a message: the broker retains it, and the monitor takes it."""
        silences = self.alerts.silences
        envelope = self.identity.envelope
        if isinstance(message, AckMessage):
            silences.put_ack(message)
            self.bus.deliver(envelope(TopicClass.ACK, message.fingerprint, message))
        else:
            silences.put_silence(message)
            self.bus.deliver(envelope(TopicClass.SILENCE, message.id, message))

    def retained(self, topic_class: TopicClass) -> dict[str, bytes]:
        """Return retained payloads of a class, by the end of their topic."""
        return {
            topic.rpartition("/")[2]: each.payload
            for topic, each in self.bus.retained.items()
            if parse_topic(topic).topic_class is topic_class
        }

    def sent(self, topic_class: TopicClass) -> list[Envelope]:
        return [envelope for _, envelope in self.publisher.of(topic_class)]

    def role(self) -> Role:
        return self.watch.role

    def reconnect(self, *, forgets: bool = False) -> None:
        """Lose all connections and restore them.

        With `forgets`, retained messages are lost.
        """
        if forgets:
            self.bus.disconnect()
        self.peers.disconnect()
        self.peers.connect()
        self.source.status.connects += 1

    def states(self) -> list[str]:
        return [
            decode_message(each.payload, AlertMessage).state if each.payload else "cleared"
            for each in self.sent(TopicClass.ALERT)
        ]

    async def say(
        self, client: str, since_s: float, state: str = "online", *, leads: bool | None = None
    ) -> None:
        """Let another watch say something of itself."""
        since = format_rfc3339(BEGIN_NS + round(since_s * NS_PER_S))
        message = msgspec.convert(
            {
                "client": client,
                "state": state,
                "boot": "b",
                "role": "watch",
                "since": since,
                "leads": leads,
            },
            WatchMessage,
        )
        other = self.bus.publisher(client)
        other.connect()
        topic = f"trnfleet/v1/demo/publisher/{client}"
        envelope = self.identity.presence("online")._replace(
            topic=topic, payload=encode_message(message)
        )
        await other.publish([envelope])
        await self.clock.advance(0.2)
