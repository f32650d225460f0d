"""Identity of a watch at the broker, and its connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from trnfleet.clock import format_rfc3339
from trnfleet.text import plain
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import ReceiverErrorSpec, WatchMessage, encode_message
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.domain.alerts.watches import ReceiverError, ReceiverErrors
    from trnfleet.services.brokers import RunningSource
    from trnfleet.transport.mqtt import MqttPublisher, MqttSource
    from trnfleet.wire.structs import Message


@dataclass(slots=True)
class Identity:
    """Identity of a watch."""

    fleet: str
    root: str
    client: str
    boot: str
    since_ns: int
    """Wall clock at its start. Later if it found a leader, to rank behind it."""
    external_url: str = ""
    """Base of the links to alerts; empty for none."""
    runbook_base: str = ""
    """Base page of links to runbooks. Empty for none."""

    def presence(
        self,
        state: Literal["online", "offline"],
        wall_ns: int | None = None,
        *,
        leads: bool = False,
        firing: int | None = None,
        errors: ReceiverErrors | None = None,
    ) -> Envelope:
        """Return the presence message.

        A heartbeat has its time in `wall_ns`; a last will has none.
        """
        message = WatchMessage(
            client=self.client,
            state=state,
            boot=self.boot,
            role="watch",
            since=format_rfc3339(self.since_ns),
            ts=None if wall_ns is None else format_rfc3339(wall_ns),
            leads=leads,
            firing=firing,
            errors=None if errors is None else errors.total,
            receiver_errors=() if errors is None else tuple(map(_spec, errors.first)),
        )
        return self.envelope(TopicClass.PUBLISHER, self.client, message)

    def envelope(self, topic_class: Any, path: str, message: Message | None) -> Envelope:
        """Return the retained envelope of a message; None clears the topic."""
        payload = b"" if message is None else encode_message(message)
        topic = build_topic(self.fleet, topic_class, path, self.root)
        return Envelope(topic, payload, qos=1, retain=True, content_type=CONTENT_TYPE_JSON)


def _spec(error: ReceiverError) -> ReceiverErrorSpec:
    """Return an error in wire form: a receiver's answer may be long."""
    receiver = plain(error.receiver, 64)
    kind = plain(error.kind, 32)
    return ReceiverErrorSpec(
        receiver=receiver,
        kind=kind,
        id=plain(error.id, 64),
        reason=plain(error.reason, DEFAULT_LIMITS.text_chars),
    )


class Connections(NamedTuple):
    """Connections of a watch; it takes part in elections only while all are up."""

    source: RunningSource
    peers: MqttSource
    """Presence, acknowledgements and silences: few messages, not delayed by telemetry."""
    publisher: MqttPublisher

    @property
    def are_up(self) -> bool:
        """Whether all are up."""
        return all(connection.status.connected for connection in self)

    @property
    def connects(self) -> int:
        """Number of connects; it grows with each reconnect."""
        return sum(connection.status.connects for connection in self)
