"""Acknowledgements and silences at the broker, and other watches, on a separate connection.

A broker without persistence forgets acknowledgements and silences when it restarts. The leading
watch restores them once all retained messages have arrived, so that nothing later is overwritten.
Withdrawals are stored like the others, and count as later than the messages they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock, parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.monitor.alerting.silences import edition_of
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import Topic, TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnfleet.export.election import Election
    from trnfleet.services.watch.identity import Identity
    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

FORGOTTEN_AFTER_S = 900.0
"""Time after which the presence message of a dead watch is cleared."""
KEPT_NS = 3_600 * NS_PER_S
"""Age after their end, in the fleet's time, at which they are cleared."""
OperatorMessage = AckMessage | SilenceMessage
_MODELS: dict[TopicClass, type[AckMessage | SilenceMessage]] = {
    TopicClass.ACK: AckMessage,
    TopicClass.SILENCE: SilenceMessage,
}
MOST_HELD = DEFAULT_LIMITS.alerts + DEFAULT_LIMITS.silences
"""Stored messages: as many as a monitor stores."""


class Peers:
    """The reader of presence, acknowledgements and silences."""

    def __init__(
        self, identity: Identity, source: MqttSource, election: Election, clock: Clock
    ) -> None:
        """Prepare the reader; the caller runs the source.

        Args:
            identity: This watch.
            source: The connection.
            election: Gets the presence of other watches.
            clock: The time to go by.
        """
        self.operators = OperatorState()
        self.is_complete = False
        """Whether all retained messages have arrived. Messages of a connection come in order, and
        this watch's heartbeat, not retained then, has arrived after them."""
        self.owes_answer = False
        """Whether to answer a watch with a heartbeat: it is new, or listens."""
        self._identity = identity
        self._source = source
        self._election = election
        self._clock = clock
        self._session = 0
        self._gone: dict[str, float] = {}
        """Watches with a message but no heartbeat, with the time of detection."""

    async def read(self) -> None:
        """Read until cancelled."""
        while batch := await self._source.take():
            status = self._source.status
            # Retained messages may come before the connection counts as up.
            self.note_session(status.connects if status.connected else status.connects + 1)
            for envelope in batch:
                try:
                    self._note(envelope)
                except WireError as error:
                    log.debug("presence_rejected", topic=envelope.topic[:200], error=str(error))

    def note_session(self, number: int) -> None:
        """Begin a new snapshot where the connection is another one."""
        if number != self._session:
            self._session = number
            self.is_complete = False
            self.operators.reconnect()

    def _note(self, envelope: Envelope) -> None:
        topic = parse_topic(envelope.topic, self._identity.root)
        if topic.topic_class is not TopicClass.PUBLISHER:
            self.operators.take(topic, envelope)
            return
        client = topic.path
        clock = self._clock
        if client == self._identity.client:
            self.is_complete = self.is_complete or not envelope.retain
            return
        now_s = clock.monotonic_s()
        wall_ns = clock.wall_ns()
        if self._election.hear(
            client, envelope.payload, now_s, wall_ns, is_retained=envelope.retain
        ):
            self.owes_answer = True
        self._note_gone(client, envelope)

    def _note_gone(self, client: str, envelope: Envelope) -> None:
        message = decode_message(envelope.payload, PublisherMessage) if envelope.payload else None
        if (
            message is not None
            and message.role == "watch"
            and (message.state == "offline" or envelope.retain)
        ):
            if client in self._gone or len(self._gone) < DEFAULT_LIMITS.watches:
                self._gone.setdefault(client, self._clock.monotonic_s())
        else:
            self._gone.pop(client, None)

    def tidied(self, now_s: float, fleet_ns: int) -> Iterator[Envelope]:
        """Yield messages to clear outdated acks and silences, and dead watches' presence.

        Args:
            now_s: Monotonic seconds.
            fleet_ns: The fleet's time.
        """
        envelope = self._identity.envelope
        for key in self.operators.outdated(fleet_ns):
            yield envelope(key.topic_class, key.name, None)
        for client, since_s in self._gone.items():
            if now_s - since_s >= FORGOTTEN_AFTER_S:
                yield envelope(TopicClass.PUBLISHER, client, None)


class Key(NamedTuple):
    """Topic of a message."""

    topic_class: TopicClass
    name: str


class OperatorState:
    """The newest message of each acknowledgement and silence of a fleet, over all connections."""

    def __init__(self) -> None:
        self._held: dict[Key, OperatorMessage] = {}
        self._present: set[Key] = set()
        """Messages received from the broker since the last connect."""
        self._overruled: set[Key] = set()
        """Withdrawals overwritten since by something older."""

    def reconnect(self) -> None:
        """Forget the broker's state: it may be lost."""
        self._present.clear()

    def take(self, topic: Topic, envelope: Envelope) -> None:
        """Note a message of a topic.

        Raises:
            WireError: it is invalid, or there are too many.
        """
        key = Key(topic.topic_class, topic.path)
        self._overruled.discard(key)
        if not envelope.payload:
            self._held.pop(key, None)
            self._present.discard(key)
            return
        message = decode_message(envelope.payload, _MODELS[key.topic_class])
        if (message.id if isinstance(message, SilenceMessage) else message.fingerprint) != key.name:
            raise WireError("the message's name is not its topic's")
        held = self._held.get(key)
        if held is None and len(self._held) >= MOST_HELD:
            raise WireError(f"more than {MOST_HELD} acknowledgements and silences")
        if (
            held is not None
            and held != message
            and not edition_of(held).is_replaced_by(edition_of(message))
        ):
            # Somebody has published again what was ended meanwhile.
            self._present.discard(key)
            if held.withdrawn_until is not None:
                self._overruled.add(key)
            return
        self._held[key] = message
        self._present.add(key)

    def lost(
        self, now_ns: int, is_needed: Callable[[OperatorMessage], bool]
    ) -> Iterator[tuple[Key, OperatorMessage]]:
        """Yield unexpired messages missing on the broker.

        Args:
            now_ns: Monitor time.
            is_needed: Returns whether a message still has a meaning, if not withdrawn.
        """
        for key, message in self._held.items():
            if key in self._present or end_ns(message) <= now_ns:
                continue
            if message.withdrawn_until is not None or is_needed(message):
                yield key, message

    def overruled(self) -> Iterator[tuple[Key, OperatorMessage]]:
        """Yield withdrawals that were overwritten by something older.

        Every watch corrects them, leader or not.
        """
        for key in self._overruled:
            if key in self._held:
                yield key, self._held[key]

    def outdated(self, now_ns: int) -> Iterator[Key]:
        """Yield the broker's messages that ended long ago."""
        for key in self._present:
            if end_ns(self._held[key]) <= now_ns - KEPT_NS:
                yield key

    def restored(self, key: Key) -> None:
        """Note that a message was published again."""
        self._present.add(key)
        self._overruled.discard(key)


def end_ns(message: OperatorMessage) -> int:
    """Return the end of an acknowledgement or a silence.

    For a withdrawn one, the end it would have had.
    """
    return parse_rfc3339(message.withdrawn_until or message.until)
