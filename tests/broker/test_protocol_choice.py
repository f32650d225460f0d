from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import eventually, running, take_until

from lab.brokers.readers import READERS
from trnfleet.clock import SystemClock
from trnfleet.errors import BrokerError
from trnfleet.transport.embedded import embedded_broker
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trnfleet.transport.connection import ClientName

SECRET = "hunter2"  # noqa: S105  a test's own
ACCEPTED_4 = b"\x20\x02\x00\x00"
ACCEPTED_5 = b"\x20\x03\x00\x00\x00"

pytestmark = pytest.mark.broker


@contextlib.asynccontextmanager
async def stub_broker(
    version_5: bytes | None, version_4: bytes | None, granted: bytes = b"\x00"
) -> AsyncIterator[tuple[BrokerUrl, list[int]]]:
    """Answer CONNECT by version (None: silence) and SUBSCRIBE by `granted`.

    Yield the requested versions, negative with a password.
    """
    asked: list[int] = []
    serving: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        while packet := await reader.read(4096):
            if packet[0] == 0x10:
                level = packet[packet.index(b"MQTT") + 4]
                asked.append(-level if SECRET.encode() in packet else level)
                if answer := {5: version_5, 4: version_4}[level]:
                    writer.write(answer)
            elif packet[0] == 0x82:
                writer.write(bytes([0x90, 2 + len(granted)]) + packet[2:4] + granted)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield BrokerUrl("127.0.0.1", server.sockets[0].getsockname()[1]), asked
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*(each for each in serving if each), return_exceptions=True)


@pytest.mark.parametrize("refusal", [b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"])
async def test_refused_version_is_replaced_at_once(refusal: bytes) -> None:
    """A broker refusing MQTT 5, in either version's words, gets 3.1.1 without a wait."""
    async with stub_broker(refusal, ACCEPTED_4) as (url, asked):
        source = MqttSource(url, [("#", 0)])
        async with running(source.run()):
            await source.wait_connected(1.5)
            assert (source.status.protocol, asked) == ("3.1.1", [5, 4])


async def test_silent_broker_is_told() -> None:
    """A silent port is reported differently from a refusal, and gets the password once."""
    async with stub_broker(None, None) as (url, asked):
        source = MqttSource(replace(url, user="ops"), [("#", 0)], password=Password(SECRET))
        async with running(source.run()):
            with pytest.raises(BrokerError, match="no answer to CONNECT within 3 s"):
                await source.wait_connected(8)
        assert asked == [-5, 4]


async def test_refused_subscription_is_told() -> None:
    """A source with part of its subscriptions reports it and goes on.

    Without any it tries again.
    """
    topics = [("open/#", 0), ("closed/#", 1)]
    async with stub_broker(None, ACCEPTED_4, granted=b"\x00\x80") as (url, _):
        source = MqttSource(url, topics, protocol="3.1.1")
        async with running(source.run()):
            await source.wait_connected(5)
            assert (
                source.status.last_error
                == "not authorised: the broker refuses the subscription to closed/#"
            )
    async with stub_broker(None, ACCEPTED_4, granted=b"\x80\x80") as (url, _):
        source = MqttSource(url, topics, protocol="3.1.1")
        async with running(source.run()):
            with pytest.raises(BrokerError, match="refuses the subscription to open/#, closed/#"):
                await source.wait_connected(5)


@pytest.mark.parametrize("client", READERS)
async def test_refused_subscription_is_told_in_mqtt_5(client: ClientName) -> None:
    """Each reason code counts: a refused part is named, and all refused is a retry."""
    topics = [("open/#", 0), ("closed/#", 1)]
    async with stub_broker(ACCEPTED_5, None, granted=b"\x00\x00\x87") as (url, _):
        source = MqttSource(url, topics, client=client)
        async with running(source.run()):
            await source.wait_connected(5)
            refused = "not authorised: the broker refuses the subscription to closed/#"
            assert (source.status.last_error, source.status.protocol) == (refused, "5")
    async with stub_broker(ACCEPTED_5, None, granted=b"\x00\x97\x80") as (url, _):
        source = MqttSource(url, topics, client=client)
        async with running(source.run()):
            with pytest.raises(BrokerError, match="refuses the subscription to open/#, closed/#"):
                await source.wait_connected(5)
    async with stub_broker(ACCEPTED_5, None, granted=b"\x00\x00") as (url, _):
        source = MqttSource(url, topics, client=client)
        async with running(source.run()):
            with pytest.raises(BrokerError, match="the broker answers 1 of 2 subscriptions"):
                await source.wait_connected(5)


async def test_reason_of_the_broker_is_told() -> None:
    """An MQTT 5 broker's reason for a disconnect is reported in plain words."""
    taken_over = b"\xe0\x02\x8e\x00"
    async with stub_broker(b"\x20\x03\x00\x00\x00" + taken_over, None) as (url, _):
        links: list[MqttPublisher | MqttSource] = [MqttPublisher(url, client_id="p")]
        links += [MqttSource(url, [("#", 0)], client_id="p", client=client) for client in READERS]
        async with running(*(each.run() for each in links)):
            await eventually(lambda: all(each.status.last_error for each in links))
            said = {each.status.last_error for each in links}
            assert said == {"another client took over the same client id, p"}


async def test_nats_is_found_to_speak_the_older_version() -> None:
    """NATS Server refuses MQTT 5: clients use 3.1.1, without content types."""
    async with embedded_broker(clock=SystemClock(), prefer="nats") as broker:
        publisher = MqttPublisher(broker.url, client_id="p")
        source = MqttSource(broker.url, [("#", 1)])
        async with running(publisher.run(), source.run()):
            await publisher.wait_connected(5)
            await source.wait_connected(5)
            await publisher.publish([Envelope("a", b"{}", content_type=CONTENT_TYPE_JSON)])
            (taken,) = await take_until(source, bool)
            assert (taken.payload, taken.content_type) == (b"{}", None)
            assert (publisher.status.protocol, source.status.protocol) == ("3.1.1", "3.1.1")
