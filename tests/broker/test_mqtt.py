from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import eventually, running, take_until

from lab.brokers.readers import READERS
from trnfleet.errors import BrokerError
from trnfleet.transport.inbox import SHED_FROM_S, InboxLimits
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.transport.connection import ClientName, ProtocolName

pytestmark = pytest.mark.broker

WILL = Envelope("publisher/p", b"offline", 1, retain=True, content_type=CONTENT_TYPE_JSON)

SPOKEN: tuple[tuple[ProtocolName, ClientName], ...] = (
    *(("5", client) for client in READERS),
    ("3.1.1", "mqtt5"),
)


def rng() -> random.Random:
    return random.Random(3)  # noqa: S311  spreads attempts, nothing secret


def password_file(folder: Path, user: str, password: str) -> Path:
    file = folder / "passwords"
    file.touch(0o600)
    subprocess.run(
        ["mosquitto_passwd", "-b", str(file), user, password], check=True, capture_output=True
    )
    return file


def topics(envelopes: list[Envelope]) -> list[str]:
    return [envelope.topic for envelope in envelopes]


@pytest.mark.parametrize(
    ("protocol", "client", "kept"),
    [*(("5", client, CONTENT_TYPE_CBOR) for client in READERS), ("3.1.1", "mqtt5", None)],
)
async def test_messages_come_through(
    mosquitto: MosquittoProcess, protocol: ProtocolName, client: ClientName, kept: str | None
) -> None:
    """Topic, payload, QoS and order arrive unchanged, in MQTT 5 also the content type.

    Topics are shared strings.
    """
    publisher = MqttPublisher(mosquitto.url, client_id="p", protocol=protocol)
    topic_filters = [("telemetry/#", 0), ("event/#", 1)]
    source = MqttSource(mosquitto.url, topic_filters, protocol=protocol, client=client)
    sent = [
        Envelope("telemetry/a", bytes([number]), content_type=CONTENT_TYPE_CBOR)
        for number in range(20)
    ] + [Envelope("event/a", b"", 1, content_type=CONTENT_TYPE_CBOR)]
    async with running(source.run(), publisher.run()):
        await source.wait_connected(5)
        await publisher.wait_connected(5)
        await publisher.publish(sent)
        taken = await take_until(source, lambda taken: len(taken) == 21)
    assert [envelope._replace(received_s=0.0) for envelope in taken] == [
        each._replace(content_type=kept) for each in sent
    ]
    assert all(envelope.received_s > 0 for envelope in taken)
    assert len({id(envelope.topic) for envelope in taken}) == 2
    assert (publisher.status.sent, publisher.status.protocol, source.status.received) == (
        21,
        protocol,
        21,
    )


async def test_mqtt_5_is_the_first_choice(mosquitto: MosquittoProcess) -> None:
    """MQTT 5 is used if the broker knows it."""
    source = MqttSource(mosquitto.url, [("#", 0)])
    async with running(source.run()):
        await source.wait_connected(5)
        assert (source.status.protocol, source.status.connects, source.status.broker) == (
            "5",
            1,
            str(mosquitto.url),
        )


async def test_announcements_are_retained_for_the_late(mosquitto: MosquittoProcess) -> None:
    """A late source receives announcements as retained.

    An empty payload clears them.
    """
    publisher = MqttPublisher(mosquitto.url, client_id="p", will=WILL)
    publisher.on_connect(
        lambda: [Envelope("node/a", b"d", 1, retain=True), Envelope("node/b", b"d", 1, retain=True)]
    )
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        await publisher.publish([Envelope("node/b", b"", 1, retain=True)])
        for client in READERS:
            source = MqttSource(mosquitto.url, [("#", 1)], client=client)
            async with running(source.run()):
                taken = await take_until(source, bool)
            assert [(each.topic, each.payload, each.retain, each.qos) for each in taken] == [
                ("node/a", b"d", True, 1)
            ]


async def test_orderly_stop_leaves_the_will_unsent(mosquitto: MosquittoProcess) -> None:
    """A cancelled publisher says goodbye.

    Its last message stays, without a last will.
    """
    source = MqttSource(mosquitto.url, [("publisher/+", 1)])
    async with running(source.run()):
        await source.wait_connected(5)
        publisher = MqttPublisher(mosquitto.url, client_id="p", will=WILL)
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            await publisher.publish([WILL._replace(payload=b"offline: stopped")])
        await asyncio.sleep(0.3)
        assert [each.payload for each in await source.take()] == [b"offline: stopped"]
        assert source.waiting == 0


