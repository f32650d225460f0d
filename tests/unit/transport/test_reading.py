"""The reading connection, with a test as the broker on its socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Any

import mqtt5
import pytest

from trnfleet.clock import ManualClock
from trnfleet.transport import connection as connection_module
from trnfleet.transport import reading
from trnfleet.transport.diagnosis import LinkDown
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import SHED_FROM_S, Inbox, InboxLimits, Reception
from trnfleet.transport.reading import PAUSE_S, TURN_MESSAGES, ReadingConnection
from trnfleet.transport.security import Login
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.transport.writing import WritingConnection
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

CONNACK = mqtt5.ConnAckPacket()


class Peer:
    """The broker's end of the socket, and the inbox behind the connection."""

    def __init__(self, own: socket.socket, limits: InboxLimits) -> None:
        self.socket = own
        self.clock = ManualClock()
        self.status = LinkStatus()
        self.inbox = Inbox(limits, self.status)
        self._received = b""

    async def receive(self) -> Any:
        """Return the next packet of the connection; None at its end."""
        while True:
            with contextlib.suppress(IndexError):
                packet, size = mqtt5.read(memoryview(self._received))
                self._received = self._received[size:]
                return packet
            data = await asyncio.get_running_loop().sock_recv(self.socket, 65_536)
            if not data:
                return None
            self._received += data

    async def send(self, *packets: Any) -> None:
        """Send packets."""
        data = b"".join(packet.write() for packet in packets)
        await asyncio.get_running_loop().sock_sendall(self.socket, data)


@contextlib.asynccontextmanager
async def connected(
    monkeypatch: pytest.MonkeyPatch, limits: InboxLimits | None = None, connack: Any = CONNACK
) -> AsyncIterator[tuple[ReadingConnection, Peer]]:
    """Open a connection to a peer that answers CONNECT; close both at the end."""
    near, far = socket.socketpair()
    far.setblocking(False)
    monkeypatch.setattr(connection_module, "dial", lambda *_: near)
    peer = Peer(far, limits or InboxLimits())
    reception = Reception(
        peer.inbox.put_all,
        topic_pattern("t/#"),
        peer.status,
        is_full=lambda: peer.inbox.is_full,
    )
    login = Login(
        BrokerUrl("h", user="ops"), "c-r", Password("hunter2"), keepalive_s=10, is_known=True
    )
    connection = ReadingConnection(login, peer.clock, reception)
    opening = asyncio.create_task(connection.open())
    try:
        connect = await peer.receive()
        assert (connect.client_id, connect.username, connect.password) == ("c-r", "ops", b"hunter2")
        assert (connect.keep_alive, connect.clean_start, connect.topic_alias_max) == (10, True, 0)
        await peer.send(connack)
        await opening
        yield connection, peer
        await connection.close()
    finally:
        opening.cancel()
        far.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Give the loop its turns until something is so."""
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110  what is waited for is no event
            await asyncio.sleep(0)


def message(number: int) -> Any:
    return mqtt5.PublishPacket(
        f"t/{number}", b"x", qos=mqtt5.QoS.AT_LEAST_ONCE, packet_id=number + 1
    )


async def test_who_leaves_says_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` sends DISCONNECT, `cut` sends nothing; both close the socket."""
    async with connected(monkeypatch) as (connection, peer):
        await connection.close()
        assert isinstance(await peer.receive(), mqtt5.DisconnectPacket)
        assert await peer.receive() is None
    async with connected(monkeypatch) as (connection, peer):
        connection.cut("enough")
        assert connection.ended.result() == "enough"
        assert await peer.receive() is None


