"""MQTT 5 properties through a real broker: messages, recordings, replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import running, take_until

from lab.brokers.readers import READERS
from trnfleet.record.format.metadata import About
from trnfleet.record.format.schema import SCHEMA
from trnfleet.record.read.rebranding import Rebranding
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.packets import MOST_PROPERTIES_BYTES
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope, MessageProperties
from trnfleet.wire.topics import parse_topic

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

ALL = MessageProperties((("site", "fra"), ("site", "\u00fc")), "a/reply", b"\x00\xff", 60)


async def test_properties_come_through_in_mqtt_5(mosquitto: MosquittoProcess) -> None:
    """Properties arrive with their messages in order, also at QoS 0.

    Those over the limit are counted. 3.1.1 has none.
    """
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    sources = [MqttSource(mosquitto.url, [("a/#", 1)], client=client) for client in READERS]
    older = MqttSource(mosquitto.url, [("a/#", 1)], protocol="3.1.1")
    large = MessageProperties((("a", "b" * MOST_PROPERTIES_BYTES),))
    given = [None, ALL, None, MessageProperties((("n", "1"),)), large, None]
    batch = [
        Envelope("a/b", b"%d" % number, qos, content_type=CONTENT_TYPE_JSON, properties=properties)
        for qos in (0, 1)
        for number, properties in enumerate(given)
    ]
    async with running(publisher.run(), *(source.run() for source in sources), older.run()):
        await publisher.wait_connected(5)
        for each in (*sources, older):
            await each.wait_connected(5)
        assert (await publisher.publish(batch)).sent == len(batch)
        for source in sources:
            taken = await take_until(source, lambda all_: len(all_) >= 10)
            assert [(each.payload, each.properties) for each in taken] == [
                (each.payload, each.properties) for each in batch if each.properties is not large
            ]
            assert {each.content_type for each in taken} == {CONTENT_TYPE_JSON}
            assert source.status.oversize == 2
        plain = await take_until(older, lambda all_: len(all_) >= 12)
        assert {each.properties for each in plain} == {None}


async def test_a_byte_order_mark_in_a_property_ends_no_connection(
    mosquitto: MosquittoProcess,
) -> None:
    """A retained message with U+FEFF, which MQTT allows, would end every connection of a reader."""
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    marked = MessageProperties((("\ufeffsite", "a\ufeff"),), correlation=b"\x00")
    batch = [
        Envelope(f"a/{qos}", b"{}", qos, retain=True, content_type="\ufefftext", properties=marked)
        for qos in (0, 1)
    ]
    sources = [MqttSource(mosquitto.url, [("a/#", 1)], client=client) for client in READERS]
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        assert (await publisher.publish(batch)).sent == 2
        async with running(*(source.run() for source in sources)):
            for source in sources:
                taken = await take_until(source, lambda all_: len(all_) >= 2)
                assert sorted(each.topic for each in taken) == ["a/0", "a/1"]
                for each in taken:
                    assert each.properties is not None
                    assert each.properties.correlation == b"\x00"
                    ((name, value),) = each.properties.user
                    assert (name[1:], value[:1]) == ("site", "a")
                assert source.status.attempts == 1


async def test_user_properties_come_back_at_a_replay(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """A replay has the recorded user properties only.

    Nobody waits for a reply any more.
    """
    topic = "trnfleet/v1/lab/event/uc1"
    path = tmp_path / "kept.mcap"
    writer = RecordingWriter(path, About(schema=SCHEMA))
    writer.write(1_767_571_200_000_000_000, Envelope(topic, b"{}", 1, properties=ALL))
    writer.close()
    recording = Recording.open([path])
    (stored,) = recording.read(recording.start_ns - 1, recording.end_ns)
    recording.close()
    assert stored.envelope.properties == ALL
    replayed = Rebranding("trnfleet", nonce="n").rebrand(stored.envelope, parse_topic(topic))
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    source = MqttSource(mosquitto.url, [("#", 1)])
    async with running(publisher.run(), source.run()):
        await publisher.wait_connected(5)
        await source.wait_connected(5)
        await publisher.publish([replayed])
        (taken,) = await take_until(source, bool)
    assert taken.properties == MessageProperties(ALL.user)
