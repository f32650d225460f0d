"""Find the protocol of a port that differs from its URL.

MQTT, TLS, websockets or HTTP. Each is tried on a separate connection, with a greeting without
credentials.
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
    """Return a port's protocol if it differs from its URL, and the right URL.

    Else empty.

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
    """Return why a broker ended or ignored a connection after the TLS handshake; else empty.

    An alert after the handshake is lost if CONNECT crosses it: here nothing is sent, so that it can
    be read. A port that stays connected may speak another protocol within TLS.
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
    incoming = ssl.MemoryBIO()
    outgoing = ssl.MemoryBIO()
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
    spoken = url.spoken("mqtt")
    if not url.is_tls:
        return f"port {url.port} speaks MQTT without websockets: write {spoken}"
    without = "TLS" if url.scheme == "mqtts" else "TLS or websockets"
    return _stripped(f"port {url.port} speaks MQTT without {without}", spoken)


def _stripped(what: str, spoken: BrokerUrl) -> str:
    """Return the text for a port without TLS where the URL asks for it.

    The URL without TLS is not offered as a simple correction.
    """
    return (
        f"{what}: TLS may have been removed on the way, as by a proxy or an attacker, who could"
        f" read passwords; write {spoken} only if you know that this broker has no TLS"
    )


def _tls(url: BrokerUrl) -> str:
    return f"port {url.port} speaks TLS: write {url.spoken('wss' if url.is_websocket else 'mqtts')}"


def _http(url: BrokerUrl, scheme: str, answer: bytes) -> str:
    """Return the text for an HTTP answer; `scheme` is that of a websocket there."""
    spoken = url.spoken(scheme)
    is_websocket = answer.split(b" ", 2)[1:2] == [b"101"]
    if url.is_tls and not spoken.is_tls:
        what = "websockets" if is_websocket else "HTTP"
        return _stripped(f"port {url.port} speaks {what} without TLS", spoken)
    if is_websocket:
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
