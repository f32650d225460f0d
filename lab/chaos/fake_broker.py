"""A loopback broker answering as in `WAYS`: mostly wrong, sometimes only unusual.

It runs in a thread of its own with a loop of its own, and knows just enough of MQTT 3.1.1 and 5 to
be wrong at the right place.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from trnfleet.wire.ports import Envelope

CONNECT = 1
PUBLISH = 3
SUBSCRIBE = 8
PING = 12
MIB = 2**20


class Closed(Exception):  # noqa: N818  it ends a connection as planned
    """The broker closes this connection."""


def packet(first: int, body: bytes, *, announced: int | None = None) -> bytes:
    """Return a packet.

    `announced` is the length in its header.
    """
    remaining = len(body) if announced is None else announced
    header = bytearray([first])
    while True:
        remaining, digit = divmod(remaining, 128)
        header.append(digit | (128 if remaining else 0))
        if not remaining:
            return bytes(header) + body


def publication(
    topic: bytes, payload: bytes, *, v5: bool, first: int = 0x30, properties: bytes = b""
) -> bytes:
    """Return a PUBLISH with QoS 0."""
    more = bytes([len(properties)]) + properties if v5 else b""
    return packet(first, len(topic).to_bytes(2) + topic + more + payload)


class Peer:
    """One client's connection, and the usual answers."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: FakeBroker
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.broker = broker
        self.random = broker.random
        self.v5 = False
        self.subscribed = False

    async def serve(self) -> None:
        """Answer until the client is gone."""
        answers = {CONNECT: "connect", PUBLISH: "publish", SUBSCRIBE: "subscribe", PING: "ping"}
        way = self.broker.way
        while True:
            kind, body = await self._packet()
            if kind == CONNECT:
                # A client that asks whether this is TLS begins with the same bits.
                self.v5 = body[6:7] == b"\x05"
            name = answers.get(kind)
            if name is None:
                if kind == 14:
                    raise Closed
                continue
            own = getattr(way, name)
            answer: Callable[[Peer, int, bytes], object] = own or getattr(_USUAL, name)
            done = answer(self, kind, body)
            if asyncio.iscoroutine(done):
                await done
            await self.writer.drain()
            if kind == SUBSCRIBE and way.then is not None and not self.subscribed:
                self.subscribed = True
                done = way.then(self)
                if asyncio.iscoroutine(done):
                    await done
                await self.writer.drain()

    async def _packet(self) -> tuple[int, bytes]:
        first = (await self.reader.readexactly(1))[0]
        self.first = first
        length = shift = 0
        while True:
            digit = (await self.reader.readexactly(1))[0]
            length |= (digit & 127) << shift
            shift += 7
            if not digit & 128:
                return first >> 4, await self.reader.readexactly(length)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    def accept(self, properties: bytes = b"") -> None:
        """Send a CONNACK of success."""
        self.send(
            packet(0x20, b"\x00\x00" + (bytes([len(properties)]) + properties if self.v5 else b""))
        )

    def granted(self, body: bytes) -> int:
        """Return the number of filters of a SUBSCRIBE."""
        at = 2
        count = 0
        if self.v5:
            at += 1 + body[2]
        while at < len(body):
            at += 2 + int.from_bytes(body[at : at + 2]) + 1
            count += 1
        return count

    def suback(self, body: bytes, codes: bytes, *, of: int = 0) -> None:
        """Send a SUBACK; `of` is added to the identifier."""
        number = (int.from_bytes(body[:2]) + of) & 0xFFFF
        self.send(packet(0x90, number.to_bytes(2) + (b"\x00" if self.v5 else b"") + codes))

    def puback(self, body: bytes, *, of: int = 0, reason: int | None = None) -> None:
        """Answer a PUBLISH of QoS 1."""
        if not self.first & 0x06:
            return
        at = 2 + int.from_bytes(body[:2])
        number = (int.from_bytes(body[at : at + 2]) + of) & 0xFFFF
        more = b"" if reason is None or not self.v5 else bytes([reason, 0])
        self.send(packet(0x40, number.to_bytes(2) + more))

    def deliver(self, envelope: Envelope, *, first: int = 0x30, times: int = 1) -> None:
        """Send a message, as any broker would."""
        data = publication(envelope.topic.encode(), envelope.payload, v5=self.v5, first=first)
        self.send(data * times)


class Way(NamedTuple):
    """What a broker does otherwise than usual."""

    name: str
    connect: Callable[[Peer, int, bytes], object] | None = None
    subscribe: Callable[[Peer, int, bytes], object] | None = None
    publish: Callable[[Peer, int, bytes], object] | None = None
    ping: Callable[[Peer, int, bytes], object] | None = None
    then: Callable[[Peer], object] | None = None
    """Called behind the first SUBACK."""


_USUAL = Way(
    "usual",
    connect=lambda peer, _kind, _body: peer.accept(),
    subscribe=lambda peer, _kind, body: peer.suback(body, b"\x01" * peer.granted(body)),
    publish=lambda peer, _kind, body: peer.puback(body),
    ping=lambda peer, _kind, _body: peer.send(b"\xd0\x00"),
)


class FakeBroker:
    """A broker of one way, while it is entered."""

    def __init__(self, way: Way, random: Random, fleet: Sequence[Envelope] = ()) -> None:
        self.way = way
        self.random = random
        self.fleet = fleet
        """Good messages that ways deliver."""
        self.port = 0
        self.connections = 0
        self.error: BaseException | None = None
        """A mistake of this broker's own."""
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """The broker's address."""
        return f"mqtt://127.0.0.1:{self.port}"

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await Peer(reader, writer, self).serve()
        except (Closed, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001  told to the harness, which fails
            self.error = error
        finally:
            with contextlib.suppress(Exception):
                writer.close()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(5)
