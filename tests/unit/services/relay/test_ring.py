"""Relays in a ring: no message circulates, and the last relay refuses to take part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.monitor.alert_messages import alert_message
from support.monitor.feed import Feed, SilentSource, ultraservers
from support.monitor.relays import Relay, Top
from support.monitor.top import Top as Rows

from trnfleet.domain.alerts.relays import GONE_S
from trnfleet.export.election import LISTEN_S
from trnfleet.services.relay.passed import PassedMessages
from trnfleet.services.relay.role import PERIOD_S, RelayIdentity, RelayRingError, RelayRole, Role
from trnfleet.services.relay.run import CellMonitor
from trnfleet.wire.alerts import CellAlertMessage
from trnfleet.wire.messages import (
    ForwardedBy,
    JobMessage,
    cell_of,
    encode_message,
    message_envelope,
    with_cell,
)
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

IDENTITY = RelayIdentity("demo", DEFAULT_ROOT, "cell-a", "relay-a", "b")
JOB = JobMessage(
    job="train", kind="training", state="running", ts="2026-01-05T00:00:00Z", on=("uc1/us-0001",)
)


class Broker(Top):
    """A broker in memory, also read as a relay's cell."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Relay] = []

    async def publish(self, client: str, batch: Iterable[Envelope]) -> None:
        sent = list(batch)
        await super().publish(client, sent)
        for relay in self.readers:
            live = [each._replace(retain=False) for each in sent]
            relay.feed.monitor.apply(live)
            await relay.service.pass_batch(live)


class Ring:
    """Brokers in a ring, each the cell of a relay publishing on the next."""

    def __init__(self, brokers: int) -> None:
        self.brokers = [Broker() for _ in range(brokers)]
        self.refused: dict[str, str] = {}

    async def join(self, number: int) -> Relay:
        """Let the relay from a broker to the next begin."""
        top = self.brokers[(number + 1) % len(self.brokers)]
        relay = await top.join(f"relay-{number}", began_s=float(number))
        self.brokers[number].readers.append(relay)
        return relay

    async def run(self, seconds: float) -> None:
        """Let time pass; a relay that refuses withdraws."""
        for _ in range(round(seconds / 0.1)):
            for broker in self.brokers:
                for relay in list(broker.relays):
                    await relay.feed.clock.advance(0.1)
                    try:
                        await relay.step()
                    except RelayRingError as error:
                        self.refused[relay.name] = str(error)
                        broker.relays.remove(relay)
                        for each in self.brokers:
                            each.readers = [one for one in each.readers if one is not relay]
                        await broker.publish(relay.name, relay.service.withdrawal())


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
async def test_who_closes_a_ring_refuses(brokers: int) -> None:
    """It has published nothing by then, and leaves nothing; the others go on."""
    ring = Ring(brokers)
    others = [await ring.join(number) for number in range(brokers - 1)]
    await ring.run(LISTEN_S + PERIOD_S)
    last = await ring.join(brokers - 1)
    await ring.run(LISTEN_S + GONE_S + PERIOD_S)
    assert set(ring.refused) == {last.name}
    assert "a ring of relays" in ring.refused[last.name]
    assert ("through relay relay-" in ring.refused[last.name]) is (brokers > 1)
    assert [each.role for each in others] == [Role.ACTIVE] * (brokers - 1)
    assert {client for client, _ in last.top.sent if client == last.name} == {last.name}
    assert all("/publisher/" in each.topic for client, each in last.top.sent if client == last.name)
    assert not any(last.name in topic for broker in ring.brokers for topic in broker.retained)


async def test_a_ring_that_is_found_late_ends() -> None:
    """One relay of the ring refuses after publishing, and clears its messages."""
    ring = Ring(2)
    relays = [await ring.join(number) for number in range(2)]
    readers = [broker.readers for broker in ring.brokers]
    for broker in ring.brokers:
        broker.readers = []
    await ring.run(LISTEN_S + PERIOD_S)
    assert [each.role for each in relays] == [Role.ACTIVE] * 2
    for relay in relays:
        await relay.service.pass_batch(
            [message_envelope(build_topic("demo", TopicClass.JOB, JOB.job), JOB, retain=True)]
        )
        relay.feed.monitor.apply(
            [
                message_envelope(
                    build_topic("demo", TopicClass.ALERT, alert_message().fingerprint),
                    alert_message(),
                    retain=True,
                )
            ]
        )
    await ring.run(PERIOD_S)
    for broker, own in zip(ring.brokers, readers, strict=True):
        broker.readers = own
        assert {topic.split("/")[3] for topic in broker.retained} == {
            "publisher",
            "node",
            "job",
            "alert",
        }
    await ring.run(GONE_S)
    assert ring.refused == {}
    await ring.run(LISTEN_S + GONE_S + PERIOD_S)
    assert set(ring.refused) == {"relay-1"}
    assert ring.brokers[0].retained == {}


