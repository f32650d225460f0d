from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.waiting import eventually, running, take_until
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from lab.brokers.readers import READERS
from trnfleet.errors import BrokerError
from trnfleet.transport import connection
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.packets import MAX_PACKET_BYTES
from trnfleet.transport.security import VERIFIED, TlsSettings, TokenFile
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.transport.websocket import MAX_FRAME_BYTES
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from support.processes.certificates import Certificates
    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.transport.connection import ClientName

    Start = Callable[..., MosquittoProcess]

pytestmark = pytest.mark.broker


async def why_not(url: BrokerUrl, tls: TlsSettings = VERIFIED, password: Any = None) -> str:
    """Return the reason of a failed connection, the same from both readers.

    Empty if it succeeds.
    """

    async def why_not_with(client: ClientName) -> str:
        source = MqttSource(url, [("#", 0)], tls=tls, password=password, client=client)
        async with running(source.run()):
            try:
                await source.wait_connected(10)
            except BrokerError as error:
                return str(error).partition(f"{url}: ")[2]
        return ""

    said = await asyncio.gather(*(why_not_with(client) for client in READERS))
    assert len(set(said)) == 1, said
    return said[0]


def trusting(certificates: Certificates, **settings: Any) -> TlsSettings:
    return TlsSettings(ca=certificates.pem("ca"), **settings)


def as_client(certificates: Certificates, name: str = "client") -> TlsSettings:
    return trusting(certificates, cert=certificates.pem(name), key=certificates.key(name))


@pytest.mark.parametrize("scheme", ["mqtts", "wss"])
async def test_a_burst_comes_through_every_kind_of_connection(
    scheme: str, mosquitto_with: Start, certificates: Certificates
) -> None:
    """A burst with large messages arrives in order and complete over TLS and websockets."""
    broker = mosquitto_with(*certificates.listener(), "max_queued_messages 0", scheme=scheme)
    tls = trusting(certificates)
    publisher = MqttPublisher(broker.url, client_id="p", tls=tls)
    sources = [MqttSource(broker.url, [("t/#", 0)], tls=tls, client=client) for client in READERS]
    sent = [
        b"%d" % number + bytes(100_000 if number % 1_000 == 0 else 100) for number in range(2_000)
    ]
    async with running(publisher.run(), *(source.run() for source in sources)):
        await publisher.wait_connected(5)
        for source in sources:
            await source.wait_connected(5)
        result = await publisher.publish(Envelope("t/a", payload) for payload in sent)
        assert result.sent == len(sent)
        for source in sources:
            taken = await take_until(source, lambda all_: len(all_) >= len(sent), 30)
            assert [each.payload for each in taken] == sent
            assert (source.status.dropped, source.status.connects) == (0, 1)


async def test_a_packet_over_the_limit_is_skipped_in_tls(
    mosquitto_with: Start, certificates: Certificates
) -> None:
    """Over TLS, too, an oversized packet is counted and the next one arrives."""
    broker = mosquitto_with(*certificates.listener(), scheme="mqtts")
    tls = trusting(certificates)
    size = MAX_PACKET_BYTES + 100_000
    publisher = MqttPublisher(broker.url, client_id="p", tls=tls, max_payload_bytes=size)
    source = MqttSource(broker.url, [("#", 0)], tls=tls, protocol="3.1.1")
    async with running(publisher.run(), source.run()):
        await publisher.wait_connected(5)
        await source.wait_connected(5)
        await publisher.publish([Envelope("a", bytes(size)), Envelope("a", b"after")])
        assert [each.payload for each in await take_until(source, bool, 10)] == [b"after"]
        assert (source.status.oversize, source.status.connects) == (1, 1)


