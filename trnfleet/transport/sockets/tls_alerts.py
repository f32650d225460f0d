"""TLS errors in plain words: the alerts of a refusing broker.

They may arrive after the handshake.
"""

from __future__ import annotations

import ssl
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.transport.security.tls import TlsSettings

_MISSING = "the broker asks for a client certificate; give --cert and --key"
_NO_CERTIFICATE = "a client certificate may be missing: give --cert and --key"

# By the part after ALERT_ in OpenSSL's name of the reason.
_ALERTS = {
    "CERTIFICATE_REQUIRED": _MISSING,
    "UNKNOWN_CA": "the broker refuses the client certificate: it does not know its authority",
    "BAD_CERTIFICATE": "the broker refuses the client certificate as damaged or wrongly signed",
    "UNSUPPORTED_CERTIFICATE": (
        "the broker refuses the client certificate: its kind or purpose is another"
    ),
    "CERTIFICATE_REVOKED": "the broker refuses the client certificate: it is revoked",
    "CERTIFICATE_EXPIRED": (
        "the broker refuses the client certificate: it has expired, or is not valid yet"
    ),
    "CERTIFICATE_UNKNOWN": "the broker refuses the client certificate",
    "ACCESS_DENIED": "the broker refuses the client certificate: access denied",
    "DECRYPT_ERROR": "the broker refuses the client certificate: a signature is wrong",
    "PROTOCOL_VERSION": (
        "broker and client have no version of TLS in common; 1.2 and 1.3 are spoken here"
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
