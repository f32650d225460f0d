"""Failed connections in plain words: reason codes, TLS, certificates, and a port's real protocol.

A port's protocol and a certificate are read on separate connections, without credentials. OpenSSL
shows a certificate only when it is trusted, so it is fetched first, and then trusted by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paho.mqtt.reasoncodes import ReasonCode

from trnfleet.errors import ConfigError
from trnfleet.tasks import in_thread
from trnfleet.text import plain
from trnfleet.transport.packets import OLDER_CONNACK, RETAIN_UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from trnfleet.transport.security import TlsSettings
    from trnfleet.transport.url import BrokerUrl


FIRST_FAILURE = 128
"""Reason codes from here on are failures."""
VERSION_REFUSED = 132
NOT_AUTHORISED = (134, 135)
QOS_REFUSED = 155
LOST = "connection lost"
TAKEN_OVER = "another client took over the same client id"

_OF_CONNECTIONS = {
    128: LOST,
    130: "protocol error",
    VERSION_REFUSED: "the broker does not support this MQTT version",
    133: "the broker refuses the client id",
    136: "the broker is unavailable",
    137: "the broker is busy",
    138: "the broker has banned this client",
    139: "the broker is shutting down",
    141: "no answer within twice the keepalive",
    142: TAKEN_OVER,
    149: "a packet was too large for the broker",
    151: "the broker's quota is used up",
    154: f"{RETAIN_UNAVAILABLE}, which the last will is",
    QOS_REFUSED: "the broker does not support the QoS of the last will",
}
_OF_MESSAGES = {
    128: "the broker gives no reason",
    131: "a rule of the broker's own",
    135: "not authorised",
    144: "the broker does not accept the topic name",
    149: "too large for the broker",
    151: "the broker's quota is used up",
    153: "the broker finds the payload format invalid",
}


class LinkDown(Exception):  # noqa: N818  it is an event in a connection's life more than an error
    """A failed or ended connection; its text is the reason in plain words."""

    def __init__(
        self,
        why: str,
        *,
        wrong_version: bool = False,
        silent: bool = False,
        ended_early: bool = False,
        foreign: bool = False,
        wrong_qos: bool = False,
        answered: bool = False,
        unreached: bool = False,
    ) -> None:
        super().__init__(why)
        self.wrong_version = wrong_version
        """Whether the broker reports this version of MQTT as unsupported."""
        self.silent = silent
        """Whether TCP connected, and nothing came in answer to CONNECT."""
        self.ended_early = ended_early
        """Whether it ended instead of an answer to CONNECT. Brokers with MQTT 3.1.1 only do that.
        """
        self.foreign = foreign
        """Whether the port was found to speak something else."""
        self.wrong_qos = wrong_qos
        """Whether the broker does not support the QoS of the last will."""
        self.answered = answered
        """Whether a broker refused CONNECT by an answer."""
        self.unreached = unreached
        """Whether TCP did not connect: nothing listens there, or no way leads there."""


def why_ended(ended: asyncio.Future[str]) -> str:
    """Return why an ended connection ended: the broker's reasons, or our close."""
    return "connection closed" if ended.cancelled() else ended.result()


def connection_words(code: ReasonCode) -> str:
    """Return why a connection was refused or has ended."""
    return _OF_CONNECTIONS.get(code.value) or str(code).lower()


def reason_words(packet_type: int, number: int) -> str:
    """Return why a connection was refused or ended, from a packet's reason code."""
    try:
        return connection_words(ReasonCode(packet_type, identifier=number))
    except ValueError:
        # Not all of MQTT's are in paho's table, such as that of a will whose format is invalid.
        return f"reason code {number}"


def refusal_words(code: ReasonCode) -> str:
    """Return why a message was refused, from the reason code of its PUBACK."""
    return _OF_MESSAGES.get(code.value) or str(code).lower()


class DialError(Exception):
    """An open but unusable TCP connection."""

    def __init__(self, why: str, *, is_foreign: bool = False, has_tls: bool = False) -> None:
        super().__init__(why)
        self.is_foreign = is_foreign
        """Whether the port may speak another protocol than its URL."""
        self.has_tls = has_tls
        """Whether TLS had begun."""


class EndedEarlyError(Exception):
    """A connection ended before the answer to CONNECT.

    Its text is the reason, empty if unknown.
    """