@contextlib.asynccontextmanager
async def websocket_broker(*frames: bytes) -> AsyncIterator[BrokerUrl]:
    """Accept MQTT 3.1.1 over a websocket, and send frames after each subscription."""

    async def serve_one(client: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for packet in client:
                assert isinstance(packet, bytes)
                if packet[0] == 0x10:
                    await client.send(b"\x20\x02\x00\x00")
                elif packet[0] == 0x82:
                    await client.send(b"\x90\x03" + packet[2:4] + b"\x00")
                    for frame in frames:
                        await client.send(frame)

    async with serve(serve_one, "127.0.0.1", 0, subprotocols=[Subprotocol("mqtt")]) as server:
        (listening,) = server.sockets
        yield BrokerUrl("127.0.0.1", listening.getsockname()[1]).spoken("ws")


async def test_a_packet_over_the_limit_is_skipped_in_a_websocket() -> None:
    """An oversized packet is counted, and packets split over frames are joined."""
    size = MAX_PACKET_BYTES + 100_000
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    large = b"\x30" + length + b"\x00\x01a" + bytes(size - 3)
    small = b"\x30\x08\x00\x01aafter"
    async with websocket_broker(large + small[:4], small[4:] + small) as url:
        source = MqttSource(url, [("#", 0)], protocol="3.1.1")
        async with running(source.run()):
            await source.wait_connected(5)
            taken = await take_until(source, lambda all_: len(all_) >= 2)
            assert [each.payload for each in taken] == [b"after"] * 2
            assert (source.status.oversize, source.status.connects) == (1, 1)


async def test_a_frame_over_the_limit_ends_the_connection() -> None:
    """An unbounded websocket frame is refused.

    A frame is received as a whole before it is read.
    """
    async with websocket_broker(bytes(MAX_FRAME_BYTES + 1)) as url:
        source = MqttSource(url, [("#", 0)], protocol="3.1.1")
        async with running(source.run()):
            await eventually(lambda: source.status.last_error == "a websocket frame over 16 MiB")


async def test_a_connection_that_says_nothing_any_more_ends(
    mosquitto_with: Start, certificates: Certificates
) -> None:
    """The keepalive finds a half-open connection over TLS and websockets, and reconnects."""
    brokers = [
        mosquitto_with(*certificates.listener(), scheme=scheme) for scheme in ("wss", "mqtts")
    ]
    tls = trusting(certificates)
    sources = [
        MqttSource(broker.url, [("#", 0)], tls=tls, keepalive_s=1, client=client)
        for broker in brokers
        for client in READERS
    ]
    async with running(*(source.run() for source in sources)):
        for source in sources:
            await source.wait_connected(5)
        for broker in brokers:
            broker.pause()
        await eventually(lambda: not any(source.status.connected for source in sources), 8)
        for broker in brokers:
            broker.resume()
        await eventually(lambda: all(source.status.connects == 2 for source in sources), 8)


async def test_a_port_that_speaks_another_protocol_is_named(
    mosquitto_with: Start, certificates: Certificates
) -> None:
    """A wrong scheme is reported with the port's protocol and the right URL."""
    tls = trusting(certificates)
    brokers = {
        "mqtt": mosquitto_with(),
        "ws": mosquitto_with(scheme="ws"),
        "mqtts": mosquitto_with(*certificates.listener(), scheme="mqtts"),
        "wss": mosquitto_with(*certificates.listener(), scheme="wss"),
    }
    expected = {
        ("mqtt", "mqtts"): "speaks TLS: write mqtts://",
        ("mqtt", "ws"): "speaks websockets: write ws://",
        ("mqtt", "wss"): "speaks TLS: write mqtts://",
        ("mqtts", "mqtt"): "speaks MQTT without TLS: TLS may have been removed on the way",
        ("mqtts", "ws"): "speaks websockets without TLS: TLS may have been removed on the way",
        ("mqtts", "wss"): "speaks websockets: write wss://",
        ("ws", "mqtt"): "speaks MQTT without websockets: write mqtt://",
        ("ws", "mqtts"): "speaks TLS: write wss://",
        ("ws", "wss"): "speaks TLS: write wss://",
        (
            "wss",
            "mqtt",
        ): "speaks MQTT without TLS or websockets: TLS may have been removed on the way",
        ("wss", "mqtts"): "speaks MQTT without websockets: write mqtts://",
        ("wss", "ws"): "speaks websockets without TLS: TLS may have been removed on the way",
    }
    said = await asyncio.gather(
        *(
            why_not(
                brokers[spoken].url.spoken(written),
                tls if written in {"mqtts", "wss"} else VERIFIED,
            )
            for written, spoken in expected
        )
    )
    for (pair, words), line in zip(expected.items(), said, strict=True):
        assert words in line, (pair, line)
        assert line.startswith(f"port {brokers[pair[1]].port} "), (pair, line)


async def test_a_web_server_and_a_silent_port_are_named() -> None:
    """An HTTP port is reported as no broker, and a silent one differently."""

    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read(100)
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            writer.close()

    async with served(web) as url:
        assert "speaks HTTP, not MQTT" in await why_not(url)
        assert "speaks HTTP without TLS: TLS may have been removed" in await why_not(
            url.spoken("mqtts")
        )
        assert "no websocket at the path /mqtt (HTTP status 404)" in await why_not(url.spoken("ws"))


@contextlib.asynccontextmanager
async def served(serve: Callable[..., Any]) -> AsyncIterator[BrokerUrl]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield BrokerUrl("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


async def test_no_password_goes_to_a_port_that_may_be_another(certificates: Certificates) -> None:
    """A port's protocol is probed without user and password.

    Only the URL's own CONNECT before had them.
    """
    heard: list[bytes] = []

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            heard.append(await reader.read(1_000))
            writer.close()

    async with served(mute) as url:
        user = replace(url, user="ops")
        line = await why_not(user, password=Password("s3cret"))
        assert line == "the broker ends the connection instead of an answer to CONNECT"
        assert [b"s3cret" in each for each in heard].count(True) == 4, (
            "one for each reader and version of MQTT"
        )
        heard.clear()
        assert await why_not(user.spoken("mqtts"), trusting(certificates), Password("s3cret"))
        assert not any(b"s3cret" in each for each in heard)


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        ("elsewhere", "is not for the host 127.0.0.1; it is for broker.example, other.example"),
        ("expired", "expired on Jan  1 00:00:00 2025 GMT"),
        ("future", "is valid only from Jan  1 00:00:00 2047 GMT"),
        ("alone", "is signed by itself alone 'alone', which is not in --ca"),
    ],
)
async def test_a_certificate_that_is_no_good_is_refused(
    certificate: str, words: str, mosquitto_with: Start, certificates: Certificates
) -> None:
    """One line reports a broker certificate's fault: name, end, start or issuer."""
    broker = mosquitto_with(*certificates.listener(certificate), scheme="mqtts")
    line = await why_not(broker.url, trusting(certificates))
    assert f"the broker's certificate {words}" in line


