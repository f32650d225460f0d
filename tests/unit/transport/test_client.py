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
    """Return the queue of a client that subscribed to `filters`, with what it delivers and what it counts."""
    status, delivered = LinkStatus(), list[Envelope]()
    reception = Reception(delivered.extend if delivers else None, topic_pattern(*filters), status)
    return delivering_queue(Delivery(reception, ManualClock(monotonic_s=3.0)))(), delivered, status


def message(
    topic: str, payload: bytes = b"x", *, retain: bool = False, properties: Any = None
) -> aiomqtt.Message:
    return aiomqtt.Message(topic, payload, 1, retain, 1, properties)


def test_subscribed_topics_are_delivered_and_others_counted() -> None:
    """What falls under a subscription is handed over; every other message is counted, however often its topic comes."""
    queue, delivered, status = queue_of("f/command/#", "f/reply/a/+")
    for topic in ("f/node/a", "f/command/b", "f/node/a", "f/reply/a/1", "f/reply/b/1", "f/command"):
        queue.put_nowait(message(topic, retain=True))
    assert [each.topic for each in delivered] == ["f/command/b", "f/reply/a/1", "f/command"]
    assert delivered[0] == Envelope("f/command/b", b"x", 1, retain=True, received_s=3.0)
    assert status.unsolicited == 3
    assert queue.empty()


def test_a_client_without_subscriptions_ignores_everything() -> None:
    """What a client that only publishes is sent is counted; the queue stays empty, as nothing but the end may wake it."""
    queue, _, status = queue_of(delivers=False)
    for topic in ("f/node/a", "f/node/b", "f/node/a"):
        queue.put_nowait(message(topic))
    assert queue.empty()
    assert status.unsolicited == 3


def test_topics_are_told_apart_after_the_cache_was_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """More topics than are kept change nothing about which of them were subscribed to."""
    monkeypatch.setattr(inbox, "MAX_CACHED_TOPICS", 2)
    queue, delivered, status = queue_of("a/+")
    for _ in range(2):
        for topic in ("a/1", "b/1", "a/2", "b/2", "a/3"):
            queue.put_nowait(message(topic))
    assert [each.topic for each in delivered] == ["a/1", "a/2", "a/3"] * 2
    assert status.unsolicited == 4


async def test_a_socket_closed_before_the_loop_has_its_turn_is_not_waited_for() -> None:
    """Paho opens it in a thread; a broker that cuts the connection at once has it closed again before it is registered."""
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