async def test_a_broker_that_reads_no_acknowledgements_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unsent acknowledgements do not fill the memory, whatever the broker sends on."""
    monkeypatch.setattr(reading, "MOST_UNSENT_BYTES", 1_000)
    async with connected(monkeypatch) as (connection, peer):
        connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        flood = asyncio.create_task(peer.send(*map(message, range(20_000))))
        try:
            await until(connection.ended.done)
        finally:
            flood.cancel()
        assert connection.ended.result() == "the broker does not read our acknowledgements"


async def test_an_answer_finds_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reason codes belong to the subscription of their number.

    Retained messages are marked, later ones not.
    """
    async with connected(monkeypatch) as (connection, peer):
        subscribing = asyncio.create_task(connection.subscribe([("t/#", 1), ("u/#", 0)]))
        asked = await peer.receive()
        assert [(each.pattern, int(each.max_qos)) for each in asked.topic_filters] == [
            ("t/#", 1),
            ("u/#", 0),
        ]
        assert not any(each.retain_as_published or each.no_local for each in asked.topic_filters)
        codes = mqtt5.SubAckReasonCode
        await peer.send(mqtt5.SubAckPacket(asked.packet_id + 1, [codes.NOT_AUTHORIZED] * 2))
        await peer.send(
            mqtt5.SubAckPacket(
                asked.packet_id, [codes.GRANTED_QOS_AT_LEAST_ONCE, codes.NOT_AUTHORIZED]
            )
        )
        assert await subscribing == ["u/#"]
        leaving = asyncio.create_task(connection.unsubscribe(["t/#"]))
        asked = await peer.receive()
        assert asked.patterns == ["t/#"]
        await peer.send(mqtt5.UnsubAckPacket(asked.packet_id, [mqtt5.UnsubAckReasonCode.SUCCESS]))
        await leaving


@pytest.mark.parametrize("answered", [0, 1])
async def test_a_request_whose_answer_does_not_come_is_sent_again(
    answered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with a full queue drops answers; the answer to either request counts."""
    monkeypatch.setattr(reading, "ASK_AGAIN_S", 0.02)
    async with connected(monkeypatch) as (connection, peer):
        subscribing = asyncio.create_task(connection.subscribe([("t/#", 0)]))
        requests = await peer.receive(), await peer.receive()
        assert requests[0].packet_id != requests[1].packet_id
        assert [[each.pattern for each in request.topic_filters] for request in requests] == [
            ["t/#"],
            ["t/#"],
        ]
        granted = mqtt5.SubAckReasonCode.GRANTED_QOS_AT_MOST_ONCE
        await peer.send(mqtt5.SubAckPacket(requests[answered].packet_id, [granted]))
        assert await subscribing == []
        assert not connection.ended.done()


async def test_who_waits_for_an_answer_hears_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection ended by the broker fails requests with the broker's reason."""
    async with connected(monkeypatch) as (connection, peer):
        subscribing = asyncio.create_task(connection.subscribe([("t/#", 1)]))
        await peer.receive()
        await peer.send(
            mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode.SERVER_SHUTTING_DOWN)
        )
        with pytest.raises(LinkDown, match="the broker is shutting down"):
            await subscribing
        with pytest.raises(LinkDown, match="the broker is shutting down"):
            await connection.unsubscribe(["t/#"])


async def test_who_waits_for_an_answer_hears_of_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed connection leaves no request waiting, and refuses the next one."""
    async with connected(monkeypatch) as (connection, peer):
        subscribing = asyncio.create_task(connection.subscribe([("t/#", 1)]))
        await peer.receive()
        await connection.close()
        async with asyncio.timeout(1):
            with pytest.raises(LinkDown):
                await subscribing
        with pytest.raises(LinkDown, match="connection closed"):
            await connection.unsubscribe(["t/#"])


async def test_a_refusal_is_told_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason code of CONNACK decides, and the password is in none of it."""
    refused = mqtt5.ConnAckReasonCode
    for code, words in (
        (refused.NOT_AUTHORIZED, "not authorised: the broker refused user 'ops' or the password"),
        (refused.SERVER_BUSY, "the broker is busy"),
        (refused.UNSUPPORTED_PROTOCOL_VERSION, "the broker does not support this MQTT version"),
        (refused.PAYLOAD_FORMAT_INVALID, "reason code 153"),
        (refused.USE_ANOTHER_SERVER, "use another server"),
    ):
        with pytest.raises(LinkDown) as error:
            async with connected(monkeypatch, connack=mqtt5.ConnAckPacket(reason_code=code)):
                pass
        assert str(error.value) == words
        assert error.value.wrong_version == (code == refused.UNSUPPORTED_PROTOCOL_VERSION)


async def test_a_broker_without_a_sign_of_life_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is pinged once per keepalive; any packet is an answer, silence ends it."""
    async with connected(monkeypatch) as (connection, peer):
        await peer.clock.advance(10)
        assert isinstance(await peer.receive(), mqtt5.PingReqPacket)
        await peer.send(message(0))
        assert isinstance(await peer.receive(), mqtt5.PubAckPacket)
        await peer.clock.advance(10)
        assert not connection.ended.done()
        await peer.clock.advance(10)
        assert connection.ended.result() == "no answer within twice the keepalive"


async def test_the_keepalive_is_the_one_that_the_broker_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker's keepalive in CONNACK sets the ping interval."""
    async with connected(monkeypatch, connack=mqtt5.ConnAckPacket(server_keep_alive=3)) as (
        _,
        peer,
    ):
        await peer.clock.advance(3)
        assert isinstance(await peer.receive(), mqtt5.PingReqPacket)


