"""Publisher of one host that lets messages wait on disk while its broker is away."""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING

from trnfleet.services.agent.outbox import first_tick
from trnfleet.tasks import in_thread
from trnfleet.transport.link import LONGEST_WAIT_S
from trnfleet.transport.security import KEEPALIVE_S
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import TopicClass, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trnfleet.clock import Clock
    from trnfleet.services.agent.outbox import Outbox, Queued
    from trnfleet.wire.ports import Publisher

BACKLOG_PER_S = 50
"""Messages of the queue sent a second. A quarter of an hour of frames, one in 5 s, takes 4 s, as
JSON of 16 chips a minute. A thousand hosts send 50,000 messages a second at most."""
UNPROVEN_S = 3 * KEEPALIVE_S
"""Time in which a dead connection is surely found. Telemetry sent on it within that time waits,
too, unless the broker has acknowledged anything sent later."""


class QueuedPublisher:
    """The port `Publisher` with a queue: live values first, then state, events and backlog."""

    def __init__(self, publisher: Publisher, outbox: Outbox, clock: Clock) -> None:
        self._publisher = publisher
        self._outbox = outbox
        self._clock = clock
        self._unproven: deque[tuple[float, Envelope]] = deque()
        """Telemetry of the last `UNPROVEN_S` with the monotonic seconds of its sending."""
        self._connects = 0
        """Number of the connection over which live values were sent."""
        self._begun_s = 0.0
        """Monotonic seconds of the first ones."""
        self._state: list[Queued] = []
        """State that waited when the present connection was announced."""

    @property
    def status(self) -> LinkStatus:
        """Connection state."""
        return self._publisher.status

    def tell_dropped(self) -> Counter[str]:
        """Return the messages given up by class since the last call.

        None while any waits, because there may be more.
        """
        is_over = self.status.connected and not self._outbox.waiting
        return self._outbox.tell_dropped() if is_over else Counter()

    def first_waiting(self, boot: str) -> int | None:
        """Return the number of a boot's oldest tick that waits, or will; None for none."""
        waiting = self._outbox.first_tick(boot)
        unproven = (envelope for _, envelope in self._unproven)
        return first_tick(boot, unproven) if waiting is None else waiting

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set the first messages after every connect; state that waits follows them."""

        def with_waiting() -> Iterator[Envelope]:
            topics = set()
            for envelope in announce():
                topics.add(envelope.topic)
                yield envelope
            self._state = self._outbox.state()
            for row in self._state:
                if row.envelope.topic not in topics:
                    yield row.envelope

        self._publisher.on_connect(with_waiting)

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch, or let it wait.

        A waiting message counts as unsent. An event waits behind earlier ones.
        """
        envelopes = list(batch)
        status = self.status
        if not status.connected:
            await self._wait(envelopes)
            return PublishResult(unsent=len(envelopes))
        if status.connects != self._connects:
            await self._begin(status.connects)
        outbox = self._outbox
        later = []
        if outbox.waiting[TopicClass.EVENT]:
            later = [e for e in envelopes if outbox.class_of(e.topic) == TopicClass.EVENT]
        result = PublishResult(unsent=len(later))
        for envelope in envelopes:
            if envelope in later:
                continue
            sent = await self._publisher.publish([envelope])
            if sent.unsent > sent.refused:
                later.append(envelope)
            elif envelope.qos:
                self._note_answer()
            else:
                self._unproven.append((self._clock.monotonic_s(), envelope))
            result = PublishResult(
                result.sent + sent.sent,
                result.unsent + sent.unsent,
                result.refused + sent.refused,
                result.error or sent.error,
            )
        await self._wait(later)
        return result

    async def run(self) -> None:
        """Send what waits, at a bounded rate, until cancelled."""
        while True:
            await self._clock.sleep(1.0)
            status = self.status
            if status.connected:
                self._forget_proven()
            # Readers of a broker that was away need a while to be back, too.
            is_long = self._clock.monotonic_s() - self._begun_s >= LONGEST_WAIT_S
            if is_long and status.connected and status.connects == self._connects:
                await self._send_waiting()

    async def _wait(self, envelopes: list[Envelope]) -> None:
        """Add messages to the queue, behind telemetry that may not have arrived."""
        if not self.status.connected:
            envelopes = [*(envelope for _, envelope in self._unproven), *envelopes]
            self._unproven.clear()
        if envelopes:
            await in_thread(partial(self._outbox.put, envelopes, self._clock.wall_ns()))

    async def _begin(self, connects: int) -> None:
        """Begin on a new connection: its announcement was acknowledged."""
        if self._connects and self._unproven:
            # It was lost and came back between two batches.
            lost = [envelope for _, envelope in self._unproven]
            self._unproven.clear()
            await in_thread(partial(self._outbox.put, lost, self._clock.wall_ns()))
        self._connects = connects
        self._begun_s = self._clock.monotonic_s()
        rows = await in_thread(self._outbox.state)
        # Some began to wait while the rest was announced.
        result = await self._publisher.publish(
            [row.envelope for row in rows if row not in self._state]
        )
        if rows and result.unsent == result.refused:
            await in_thread(partial(self._outbox.done, rows))

    def _note_answer(self) -> None:
        """Note an acknowledgement: the broker has all that was sent before on its connection."""
        if self.status.connects == self._connects:
            self._unproven.clear()

    def _forget_proven(self) -> None:
        until_s = self._clock.monotonic_s() - UNPROVEN_S
        while self._unproven and self._unproven[0][0] < until_s:
            self._unproven.popleft()

    async def _send_waiting(self) -> None:
        rows = await in_thread(partial(self._outbox.oldest, BACKLOG_PER_S))
        if not rows:
            return
        result = await self._publisher.publish([self._late(row) for row in rows])
        if not result.unsent:
            self._note_answer()
            await in_thread(partial(self._outbox.done, rows))
            return
        # One by one, for what is refused each time must not hold up the others.
        for row in rows:
            connects = self.status.connects
            result = await self._publisher.publish([self._late(row)])
            if not self.status.connected or self.status.connects != connects:
                return
            await in_thread(partial(self._outbox.done, [row], dropped=bool(result.unsent)))

    def _late(self, row: Queued) -> Envelope:
        """Return a message as it is sent late: telemetry as backlog."""
        envelope = row.envelope
        if row.topic_class != TopicClass.TELEMETRY:
            return envelope
        root = self._outbox.root
        topic = parse_topic(envelope.topic, root)
        late = build_topic(topic.fleet, TopicClass.BACKLOG, topic.path, root)
        return envelope._replace(topic=late, qos=1)
