"""Sockets to a broker: TCP, then TLS and a websocket if in the URL.

On failure one line with the reason. Everything here blocks; it runs in a thread.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import ConfigError
from trnfleet.transport.diagnosis import (
    DialError,
    WebSocketRefusedError,
    certificate_words,
    tls_words,
)

if TYPE_CHECKING:
    from trnfleet.transport.security import TlsSettings
    from trnfleet.transport.url import BrokerUrl
    from trnfleet.transport.websocket import WebSocket


TCP_CONNECT_S = 2.0
"""Longest wait for TCP. It runs in a thread that cannot be interrupted, and is abandoned when
nobody waits any more."""
HANDSHAKE_S = 3.0
"""Longest wait for an answer within the handshake of TLS, of a websocket and of MQTT."""


def dial(url: BrokerUrl, tls: TlsSettings) -> socket.socket | WebSocket:
    """Return a connected socket on which MQTT can begin.

    Raises:
        DialError: TLS or the websocket cannot be had.
        OSError: TCP cannot.
        UnicodeError: the host is no name.
    """
    connection = open_tcp(url)
    try:
        if url.is_tls:
            connection = wrap(connection, url, tls)
        return _websocket(connection, url) if url.is_websocket else connection
    except BaseException:
        connection.close()
        raise


def open_tcp(url: BrokerUrl) -> socket.socket:
    """Return a TCP connection."""
    connection = socket.create_connection((url.host, url.port), TCP_CONNECT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def not_now_errors(url: BrokerUrl) -> tuple[type[OSError], ...]:
    """Return a socket's errors for nothing to read, or no room to write, now."""
    if not url.is_tls:
        return (BlockingIOError,)
    return (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def wrap(connection: socket.socket, url: BrokerUrl, tls: TlsSettings) -> ssl.SSLSocket:
    """Return a connection with TLS on it.

    Raises:
        DialError: TLS fails, or it is not the intended broker.
    """
    try:
        context = tls.context()
    except ConfigError as error:
        raise DialError(str(error)) from None
    wrapped = context.wrap_socket(
        connection, server_hostname=url.host, do_handshake_on_connect=False
    )
    try:
        wrapped.settimeout(HANDSHAKE_S)
        wrapped.do_handshake()
    except ssl.SSLCertVerificationError as error:
        wrapped.close()
        raise DialError(certificate_words(error, url, tls)) from None
    except OSError as error:
        wrapped.close()
        words = tls_words(error, tls)
        if words:
            raise DialError(words) from None
        silent = isinstance(error, TimeoutError)
        why = f"no answer within {HANDSHAKE_S:g} s" if silent else "the broker ends the connection"
        raise DialError(f"TLS cannot begin: {why}", is_foreign=True) from None
    return wrapped


def _websocket(connection: socket.socket, url: BrokerUrl) -> WebSocket:
    from trnfleet.transport.websocket import WebSocket  # noqa: PLC0415  few need it

    try:
        return WebSocket(
            connection,
            host=url.host,
            port=url.port,
            path=url.path,
            is_secure=url.is_tls,
            timeout_s=HANDSHAKE_S,
        )
    except WebSocketRefusedError as error:
        if error.status == 404:
            raise DialError(
                f"no websocket at the path {url.path} ({error}): put the broker's own"
                " behind the port"
            ) from None
        raise DialError(
            f"no websocket: {error}", is_foreign=error.status in {0, 400}, has_tls=url.is_tls
        ) from None
    except OSError as error:
        words = tls_words(error, None)
        why = words or (
            "no answer in time" if isinstance(error, TimeoutError) else "the connection ended"
        )
        raise DialError(
            f"no websocket: {why}", is_foreign=words is None, has_tls=url.is_tls
        ) from None


class TlsPeer(NamedTuple):
    """TLS parameters agreed with a broker."""

    version: str
    """Such as `TLSv1.3`."""
    cipher: str
    valid_until_s: float | None
    """Seconds since 1970; None for an unverified certificate, because OpenSSL does not show it."""


def look_at_tls(url: BrokerUrl, tls: TlsSettings) -> TlsPeer:
    """Return the TLS parameters agreed with a broker; it blocks, and runs in a thread.

    Raises:
        DialError: TLS fails.
        OSError: TCP fails.
    """
    plain = open_tcp(url)
    try:
        wrapped = wrap(plain, url, tls)
    except BaseException:
        plain.close()
        raise
    with contextlib.closing(wrapped):
        certificate = wrapped.getpeercert() or {}
        until = certificate.get("notAfter")
        cipher = wrapped.cipher()
        return TlsPeer(
            wrapped.version() or "unknown",
            cipher[0] if cipher else "unknown",
            ssl.cert_time_to_seconds(until) if isinstance(until, str) else None,
        )
