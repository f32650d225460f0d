"""What the broker says of other watches and of operators, on a connection of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import WireError
from trnfleet.services.watch.operator_state import OperatorState
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.clock import Clock
    from trnfleet.export.election import Election
    from trnfleet.services.watch.identity import Identity
    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

FORGOTTEN_AFTER_S = 900.0
"""Time after which the presence message of a watch that died is cleared."""
MOST_GONE = 1_000


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
        """Whether all that the broker retains has come in: messages of a connection come in order, and a heartbeat of this
        watch, which is not retained then, has come in after them."""
        self.owes_answer = False
        """Whether a watch has been heard that a heartbeat of this one answers: a new one, or one that listens."""
        self._identity = identity
        self._source = source
        self._election = election
        self._clock = clock
        self._session = 0
        self._gone: dict[str, float] = {}
        """Watches without heartbeat that left a message, with the time at which that was seen."""

    async def read(self) -> None:
        """Read until cancelled."""
        while batch := await self._source.take():
            status = self._source.status
            # Retained messages may come before the connection counts as up.
            self.note_session(status.connects if status.connected else status.connects + 1)
            for envelope in batch:
                try:
                    self._take(envelope)
                except WireError as error:
                    log.debug("presence_rejected", topic=envelope.topic[:200], error=str(error))

    def note_session(self, number: int) -> None:
        """Begin a new snapshot where the connection is another one."""
        if number != self._session:
            self._session, self.is_complete = number, False
            self.operators.reconnect()

    def _take(self, envelope: Envelope) -> None:
        topic = parse_topic(envelope.topic, self._identity.root)
        if topic.topic_class is not TopicClass.PUBLISHER:
            self.operators.take(topic, envelope)
            return
        client, clock = topic.path, self._clock
        if client == self._identity.client:
            self.is_complete = self.is_complete or not envelope.retain
            return
        now_s, wall_ns = clock.monotonic_s(), clock.wall_ns()
        if self._election.take(
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
            if client in self._gone or len(self._gone) < MOST_GONE:
                self._gone.setdefault(client, self._clock.monotonic_s())
        else:
            self._gone.pop(client, None)

    def tidied(self, now_s: float, fleet_ns: int) -> Iterator[Envelope]:
        """Yield messages that clear outdated acknowledgements and silences, and presence of watches that have died.

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
