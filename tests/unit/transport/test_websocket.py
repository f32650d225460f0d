"""Websockets on pairs of sockets."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import socket
import threading

import pytest

from trnfleet.transport.diagnosis import WebSocketLimitError, WebSocketRefusedError
from trnfleet.transport.websocket import MOST_PINGS, WebSocket

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PING = b"\x89\x7d" + bytes(125)
"""Of the longest content."""


def accept(server: socket.socket) -> None:
    """Answer the request for a websocket."""
    found = re.search(rb"Sec-WebSocket-Key: (\S+)", server.recv(4_096))
    assert found
    accepted = base64.b64encode(hashlib.sha1(found[1] + GUID).digest())  # noqa: S324  as RFC 6455 has it
    server.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accepted + b"\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
    )


def ping(client: WebSocket, server: socket.socket, count: int) -> None:
    """Send pings, and let the client read them."""
    for _ in range(count):
        server.sendall(PING)
        with contextlib.suppress(BlockingIOError):
            client.recv(1)


@pytest.fixture
def pair() -> tuple[WebSocket, socket.socket]:
    """Return a websocket and the server's end, with small buffers for its answers."""
    ours, server = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    answering = threading.Thread(target=accept, args=(server,))
    answering.start()
    client = WebSocket(ours, host="h", port=80, path="/mqtt", is_secure=False, timeout_s=5.0)
    answering.join()
    client.setblocking(False)
    return client, server


def test_pings_whose_answers_are_not_taken_end_the_connection(
    pair: tuple[WebSocket, socket.socket],
) -> None:
    """Unread answers to pings are bounded."""
    client, server = pair
    with (
        contextlib.closing(client),
        server,
        pytest.raises(WebSocketLimitError, match="over 1,000 pings"),
    ):
        ping(client, server, 2 * MOST_PINGS)


def test_an_answer_that_drips_is_given_up() -> None:
    """A request with an endlessly dripping answer is given up."""

    class Dripping(socket.socket):
        reads = 0

        def sendall(self, *_: object) -> None:
            """Take the request."""

        def recv(self, *_: object) -> bytes:
            """Return another byte of a long header."""
            self.reads += 1
            assert self.reads < 1_000
            return b"H"

    with Dripping() as dripping, pytest.raises(WebSocketRefusedError, match="no answer in HTTP"):
        WebSocket(dripping, host="h", port=80, path="/mqtt", is_secure=False, timeout_s=5.0)


def test_pings_of_a_server_that_takes_their_answers_go_on(
    pair: tuple[WebSocket, socket.socket],
) -> None:
    """What was answered counts no more."""
    client, server = pair
    with contextlib.closing(client), server:
        for _ in range(150):
            ping(client, server, 10)
            server.recv(65_536)
