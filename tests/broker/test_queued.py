"""A host's messages while its broker is away: nothing is lost that is not counted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import START_NS
from support.processes.waiting import eventually, running

from trnfleet.clock import ManualClock
from trnfleet.services.agent.outbox import Outbox
from trnfleet.services.agent.queued import BACKLOG_PER_S, QueuedPublisher
from trnfleet.transport.link import LONGEST_WAIT_S
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

ROOT = "trnfleet/v1/lab"
HOST = "uc1/standalone/trn2-0001"


class Host:
    """A host that publishes telemetry, an event and state each tick, and its reader."""

    def __init__(self, broker: MosquittoProcess, path: Path) -> None:
        self.clock = ManualClock(wall_ns=START_NS)
        self.publisher = MqttPublisher(broker.url, client_id="host", keepalive_s=1)
        self.outbox = Outbox(path)
        self.queued = QueuedPublisher(self.publisher, self.outbox, self.clock)
        self.queued.on_connect(lambda: [Envelope(f"{ROOT}/node/{HOST}", b"descriptor", 1, True)])
        self.reader = MqttSource(broker.url, [("trnfleet/#", 1)], keepalive_s=1)
        self.came: list[tuple[str, bytes]] = []

    async def read(self) -> None:
        """Read all that comes."""
        while True:
            for envelope in await self.reader.take():
                self.came.append((envelope.topic.removeprefix(f"{ROOT}/"), envelope.payload))

    async def connected(self) -> None:
        """Wait for both connections."""
        links = self.publisher.status, self.reader.status
        await eventually(lambda: all(link.connected for link in links))

    async def tick(self, number: int, *, with_event: bool = False) -> None:
        """Publish one tick."""
        payload = b"%d" % number
        batch = [Envelope(f"{ROOT}/telemetry/{HOST}", payload)]
        if with_event:
            batch.append(Envelope(f"{ROOT}/event/{HOST}", payload, 1))
            batch.append(Envelope(f"{ROOT}/claim/{HOST}", payload, 1, True))
        await self.queued.publish(batch)

    def numbers(self, topic_class: str) -> list[int]:
        """Return the numbers of a class as they came."""
        return [int(payload) for topic, payload in self.came if topic.startswith(topic_class + "/")]

    async def drain(self) -> None:
        """Turn the clock until nothing waits, which takes as long as the rate demands."""
        messages = self.outbox.waiting.total()
        await self.clock.advance(LONGEST_WAIT_S)
        begun_s = self.clock.monotonic_s()
        while self.outbox.waiting:
            await self.clock.advance(1.0)
            await asyncio.sleep(0.02)
        assert self.clock.monotonic_s() - begun_s >= messages / BACKLOG_PER_S - 1


async def test_what_waited_for_a_killed_broker_comes_in_order(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """Live values first, the newest state, events in order, then telemetry as backlog."""
    host = Host(mosquitto, tmp_path / "outbox")
    work = (host.publisher.run(), host.reader.run(), host.read(), host.queued.run())
    async with running(*work):
        await host.connected()
        await host.tick(0, with_event=True)
        await eventually(lambda: host.numbers("event") == [0])
        mosquitto.kill()
        await eventually(lambda: not host.publisher.status.connected)
        for number in range(1, 121):
            await host.tick(number, with_event=number % 40 == 0)
        assert host.outbox.waiting == {"telemetry": 120, "event": 3, "claim": 1}
        mosquitto.start()
        await host.connected()
        await host.tick(121, with_event=True)
        await eventually(lambda: 121 in host.numbers("telemetry"))
        assert not host.numbers("backlog")
        await host.drain()
        await eventually(lambda: len(host.numbers("backlog")) == 120)

    assert host.numbers("telemetry") == [0, 121]
    assert host.numbers("backlog") == [*range(1, 121)]
    assert host.numbers("event") == [0, 40, 80, 120, 121]
    assert host.numbers("claim")[-2:] == [120, 121]
    assert host.outbox.dropped == {}
    host.outbox.close()


async def test_a_connection_that_dies_unseen_loses_nothing(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """Telemetry sent into a dead connection comes again; readers know it by its number."""
    host = Host(mosquitto, tmp_path / "outbox")
    work = (host.publisher.run(), host.reader.run(), host.read(), host.queued.run())
    async with running(*work):
        await host.connected()
        await host.tick(0)
        await eventually(lambda: host.numbers("telemetry") == [0])
        mosquitto.pause()
        for number in range(1, 31):
            await host.tick(number)
        assert not host.outbox.waiting
        await eventually(lambda: not host.publisher.status.connected)
        await host.tick(31)
        mosquitto.kill()
        mosquitto.start()
        await host.connected()
        await host.tick(32)
        await host.drain()
        await eventually(lambda: 31 in host.numbers("backlog"))

    # The first one came, but nothing from the broker proved it.
    assert host.numbers("telemetry") == [0, 32]
    assert host.numbers("backlog") == [*range(32)]
    host.outbox.close()


async def test_a_queue_is_sent_by_the_next_process(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """What the former one sent without an answer comes again; a refused message is not kept."""
    former = Outbox(tmp_path / "outbox")
    frames = [Envelope(f"{ROOT}/telemetry/{HOST}", b"%d" % number) for number in range(3)]
    large = Envelope(f"{ROOT}/event/{HOST}", bytes(3 * 2**20), 1)
    former.put([*frames, large], START_NS)
    former.close()
    host = Host(mosquitto, tmp_path / "outbox")
    host.outbox.dropped.update(event=1)
    # There may be more while any waits.
    assert host.queued.tell_dropped() == {}
    work = (host.publisher.run(), host.reader.run(), host.read(), host.queued.run())
    async with running(*work):
        await host.connected()
        await host.tick(3)
        await host.drain()
        # Sent together with a message that cannot be sent, the others were sent again.
        await eventually(lambda: sorted({*host.numbers("backlog")}) == [0, 1, 2])
        assert host.queued.tell_dropped() == {"event": 2}
    host.outbox.close()
