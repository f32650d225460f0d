"""State of other watches and operators, read on a separate connection."""

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
"""Time after which the presence message of a dead watch is cleared."""
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
                    self._take(envelope)
                except WireError as error:
                    log.debug("presence_rejected", topic=envelope.topic[:200], error=str(error))

    def note_session(self, number: int) -> None:
        """Begin a new snapshot where the connection is another one."""
        if number != self._session:
            self._session = number
            self.is_complete = False
            self.operators.reconnect()

    def _take(self, envelope: Envelope) -> None:
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
