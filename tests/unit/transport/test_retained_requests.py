from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from trnfleet.clock import ManualClock
from trnfleet.transport.connection import SUBSCRIBED_AT_ONCE
from trnfleet.transport.reasons import LinkDown
from trnfleet.transport.retained_requests import (
    ANSWER_S,
    GAP_S,
    MOST_AT_ONCE,
    MOST_WAITING,
    PACE_S,
    RetainedRequests,
)
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import pytest

TOPICS = [f"node/{number:04d}" for number in range(1_000)]


class Broker:
    """A connection to a broker that takes a number of filters at once and retains a message for some topics."""

    def __init__(self, retained: Sequence[str] = TOPICS, most: int = 10_000) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.batches: list[int] = []
        self.subscribed: set[str] = set()
        self.refused: set[str] = set()
        self.requests: RetainedRequests | None = None
        self._retained = set(retained)
        self._most = most

    async def subscribe(self, topics: Sequence[tuple[str, int]], at_once: int) -> list[str]:
        """Give what is retained, or end the connection over too many filters."""
        assert len(topics) <= at_once
        if len(topics) > self._most:
            self.ended.set_result("protocol error")
            raise LinkDown("protocol error")
        self.batches.append(len(topics))
        self.subscribed |= {topic for topic, _ in topics}
        for topic, _ in topics:
            if topic in self._retained - self.refused and self.requests is not None:
                self.requests.note(Envelope(topic, b"x", retain=True))
        return [topic for topic, _ in topics if topic in self.refused]

    async def unsubscribe(self, topics: Sequence[str], at_once: int) -> None:
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


async def test_batches_grow_and_no_subscription_stays() -> None:
    """The first batch is one that every broker takes, the next have twice as many, and all are unsubscribed from."""
    clock, broker = ManualClock(), Broker()
    async with asking(clock, broker) as (requests, status):
        requests.add(TOPICS)
        requests.add(TOPICS[:5])
        await clock.advance(1.0)
    assert broker.batches[:6] == [SUBSCRIBED_AT_ONCE * 2**power for power in range(6)]
    assert (sum(broker.batches), max(broker.batches)) == (len(TOPICS), MOST_AT_ONCE)
    assert broker.subscribed == set()
    assert (status.retained_exactly, status.withholds_retained) == (len(TOPICS), True)


async def test_a_broker_that_takes_few_is_asked_for_few() -> None:
    """After a connection that ended over a batch, the next gets what was not answered, in batches that the broker took."""
    clock = ManualClock()
    broker, after = Broker(most=10), Broker(most=10)
    async with asking(clock, broker, after) as (requests, status):
        requests.add(TOPICS[:100])
        await clock.advance(1.0)
        assert broker.batches == [SUBSCRIBED_AT_ONCE]
        requests.use(after)  # type: ignore[arg-type]  # as above
        await clock.advance(1.0)
    assert after.batches == [SUBSCRIBED_AT_ONCE] * 11 + [4]
    assert status.retained_exactly == 100


async def test_a_connection_that_is_closed_on_purpose_ends_no_requests() -> None:
    """A link that changes to MQTT 5 closes a connection while answers are awaited; the next one is asked for them."""
    clock = ManualClock()
    broker, after = Broker(retained=()), Broker()
    async with asking(clock, broker, after) as (requests, status):
        requests.add(TOPICS[:3])
        await clock.advance(0.0)
        assert requests.is_asking
        broker.ended.cancel()
        await clock.advance(0.0)
        requests.use(after)  # type: ignore[arg-type]  # as above
        await clock.advance(1.0)
    assert status.retained_exactly == 3


async def test_the_next_connection_begins_with_what_the_former_one_owes() -> None:
    """Also where it is there before the end of the former one has been noticed: its wildcards may give what was asked for, which is no answer."""
    clock = ManualClock()
    broker, after = Broker(retained=()), Broker()
    async with asking(clock, broker, after) as (requests, status):
        requests.add(TOPICS[:SUBSCRIBED_AT_ONCE])
        await clock.advance(0.0)
        requests.add(TOPICS[SUBSCRIBED_AT_ONCE:100])
        assert requests.is_asking
        broker.ended.set_result("the broker closed the connection")
        requests.use(after)  # type: ignore[arg-type]  # as above
        requests.note(Envelope(TOPICS[0], b"x", retain=True))
        assert (status.retained, status.retained_exactly) == (1, 0)
        await clock.advance(1.0)
    assert after.subscribed == set()
    assert (sum(after.batches), status.retained_exactly) == (100, 100)


