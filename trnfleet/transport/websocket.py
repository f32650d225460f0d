"""A websocket with a socket's methods: it sends and receives the MQTT within it.

Framing is by `websockets`, which does no input and output of its own.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
from typing import TYPE_CHECKING

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from trnfleet.transport.diagnosis import WebSocketLimitError, WebSocketRefusedError
from trnfleet.transport.inbox import READ_BYTES

if TYPE_CHECKING:
    import socket

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Largest accepted frame. Its payload is in memory as a whole before any of it is read."""
MOST_PARTS = 64
"""Most parts of the answer to the request. A dripping answer would occupy its thread for hours."""
MOST_PINGS = 1_000
"""Most pings with unsent answers. A broker that sends more without reading the answers would fill
memory."""
_SUBPROTOCOL = Subprotocol("mqtt")
# At level debug it would write frames, CONNECT with the password among them.
_LOG = logging.getLogger("trnfleet.websockets")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False
_LOG.setLevel(logging.CRITICAL)


class WebSocket:
    """A websocket client on a connected socket, with or without TLS."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        host: str,
        port: int,
        path: str,
        is_secure: bool,
        timeout_s: float,
    ) -> None:
        """Request the websocket and wait for the answer, at most `timeout_s` per part.

        Raises:
            WebSocketRefusedError: the answer is another one.
            OSError: the connection ended, or there is no answer in time.
        """
        self._socket = connection
        named = f"[{host}]" if ":" in host else host
        self._protocol = ClientProtocol(
            WebSocketURI(is_secure, named, port, path, ""),
            subprotocols=[_SUBPROTOCOL],
            max_size=MAX_FRAME_BYTES,
            logger=_LOG,
        )
        self._incoming = memoryview(b"")
        self._outgoing = bytearray()
        self._promised = 0
        """Bytes of MQTT within `_outgoing` still unsent for the caller."""
        self._pings = 0
        """Pings received since all answers were sent."""
        self._has_ended = False
        self._shake_hands(timeout_s)

    def recv(self, size: int) -> bytes:
        """Return up to `size` bytes of MQTT; empty at the end.

        Raises:
            BlockingIOError: none have come.
            OSError: the connection failed.
        """
        if not self._incoming and not self._has_ended:
            data = self._socket.recv(READ_BYTES)
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
                self._has_ended = True
            self._take_events()
        if isinstance(self._protocol.parser_exc, PayloadTooBig):
            raise WebSocketLimitError(f"a websocket frame over {MAX_FRAME_BYTES // 2**20} MiB")
        if self._pings > MOST_PINGS:
            raise WebSocketLimitError(
                f"over {MOST_PINGS:,} pings of the websocket whose answers are not taken"
            )
        if not self._incoming and not self._has_ended:
            raise BlockingIOError
        chunk = self._incoming[:size]
        self._incoming = self._incoming[size:]
        return bytes(chunk)

    def send(self, data: bytes | bytearray) -> int:
        """Send bytes as one frame; return their number once the frame is sent.

        Raises:
            BlockingIOError: a part of it waits; pass the same bytes again.
            OSError: the connection failed.
        """
        if self._has_ended:
            raise ConnectionAbortedError("the websocket is closed")
        if not self._promised and data:
            self._protocol.send_binary(bytes(data))
            self._promised = len(data)
            self._collect()
        self._flush()
        sent = self._promised
        self._promised = 0
        return sent

    def pending(self) -> int:
        """Return the bytes without a further event: received already, or decrypted by TLS."""
        decrypted: int = self._socket.pending() if hasattr(self._socket, "pending") else 0
        return len(self._incoming) + decrypted

    def fileno(self) -> int:
        """Return the socket's number."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """Wait or raise where nothing can be done at once."""
        self._socket.setblocking(flag)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _shake_hands(self, timeout_s: float) -> None:
        self._protocol.send_request(self._protocol.connect())
        self._socket.settimeout(timeout_s)
        self._socket.sendall(b"".join(self._protocol.data_to_send()))
        is_answered = False
        for _ in range(MOST_PARTS):
            data = self._socket.recv(READ_BYTES)
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            is_answered = self._take_events() or not data
            if is_answered:
                break
        refused = self._protocol.handshake_exc
        if isinstance(refused, InvalidStatus):
            status = refused.response.status_code
            raise WebSocketRefusedError(f"HTTP status {status}", status)
        if isinstance(refused, InvalidHandshake):
            raise WebSocketRefusedError("the answer is not a websocket's")
        if refused is not None or not is_answered or self._has_ended:
            raise WebSocketRefusedError("no answer in HTTP")

    def _take_events(self) -> bool:
        """Handle received events; return whether the request was answered."""
        is_answered = self._protocol.handshake_exc is not None
        parts: list[bytes] = []
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                is_answered = True
            elif isinstance(event, Frame):
                if event.opcode in {Opcode.BINARY, Opcode.CONT}:
                    parts.append(bytes(event.data))
                elif event.opcode is Opcode.PING:
                    self._pings += 1
                elif event.opcode in {Opcode.CLOSE, Opcode.TEXT}:
                    self._has_ended = True
        if parts:
            self._incoming = memoryview(bytes(self._incoming) + b"".join(parts))
        if self._protocol.close_expected():
            self._has_ended = True
        if not self._promised:
            self._collect()
            # Answers to pings; bytes the socket does not accept now go with the next message.
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._flush()
        return is_answered

    def _flush(self) -> None:
        while self._outgoing:
            sent = self._socket.send(self._outgoing)
            del self._outgoing[:sent]
        self._pings = 0

    def _collect(self) -> None:
        for data in self._protocol.data_to_send():
            self._outgoing += data
