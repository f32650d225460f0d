"""Clearings missed by a relay without its cell's broker reach the top later."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from support.monitor.alert_messages import alert_message, fingerprint
from support.monitor.feed import Feed, ultraservers
from support.processes.mosquitto import MosquittoProcess
from support.processes.proxy import TcpProxy
from support.processes.waiting import eventually, running

from trnfleet.services.relay.run import RelayRequest, relay_cell
from trnfleet.services.session import BrokerSession
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.wire.messages import WatchMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker


class Retained:
    """A broker's retained messages, read from all topics."""

    def __init__(self) -> None:
        self.payloads: dict[str, bytes] = {}

    async def read(self, source: MqttSource) -> None:
        while batch := await source.take():
            for each in batch:
                if each.payload:
                    self.payloads[each.topic] = each.payload
                else:
                    self.payloads.pop(each.topic, None)

    def has(self, *topics: str) -> bool:
        return set(topics) <= set(self.payloads)

    def rows(self) -> set[str]:
        """Return the rows that roll-ups are described with."""
        described = [each for topic, each in self.payloads.items() if "/node/" in topic]
        return {row["path"] for each in described for row in json.loads(each)["rows"]}


@pytest.fixture
def top(tmp_path: Path) -> Iterator[MosquittoProcess]:
    broker = MosquittoProcess(tmp_path)
    broker.start()
    yield broker
    broker.kill()


def state(topic_class: TopicClass, path: str, payload: bytes) -> Envelope:
    """Return a retained message."""
    return Envelope(build_topic("demo", topic_class, path), payload, 1, retain=True)


async def test_what_is_cleared_while_a_relay_is_away_is_cleared_on_the_top(
    mosquitto: MosquittoProcess, top: MosquittoProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job, an alert, a watch and hosts are cleared.

    Other and new ones stay.
    """
    monkeypatch.setattr("trnfleet.services.relay.clearings.SETTLED_S", 1.0)
    monkeypatch.setattr("trnfleet.services.relay.clearings.PERIOD_S", 0.1)
    feed = Feed(ultraservers(2))
    feed.jobs = {"ends": ("uc1/us-0001",), "stays": ("uc1/us-0002",)}
    alerts = [alert_message(number) for number in (1, 2)]
    watches = [
        WatchMessage(client=f"watch-{number}", state="online", boot="b", role="watch", leads=True)
        for number in (1, 2)
    ]
    retained = [
        *feed.announcements(),
        *(state(TopicClass.ALERT, each.fingerprint, encode_message(each)) for each in alerts),
        *(state(TopicClass.PUBLISHER, each.client, encode_message(each)) for each in watches),
    ]
    ended = {
        build_topic("demo", TopicClass.JOB, "ends"): "job/ends",
        build_topic("demo", TopicClass.ALERT, fingerprint(1)): f"alert/cell-a/{fingerprint(1)}",
        build_topic("demo", TopicClass.PUBLISHER, "watch-1"): "publisher/cell-a/watch-1",
    }
    gone = [f"trnfleet/v1/demo/{each}" for each in ended.values()]
    hosts = [path for path in feed.layout.instances if path.startswith("uc1/us-0002/")]
    stay = [
        f"trnfleet/v1/demo/{each}"
        for each in (
            "job/stays",
            f"alert/cell-a/{fingerprint(2)}",
            "publisher/cell-a/watch-2",
            "publisher/feed",
        )
    ]
    seen = Retained()
    reader = MqttSource(top.url, [("trnfleet/#", 1)])
    publisher = MqttPublisher(mosquitto.url, client_id="feed")
    with TcpProxy(mosquitto.url.port) as way:
        cell = BrokerSession(dataclasses.replace(mosquitto.url, port=way.port))
        request = RelayRequest("demo", "cell-a", most_hosts=0)
        said: list[str] = []
        async with running(publisher.run(), reader.run(), seen.read(reader)):
            await publisher.wait_connected(5)
            await publisher.publish(retained)
            async with running(relay_cell(cell, BrokerSession(top.url), request, said.append)):
                await eventually(lambda: seen.has(*gone, *stay) and len(seen.rows()) == 2)
                way.cut()
                await publisher.publish([Envelope(topic, b"", 1, retain=True) for topic in ended])
                await publisher.publish([state(TopicClass.NODE, path, b"") for path in hosts])
                feed.jobs = {"new": ("uc1/us-0001",)}
                await publisher.publish(feed.announcements([])[1:])
                way.mend()
                await eventually(lambda: not seen.payloads.keys() & set(gone))
                await eventually(lambda: seen.rows() == {"uc1/us-0001"})
                assert seen.has(*stay, "trnfleet/v1/demo/job/new")