async def test_requests_that_wait_for_a_connection_begin_with_it() -> None:
    """What is added while none stands is asked for on the next one, without a further request."""
    clock = ManualClock()
    broker, after = Broker(), Broker()
    async with asking(clock, broker, after) as (requests, status):
        broker.ended.set_result("the broker closed the connection")
        requests.add(TOPICS[:3])
        await clock.advance(1.0)
        assert status.retained_exactly == 0
        requests.use(after)  # type: ignore[arg-type]  # as above
        await clock.advance(1.0)
    assert status.retained_exactly == 3


async def test_topics_that_nobody_retains_slow_it_down() -> None:
    """Each batch without any answer doubles the pause, so that made-up names are a small load; an answer ends that."""
    clock = ManualClock()
    broker = Broker(retained=TOPICS[900:])
    async with asking(clock, broker) as (requests, _):
        requests.add(TOPICS)
        await clock.advance(10 * ANSWER_S)
        assert sum(broker.batches) < 900
        await clock.advance(30.0)
    assert sum(broker.batches) == len(TOPICS)
    assert broker.subscribed == set()


async def test_retained_messages_of_wildcards_are_told_apart() -> None:
    """A broker that also gives retained messages to wildcards withholds none."""
    clock, broker = ManualClock(), Broker()
    async with asking(clock, broker) as (requests, status):
        requests.note(Envelope("node/9999", b"x", retain=True))
        requests.add(TOPICS[:1])
        await clock.advance(1.0)
    assert (status.retained, status.retained_exactly, status.withholds_retained) == (1, 1, False)


async def test_a_request_whose_answer_is_lost_is_made_again() -> None:
    """Where the connection stands on, as Mosquitto's does that drops an answer for want of room, nothing is given up."""
    clock, broker = ManualClock(), Broker()
    answer = broker.subscribe

    async def lose(*_: object) -> list[str]:
        broker.subscribe = answer  # type: ignore[method-assign]  # from now on it answers
        raise LinkDown("the broker did not answer the subscription")

    broker.subscribe = lose  # type: ignore[method-assign, assignment]  # once
    async with asking(clock, broker) as (requests, status):
        requests.add(TOPICS[:100])
        await clock.advance(2.0)
    assert status.retained_exactly == 100
    assert broker.subscribed == set()


async def test_a_full_inbox_holds_up_the_next_batch() -> None:
    """While more waits than newer messages replace, a batch is asked for each second, so that nothing is pushed out; then all of them."""
    clock, broker, waiting = ManualClock(), Broker(), MOST_WAITING
    requests = RetainedRequests(clock, LinkStatus(), lambda most: waiting >= most)
    broker.requests = requests
    requests.use(broker)  # type: ignore[arg-type]  # as above
    task = asyncio.create_task(requests.run())
    requests.add(TOPICS)
    await clock.advance(2.5)
    assert broker.batches == [SUBSCRIBED_AT_ONCE, 2 * SUBSCRIBED_AT_ONCE]
    waiting = MOST_WAITING - 1
    await clock.advance(2.0)
    assert sum(broker.batches) == len(TOPICS)
    assert broker.subscribed == set()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_answers_that_had_no_room_are_not_waited_for() -> None:
    """Where some of a batch came, a moment without any more ends it; where none came, all of the time is given."""
    clock = ManualClock()
    broker = Broker(retained=TOPICS[::2])
    async with asking(clock, broker) as (requests, status):
        requests.add(TOPICS[:248])
        await clock.advance(5 * (GAP_S + PACE_S) + 0.01)
        assert sum(broker.batches) == 248
    assert status.retained_exactly == 124


async def test_refused_subscriptions_are_named_until_they_are_granted_or_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether such a topic is retained is not known; what is merely not answered is not among them, and no more than a number are named."""
    monkeypatch.setattr("trnfleet.transport.retained_requests.MOST_REFUSED_TOPICS", 3)
    clock = ManualClock()
    broker, other = Broker(TOPICS[:5]), Broker(TOPICS[:5])
    broker.refused = set(TOPICS[:2])
    async with asking(clock, broker, other) as (requests, status):
        requests.add(TOPICS[:7])
        await clock.advance(10.0)
        assert status.refused_topics == set(TOPICS[:2])
        assert status.retained_exactly == 3
        broker.refused = set(TOPICS[1:7])
        requests.add(TOPICS[:7])
        await clock.advance(10.0)
        assert TOPICS[0] not in status.refused_topics
        assert len(status.refused_topics) == 3
        requests.use(other)  # type: ignore[arg-type]  # as in `asking`
        assert status.refused_topics == set()