@pytest.mark.parametrize("wanted_s", [0, 65_535])
async def test_a_half_open_connection_is_found_whatever_the_broker_wants(
    wanted_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a longer broker keepalive, or none, ours applies."""
    connack = mqtt5.ConnAckPacket(server_keep_alive=wanted_s)
    async with connected(monkeypatch, connack=connack) as (connection, peer):
        await peer.clock.advance(10)
        assert isinstance(await peer.receive(), mqtt5.PingReqPacket)
        await peer.clock.advance(10)
        assert connection.ended.result() == "no answer within twice the keepalive"


async def test_a_failure_while_a_message_is_taken_in_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer's exception ends the connection and does not recur with each read."""
    async with connected(monkeypatch) as (connection, peer):
        monkeypatch.setattr(peer.inbox, "_limits", None)
        await peer.send(message(0))
        await until(connection.ended.done)
        assert connection.ended.result() == "reading failed"


@pytest.mark.parametrize("password", ["\udcff", "x" * 65_536])
async def test_a_password_that_cannot_be_sent_is_named(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A non-UTF-8 or too long password does not end the program.

    Nor is it reported as a host name.
    """
    near, far = socket.socketpair()
    monkeypatch.setattr(connection_module, "dial", lambda *_: near)
    login = Login(BrokerUrl("h", user="ops"), "c", Password(password))
    connection = ReadingConnection(
        login, ManualClock(), Reception(None, topic_pattern("t/#"), LinkStatus())
    )
    with pytest.raises(LinkDown, match="password is not UTF-8, or over 65,535 bytes"):
        await connection.open()
    assert far.recv(1) == b""
    far.close()


async def test_a_full_inbox_pauses_reading_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the consumer is behind messages wait in the socket; none is lost."""
    limits = InboxLimits(messages=8)
    async with connected(monkeypatch, limits) as (connection, peer):
        await peer.send(*(message(number) for number in range(7)))
        await until(lambda: peer.status.received == 7)
        await peer.send(*(message(number) for number in range(7, 14)))
        for _ in range(50):
            await asyncio.sleep(0)
        assert peer.status.received == 7
        assert len(await peer.inbox.take()) == 7
        await until(lambda: peer.status.received == 14)
        assert (peer.status.dropped, connection.ended.done()) == (0, False)


async def test_a_pause_ends_by_itself_and_does_not_begin_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a stopped consumer, reading resumes after a second; dropped messages are counted."""
    limits = InboxLimits(messages=8)
    async with connected(monkeypatch, limits) as (_, peer):
        await peer.send(*(message(number) for number in range(7)))
        await until(lambda: peer.status.received == 7)
        await peer.send(message(7), message(8))
        await peer.clock.advance(PAUSE_S)
        await until(lambda: peer.status.received == 9)
        await peer.send(message(9))
        await until(lambda: peer.status.received == 10)
        assert peer.status.dropped == 2


async def test_a_reader_that_is_behind_reads_on_instead_of_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New messages replace waiting ones, and these are counted as shed."""
    limits = InboxLimits(messages=8, newest_of="t/")
    async with connected(monkeypatch, limits) as (connection, peer):
        await peer.send(mqtt5.PublishPacket("t/a", b"0"))
        await until(lambda: peer.status.received == 1)
        await peer.clock.advance(SHED_FROM_S)
        await peer.send(*(mqtt5.PublishPacket("t/a", b"%d" % number) for number in range(1, 41)))
        await until(lambda: peer.status.received == 41)
        taken = await peer.inbox.take()
        assert peer.status.received == len(taken) + peer.status.shed
        assert (peer.status.dropped, connection.ended.done()) == (0, False)
        assert taken[-1].payload == b"40"
        assert peer.status.shed > 0
        # It was behind a moment ago, and nothing is left with the broker.
        await peer.send(*(mqtt5.PublishPacket("t/a", b"%d" % number) for number in range(41, 81)))
        await until(lambda: peer.status.received == 81)
        assert (peer.status.dropped, peer.inbox.is_full) == (0, False)


@pytest.mark.parametrize("kind", ["known", "new", "answers"])
async def test_a_turn_of_the_loop_ends_after_so_many_packets(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much has come: keys and timers have their turn between two reads."""
    packets: dict[str, Any] = {
        "known": mqtt5.PublishPacket("t/a", b"x"),
        "new": mqtt5.PublishPacket("t/a", b"x", retain=True),
        "answers": mqtt5.PingRespPacket(),
    }
    data = packets[kind].write()
    async with connected(monkeypatch) as (connection, peer):
        await peer.send(packets["known"])
        await until(lambda: peer.status.received == 1)
        monkeypatch.setattr(reading, "READ_BYTES", len(data))
        before = connection._packets.count
        peer.socket.send(data * 2 * TURN_MESSAGES)
        connection._read()
        assert connection._packets.count - before == TURN_MESSAGES
        if kind != "answers":
            assert peer.status.received - 1 == TURN_MESSAGES


class TlsThatWants:
    """A TLS socket whose next call needs the other direction first."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self.wants: dict[str, Exception] = {}
        self.sends = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def recv(self, size: int) -> bytes:
        if error := self.wants.pop("recv", None):
            raise error
        return self._own.recv(size)

    def send(self, data: bytes) -> int:
        self.sends += 1
        if error := self.wants.get("send"):
            raise error
        return self._own.send(data)


async def test_tls_may_read_before_it_writes_and_write_before_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TLS is waited for without polling in every turn; nothing received stays in it."""
    near, far = socket.socketpair()
    far.setblocking(False)
    tls = TlsThatWants(near)
    monkeypatch.setattr(connection_module, "dial", lambda *_: tls)
    peer = Peer(far, InboxLimits())
    reception = Reception(peer.inbox.put_all, topic_pattern("t/#"), peer.status)
    connection = ReadingConnection(Login(BrokerUrl("h"), "c", is_known=True), peer.clock, reception)
    opening = asyncio.create_task(connection.open())
    await peer.receive()
    await peer.send(CONNACK)
    await opening
    tls.wants["send"] = ssl.SSLWantReadError()
    await peer.send(message(0))
    await until(lambda: peer.status.received == 1)
    before = tls.sends
    for _ in range(20):
        await asyncio.sleep(0)
    assert tls.sends == before
    del tls.wants["send"]
    tls.wants["recv"] = ssl.SSLWantWriteError()
    await peer.send(message(1))
    await until(lambda: peer.status.received == 2)
    assert [(await peer.receive()).packet_id for _ in range(2)] == [1, 2]
    await connection.close()
    far.close()


async def test_who_gives_up_while_a_thread_dials_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread closes its new socket if the connection was given up meanwhile."""
    near, far = socket.socketpair()
    may_go = asyncio.Event()
    loop = asyncio.get_running_loop()

    def dial(*_: Any) -> socket.socket:
        asyncio.run_coroutine_threadsafe(may_go.wait(), loop).result()
        return near

    monkeypatch.setattr(connection_module, "dial", dial)
    reception = Reception(None, topic_pattern("t/#"), LinkStatus())
    connection = ReadingConnection(Login(BrokerUrl("h"), "c"), ManualClock(), reception)
    opening = asyncio.create_task(connection.open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    may_go.set()
    far.setblocking(False)
    assert await loop.sock_recv(far, 1) == b""
    far.close()


@pytest.mark.parametrize("is_reading", [True, False])
async def test_a_port_on_which_nothing_listens_is_unreached(is_reading: bool) -> None:
    """With either client; a port that accepts and closes is not unreached."""
    reception = Reception(None, topic_pattern("t/#"), LinkStatus())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        login = Login(BrokerUrl("127.0.0.1", listener.getsockname()[1]), "c", is_known=True)

        def connection() -> ReadingConnection | WritingConnection:
            if is_reading:
                return ReadingConnection(login, ManualClock(), reception)
            return WritingConnection(login, "5", ManualClock(), reception)

        with pytest.raises(LinkDown, match=r"^connection refused$") as down:
            await connection().open()
        assert down.value.unreached
        listener.listen()
        opening = asyncio.create_task(connection().open())
        accepted, _ = await asyncio.to_thread(listener.accept)
        accepted.close()
        with pytest.raises(LinkDown) as down:
            await opening
        assert not down.value.unreached
