"""What was cleared in a cell while a relay did not hear it.

A broker says nothing of a topic that it does not retain any more. So after a reconnect each topic that has not come again is asked for
exactly, and one that the broker does not answer is taken for cleared. Requests go out in order: a topic that is known to be retained is asked
for last, and until that is answered nothing is taken for anything. Nor is a topic whose subscription the broker refuses: whether it retains
that is not known.
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
"""Topics that are asked for in one go."""
CLEARED_AT_ONCE = MOST_AT_ONCE
"""Topics that are cleared in one go: no more than go out to the top broker together."""
ROUNDS = 2
"""Times that a topic is asked for: of a broker whose queue is full, an answer may be lost."""
ANSWER_S = 120.0
"""Longest wait for an answer to the last of them: between a thousand that nothing answers are pauses of 20 s in all."""
AGAIN_S = 60.0
"""Time until another attempt, where nothing showed that the broker answers."""
MOST_TOPICS = 200_000
"""Topics that are known: the descriptor and the presence of each of 62,500 hosts, and as many jobs and alerts as are kept."""


class MissedClearings:
    """The retained topics of a source, and when each has come last."""

    def __init__(self, fleet: str, root: str, clock: Clock) -> None:
        """Begin with none.

        Args:
            fleet: The fleet's name.
            root: First part of the topics.
            clock: The time to go by.
        """
        self._root, self._clock = root, clock
        self._telemetry = build_topic(fleet, TopicClass.TELEMETRY, "", root)
        self._heard: dict[str, float] = {}
        """Monotonic seconds at which each has come last."""
        self._proof = ""
        """Topic of which the next retained message shows that what was asked for before it has been answered."""
        self._attempts = 0
        self._connects = 0
        """Number of the connection since which nothing was missed."""
        self._told = 0
        """Number of the connection on which it was reported last that topics are unknown."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Note what has come."""
        telemetry, heard = self._telemetry, self._heard
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
            clear: Takes an empty message for each topic that was cleared meanwhile, as if it had come.
            report: Receives a line, once a connection, where the broker refuses to say what became of topics.
        """
        due_s = 0.0
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            status, now_s = source.status, self._clock.monotonic_s()
            if self._connects == 0:
                self._connects = status.connects
            is_heard = status.connected and now_s - status.changed_s >= SETTLED_S
            if not is_heard or self._connects == status.connects or now_s < due_s:
                continue
            connects, since_s = status.connects, status.changed_s
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
                        [Envelope(each, b"", qos=1, retain=True, received_s=now_s) for each in part]
                    )

    async def _gone(self, source: Source, since_s: float) -> list[str] | None:
        """Return the topics that the broker retains no more; None where that does not show."""
        unheard = [topic for topic, at_s in self._heard.items() if at_s < since_s]
        gone: list[str] = []
        if unheard and not self._heard_since(since_s):
            # A broker may give nothing to wildcards: what it has it answers now. Of one that came back empty nothing is answered, and
            # all of a large fleet would be in the way of other requests for an hour: of some each, others the next time.
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
            len(each.refused_topics) >= MOST_REFUSED_TOPICS for each in _connections(source.status)
        ):
            # Some may be missing there.
            return None
        return _without(self._unheard(gone, since_s), source.status)

    def _tell_unknown(
        self, status: LinkStatus, connects: int, since_s: float, report: Callable[[str], None]
    ) -> None:
        """Report and log, once a connection, of how many topics it is not known whether they are retained."""
        refused = set[str]().union(*(each.refused_topics for each in _connections(status)))
        unknown = self._unheard(refused, since_s)
        if not unknown or self._told == connects:
            return
        self._told, first = connects, min(unknown)
        log.warning("relay_retained_unknown", topics=sorted(unknown)[:3], count=len(unknown))
        report(
            f"{status.broker} refuses the subscription to {counted(len(unknown), 'retained topic')} that did not come again,"
            f" such as {plain(first)}: what was cleared there meanwhile stays as last known"
        )

    async def _ask(self, source: Source, topics: list[str], since_s: float) -> bool:
        """Ask for topics, and return whether the broker has answered what it has of them."""
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
        is_proved, self._proof = is_over and not self._proof, ""
        return is_proved

    async def _wait(self, source: Source, is_so: Callable[[], bool]) -> bool:
        """Wait until something is so, on the present connection and for a limited time; return whether it is."""
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
    """Return topics without those whose subscription a broker refuses."""
    refused = set[str]().union(*(each.refused_topics for each in _connections(status)))
    return [topic for topic in topics if topic not in refused] if refused else topics


class Taps:
    """Several consumers of a source's batches."""

    def __init__(self, *takers: Taker) -> None:
        self._takers = takers

    def take(self, batch: Sequence[Envelope]) -> None:
        """Pass a batch on to each."""
        for each in self._takers:
            each.take(batch)
