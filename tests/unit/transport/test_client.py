from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import aiomqtt

from trnfleet.clock import ManualClock
from trnfleet.transport import inbox
from trnfleet.transport.client import Client, delivering_queue
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import Delivery, Reception
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    import pytest


def queue_of(
    *filters: str, delivers: bool = True
) -> tuple[asyncio.Queue[aiomqtt.Message], list[Envelope], LinkStatus]:
    """Return the queue of a client with subscriptions, its deliveries and its counters."""
    status = LinkStatus()
    delivered = list[Envelope]()
    reception = Reception(delivered.extend if delivers else None, topic_pattern(*filters), status)
    return delivering_queue(Delivery(reception, ManualClock(monotonic_s=3.0)))(), delivered, status


def message(
    topic: str, payload: bytes = b"x", *, retain: bool = False, properties: Any = None
) -> aiomqtt.Message:
    return aiomqtt.Message(topic, payload, 1, retain, 1, properties)


def test_subscribed_topics_are_delivered_and_others_counted() -> None:
    """Subscribed messages are handed over; others are counted, however often they come."""
    queue, delivered, status = queue_of("f/command/#", "f/reply/a/+")
    for topic in ("f/node/a", "f/command/b", "f/node/a", "f/reply/a/1", "f/reply/b/1", "f/command"):
        queue.put_nowait(message(topic, retain=True))
    assert [each.topic for each in delivered] == ["f/command/b", "f/reply/a/1", "f/command"]
    assert delivered[0] == Envelope("f/command/b", b"x", 1, retain=True, received_s=3.0)
    assert status.unsolicited == 3
    assert queue.empty()


def test_a_client_without_subscriptions_ignores_everything() -> None:
    """Messages to a client that only publishes are counted; the queue stays empty.

    Only the end may wake it.
    """
    queue, _, status = queue_of(delivers=False)
    for topic in ("f/node/a", "f/node/b", "f/node/a"):
        queue.put_nowait(message(topic))
    assert queue.empty()
    assert status.unsolicited == 3


def test_topics_are_told_apart_after_the_cache_was_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribed topics stay subscribed with more topics than the cache can store."""
    monkeypatch.setattr(inbox, "MAX_CACHED_TOPICS", 2)
    queue, delivered, status = queue_of("a/+")
    for _ in range(2):
        for topic in ("a/1", "b/1", "a/2", "b/2", "a/3"):
            queue.put_nowait(message(topic))
    assert [each.topic for each in delivered] == ["a/1", "a/2", "a/3"] * 2
    assert status.unsolicited == 4


async def test_topics_that_come_no_more_are_forgotten() -> None:
    """A new topic empties an old cache; known topics cost nothing."""
    clock = ManualClock()
    delivery = Delivery(Reception(None, topic_pattern("a/+"), LinkStatus()), clock)
    for second in range(int(3 * inbox.CACHED_FOR_S)):
        delivery.envelope(f"a/{second}", b"x", 0, None, retain=False)
        await clock.advance(1.0)
        assert len(delivery.by_bytes) <= inbox.CACHED_FOR_S
    assert len(delivery._topics) <= inbox.CACHED_FOR_S


async def test_a_socket_closed_before_the_loop_has_its_turn_is_not_waited_for() -> None:
    """A socket may be closed before it is registered.

    paho opens it in a thread, and a broker may close it at once.
    """
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: reported.append(context)
    )
    made = Client("localhost", open_socket=socket.socket)
    near, far = socket.socketpair()
    paho = made._client
    paho._sock = near

    def open_and_close() -> None:
        paho._call_socket_open(near)
        paho._call_socket_register_write()
        paho._sock_close()

    opening = threading.Thread(target=open_and_close)
    opening.start()
    # The loop has no turn meanwhile.
    opening.join()
    far.close()
    await asyncio.to_thread(int)
    assert reported == []
