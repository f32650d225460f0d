"""Topics each role can write and read, on a real Mosquitto and NATS Server.

Both have the shipped access lists.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.processes.programs import run
from support.processes.waiting import running

from lab.brokers.listed import ListedMosquitto, ListedNats
from lab.brokers.process import HOST, PASSWORD, BrokerProcess
from trnfleet.bridge.neuron.telemetry import publisher_of
from trnfleet.errors import BrokerError, ExitStatus
from trnfleet.monitor.pipeline.brokers import SYS_PREFIX
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker

AGENT = "agent-trn2-0001"
REPORTER = "reporter-pretrain"
OWN = "uc1/standalone/trn2-0001"
OTHER = "uc1/standalone/trn2-0002"
TOPICS = (
    f"node/{OWN}",
    f"telemetry/{OWN}",
    f"telemetry/{OWN}/chip00",
    f"event/{OWN}",
    f"publisher/{publisher_of(OWN)}",
    f"claim/{OWN}",
    f"backlog/{OWN}",
    f"backlog/{OWN}/chip00",
    f"node/{OTHER}",
    f"claim/{OTHER}",
    f"backlog/{OTHER}",
    f"telemetry/{OTHER}",
    f"telemetry/{OTHER}/chip00",
    "telemetry/uc2/standalone/trn2-0001",
    "rollup/uc1/cell-a/0000",
    f"event/{OTHER}",
    f"publisher/{publisher_of(OWN)}-2",
    "job/train",
    "job/pretrain",
    "reservation/cr-1",
    "alert/0123456789abcdef",
    "ack/0123456789abcdef",
    "silence/1",
    f"command/{OWN}",
    "command/fleet",
    "command/uc2",
    "reply/asker/1",
)
_PASSED = ("event", "job", "reservation", "publisher", "alert")
_STATE = ("node", "telemetry", "backlog", "claim", "rollup", *_PASSED, "ack", "silence")
WRITES = {
    "publisher": (
        "node",
        "telemetry",
        "backlog",
        "event",
        "job",
        "claim",
        "reservation",
        "publisher",
        "reply",
    ),
    "watch": ("publisher", "alert", "ack", "silence"),
    "viewer": (),
    "operator": ("ack", "silence", "command"),
    "relay": ("node", "rollup", *_PASSED, "telemetry", "reply"),
}
READS = {
    "publisher": (
        "node",
        "publisher",
        "job",
        "claim",
        "reservation",
        "alert",
        "ack",
        "silence",
        "command",
    ),
    "watch": _STATE,
    "viewer": _STATE,
    "operator": (*_STATE, "reply"),
    "relay": (*_STATE, "command"),
}

LOOKS_AT_FIGURES = ("watch", "viewer", "operator", "relay")


def may_write(role: str, topic: str) -> bool:
    """Return whether docs/brokers.md lets a role write a topic."""
    if role == AGENT:
        return topic in TOPICS[:8]
    if role == REPORTER:
        return topic == "job/pretrain"
    return topic.partition("/")[0] in WRITES[role]


def may_read(role: str, topic: str) -> bool:
    """Return whether docs/brokers.md lets a role read a topic.

    Without NATS's additions for MQTT 3.1.1.
    """
    if role == AGENT:
        return topic in {f"command/{OWN}", "command/fleet"}
    return role != REPORTER and topic.partition("/")[0] in READS[role]


@pytest.fixture(
    scope="module", params=[ListedMosquitto, ListedNats], ids=lambda broker: broker.name
)
def listed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A broker with the shipped lists."""
    if request.param.version() is None:
        pytest.skip(f"{request.param.name.upper()} MISSING")
    with request.param(tmp_path_factory.mktemp("listed")) as broker:
        yield broker


def url(broker: BrokerProcess, user: str) -> BrokerUrl:
    return BrokerUrl(HOST, broker.port, user)


@pytest.mark.parametrize("role", [*WRITES, AGENT, REPORTER])
async def test_each_role_writes_and_reads_its_topics_alone(
    listed: BrokerProcess, role: str
) -> None:
    """Each role's writes arrive only on its topics, and it receives only its topics."""
    password = Password(PASSWORD)
    root = f"trnfleet/v1/{role}"
    reader = MqttSource(url(listed, "everybody"), [(f"{root}/#", 1)], password=password)
    writer = MqttPublisher(url(listed, "everybody"), client_id=f"all-{role}", password=password)
    as_role = MqttPublisher(url(listed, role), client_id=role, password=password)
    classes = sorted({topic.partition("/")[0] for topic in TOPICS})
    filters = [(f"{root}/{each}/#", 1) for each in classes] + [
        (f"{root}/{topic}", 1) for topic in TOPICS
    ]
    listener = MqttSource(url(listed, role), filters, password=password)
    async with running(reader.run(), writer.run(), as_role.run(), listener.run()):
        for each in (reader, writer, as_role):
            await each.wait_connected(10)
        await listener.wait_connected(10)
        for topic in TOPICS:
            await as_role.publish([Envelope(f"{root}/{topic}", b"role", 1)])
        written = await collect(reader, writer, f"{root}/end/1", b"role")
        assert written == {f"{root}/{topic}" for topic in TOPICS if may_write(role, topic)}
        if as_role.status.protocol == "5":
            assert as_role.status.refused == len(TOPICS) - len(written)
            assert as_role.status.last_refusal is not None
            assert as_role.status.last_refusal.reason == "not authorised"
        await writer.publish([Envelope(f"{root}/{topic}", b"all", 1) for topic in TOPICS])
        await collect(reader, writer, f"{root}/end/2", b"all")
        await asyncio.sleep(0.2)
        heard = {
            each.topic
            for each in (await listener.take() if listener.waiting else [])
            if each.payload == b"all"
        }
        # With MQTT 3.1.1 an agent and a reporter read back what they write.
        heard -= (
            {f"{root}/node/{OWN}", f"{root}/job/pretrain"}
            if role in {AGENT, REPORTER} and listener.status.protocol == "3.1.1"
            else set()
        )
        assert heard == {f"{root}/{topic}" for topic in TOPICS if may_read(role, topic)}