class WebSocketRefusedError(Exception):
    """A websocket request with another answer."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status
        """The status of the HTTP response; 0 where there was none."""


class WebSocketLimitError(ConnectionAbortedError):
    """A broker exceeded a websocket limit; ends the connection.

    Its text names the limit.
    """


ANSWER_S = 1.0
"""Wait for CONNECT's answer before the port's protocol is probed, and for each answer to a probe.
Brokers answer within milliseconds."""
FIRST_BYTES = 16
"""First bytes kept, to identify a port without a broker."""


async def connect_and_look(
    connecting: Coroutine[Any, Any, None], look: Callable[[], Coroutine[Any, Any, str]]
) -> None:
    """Connect, and probe the port's protocol while the answer is slow.

    Raises:
        LinkDown: the port speaks another protocol than its URL.
    """
    work: asyncio.Task[None] = asyncio.create_task(connecting, name="mqtt-connect")
    tasks: list[asyncio.Task[Any]] = [work]
    try:
        await asyncio.wait(tasks, timeout=ANSWER_S)
        if not work.done():
            looking = asyncio.create_task(look(), name="mqtt-look")
            tasks.append(looking)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and looking.result():
                raise LinkDown(looking.result(), foreign=True)
        await work
    finally:
        for task in tasks:
            task.add_done_callback(look_at)
            task.cancel()


async def what_it_speaks(url: BrokerUrl, tls: TlsSettings, heard: bytes, *, has_tls: bool) -> str:
    """Return the protocol of a port without a proper answer; empty if not found.

    Args:
        url: The expected broker.
        tls: The settings for it.
        heard: The first bytes received.
        has_tls: Whether TLS has begun.
    """
    if has_tls:
        return await in_thread(functools.partial(within_tls_words, url, tls))
    return await in_thread(functools.partial(foreign_words, url, heard))


def look_at(future: asyncio.Future[Any]) -> None:
    """Retrieve a future's exception.

    Otherwise asyncio logs it as never retrieved.
    """
    if future.done() and not future.cancelled():
        future.exception()


# CONNECT in MQTT 3.1.1 with a clean session and an empty client id, without user, password or will.
_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00"
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
    return len(answer) >= 4 and answer.startswith(OLDER_CONNACK)


def _connection(url: BrokerUrl) -> socket.socket:
    return socket.create_connection((url.host, url.port), ANSWER_S)


def _answer(connection: socket.socket) -> bytes:
    return connection.recv(FIRST_BYTES)


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


_MISSING = "the broker asks for a client certificate; give --cert and --key"
_NO_CERTIFICATE = "a client certificate may be missing: give --cert and --key"

# By the part after ALERT_ in OpenSSL's name of the reason.
_ALERTS = {
    "CERTIFICATE_REQUIRED": _MISSING,
    "UNKNOWN_CA": "the broker refuses the client certificate: it does not know its authority",
    "BAD_CERTIFICATE": "the broker refuses the client certificate as damaged or wrongly signed",
    "UNSUPPORTED_CERTIFICATE": (
        "the broker refuses the client certificate: it has the wrong type or purpose"
    ),
    "CERTIFICATE_REVOKED": "the broker refuses the client certificate: it is revoked",
    "CERTIFICATE_EXPIRED": (
        "the broker refuses the client certificate: it has expired, or is not valid yet"
    ),
    "CERTIFICATE_UNKNOWN": "the broker refuses the client certificate",
    "ACCESS_DENIED": "the broker refuses the client certificate: access denied",
    "DECRYPT_ERROR": "the broker refuses the client certificate: a signature is wrong",
    "PROTOCOL_VERSION": (
        "broker and client have no version of TLS in common; trnfleet has 1.2 and 1.3"
    ),
    "INSUFFICIENT_SECURITY": "the broker finds the ciphers that are offered too weak",
    "NO_APPLICATION_PROTOCOL": "the broker knows no protocol of the name given by --alpn",
    "UNRECOGNIZED_NAME": "the broker does not know the host name under which it was called",
    "INTERNAL_ERROR": "the broker has an internal error in TLS",
}
_BY_CERTIFICATE = frozenset(
    {"BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "ACCESS_DENIED", "UNKNOWN_CA", "DECRYPT_ERROR"}
)
"""Alerts caused by a missing client certificate, if none was sent."""
_OWN = {
    "UNSUPPORTED_PROTOCOL": "the broker has no TLS 1.2 or later",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the broker has no TLS 1.2 or later",
    "DH_KEY_TOO_SMALL": "the broker's key exchange is too weak (DH key too small)",
    "EE_KEY_TOO_SMALL": "the broker's certificate has a key that is too small",
    "CA_MD_TOO_WEAK": "the broker's certificate is signed with a digest that is too weak",
}


def tls_words(error: OSError, tls: TlsSettings | None) -> str | None:
    """Return plain words for a TLS error; None for other errors or without a reason.

    Args:
        error: As it was raised by the handshake, a read or a write.
        tls: The settings; None where they do not matter.
    """
    # Without TLS its library stays unloaded, by this check, too.
    if "_ssl" not in sys.modules or not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or ""
    if reason in _OWN:
        return _OWN[reason]
    _, is_alert, alert = reason.upper().replace(" ", "_").partition("ALERT_")
    if not is_alert:
        return None
    has_certificate = tls is not None and tls.cert is not None
    if not has_certificate and alert in _BY_CERTIFICATE:
        return _MISSING
    if alert == "HANDSHAKE_FAILURE":
        more = "" if has_certificate else f"; {_NO_CERTIFICATE}"
        return f"the broker refuses the TLS handshake{more}"
    return (
        _ALERTS.get(alert)
        or f"the broker ends TLS with the alert {alert.replace('_', ' ').lower()!r}"
    )


MOST_NAMES = 6
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME; Python has no name for it."""

