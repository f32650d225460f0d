"""Retained messages dropped or withheld by a broker, requested by topic."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest
from support.processes.proxy import TcpProxy
from support.processes.waiting import eventually, running, take_until

from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.transport.connection import ProtocolName

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_what_a_full_queue_dropped_is_given(
    mosquitto_with: Callable[..., MosquittoProcess], protocol: ProtocolName
) -> None:
    """Retained messages dropped by Mosquitto all come once when requested by topic."""
    broker = mosquitto_with("max_queued_messages 20", "max_inflight_messages 5")
    topics = [f"node/{number:03d}" for number in range(300)]
    publisher = MqttPublisher(broker.url, client_id="p", protocol=protocol)
    with TcpProxy(broker.port) as proxy:
        url = dataclasses.replace(broker.url, port=proxy.port)
        source = MqttSource(url, [("node/#", 0)], protocol=protocol)
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            for topic in topics:
                await publisher.publish([Envelope(topic, b"x" * 60_000, 1, retain=True)])
            # The kernel's buffers grow with what is read, and might hold all of it.
            proxy.bytes_per_s = 1_000_000
            async with running(source.run()):
                await source.wait_connected(5)
                first = await take_until(source, bool)
                proxy.mend()
                await asyncio.sleep(0.3)
                while source.waiting:
                    first += await source.take()
                    await asyncio.sleep(0.3)
                missing = [topic for topic in topics if topic not in {each.topic for each in first}]
                assert len(missing) > 24
                wanted = set(missing[:24])
                source.request_retained([*missing[:24], "other/topic"])
                given = await take_until(
                    source, lambda taken: {each.topic for each in taken} >= wanted
                )
                assert len(given) == len(wanted)
                # The exact subscriptions have gone: what is published now comes once, by the
                # wildcard.
                await eventually(lambda: not source._requests.is_asking)
                await publisher.publish([Envelope(missing[0], b"new", 1, retain=True)])
                assert [each.payload for each in await take_until(source, bool)] == [b"new"]