@pytest.mark.parametrize("role", [*WRITES, AGENT])
async def test_those_who_look_at_figures_may_read_what_the_broker_says(
    listed: BrokerProcess, role: str
) -> None:
    """Mosquitto sends its version to readers of figures only.

    NATS Server has none, and refuses the topic to others.
    """
    may = role in LOOKS_AT_FIGURES
    is_nats = isinstance(listed, ListedNats)
    source = MqttSource(
        url(listed, role), [(f"{SYS_PREFIX}version", 0)], password=Password(PASSWORD)
    )
    async with running(source.run()):
        if is_nats and not may:
            with pytest.raises(BrokerError, match="not authorised"):
                await source.wait_connected(10)
            return
        await source.wait_connected(10)
        if may and not is_nats:
            batch = await asyncio.wait_for(source.take(), 10)
            assert batch[0].payload.startswith(b"mosquitto version")
        else:
            await asyncio.sleep(0.3)
            assert not source.waiting


async def retain(broker: BrokerProcess, topic: str) -> None:
    """Leave a retained message, to test whether the broker sends it."""
    publisher = MqttPublisher(
        url(broker, "everybody"), client_id="retainer", password=Password(PASSWORD)
    )
    async with running(publisher.run()):
        await publisher.wait_connected(10)
        await publisher.publish([Envelope(topic, b"{}", 1, retain=True)])


async def collect(reader: MqttSource, writer: MqttPublisher, end: str, payload: bytes) -> set[str]:
    """Return the topics of messages with a payload, up to a final message sent now."""
    await writer.publish([Envelope(end, b"end", 1)])
    topics: set[str] = set()
    async with asyncio.timeout(10):
        while True:
            batch = await reader.take()
            topics |= {each.topic for each in batch if each.payload == payload}
            if any(each.topic == end for each in batch):
                return topics


@pytest.mark.parametrize(("user", "status"), [("viewer", (1, 4)), ("operator", (0,))])
def test_a_viewers_command_does_nothing_and_says_so(
    listed: BrokerProcess, user: str, status: tuple[int, ...]
) -> None:
    """A viewer's silence is refused or unconfirmed, and not made.

    An operator's is.
    """
    fleet = f"silences-{user}"
    address = ("--broker", str(url(listed, user)), "--name", fleet, "--wait", "1s")
    asyncio.run(retain(listed, f"trnfleet/v1/{fleet}/job/train"))
    silence = ("silence", "add", "alertname=x", "--for", "1h", "--why", "y", "--yes")
    ended = run(*silence, *address, TRNFLEET_MQTT_PASSWORD=PASSWORD)
    assert ended.returncode in status, ended.stderr
    there = run("silence", "list", *address, TRNFLEET_MQTT_PASSWORD=PASSWORD)
    assert there.returncode == 0, there.stderr
    assert ("alertname" in there.stdout) == (user == "operator"), there.stdout + there.stderr
    if user == "viewer":
        assert "/silence/" in ended.stderr
        assert "not authorised" in ended.stderr or "not confirmed" in ended.stderr


def test_a_reporter_needs_no_other_role_for_its_job(listed: BrokerProcess) -> None:
    """`trnfleet job` writes it; another job is refused, which MQTT 3.1.1 of NATS does not say."""
    to = ("--broker", f"mqtt://{REPORTER}@{HOST}:{listed.port}", "--name", "reported")
    own = run("job", "pretrain", "--step", "3", *to, TRNFLEET_MQTT_PASSWORD=PASSWORD)
    assert (own.returncode, own.stderr) == (0, "")
    other = run("job", "train", *to, TRNFLEET_MQTT_PASSWORD=PASSWORD)
    status, said = (
        (ExitStatus.NOT_CONFIRMED, "not authorised")
        if isinstance(listed, ListedNats)
        else (ExitStatus.FAILED, "it needs the user of a role that writes job/")
    )
    assert (other.returncode, said in other.stderr) == (status, True), other.stderr