async def test_will_follows_a_killed_publisher(mosquitto: MosquittoProcess) -> None:
    """A publisher killed with -9 has its last will within a second.

    It has its content type.
    """
    code = f"""
import asyncio, sys
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.transport.url import parse_url
from trnfleet.wire.ports import Envelope
async def main():
    publisher = MqttPublisher(parse_url({str(mosquitto.url)!r}), client_id="p",
        will=Envelope("publisher/p", b"offline", 1, True, "application/json"))
    publisher.on_connect(lambda: [Envelope("publisher/p", b"online", 1, True, "application/json")])
    await publisher.run()
asyncio.run(main())
"""
    source = MqttSource(mosquitto.url, [("publisher/+", 1)])
    async with running(source.run()):
        await source.wait_connected(5)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            assert [each.payload for each in await take_until(source, bool)] == [b"online"]
        finally:
            child.kill()
            await child.wait()
        (will,) = await take_until(source, bool, within_s=1)
    assert will._replace(received_s=0.0) == WILL._replace(retain=False)


async def test_broker_killed_and_restarted(mosquitto: MosquittoProcess) -> None:
    """After a broker's kill -9 and restart both sides return by themselves.

    They subscribe and announce again.
    """
    publisher = MqttPublisher(mosquitto.url, client_id="p", rng=rng())
    publisher.on_connect(lambda: [Envelope("node/a", b"descriptor", 1, retain=True)])
    sources = [
        MqttSource(mosquitto.url, [("node/#", 1), ("telemetry/#", 0)], rng=rng(), client=client)
        for client in READERS
    ]
    links: list[MqttPublisher | MqttSource] = [publisher, *sources]
    async with running(*(each.run() for each in links)):
        for each in links:
            await each.wait_connected(5)
        for source in sources:
            await take_until(source, bool)
        mosquitto.kill()
        await eventually(lambda: not any(each.status.connected for each in links), 2)
        assert all(source.status.last_error for source in sources)
        await publisher.publish(
            [Envelope("telemetry/a", b""), Envelope("node/b", b"", 1, retain=True)]
        )
        assert (publisher.status.dropped, publisher.status.sent) == (1, 1)
        await asyncio.sleep(1.5)
        assert {each.status.last_error for each in links} == {"connection refused"}
        mosquitto.start()
        await eventually(lambda: all(each.status.connected for each in links))
        await publisher.publish([Envelope("telemetry/a", b"again")])
        for source in sources:
            taken = await take_until(source, lambda taken: "telemetry/a" in topics(taken))
            assert topics(taken)[-1] == "telemetry/a"
            assert set(topics(taken)[:-1]) == {"node/a"}
    assert [each.status.connects for each in links] == [2, 2, 2]


async def test_broker_that_holds_still_is_noticed(mosquitto: MosquittoProcess) -> None:
    """A half-open connection is noticed within about twice the keepalive.

    Also by a publisher in the middle of publishing.
    """
    publisher = MqttPublisher(mosquitto.url, client_id="p", keepalive_s=1)
    sources = [
        MqttSource(mosquitto.url, [("#", 0)], keepalive_s=1, client=client) for client in READERS
    ]
    links: list[MqttPublisher | MqttSource] = [publisher, *sources]
    async with running(*(each.run() for each in links)):
        for each in links:
            await each.wait_connected(5)
        mosquitto.pause()
        # More than the socket's buffers hold: it waits for room until the connection counts as
        # lost.
        batch = [Envelope("telemetry/a", b"x" * 131_072)] * 200
        publishing = asyncio.create_task(publisher.publish(batch))
        await eventually(lambda: not any(each.status.connected for each in links), 2 + 2)
        assert {each.status.last_error for each in sources} == {
            "no answer within twice the keepalive"
        }
        await asyncio.wait_for(publishing, 1)
        assert publisher.status.sent + publisher.status.dropped == 200
        assert publisher.status.dropped > 100


async def test_stop_does_not_wait_for_a_broker_that_holds_still(
    mosquitto: MosquittoProcess,
) -> None:
    """A client stopped while sending ends within two seconds without a reaction."""
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        mosquitto.pause()
        publishing = asyncio.create_task(
            publisher.publish([Envelope("telemetry/a", b"x" * 131_072)] * 200)
        )
        await asyncio.sleep(0.1)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    await asyncio.wait_for(publishing, 1)


async def test_retained_state_of_a_large_fleet_arrives(mosquitto: MosquittoProcess) -> None:
    """More retained messages than Mosquitto's default queue all arrive."""
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    publisher.on_connect(
        lambda: (Envelope(f"node/{number}", b"d", 1, retain=True) for number in range(3000))
    )
    source = MqttSource(mosquitto.url, [("node/#", 1)])
    async with running(publisher.run()):
        await publisher.wait_connected(20)
        async with running(source.run()):
            taken = await take_until(source, lambda taken: len(taken) >= 3000)
    assert len(set(topics(taken))) == len(taken) == 3000


