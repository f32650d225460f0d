"""Requests for a broker's retained messages on exact topics.

They are subscribed to for a moment, in batches, at a limited rate. Some brokers send no retained
messages to subscriptions with wildcards (RabbitMQ), and others drop messages beyond a client's
queue (Mosquitto, by default from 1,000 on). An exact subscription gets them from all brokers; later
messages come by the wildcards.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.transport.connection import SUBSCRIBED_AT_ONCE, Connection
from trnfleet.transport.diagnosis import LinkDown, why_ended
from trnfleet.transport.link import SHORT_LONGEST_WAIT_S
from trnfleet.wire.ports import MOST_REFUSED_TOPICS, Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.clock import Clock

log = logs.get_logger(__name__)

MOST_AT_ONCE = 256
"""Filters per SUBSCRIBE: 20 KB, and a quarter of Mosquitto's queue for a client. The first has
`SUBSCRIBED_AT_ONCE`, and each answered one doubles the next: a broker that accepts fewer ends the
connection, and then the last accepted size stays."""
ANSWER_S = 1.0
"""Longest wait for a batch's retained messages. A topic without a retained message is not answered.
"""
GAP_S = 0.1
"""Longest wait between two answers of a batch. A broker with a full queue drops answers, too, and
they are requested again."""
MOST_WAITING = 16_384
"""Irreplaceable messages in the inbox above which the next batch waits. It waits for a second at
most: descriptors must not push out earlier messages. Replaceable telemetry does not count, because
telemetry of undescribed hosts must not delay their descriptors."""


class RetainedRequests:
    """Exact topics of a source still to be requested, or requested without an answer yet."""

    def __init__(self, clock: Clock, status: LinkStatus, keeps: Callable[[int], bool]) -> None:
        """Begin empty.

        Args:
            clock: Paces the batches.
            status: Counts answers, and names refused topics.
            keeps: Returns whether at least a number of irreplaceable messages wait in the inbox.
        """
        self._clock = clock
        self._status = status
        self._keeps = keeps
        self._pending: dict[str, None] = {}
        self._asked: set[str] = set()
        self._connection: Connection | None = None
        self._wake = asyncio.Event()
        self._answered = asyncio.Event()
        self._at_once = SUBSCRIBED_AT_ONCE
        self._most = MOST_AT_ONCE
        self._retained: list[str] = []
        """Topics of the current batch with a retained answer."""
        self._batch = 0
        """Topics of the current batch not refused by the broker."""
        self._subscribed: list[str] = []
        """Topics requested last. They are unsubscribed with the next batch."""

    def add(self, topics: Iterable[str]) -> None:
        """Request topics, each once, after pending ones; they wait for a connection."""
        self._pending.update(dict.fromkeys(topics))
        self._wake.set()

    def use(self, connection: Connection) -> None:
        """Send requests on a new connection, unanswered ones of the former one first."""
        self._connection = connection
        self._subscribed = []
        self._status.refused_topics.clear()
        self._pending = dict.fromkeys(itertools.chain(self._asked, self._pending))
        self._asked.clear()
        self._wake.set()

    def note(self, envelope: Envelope) -> None:
        """Check whether a message is an answer.

        Called for retained messages, and while requests are open.
        """
        is_answer = envelope.topic in self._asked
        if envelope.retain:
            self._status.retained += not is_answer
        if is_answer:
            if envelope.retain:
                self._retained.append(envelope.topic)
            self._asked.discard(envelope.topic)
            if not self._asked:
                self._answered.set()

    @property
    def is_asking(self) -> bool:
        """Whether answers are awaited."""
        return bool(self._asked)

    async def run(self) -> None:
        """Send pending requests, batch after batch, until cancelled."""
        pause_s = 0.0
        while True:
            connection = self._connection
            if not self._pending or connection is None or connection.ended.done():
                self._wake.clear()
                await self._wake.wait()
                continue
            await self._await_room()
            try:
                answers = await self._ask(connection)
                if not self._pending or not answers:
                    await self._leave(connection)
            except LinkDown as down:
                self._give_up(connection, str(down))
                if connection.ended.done():
                    continue
                answers = 0
            # Made-up names cost a broker little.
            pause_s = 0.0 if answers else min(max(2 * pause_s, GAP_S), SHORT_LONGEST_WAIT_S)
            await self._clock.sleep(pause_s)

    async def _await_room(self) -> None:
        for _ in range(round(1.0 / GAP_S)):
            if not self._keeps(MOST_WAITING):
                return
            await self._clock.sleep(GAP_S)

    async def _ask(self, connection: Connection) -> int:
        """Subscribe to a batch, wait for its messages, unsubscribe, and return how many came.

        Raises:
            LinkDown: the connection ended, or the broker did not answer.
        """
        batch = list(itertools.islice(self._pending, self._at_once))
        for topic in batch:
            del self._pending[topic]
        self._asked = set(batch)
        self._retained = []
        self._answered.clear()
        # What telemetry's QoS is suffices: an answer that is lost is asked for again.
        refused, _ = await asyncio.gather(
            connection.subscribe([(topic, 0) for topic in batch], self._at_once),
            self._leave(connection),
        )
        self._subscribed = batch
        self._at_once = min(2 * self._at_once, self._most)
        known = self._status.refused_topics
        known.difference_update(batch)
        if refused:
            known.update(refused[: max(0, MOST_REFUSED_TOPICS - len(known))])
            log.info(
                "retained_request_refused",
                broker=self._status.broker,
                topics=refused[:3],
                count=len(refused),
            )
        self._asked.difference_update(refused)
        self._batch = len(batch) - len(refused)
        if self._asked:
            await self._await_answers(connection)
        if connection.ended.done():
            raise LinkDown(why_ended(connection.ended))
        missing = len(self._asked)
        self._asked.clear()
        if self._retained and not self._status.retained:
            await self._count_withheld(connection)
        return len(batch) - len(refused) - missing

    async def _count_withheld(self, connection: Connection) -> None:
        """Count the answers as withheld if a wildcard brings none of them.

        They may also have been published, and lost, after the subscriptions with wildcards.

        Raises:
            LinkDown: the connection ended, or the broker did not answer.
        """
        if not self._status.withheld:
            wildcard = f"{self._retained[0]}/#"
            refused = await connection.subscribe([(wildcard, 0)])
            for _ in range(round(ANSWER_S / GAP_S)):
                if refused or self._status.retained or connection.ended.done():
                    break
                await self._clock.sleep(GAP_S)
            await connection.unsubscribe([wildcard])
            if refused or self._status.retained:
                return
        self._status.withheld += len(self._retained)

    async def _await_answers(self, connection: Connection) -> None:
        """Wait for all messages of a batch, or until no more come.

        A broker with a full queue drops the rest.
        """
        answered = asyncio.create_task(self._answered.wait(), name="retained-answers")
        try:
            for _ in range(round(ANSWER_S / GAP_S)):
                before = len(self._asked)
                gap = asyncio.create_task(self._clock.sleep(GAP_S), name="retained-gap")
                try:
                    await asyncio.wait(
                        (answered, gap, connection.ended), return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    gap.cancel()
                has_some = len(self._asked) < self._batch
                if (
                    answered.done()
                    or connection.ended.done()
                    or (has_some and len(self._asked) == before)
                ):
                    return
        finally:
            answered.cancel()

    async def _leave(self, connection: Connection) -> None:
        """Unsubscribe from the last batch.

        Raises:
            LinkDown: the connection ended, or the broker did not answer.
        """
        batch = self._subscribed
        self._subscribed = []
        if batch:
            await connection.unsubscribe(batch, self._most)

    def _give_up(self, connection: Connection, why: str) -> None:
        """Retry the requests with smaller batches, on the next connection if this one ended.

        The batch size may have been the reason.
        """
        if self._connection is connection:
            if connection.ended.done():
                self._connection = None
            self._pending = dict.fromkeys(itertools.chain(self._asked, self._pending))
            self._asked.clear()
        self._most = max(self._at_once // 2, SUBSCRIBED_AT_ONCE)
        self._at_once = SUBSCRIBED_AT_ONCE
        log.info(
            "retained_request_failed",
            broker=self._status.broker,
            reason=why,
            next_at_once=self._most,
        )