_UNKNOWN_AUTHORITY = "is of an unknown authority{authority}"
_WRONG_NAME = "is not for the host {host}{names}"
_CERTIFICATE_WORDS = {
    9: "is valid only from {notBefore}",
    10: "expired on {notAfter}",
    18: "is signed by itself alone{authority}",
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    26: "is not for servers",
    62: _WRONG_NAME,
    63: _WRONG_NAME,
    64: _WRONG_NAME,
}
"""Words by OpenSSL's verification code (X509_V_ERR_...)."""


def certificate_words(error: ssl.SSLCertVerificationError, url: BrokerUrl, tls: TlsSettings) -> str:
    """Return why a broker's certificate is not accepted, with its contents."""
    code = error.verify_code
    with contextlib.suppress(OSError, ValueError):
        return _words(code, _fetch(url, tls), url, tls) or _plainly(error)
    return _words(code, {}, url, tls) or _plainly(error)


def _words(code: int, certificate: dict[str, Any], url: BrokerUrl, tls: TlsSettings) -> str | None:
    words = _CERTIFICATE_WORDS.get(code)
    if words is None or ("{not" in words and not certificate):
        return None
    names = _names(certificate)
    issuer = _common_name(certificate.get("issuer", ()))
    how = f", which is not in --ca {tls.ca}" if tls.ca else "; give the authority's with --ca FILE"
    dates = {key: plain(str(certificate.get(key, "")), 40) for key in ("notBefore", "notAfter")}
    return "the broker's certificate " + words.format(
        host=url.host,
        names=f"; it is for {', '.join(names)}" if names else "",
        authority=f" {issuer!r}{how}" if issuer else how,
        **dates,
    )


def _plainly(error: ssl.SSLCertVerificationError) -> str:
    return f"the broker's certificate is not accepted: {plain(str(error.verify_message), 120)}"


def _fetch(url: BrokerUrl, tls: TlsSettings) -> dict[str, Any]:
    """Return the contents of a broker's certificate, without verification.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    unverified = replace(tls, ca=None, cert=None, key=None, insecure=True).context()
    with _handshake(url, unverified) as connection:
        certificate = connection.getpeercert(binary_form=True) or b""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(
        _NO_CHECK_TIME
    )
    trusting.load_verify_locations(cadata=certificate)
    if tls.alpn:
        trusting.set_alpn_protocols([tls.alpn])
    with _handshake(url, trusting) as connection:
        return dict(connection.getpeercert() or {})


def _handshake(url: BrokerUrl, context: ssl.SSLContext) -> ssl.SSLSocket:
    connection = socket.create_connection((url.host, url.port), ANSWER_S)
    try:
        return context.wrap_socket(connection, server_hostname=url.host)
    except BaseException:
        connection.close()
        raise


def _names(certificate: dict[str, Any]) -> list[str]:
    names = [
        plain(str(value), 64)
        for kind, value in certificate.get("subjectAltName", ())
        if kind in {"DNS", "IP Address"}
    ]
    names = names or [name for name in [_common_name(certificate.get("subject", ()))] if name]
    more = len(names) - MOST_NAMES
    return [*names[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])]


def _common_name(name: Any) -> str:
    for part in name:
        for key, value in part:
            if key == "commonName":
                return plain(str(value), 64)
    return ""