async def test_nothing_goes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing circulates even before the ring is found.

    This holds for jobs, events, presences, alerts, rows and their clearings.
    """
    monkeypatch.setattr(RelayRole, "_check_ring", lambda *_: ())
    ring = Ring(2)
    relays = [await ring.join(number) for number in range(2)]
    await ring.run(LISTEN_S + PERIOD_S)
    assert [each.role for each in relays] == [Role.ACTIVE] * 2
    hosts = Feed(ultraservers(1))
    job = message_envelope(build_topic("demo", TopicClass.JOB, JOB.job), JOB, retain=True)
    own = [job, hosts.event("uc1/us-0001"), hosts.publisher_envelope("online")]
    before = [len(broker.sent) for broker in ring.brokers]
    await ring.brokers[0].publish("host", own)
    await ring.brokers[0].publish("host", [job._replace(payload=b"")])
    beyond = [
        [each for client, each in broker.sent[count:] if client.startswith("relay")]
        for broker, count in zip(ring.brokers, before, strict=True)
    ]
    assert beyond[0] == []
    assert [each.topic for each in beyond[1]] == [each.topic for each in (*own, job)]
    assert [cell_of(each.payload) for each in beyond[1]] == ["cell-a"] * 3 + [""]
    await ring.run(5.0)
    for relay in relays:
        layout = relay.feed.monitor.store.layout
        assert (layout.chip_count, layout.has_rolled) == (64, False)
        assert relay.feed.monitor.alerts.cells.firing == {}


def test_a_monitor_of_a_cell_takes_nothing_that_a_relay_wrote() -> None:
    """Rows with their frames, forwarded hosts, alerts of cells and the like are ignored.

    So are messages with a cell's name.
    """
    rows = Rows()
    seen: list[Envelope] = []
    rows.monitor.apply = seen.extend  # type: ignore[method-assign,assignment]  # it notes what it is given
    rows.describe()
    rows.frame((1.0, 2.0, 3.0))
    hosts = Feed(ultraservers(1))
    hosts.forwarded = ForwardedBy(cell="cell-a", relay="relay-1", boot="b")
    alert = CellAlertMessage(**msgspec.structs.asdict(alert_message()), cell="cell-a")
    job = msgspec.structs.replace(JOB, job="passed")
    passed = Envelope(
        build_topic("demo", TopicClass.JOB, job.job),
        with_cell(encode_message(job), "b"),
        1,
        retain=True,
    )
    written = [
        *seen,
        *hosts.announcements()[1:],
        message_envelope(build_topic("demo", TopicClass.ALERT, alert.path), alert, retain=True),
        passed,
    ]
    monitor = CellMonitor(SilentSource(), "demo", clock=hosts.clock)
    monitor.apply(written)
    monitor.compute()
    assert (len(monitor.ingest.descriptors), len(monitor.ingest.jobs)) == (0, 0)
    assert monitor.counts.read == 0
    hosts.forwarded = None
    monitor.apply([*hosts.announcements(), *written])
    monitor.compute()
    assert monitor.store.layout.chip_count == 64


def test_a_topic_is_the_cells_again_once_it_writes_it_itself() -> None:
    """Another relay's message is not passed on, nor is its clearing."""
    passed = PassedMessages(IDENTITY)
    job = message_envelope(build_topic("demo", TopicClass.JOB, JOB.job), JOB, retain=True)
    foreign = job._replace(payload=with_cell(job.payload, "cell-b"))
    cleared = job._replace(payload=b"")
    assert passed.take([foreign, cleared], 0.0) == []
    assert len(passed.take([foreign, job, cleared], 1.0)) == 2
    assert passed._foreign == set()


@pytest.mark.parametrize(
    ("payload", "cell"),
    [
        (b"{}", "cell-a"),
        (b'{"v": 1}\n', "cell-a"),
        (b"{ }", "cell-a"),
        (b"", ""),
        (b"[1]", ""),
        (b"not json", ""),
        (b'{"text": "\\"from_cell\\"', ""),
    ],
)
def test_the_cell_is_added_to_json_objects_alone(payload: bytes, cell: str) -> None:
    """What is none is passed on as it is, and readers refuse it as before."""
    made = with_cell(payload, "cell-a")
    assert cell_of(made) == cell
    if cell:
        assert json.loads(made) == {**json.loads(payload), "from_cell": "cell-a"}
    else:
        assert made == payload


@pytest.mark.parametrize(
    "payload", [b'{"from_cell": 1}', b'["from_cell"]', b'{"from_cell"', b'{"text": ""from_cell""}']
)
def test_what_names_no_cell_is_the_cells_own(payload: bytes) -> None:
    assert cell_of(payload) == ""
