"""What a port speaks that does not speak what its URL says: MQTT, TLS, websockets or HTTP.

Each language is tried on a connection of its own, with a greeting that holds no credentials.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from trnfleet.errors import ConfigError
from trnfleet.transport.sockets.tls_alerts import tls_words

if TYPE_CHECKING:
    from trnfleet.transport.security.tls import TlsSettings
    from trnfleet.transport.url import BrokerUrl

ANSWER_S = 1.0
"""Longest wait for each answer."""
_ANSWER_BYTES = 1_024
# CONNECT in MQTT 3.1.1 with a clean session and an empty client id, without user, password or will.
_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00"
_CONNACK = 0x20
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""First bytes of an alert and of a handshake."""


def foreign_words(url: BrokerUrl, heard: bytes = b"") -> str:
    """Return what a port speaks instead of what its URL says, and how to write it; empty where that is not found.

    Args:
        url: The URL.
        heard: First bytes that have come from it on a connection of its URL's kind, without TLS.
    """
    if heard.startswith(_TLS_RECORDS) and not url.is_tls:
        return _tls(url)
    if heard.startswith(b"HTTP/"):
        with contextlib.suppress(OSError):
            return _try_http(url) or _http(url, "ws", heard)
        return _http(url, "ws", heard)
    tries = {
        "mqtt": (_try_tls, _try_http),
        "ws": (_try_tls, _try_mqtt),
        "mqtts": (_try_mqtt, _try_http),
        "wss": (_try_http, _try_mqtt),
    }
    for attempt in tries[url.scheme]:
        with contextlib.suppress(OSError):
            words = attempt(url)
            if words:
                return words
    return ""


def within_tls_words(url: BrokerUrl, tls: TlsSettings) -> str:
    """Return why a broker ended a connection after the handshake of TLS, or kept silent; empty where that is not found.

    An alert that comes after the handshake is lost where CONNECT crosses it: here nothing is sent, so that it can be read. What
    keeps the connection may speak something else within TLS.
    """
    try:
        with _tls_connection(url, tls) as connection:
            connection.recv(1)
    except TimeoutError:
        pass
    except OSError as error:
        return tls_words(error, tls) or ""
    except ConfigError:
        return ""
    with contextlib.suppress(OSError, ConfigError), _tls_connection(url, tls) as connection:
        if url.is_websocket:
            connection.sendall(_CONNECT)
            if _is_connack(_answer(connection)):
                return (
                    f"port {url.port} speaks MQTT without websockets: write {url.spoken('mqtts')}"
                )
        else:
            connection.sendall(_upgrade(url.spoken("wss")))
            answer = _answer(connection)
            if answer.startswith(b"HTTP/"):
                return _http(url, "wss", answer)
    return ""


def _tls_connection(url: BrokerUrl, tls: TlsSettings) -> ssl.SSLSocket:
    connection = _connection(url)
    try:
        return tls.context().wrap_socket(connection, server_hostname=url.host)
    except BaseException:
        connection.close()
        raise


def _try_tls(url: BrokerUrl) -> str:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=url.host).do_handshake()
    with _connection(url) as connection:
        connection.sendall(outgoing.read())
        return _tls(url) if _answer(connection).startswith(_TLS_RECORDS) else ""


def _try_http(url: BrokerUrl) -> str:
    with _connection(url) as connection:
        connection.sendall(_upgrade(url.spoken("ws")))
        answer = _answer(connection)
        return _http(url, "ws", answer) if answer.startswith(b"HTTP/") else ""


def _try_mqtt(url: BrokerUrl) -> str:
    with _connection(url) as connection:
        connection.sendall(_CONNECT)
        if not _is_connack(_answer(connection)):
            return ""
    without = (
        "TLS"
        if url.scheme == "mqtts"
        else "websockets"
        if url.scheme == "ws"
        else "TLS or websockets"
    )
    return f"port {url.port} speaks MQTT without {without}: write {url.spoken('mqtt')}"


def _tls(url: BrokerUrl) -> str:
    return f"port {url.port} speaks TLS: write {url.spoken('wss' if url.is_websocket else 'mqtts')}"


def _http(url: BrokerUrl, scheme: str, answer: bytes) -> str:
    """Return words for an answer in HTTP; `scheme` is that of a websocket there."""
    spoken = url.spoken(scheme)
    if url.scheme == "wss":
        return f"port {url.port} speaks HTTP without TLS: write {spoken}"
    if answer.split(b" ", 2)[1:2] == [b"101"]:
        return f"port {url.port} speaks websockets: write {spoken}"
    return f"port {url.port} speaks HTTP, not MQTT; if it is a broker's websocket, write {spoken}"


def _is_connack(answer: bytes) -> bool:
    return len(answer) >= 4 and answer[0] == _CONNACK and answer[1] == 2


def _connection(url: BrokerUrl) -> socket.socket:
    return socket.create_connection((url.host, url.port), ANSWER_S)


def _answer(connection: socket.socket) -> bytes:
    return connection.recv(_ANSWER_BYTES)


def _upgrade(url: BrokerUrl) -> bytes:
    host = f"[{url.host}]" if ":" in url.host else url.host
    lines = (
        f"GET {url.path} HTTP/1.1",
        f"Host: {host}:{url.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: mqtt",
    )
    return "\r\n".join([*lines, "", ""]).encode()
