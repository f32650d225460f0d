"""An unverified broker certificate in plain words: subject, issuer and dates.

Its contents are read on separate connections without data: OpenSSL shows a certificate only when it
is trusted, so it is fetched first, and then trusted by itself.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.transport.security.tls import TlsSettings
    from trnfleet.transport.url import BrokerUrl

LOOK_S = 2.0
"""Longest wait for each step."""
MOST_NAMES = 6
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME; Python has no name for it."""

# Codes of OpenSSL's verification (X509_V_ERR_...).
_NOT_YET_VALID = 9
_EXPIRED = 10
_SELF_SIGNED = 18
_UNKNOWN_ROOT = 19
_UNKNOWN_ISSUER = 20
_UNVERIFIED_LEAF = 21
_WRONG_PURPOSE = 26
_WRONG_NAMES = {62, 63, 64}
_UNKNOWN = {_UNKNOWN_ROOT, _UNKNOWN_ISSUER, _UNVERIFIED_LEAF}


def certificate_words(error: ssl.SSLCertVerificationError, url: BrokerUrl, tls: TlsSettings) -> str:
    """Return why a broker's certificate is not accepted, with its contents."""
    code = error.verify_code
    with contextlib.suppress(OSError, ValueError):
        return _words(code, _fetch(url, tls), url, tls) or _plainly(error)
    return _words(code, {}, url, tls) or _plainly(error)


def _words(code: int, found: dict[str, Any], url: BrokerUrl, tls: TlsSettings) -> str | None:
    if code in _WRONG_NAMES:
        names = _names(found)
        for_whom = f"; it is for {', '.join(names)}" if names else ""
        return f"the broker's certificate is not for the host {url.host}{for_whom}"
    if code in {_EXPIRED, _NOT_YET_VALID} and found:
        key, words = (
            ("notAfter", "expired on") if code == _EXPIRED else ("notBefore", "is valid only from")
        )
        return f"the broker's certificate {words} {plain(str(found.get(key, '')), 40)}"
    if code in _UNKNOWN or code == _SELF_SIGNED:
        issuer = _common_name(found.get("issuer", ()))
        by = f" {issuer!r}" if issuer else ""
        what = "is signed by itself alone" if code == _SELF_SIGNED else "is of an unknown authority"
        how = (
            f", which is not in --ca {tls.ca}"
            if tls.ca
            else "; give the authority's with --ca FILE"
        )
        return f"the broker's certificate {what}{by}{how}"
    if code == _WRONG_PURPOSE:
        return "the broker's certificate is not for servers"
    return None


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
    connection = socket.create_connection((url.host, url.port), LOOK_S)
    try:
        return context.wrap_socket(connection, server_hostname=url.host)
    except BaseException:
        connection.close()
        raise


def _names(found: dict[str, Any]) -> list[str]:
    names = [
        plain(str(value), 64)
        for kind, value in found.get("subjectAltName", ())
        if kind in {"DNS", "IP Address"}
    ]
    names = names or [name for name in [_common_name(found.get("subject", ()))] if name]
    more = len(names) - MOST_NAMES
    return [*names[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])]


def _common_name(name: Any) -> str:
    for part in name:
        for key, value in part:
            if key == "commonName":
                return plain(str(value), 64)
    return ""
