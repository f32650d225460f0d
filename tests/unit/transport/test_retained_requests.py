from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from trnfleet.clock import ManualClock
from trnfleet.transport.connection import SUBSCRIBED_AT_ONCE
from trnfleet.transport.diagnosis import LinkDown
from trnfleet.transport.retained_requests import (
    ANSWER_S,
    GAP_S,
    MOST_AT_ONCE,
    MOST_WAITING,
    RetainedRequests,
)
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

TOPICS = [f"node/{number:04d}" for number in range(1_000)]


class Broker:
    """A broker connection with a limit on filters, and retained messages for no wildcards."""

    def __init__(self, retained: Sequence[str] = TOPICS, most: int = 10_000) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.batches: list[int] = []
        self.subscribed: set[str] = set()
        self.refused: set[str] = set()
        self.requests: RetainedRequests | None = None
        self._retained = set(retained)
        self._most = most

    async def subscribe(
        self, topics: Sequence[tuple[str, int]], at_once: int = SUBSCRIBED_AT_ONCE
    ) -> list[str]:
        """Send retained messages, or end the connection over too many filters."""
        assert len(topics) <= at_once
        if len(topics) > self._most:
            self.ended.set_result("protocol error")
            raise LinkDown("protocol error")
        self.subscribed |= {topic for topic, _ in topics}
        if not topics[0][0].endswith("/#"):
            self.batches.append(len(topics))
        for topic, _ in topics:
            if topic in self._retained - self.refused and self.requests is not None:
                self.requests.note(Envelope(topic, b"x", retain=True))
        return [topic for topic, _ in topics if topic in self.refused]

    async def unsubscribe(self, topics: Sequence[str], at_once: int = SUBSCRIBED_AT_ONCE) -> None:
        """Forget subscriptions."""
        assert len(topics) <= at_once
        assert set(topics) <= self.subscribed
        self.subscribed -= set(topics)


@contextlib.asynccontextmanager
async def asking(
    clock: ManualClock, *brokers: Broker
) -> AsyncIterator[tuple[RetainedRequests, LinkStatus]]:
    """Yield requests that run on the first connection."""
    status = LinkStatus()
    requests = RetainedRequests(clock, status, lambda _: False)
    for broker in brokers:
        broker.requests = requests
    requests.use(brokers[0])  # type: ignore[arg-type]  # what it has of a connection is all that is used
    task = asyncio.create_task(requests.run())
    try:
        yield requests, status
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_batches_grow_and_no_subscription_stays(clock: ManualClock) -> None:
    """The first batch suits every broker, the next ones double, and all are unsubscribed."""
    broker = Broker()
    async with asking(clock, broker) as (requests, status):
        requests.add(TOPICS)
        requests.add(TOPICS[:5])
        await clock.advance(1.0)
    assert broker.batches[:6] == [SUBSCRIBED_AT_ONCE * 2**power for power in range(6)]
    assert (sum(broker.batches), max(broker.batches)) == (len(TOPICS), MOST_AT_ONCE)
    assert broker.subscribed == set()
    assert (status.withheld, status.withholds_retained) == (len(TOPICS), True)


async def test_a_broker_that_takes_few_is_asked_for_few(clock: ManualClock) -> None:
    """After a connection ended over a batch, the next gets smaller ones.

    They have the unanswered topics.
    """
    broker = Broker(most=10)
    after = Broker(most=10)
    async with asking(clock, broker, after) as (requests, status):
        requests.add(TOPICS[:100])
        await clock.advance(1.0)
        assert broker.batches == [SUBSCRIBED_AT_ONCE]
        requests.use(after)  # type: ignore[arg-type]  # as above
        await clock.advance(1.0)
    assert after.batches == [SUBSCRIBED_AT_ONCE] * 11 + [4]
    assert status.withheld == 100


async def test_a_connection_that_is_closed_on_purpose_ends_no_requests(clock: ManualClock) -> None:
    """After a change to MQTT 5 unanswered requests are repeated on the new connection."""
    broker = Broker(retained=())
    after = Broker()
    async with asking(clock, broker, after) as (requests, status):
        requests.add(TOPICS[:3])
        await clock.advance(0.0)
        assert requests.is_asking
        broker.ended.cancel()
        await clock.advance(0.0)
        requests.use(after)  # type: ignore[arg-type]  # as above
        await clock.advance(2 * ANSWER_S)
    assert status.withheld == 3


async def test_the_next_connection_begins_with_what_the_former_one_owes(clock: ManualClock) -> None:
    """Also before the former connection's end is noticed.

    Its wildcards may bring a requested topic, but that is not an answer.
    """
    broker = Broker(retained=())
    after = Broker()
    async with asking(clock, broker, after) as (requests, status):
        requests.add(TOPICS[:SUBSCRIBED_AT_ONCE])
        await clock.advance(0.0)
        requests.add(TOPICS[SUBSCRIBED_AT_ONCE:100])
        assert requests.is_asking
        broker.ended.set_result("the broker closed the connection")
        requests.use(after)  # type: ignore[arg-type]  # as above
        requests.note(Envelope(TOPICS[0], b"x", retain=True))
        assert (status.retained, status.withheld) == (1, 0)
        await clock.advance(1.0)
    assert after.subscribed == set()
    assert sum(after.batches) == 100


