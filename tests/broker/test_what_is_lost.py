"""Losses of a reader cut off or too slow are counted to the message."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone
from support.processes.proxy import TcpProxy
from support.processes.waiting import eventually, running

from trnfleet.clock import SystemClock
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import BrokerUrl

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

HELD_TICKS = 3_000
"""Their frames are more than the buffers of all sockets on the way hold."""


@pytest.mark.parametrize("is_cut", [True, False], ids=["partition", "full queue"])
async def test_sent_is_received_and_lost(
    mosquitto_with: Callable[..., MosquittoProcess], *, is_cut: bool
) -> None:
    """Through a partition or a full broker queue, received and lost add up to sent."""
    broker = mosquitto_with("max_queued_messages 100")
    feed = Feed(standalone(2))
    feed.scatter()
    sent = 0
    with TcpProxy(broker.port) as proxy:
        publisher = MqttPublisher(broker.url, client_id="p")
        publisher.on_connect(feed.announcements)
        source = MqttSource(BrokerUrl("127.0.0.1", proxy.port), [("trnfleet/#", 1)])
        monitor = Monitor(source, feed.fleet, clock=SystemClock())
        counts = monitor.ingest.counts

        async def tick(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                messages = feed.telemetry()
                sent += len(messages)
                await publisher.publish(messages)

        async with running(publisher.run(), source.run(), monitor.run()):
            await publisher.wait_connected(5)
            await source.wait_connected(5)
            await eventually(lambda: monitor.store.layout.chips == feed.layout.chips, 10)
            await tick(3)
            await eventually(lambda: counts.messages == sent)
            if is_cut:
                proxy.cut()
                await eventually(lambda: not source.status.connected)
                await tick(50)
                proxy.mend()
                await eventually(lambda: source.status.connected, 15)
            else:
                proxy.is_held = True
                await tick(HELD_TICKS)
                proxy.mend()
            # The next message of a topic tells what was lost before it, and may find the queue
            # still full.
            for _ in range(20):
                await tick(1)
                with contextlib.suppress(AssertionError):
                    await eventually(
                        lambda: counts.messages + counts.lost + source.status.shed == sent, 1
                    )
                    break
            assert counts.messages + counts.lost + source.status.shed == sent
            for _ in range(20):
                # On a busy machine what came is stale before it is looked at.
                await tick(1)
                with contextlib.suppress(AssertionError):
                    await eventually(
                        lambda: monitor.store.count(Freshness.LIVE) == feed.layout.chips, 1
                    )
                    break
            else:
                raise AssertionError("not all live again")
        assert counts.lost > 0
        assert publisher.status.dropped == counts.undescribed == counts.duplicates == 0
