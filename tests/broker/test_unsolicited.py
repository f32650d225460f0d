"""Messages on unsubscribed topics, as amqtt sends them to every client at CONNECT."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
from typing import TYPE_CHECKING

import pytest
from support.processes.programs import Program, run
from support.processes.waiting import eventually, running, take_until
from support.record.fixtures import RECORDINGS

from trnfleet.clock import SystemClock
from trnfleet.transport.embedded import embedded_broker
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import BrokerUrl
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

CHIP = "uc1/us-0001/trn2u-0001-2/chip05"


def publish_packet(topic: str, payload: bytes) -> bytes:
    """Return a PUBLISH of MQTT 3.1.1 with QoS 0 and the retain flag."""
    name = topic.encode()
    return bytes([0x31, 2 + len(name) + len(payload), 0, len(name)]) + name + payload


async def test_links_outlive_what_they_did_not_ask_for() -> None:
    """Publisher and source count unsolicited messages and go on.

    Neither mistakes one for the end or for its own.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while packet := await reader.read(4096):
            if packet[0] == 0x10:
                writer.write(b"\x20\x02\x00\x00" + publish_packet("f/node/a", b"1"))
            elif packet[0] == 0x82:
                writer.write(bytes([0x90, 3]) + packet[2:4] + b"\x01")
                writer.write(publish_packet("f/node/a", b"2") + publish_packet("f/reply/a", b"3"))
            elif packet[0] == 0x32:
                size = packet[3]
                writer.write(
                    b"\x40\x02" + packet[4 + size : 6 + size] + publish_packet("f/node/b", b"4")
                )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = BrokerUrl("127.0.0.1", server.sockets[0].getsockname()[1])
    publisher = MqttPublisher(url, client_id="p", protocol="3.1.1")
    source = MqttSource(url, [("f/reply/+", 1)], protocol="3.1.1")
    async with running(publisher.run(), source.run()):
        await publisher.wait_connected(5)
        await source.wait_connected(5)
        taken = await take_until(source, bool)
        await eventually(lambda: publisher.status.unsolicited)
        for _ in range(2):
            await publisher.publish([Envelope("f/command", b"go", 1)])
        await eventually(lambda: publisher.status.unsolicited == 3)
        assert [each.payload for each in taken] == [b"3"]
        assert (source.status.received, source.status.unsolicited, source.status.connects) == (
            1,
            2,
            1,
        )
        assert (publisher.status.sent, publisher.status.dropped, publisher.status.connects) == (
            2,
            0,
            1,
        )
    server.close()
    await server.wait_closed()


async def test_commands_work_beside_a_monitor_on_the_fallback(tmp_path: Path) -> None:
    """inject, silence, watch and replay work on NATS Server as on Mosquitto.

    With a subscriber to the whole fleet.
    """
    async with embedded_broker(clock=SystemClock(), prefer="nats") as broker:
        url = str(broker.url)
        fleet = ("--broker", url, "--name", "demo")
        app = MqttSource(broker.url, [("trnfleet/v1/demo/#", 1)], protocol="3.1.1")
        simulated = ("--broker", url, "--fleet", "demo", "--mqtt", "3.1.1", "--allow-commands")
        with Program(tmp_path, "simulate", *simulated) as simulator:
            async with running(app.run()):
                await app.wait_connected(5)
                await eventually(lambda: simulator.output.startswith("publishing"))
                with (
                    Program(tmp_path, "watch", *fleet) as watch,
                    concurrent.futures.ThreadPoolExecutor() as threads,
                ):
                    at_once = [
                        threads.submit(run, *arguments)
                        for arguments in (
                            ("inject", "straggler", CHIP, "--magnitude", "40", *fleet),
                            (
                                "silence",
                                "add",
                                f"chip={CHIP}",
                                "--for",
                                "1h",
                                "--why",
                                "swap",
                                "--yes",
                                *fleet,
                            ),
                            (
                                "replay",
                                str(RECORDINGS / "steady-training.mcap"),
                                "--broker",
                                url,
                                "--as",
                                "again",
                                "--speed",
                                "100",
                            ),
                        )
                    ]
                    for each in at_once:
                        answer = await asyncio.wrap_future(each)
                        assert answer.returncode == 0, answer.stderr
                    assert "dropped 0" in answer.stdout + answer.stderr
                    await eventually(lambda: "leader for demo" in watch.output)
                    silences = [
                        json.loads(each.payload)
                        for each in await app.take()
                        if "/silence/" in each.topic
                    ]
                    assert [each["why"] for each in silences] == ["swap"]
        assert "retained commands" not in simulator.output