async def test_requests_that_wait_for_a_connection_begin_with_it(clock: ManualClock) -> None:
    """Topics added without a connection are requested on the next one."""
    broker = Broker()
    after = Broker()
    async with asking(clock, broker, after) as (requests, status):
        broker.ended.set_result("the broker closed the connection")
        requests.add(TOPICS[:3])
        await clock.advance(1.0)
        assert status.withheld == 0
        requests.use(after)  # type: ignore[arg-type]  # as above
        await clock.advance(2 * ANSWER_S)
    assert status.withheld == 3


async def test_topics_that_nobody_retains_slow_it_down(clock: ManualClock) -> None:
    """Each unanswered batch doubles the pause; an answer ends that.

    So made-up names are a small load.
    """
    broker = Broker(retained=TOPICS[900:])
    async with asking(clock, broker) as (requests, _):
        requests.add(TOPICS)
        await clock.advance(10 * ANSWER_S)
        assert sum(broker.batches) < 900
        await clock.advance(30.0)
    assert sum(broker.batches) == len(TOPICS)
    assert broker.subscribed == set()


async def test_retained_messages_of_wildcards_are_told_apart(clock: ManualClock) -> None:
    """A broker with retained messages for wildcards, too, withholds none."""
    broker = Broker()
    async with asking(clock, broker) as (requests, status):
        requests.note(Envelope("node/9999", b"x", retain=True))
        requests.add(TOPICS[:1])
        await clock.advance(1.0)
    assert (status.retained, status.withheld, status.withholds_retained) == (1, 0, False)


async def test_a_request_whose_answer_is_lost_is_made_again() -> None:
    """On an open connection a lost answer is requested again.

    Mosquitto drops answers for lack of room.
    """
    clock, broker = ManualClock(), Broker()
    answer = broker.subscribe

    async def lose(*_: object) -> list[str]:
        broker.subscribe = answer  # type: ignore[method-assign]  # from now on it answers
        raise LinkDown("the broker did not answer the subscription")

    broker.subscribe = lose  # type: ignore[method-assign, assignment]  # once
    async with asking(clock, broker) as (requests, status):
        requests.add(TOPICS[:100])
        await clock.advance(2.0)
    assert status.withheld == 100
    assert broker.subscribed == set()


async def test_a_full_inbox_holds_up_the_next_batch() -> None:
    """While too many irreplaceable messages wait, one batch is sent each second.

    So nothing is pushed out; in the end all are requested.
    """
    clock, broker, waiting = ManualClock(), Broker(), MOST_WAITING
    requests = RetainedRequests(clock, LinkStatus(), lambda most: waiting >= most)
    broker.requests = requests
    requests.use(broker)  # type: ignore[arg-type]  # as above
    task = asyncio.create_task(requests.run())
    requests.add(TOPICS)
    await clock.advance(2.5 + ANSWER_S)
    assert broker.batches == [SUBSCRIBED_AT_ONCE, 2 * SUBSCRIBED_AT_ONCE]
    waiting = MOST_WAITING - 1
    await clock.advance(2.0)
    assert sum(broker.batches) == len(TOPICS)
    assert broker.subscribed == set()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_answers_that_had_no_room_are_not_waited_for(clock: ManualClock) -> None:
    """A gap after some answers ends a batch; without any, the full time is waited.

    The first answer is followed by a wildcard, which is waited for.
    """
    broker = Broker(retained=TOPICS[::2])
    async with asking(clock, broker) as (requests, status):
        requests.add(TOPICS[:248])
        await clock.advance(ANSWER_S + 5 * GAP_S + 0.01)
        assert sum(broker.batches) == 248
    assert status.withheld == 124


async def test_refused_subscriptions_are_named_until_they_are_granted_or_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether a refused topic is retained is unknown.

    Unanswered topics are not listed, and the list is bounded.
    """
    monkeypatch.setattr("trnfleet.transport.retained_requests.MOST_REFUSED_TOPICS", 3)
    clock = ManualClock()
    broker = Broker(TOPICS[:5])
    other = Broker(TOPICS[:5])
    broker.refused = set(TOPICS[:2])
    async with asking(clock, broker, other) as (requests, status):
        requests.add(TOPICS[:7])
        await clock.advance(10.0)
        assert status.refused_topics == set(TOPICS[:2])
        assert status.withheld == 3
        broker.refused = set(TOPICS[1:7])
        requests.add(TOPICS[:7])
        await clock.advance(10.0)
        assert TOPICS[0] not in status.refused_topics
        assert len(status.refused_topics) == 3
        requests.use(other)  # type: ignore[arg-type]  # as in `asking`
        assert status.refused_topics == set()
