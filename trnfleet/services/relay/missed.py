"""Messages cleared in a cell while a relay was disconnected from it.

A broker sends nothing for a topic without a retained message. So after a reconnect each topic not
received again is requested exactly, and one without an answer counts as cleared. Requests go out in
order: a topic known to be retained is requested last, and until its answer nothing is decided. A
topic with a refused subscription is not decided either: its state is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.domain.quantities import counted
from trnfleet.errors import WireError
from trnfleet.services.relay.alerts import SETTLED_S
from trnfleet.services.relay.passed import MOST_AT_ONCE
from trnfleet.text import plain
from trnfleet.wire.ports import MOST_REFUSED_TOPICS, Envelope
from trnfleet.wire.topics import RETAINED, TopicClass, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.record.write.tapped_source import Taker
    from trnfleet.wire.ports import LinkStatus, Source

log = logs.get_logger(__name__)

LOOK_EVERY_S = 1.0
ASKED_AT_ONCE = 1_000
"""Topics requested at once."""
CLEARED_AT_ONCE = MOST_AT_ONCE
"""Topics cleared at once: no more than go out to the top broker together."""
ROUNDS = 2
"""Requests for each topic. A broker with a full queue may lose an answer."""
ANSWER_S = 120.0
"""Longest wait for the answer to the last request. A thousand unanswered ones include pauses of 20
s in all."""
AGAIN_S = 60.0
"""Time until another attempt without a sign of an answer."""
MOST_TOPICS = 200_000
"""Known topics. Each of 62,500 hosts has a descriptor and a presence; there are as many jobs and
alerts as are stored."""


class MissedClearings:
    """The retained topics of a source, and when each has come last."""

    def __init__(self, fleet: str, root: str, clock: Clock) -> None:
        """Begin with none.

        Args:
            fleet: The fleet's name.
            root: First part of the topics.
            clock: The time to go by.
        """
        self._root = root
        self._clock = clock
        self._telemetry = build_topic(fleet, TopicClass.TELEMETRY, "", root)
        self._heard: dict[str, float] = {}
        """Monotonic seconds of each topic's last message."""
        self._proof = ""
        """Topic whose next retained message proves that earlier requests were answered."""
        self._attempts = 0
        self._connects = 0
        """Number of the connection since which nothing was missed."""
        self._told = 0
        """Number of the connection with the last report of unknown topics."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Note received messages."""
        telemetry = self._telemetry
        heard = self._heard
        for envelope in batch:
            topic = envelope.topic
            if topic.startswith(telemetry):
                continue
            if not envelope.payload:
                heard.pop(topic, None)
            elif topic in heard or (len(heard) < MOST_TOPICS and self._is_retained(topic)):
                heard[topic] = envelope.received_s
            if topic == self._proof and envelope.retain:
                self._proof = ""

    def _is_retained(self, topic: str) -> bool:
        try:
            return parse_topic(topic, self._root).topic_class in RETAINED
        except WireError:
            return False

    async def run(
        self,
        source: Source,
        clear: Callable[[list[Envelope]], Awaitable[None]],
        report: Callable[[str], None],
    ) -> None:
        """Look after each reconnect, until cancelled.

        Args:
            source: The source whose batches are taken here.
            clear: Takes an empty message for each topic that was cleared meanwhile, as if it had
                come.
            report: Receives a line, once a connection, where the broker refuses to say what became
                of topics.
        """
        due_s = 0.0
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            status = source.status
            now_s = self._clock.monotonic_s()
            if self._connects == 0:
                self._connects = status.connects
            is_heard = status.connected and now_s - status.changed_s >= SETTLED_S
            if not is_heard or self._connects == status.connects or now_s < due_s:
                continue
            connects = status.connects
            since_s = status.changed_s
            gone = await self._gone(source, since_s)
            self._tell_unknown(source.status, connects, since_s, report)
            if gone is None:
                due_s = self._clock.monotonic_s() + AGAIN_S
                continue
            self._connects = connects
            if gone:
                log.info("relay_missed_clearings", topics=gone[:3], count=len(gone))
            for first in range(0, len(gone), CLEARED_AT_ONCE):
                # While a part goes out, some of the next may have come again.
                part = [
                    topic
                    for topic in gone[first : first + CLEARED_AT_ONCE]
                    if self._is_unheard(topic, since_s)
                ]
                for topic in part:
                    del self._heard[topic]
                now_s = self._clock.monotonic_s()
                if part:
                    await clear(
                        [
                            Envelope(topic, b"", qos=1, retain=True, received_s=now_s)
                            for topic in part
                        ]
                    )

    async def _gone(self, source: Source, since_s: float) -> list[str] | None:
        """Return the topics no longer retained by the broker.

        None if unknown.
        """
        unheard = [topic for topic, at_s in self._heard.items() if at_s < since_s]
        gone: list[str] = []
        if unheard and not self._heard_since(since_s):
            # A broker may give nothing to wildcards: what it has it answers now. Of one that came
            # back empty nothing is answered, and all of a large fleet would be in the way of other
            # requests for an hour: of some each, others the next time.
            step = -(-len(unheard) // ASKED_AT_ONCE)
            source.request_retained(unheard[self._attempts % step :: step])
            self._attempts += 1
            await self._wait(source, lambda: bool(self._heard_since(since_s)))
        for first in range(0, len(unheard), ASKED_AT_ONCE):
            left = unheard[first : first + ASKED_AT_ONCE]
            for _ in range(ROUNDS):
                left = self._unheard(left, since_s)
                left = _without(left, source.status)
                if left and not await self._ask(source, left, since_s):
                    return None
            gone += left
        if any(
            len(connection.refused_topics) >= MOST_REFUSED_TOPICS
            for connection in _connections(source.status)
        ):
            # Some may be missing there.
            return None
        return _without(self._unheard(gone, since_s), source.status)

    def _tell_unknown(
        self, status: LinkStatus, connects: int, since_s: float, report: Callable[[str], None]
    ) -> None:
        """Report and log, once a connection, the number of topics with unknown state."""
        refused = set[str]().union(
            *(connection.refused_topics for connection in _connections(status))
        )
        unknown = self._unheard(refused, since_s)
        if not unknown or self._told == connects:
            return
        self._told = connects
        first = min(unknown)
        log.warning("relay_retained_unknown", topics=sorted(unknown)[:3], count=len(unknown))
        report(
            f"{status.broker} refuses the subscription to {counted(len(unknown), 'retained topic')}"
            f" that did not come again, such as {plain(first)}: what was cleared there meanwhile"
            " stays as last known"
        )

    async def _ask(self, source: Source, topics: list[str], since_s: float) -> bool:
        """Request topics, and return whether the broker has answered them."""
        known = _without(self._heard_since(since_s), source.status)
        if not known:
            return False
        self._attempts += 1
        proof = self._proof = known[self._attempts % len(known)]
        left = self._unheard(topics, since_s)
        source.request_retained([*left, proof])
        is_over = await self._wait(
            source, lambda: not self._proof or not _without([proof], source.status)
        )
        is_proved = is_over and not self._proof
        self._proof = ""
        return is_proved

    async def _wait(self, source: Source, is_so: Callable[[], bool]) -> bool:
        """Wait for a condition on the present connection, for a limited time.

        Return whether it is met.
        """
        connects = source.status.connects
        for _ in range(round(ANSWER_S / LOOK_EVERY_S)):
            await self._clock.sleep(LOOK_EVERY_S)
            if source.status.connects != connects or is_so():
                break
        return source.status.connects == connects and is_so()

    def _heard_since(self, since_s: float) -> list[str]:
        return [topic for topic, at_s in self._heard.items() if at_s >= since_s]

    def _unheard(self, topics: Iterable[str], since_s: float) -> list[str]:
        return [topic for topic in topics if self._is_unheard(topic, since_s)]

    def _is_unheard(self, topic: str, since_s: float) -> bool:
        return self._heard.get(topic, since_s) < since_s


def _connections(status: LinkStatus) -> tuple[LinkStatus, ...]:
    return status.parts or (status,)


def _without(topics: list[str], status: LinkStatus) -> list[str]:
    """Return the topics without refused subscriptions."""
    refused = set[str]().union(*(connection.refused_topics for connection in _connections(status)))
    return [topic for topic in topics if topic not in refused] if refused else topics


class Taps:
    """Several consumers of a source's batches."""

    def __init__(self, *takers: Taker) -> None:
        self._takers = takers

    def take(self, batch: Sequence[Envelope]) -> None:
        """Pass a batch on to each."""
        for taker in self._takers:
            taker.take(batch)
