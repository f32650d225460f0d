"""What a relay passes on of its cell as it is: jobs, reservations, events and the presence of publishers.

Retained messages are kept, also on standby, for a top broker that has not got them from this relay, and so are the topics of those that
were cleared.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from trnfleet.errors import WireError
from trnfleet.wire.messages import WatchMessage, decode_message, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import RETAINED, TopicClass, parse_topic, presence_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.services.relay.role import RelayIdentity

PASSED_ON = (
    TopicClass.PUBLISHER,
    TopicClass.JOB,
    TopicClass.RESERVATION,
    TopicClass.EVENT,
)
"""Classes whose messages go to the top broker as they are, but for the presence of watches."""
MOST_KEPT_BYTES = 256 * 2**20
"""Memory of the retained messages that are published again after a reconnect."""
EVENTS_KEPT_S = 10.0
"""Age of the events that a relay publishes when it takes over: longer than it takes to find out that another is gone."""
MOST_EVENTS = 1_000
CLEARED_KEPT_S = 60.0
"""Time after which a relay on standby takes for published what was cleared in the cell: the active one has not lost its connection by then."""
MOST_CLEARED = 20_000
"""Topics that were cleared and are kept: as many as a monitor keeps jobs."""
MOST_WATCHES = 1_000
"""Watches whose presence is passed on, as many as a monitor of the cell keeps: of more it is not."""
ENTRY_BYTES = 300
"""Memory of a message that is kept, beside its topic and payload: measured."""
MOST_AT_ONCE = 1_000
"""Messages that go out together at most: a heartbeat that waits for more would be late, and another relay would take over."""


class PassedMessages:
    """The messages of one cell."""

    def __init__(self, identity: RelayIdentity) -> None:
        self._identity = identity
        self._kept: dict[str, Envelope] = {}
        """The newest retained message of each topic that was passed on."""
        self._kept_bytes = 0
        self.has_all = True
        """Whether all that the cell retains and is passed on has been kept."""
        self._owed: deque[str] = deque()
        """Topics of those that it has yet to publish since it became active."""
        self._watches: set[str] = set()
        """Clients of the cell that have announced themselves as watches."""
        self._watches_on_top: set[str] = set()
        """Those of which the top broker has a message below the cell's name, as far as this relay has heard."""
        self._events: deque[tuple[float, Envelope]] = deque(maxlen=MOST_EVENTS)
        """The last events, with the monotonic seconds at which they came: nobody knows whether the relay before passed them on."""
        self._cleared: OrderedDict[str, float] = OrderedDict()
        """Topics that were cleared in the cell and may not be on the top, with the monotonic seconds of that, the oldest first."""

    def take(self, batch: Iterable[Envelope], now_s: float) -> list[Envelope]:
        """Take messages of the cell, and return them as the top broker gets them."""
        passed = [self._passed(each) for each in batch]
        sent = [each for each in passed if each is not None]
        for each in sent:
            self._note(each, now_s)
        return sent

    def _note(self, passed: Envelope, now_s: float) -> None:
        """Keep an event, and the topic of what is cleared, of which there may be more than are kept: the oldest are forgotten."""
        if not passed.retain:
            self._events.append((now_s, passed))
            return
        self._cleared.pop(passed.topic, None)
        if not passed.payload:
            self._cleared[passed.topic] = now_s
            if len(self._cleared) > MOST_CLEARED:
                self._cleared.popitem(last=False)

    @property
    def topics(self) -> Iterable[str]:
        """Topics of what the cell retains, as the top broker gets it."""
        return self._kept.keys()

    def begin(self, now_s: float) -> list[Envelope]:
        """Owe the top broker what was cleared and all that is retained; return the last events."""
        self._owed = deque([*self._cleared, *self._kept])
        return [each for at_s, each in self._events if at_s >= now_s - EVENTS_KEPT_S]

    def next_owed(self) -> list[Envelope]:
        """Return a part of what is owed, each as it is now."""
        part: list[Envelope] = []
        while self._owed and len(part) < MOST_AT_ONCE:
            topic = self._owed.popleft()
            kept = self._kept.get(topic)
            if kept is not None:
                part.append(kept)
            elif topic in self._cleared:
                part.append(Envelope(topic, b"", qos=1, retain=True))
        return part

    def note_published(self, part: Iterable[Envelope]) -> None:
        """Note what the top broker has got of this relay: what is cleared there is owed no more."""
        for each in part:
            if each.retain and not each.payload:
                self._cleared.pop(each.topic, None)

    def note_other(self, now_s: float) -> None:
        """Note that another relay is active, which has published what was cleared a while ago."""
        while self._cleared and next(iter(self._cleared.values())) < now_s - CLEARED_KEPT_S:
            self._cleared.popitem(last=False)

    def note_top(self, client: str, payload: bytes) -> None:
        """Note a presence message that the top broker has below the cell's name, by which relay it may be."""
        is_watch = bool(payload) and decode_message(payload, WatchMessage).role == "watch"
        if not is_watch:
            self._watches_on_top.discard(client)
        elif len(self._watches_on_top) < MOST_WATCHES:
            self._watches_on_top.add(client)

    def left_watches(self) -> list[Envelope]:
        """Return what clears the presence of watches that only the top broker has: they ended while no relay ran."""
        left = sorted(self._watches_on_top - self._watches)
        self._watches_on_top.difference_update(left)
        cell, topic = self._identity.cell, self._identity.topic
        topics = [topic(TopicClass.PUBLISHER, presence_path(client, cell)) for client in left]
        return [Envelope(each, b"", qos=1, retain=True) for each in topics]

    def _passed(self, envelope: Envelope) -> Envelope | None:
        """Return a message as the top broker gets it; None for one that is not passed on."""
        try:
            topic = parse_topic(envelope.topic, self._identity.root)
        except WireError:
            return None
        if topic.fleet != self._identity.fleet or topic.topic_class not in PASSED_ON:
            return None
        is_state = topic.topic_class in RETAINED
        passed = Envelope(
            envelope.topic,
            envelope.payload,
            qos=1,
            retain=is_state,
            content_type=envelope.content_type,
        )
        if topic.topic_class is TopicClass.PUBLISHER:
            try:
                passed = self._watch_passed(topic.path, passed)
            except WireError:
                return None
        if is_state:
            before = self._kept.pop(passed.topic, None)
            self._kept_bytes -= 0 if before is None else _memory_bytes(before)
            if passed.payload:
                if self._kept_bytes + _memory_bytes(passed) <= MOST_KEPT_BYTES:
                    self._kept[passed.topic] = passed
                    self._kept_bytes += _memory_bytes(passed)
                else:
                    self.has_all = False
        return passed

    def _watch_passed(self, client: str, passed: Envelope) -> Envelope:
        """Return a presence message with its cell where it is a watch's, which would be taken for one of the top broker's."""
        if "/" in client:
            return passed
        if passed.payload:
            message = decode_message(passed.payload, WatchMessage)
            self._watches.discard(client)
            if message.role != "watch":
                return passed
            if len(self._watches) >= MOST_WATCHES:
                raise WireError(f"more than {MOST_WATCHES} watches")
            self._watches.add(client)
            passed = passed._replace(
                payload=encode_message(message.model_copy(update={"cell": self._identity.cell}))
            )
        path = presence_path(client, self._identity.cell if client in self._watches else None)
        if not passed.payload:
            self._watches.discard(client)
        return passed._replace(topic=self._identity.topic(TopicClass.PUBLISHER, path))


def _memory_bytes(message: Envelope) -> int:
    return ENTRY_BYTES + len(message.topic) + len(message.payload)
