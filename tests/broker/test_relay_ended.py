"""A relay clears ended jobs and reservations of its cell from a real top broker.

Nothing of other cells is cleared.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.monitor.queue_source import QueueSource
from support.monitor.relays import Top
from support.processes.waiting import eventually, running

from trnfleet.domain.reservations.states import ReservationState
from trnfleet.export.election import LISTEN_S
from trnfleet.services.relay import clearings
from trnfleet.services.relay.passed import SETTLED_S
from trnfleet.services.session import BrokerSession
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.wire.messages import JobMessage, encode_message
from trnfleet.wire.ports import Envelope, LinkStatus
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

HOST = "uc1/us-0001/trn2u-0001-0"
HEARD = LinkStatus(connected=True, changed_s=-SETTLED_S)


AT = "2026-01-05T09:00:00Z"


def reservation(name: str, *on: str) -> Envelope:
    message = ReservationMessage(
        id=name,
        state=ReservationState.ACTIVE,
        ts=AT,
        instance_type="trn2.48xlarge",
        zone="us-east-2b",
        instances=1,
        created=AT,
        start=AT,
        on=on,
    )
    return Envelope(
        build_topic("demo", TopicClass.RESERVATION, name), encode_message(message), 1, retain=True
    )


def job(name: str, *on: str) -> Envelope:
    message = JobMessage(job=name, kind="training", state="running", ts=AT, on=on)
    return Envelope(
        build_topic("demo", TopicClass.JOB, name), encode_message(message), 1, retain=True
    )


MESSAGES = [
    job("gone", HOST),
    job("whole", "uc1/us-0001"),
    job("range", "uc1/us-0001/trn2u-0001-0..trn2u-0001-3"),
    job("there", HOST),
    job("other", "uc1/us-0009"),
    job("shared", HOST, "uc1/us-0009"),
    job("nowhere"),
    reservation("cb-gone", HOST),
    reservation("cb-other", "uc1/us-0009"),
    Envelope(build_topic("demo", TopicClass.JOB, "strange"), b"{}", 1, retain=True),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clearings, "PERIOD_S", 0.01)
    monkeypatch.setattr(clearings, "READ_S", 0.3)


def cleared(top: Top) -> set[str]:
    return {
        each.topic.rpartition("/")[2] for _, each in top.sent if each.retain and not each.payload
    }


async def test_what_the_cell_does_not_have_any_more_is_cleared_once(
    mosquitto: MosquittoProcess,
) -> None:
    """Jobs and reservations of this cell alone, unknown there, are cleared.

    Other cells' stay, and shared ones, ones just published, and ones without a place.
    """
    memory = Top()
    relay = await memory.join("relay-a")
    await relay.service.pass_on(QueueSource([job("there", HOST)], []))
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    session = BrokerSession(mosquitto.url)
    looking = clearings.clear_ended(relay.service, session, "demo", HEARD)
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        assert (await publisher.publish(MESSAGES)).unsent == 0
        async with running(looking):
            await memory.run(LISTEN_S + 1.0)
            await asyncio.sleep(0.1)
            assert not cleared(memory)
            await memory.run(SETTLED_S)
            await eventually(lambda: "gone" in cleared(memory))
            await asyncio.sleep(0.1)
            assert cleared(memory) == {"gone", "whole", "range", "cb-gone"}
            since = len(memory.sent)
            await asyncio.sleep(0.5)
            assert len(memory.sent) == since


@pytest.mark.parametrize("case", ["standby", "unheard", "not all kept", "withheld"])
async def test_a_relay_that_cannot_know_clears_nothing(
    mosquitto: MosquittoProcess, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    memory = Top()
    await memory.join("relay-a")
    relay = memory.relays[0] if case != "standby" else await memory.join("relay-b", began_s=1.0)
    hearing = LinkStatus(connected=case != "unheard", changed_s=-SETTLED_S)
    if case == "not all kept":
        monkeypatch.setattr("trnfleet.services.relay.passed.MOST_KEPT_BYTES", 10)
        await relay.service.pass_on(QueueSource([job("there", HOST)], []))
    relay.feed.monitor.link.withheld = int(case == "withheld")
    await memory.run(LISTEN_S + SETTLED_S + 1.0)
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    looking = clearings.clear_ended(relay.service, BrokerSession(mosquitto.url), "demo", hearing)
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        assert (await publisher.publish(MESSAGES)).unsent == 0
        async with running(looking):
            await asyncio.sleep(0.6)
    assert not cleared(memory)


async def test_what_is_published_meanwhile_goes_on() -> None:
    batch = [job("gone", HOST), job("back", HOST), job("back", HOST)._replace(retain=False)]
    assert await clearings.retained_of(QueueSource(batch, [])) == [job("gone", HOST)]
