"""TLS of a broker: version, cipher, and how long its certificate is valid.

Read on a separate connection.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.transport.sockets.dialing import open_tcp, wrap

if TYPE_CHECKING:
    from trnfleet.transport.security.tls import TlsSettings
    from trnfleet.transport.url import BrokerUrl


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
