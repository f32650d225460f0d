"""Messages refused by a real Mosquitto, or never acknowledged by another broker."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import eventually, running

from lab.chaos.broker_ways import WAYS
from lab.chaos.fake_broker import FakeBroker
from trnfleet.transport import writing
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.transport.url import parse_url
from trnfleet.wire.ports import Envelope, PublishResult, RefusedMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker


async def test_access_list_refuses_with_its_reason(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path
) -> None:
    """MQTT 5 reports a refused message with its reason; 3.1.1 reports nothing."""
    lists = tmp_path / "acl"
    lists.write_text("topic write open/#\n", encoding="utf-8")
    lists.chmod(0o600)
    broker = mosquitto_with(f"acl_file {lists}")
    batch = [
        Envelope(topic, b"1", 1, retain=True)
        for topic in ("open/a", "closed/a", "closed/b", "open/b")
    ]
    five, older = (
        MqttPublisher(broker.url, client_id=f"p{protocol}", protocol=protocol)
        for protocol in ("5", "3.1.1")
    )
    async with running(five.run(), older.run()):
        await five.wait_connected(5)
        await older.wait_connected(5)
        assert await five.publish(batch) == PublishResult(
            2, 2, 2, "the broker refuses closed/a: not authorised"
        )
        assert await older.publish(batch) == PublishResult(4)
    assert (five.status.sent, five.status.refused) == (2, 2)
    assert five.status.last_refusal == RefusedMessage("closed/b", "not authorised")


async def test_a_broker_that_acknowledges_nothing_loses_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A whole batch has one wait for acknowledgements, however many chunks it has.

    Then the connection is closed with its reason, and made again.
    """
    monkeypatch.setattr(writing, "ANSWER_S", 0.2)
    way = next(way for way in WAYS if way.name == "no PUBACK")
    with FakeBroker(way, random.Random(1)) as broker:  # noqa: S311  a test's choices
        publisher = MqttPublisher(parse_url(broker.url), client_id="p")
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            state, event = Envelope("node/a", b"d", 1, retain=True), Envelope("event/a", b"e", 1)
            result = await publisher.publish([state] * 100 + [event] * 400)
            assert result == PublishResult(0, 500, 0, "node/a: the broker did not acknowledge it")
            status = publisher.status
            assert (status.unacknowledged, status.acknowledged, status.dropped) == (64, 0, 400)
            await eventually(lambda: not status.connected, 1)
            assert status.last_error == writing.UNACKNOWLEDGED
            await eventually(lambda: status.connects == 2, 3)