async def test_an_unknown_authority_is_refused_unless_nothing_is_verified(
    mosquitto_with: Start, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's or the file's authorities decide.

    Without verification each connection is a warning.
    """
    broker = mosquitto_with(*certificates.listener(), scheme="mqtts")
    unknown = "the broker's certificate is of an unknown authority 'ca of the tests'"
    assert await why_not(broker.url) == f"{unknown}; give the authority's with --ca FILE"
    other = certificates.pem("other-ca")
    assert (
        await why_not(broker.url, TlsSettings(ca=other))
        == f"{unknown}, which is not in --ca {other}"
    )
    assert await why_not(replace(broker.url, host="localhost"), trusting(certificates)) == ""
    warned: list[str] = []
    monkeypatch.setattr(connection.log, "warning", lambda event, **_: warned.append(event))
    insecure = TlsSettings(insecure=True)
    assert MqttSource(broker.url, [("#", 0)], tls=insecure).status.is_unverified
    for _ in range(2):
        assert await why_not(broker.url, insecure) == ""
    assert warned == ["broker_not_verified"] * 4


@pytest.mark.parametrize("version", ["tlsv1.2", "tlsv1.3"])
async def test_client_certificates(
    version: str, mosquitto_with: Start, certificates: Certificates
) -> None:
    """A missing client certificate and one of another authority are reported differently.

    In TLS 1.3 the broker refuses after the handshake.
    """
    listener = certificates.listener(asks_client=True)
    broker = mosquitto_with(*listener, f"tls_version {version}", scheme="mqtts")
    assert await why_not(broker.url, as_client(certificates)) == ""
    missing = await why_not(broker.url, trusting(certificates))
    assert missing == "the broker asks for a client certificate; give --cert and --key"
    refused = await why_not(broker.url, as_client(certificates, "stranger"))
    assert refused == "the broker refuses the client certificate: it does not know its authority"


async def test_a_token_is_read_for_every_connection(
    mosquitto_with: Start, tmp_path: Path, passwords: Callable[..., str]
) -> None:
    """A replaced token is used from the next connection on.

    While its file is missing, this is the reason.
    """
    file = passwords(ops="first")
    broker = mosquitto_with(f"password_file {file}", anonymous=False, user="ops")
    token = tmp_path / "token"

    async def why_not_by_token(text: str) -> str:
        token.unlink(missing_ok=True)
        if text:
            token.write_text(f"{text}\n")
            token.chmod(0o600)
        return await why_not(broker.url, password=kept)

    kept = TokenFile(str(token))
    assert await why_not_by_token("first") == ""
    refused = f"not authorised: the broker refused user 'ops' or the token in {token}"
    assert await why_not_by_token("second") == refused
    assert await why_not_by_token("") == f"--token-file {token}: no such file or directory"
    assert await why_not_by_token("first") == ""