async def test_requests_wait_for_a_reader_of_state(
    mosquitto: MosquittoProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more retained messages are requested while others wait.

    Also for a reader with only the newest telemetry when behind.
    """
    monkeypatch.setattr("trnfleet.transport.retained_requests.MOST_WAITING", 20)
    paths = [f"node/{number}" for number in range(20)]
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    publisher.on_connect(lambda: [Envelope(path, b"d", 1, retain=True) for path in paths])
    limits = InboxLimits(newest_of="telemetry/")
    source = MqttSource(mosquitto.url, [("node/#", 1), ("telemetry/#", 0)], limits=limits)
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        async with running(source.run()):
            await eventually(lambda: source.waiting == 20)
            source.request_retained(paths)
            await asyncio.sleep(0.2)
            assert source.waiting == 20
            await source.take()
            await eventually(lambda: source.waiting == 20)


async def test_a_message_that_was_lost_is_not_withheld(mosquitto: MosquittoProcess) -> None:
    """A topic that was empty when the source subscribed, requested later, accuses no broker."""
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    source = MqttSource(mosquitto.url, [("node/#", 1)])
    async with running(source.run(), publisher.run()):
        await source.wait_connected(5)
        await publisher.wait_connected(5)
        await publisher.publish([Envelope("node/1", b"d", 1, retain=True)])
        assert not (await source.take())[0].retain
        source.request_retained(["node/1"])
        await eventually(lambda: source.status.retained == 1)
        assert source.status.withheld == 0


async def test_oversize_is_counted_and_not_taken(mosquitto: MosquittoProcess) -> None:
    """An oversized payload is counted, and the next message comes on the same connection."""
    publisher = MqttPublisher(mosquitto.url, client_id="p", max_payload_bytes=1_000_000)
    sources = [MqttSource(mosquitto.url, [("#", 1)], client=client) for client in READERS]
    async with running(publisher.run(), *(source.run() for source in sources)):
        await publisher.wait_connected(5)
        for source in sources:
            await source.wait_connected(5)
        await publisher.publish(
            [Envelope("big", b"x" * 1_000_000, 1), Envelope("full", b"x" * 131_072, 1)]
        )
        for source in sources:
            assert topics(await take_until(source, bool)) == ["full"]
            assert (source.status.oversize, source.status.received, source.status.connects) == (
                1,
                2,
                1,
            )


async def test_stalled_consumer_loses_telemetry_by_the_count(mosquitto: MosquittoProcess) -> None:
    """A stalled consumer's queue is bounded: newest telemetry and every event stay.

    The rest is counted.
    """
    publisher = MqttPublisher(mosquitto.url, client_id="p")
    source = MqttSource(mosquitto.url, [("#", 1)], limits=InboxLimits(messages=100))
    async with running(publisher.run(), source.run()):
        await source.wait_connected(5)
        await publisher.wait_connected(5)
        await publisher.publish([Envelope("event/a", b"first", 1)])
        await publisher.publish(Envelope(f"telemetry/{number}", b"") for number in range(1000))
        await publisher.publish([Envelope("event/a", b"last", 1)])
        await eventually(lambda: source.status.received == 1002)
        taken = await source.take()
    assert topics(taken) == [
        "event/a",
        *(f"telemetry/{number}" for number in range(902, 1000)),
        "event/a",
    ]
    assert (source.status.dropped, source.status.queue_peak) == (902, 100)


async def test_a_backlog_is_read_in_few_turns(mosquitto: MosquittoProcess) -> None:
    """A backlog is read within a few event loop turns, not one message a turn."""
    source = MqttSource(mosquitto.url, [("telemetry/#", 0)])
    turns = 0
    async with running(source.run()):
        await source.wait_connected(5)
        lines = b"x" * 200 + b"\n"
        port = str(mosquitto.url.port)
        subprocess.run(  # noqa: ASYNC221  the loop must stand still
            ["mosquitto_pub", "-p", port, "-t", "telemetry/a", "-l"],
            input=500 * lines,
            check=True,
        )
        while source.status.received < 500:
            await asyncio.sleep(0)
            turns += 1
            assert turns < 100


async def test_of_a_backlog_the_newest_of_each_topic_is_handled(
    mosquitto: MosquittoProcess,
) -> None:
    """After a stall under a flood, old messages are shed and counted per topic."""
    limits = InboxLimits(newest_of="telemetry/")
    source = MqttSource(mosquitto.url, [("telemetry/#", 0), ("event/#", 1)], limits=limits)
    async with running(source.run()):
        await source.wait_connected(5)
        lines = b"".join(b"%d\n" % number for number in range(1_000))
        command = ["mosquitto_pub", "-p", str(mosquitto.url.port), "-t", "telemetry/a", "-l"]
        subprocess.run(command, input=lines, check=True)  # noqa: ASYNC221  as above
        while not source.status.received:  # noqa: ASYNC110  each turn of the loop counts
            await asyncio.sleep(0)
        time.sleep(SHED_FROM_S + 0.1)  # noqa: ASYNC251  as above
        subprocess.run(command, input=lines, check=True)  # noqa: ASYNC221  the loop must stand still
        await eventually(lambda: source.status.received == 2_000)
        taken = await source.take()
    assert taken[-1].payload == b"999"
    assert sum(1 + each.shed for each in taken) == 2_000
    assert sum(each.shed for each in taken) == source.status.shed > 500


async def test_user_and_password(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path
) -> None:
    """Only the right user and password are accepted.

    The refusal is plain and without the password.
    """
    file = password_file(tmp_path, "ops", "hunter2")
    broker = mosquitto_with(f"password_file {file}", anonymous=False, user="ops")
    for url, password, words in (
        (
            broker.url,
            Password("hunter3"),
            "not authorised: the broker refused user 'ops' or the password",
        ),
        (
            broker.url,
            None,
            "not authorised: no password was given for user 'ops'; set TRNFLEET_MQTT_PASSWORD",
        ),
        (BrokerUrl("127.0.0.1", broker.port), None, "not authorised: the broker asks for a user"),
    ):
        for protocol, client in SPOKEN:
            source = MqttSource(
                url, [("#", 0)], password=password, protocol=protocol, client=client
            )
            async with running(source.run()):
                with pytest.raises(BrokerError) as error:
                    await source.wait_connected(5)
            assert f"broker {url}: {words}" in str(error.value)
            assert "hunter" not in f"{error.value!r} {source.status}"
    source = MqttSource(broker.url, [("#", 0)], password=Password("hunter2"))
    async with running(source.run()):
        await source.wait_connected(5)
        assert source.status.connected


@pytest.mark.parametrize(
    ("host", "words"),
    [("127.0.0.1", "connection refused"), ("no-such-host.invalid", "name not found")],
)
async def test_unreachable_broker_is_told_at_once(host: str, words: str) -> None:
    """An unreachable broker is reported at the start in one line with host and port."""
    source = MqttSource(BrokerUrl(host, 1), [("#", 0)])
    async with running(source.run()):
        with pytest.raises(BrokerError, match=rf"^broker mqtt://{host}:1: {words}$"):
            await source.wait_connected(5)


async def test_stopping_while_connecting_leaves_nothing_behind() -> None:
    """A client cancelled while connecting closes its connection and leaves no task."""
    closed = asyncio.Event()

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    url = BrokerUrl("127.0.0.1", server.sockets[0].getsockname()[1])
    before = asyncio.all_tasks()
    async with running(MqttSource(url, [("#", 0)]).run()):
        await asyncio.sleep(0.2)
    await asyncio.wait_for(closed.wait(), 1)
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_an_interruption_on_purpose(
    mosquitto: MosquittoProcess, protocol: ProtocolName
) -> None:
    """An interrupted publisher's last will comes at once; it returns after the time.

    It then announces itself again.
    """
    publisher = MqttPublisher(mosquitto.url, client_id="p", protocol=protocol, will=WILL, rng=rng())
    publisher.on_connect(lambda: [Envelope(WILL.topic, b"online", 1, retain=True)])
    source = MqttSource(mosquitto.url, [("#", 1)], protocol=protocol)
    async with running(source.run(), publisher.run()):
        await source.wait_connected(5)
        await publisher.wait_connected(5)
        await take_until(source, lambda taken: b"online" in [each.payload for each in taken])
        begun = time.monotonic()
        publisher.interrupt(3.0)
        await publisher.publish([Envelope("telemetry", b"")] * 5)
        assert publisher.status.dropped == 5
        await take_until(
            source, lambda taken: [each.payload for each in taken] == [b"offline"], 2.5
        )
        await take_until(source, lambda taken: [each.payload for each in taken] == [b"online"], 15)
        assert time.monotonic() - begun >= 3.0
        await eventually(lambda: publisher.status.connects == 2)
        await publisher.publish([Envelope("telemetry", b"")])
        await take_until(source, lambda taken: topics(taken) == ["telemetry"])
    assert publisher.status.dropped == 5
