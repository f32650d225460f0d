"""Settings of TLS: files, and the checks of a broker.

Owns the checks of the settings and the context made from them. It opens no connection; the files
are read for each one, so that renewed certificates are used after a reconnect.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trnfleet.errors import ConfigError
from trnfleet.transport.url import LONGEST_ALPN

if TYPE_CHECKING:
    from trnfleet.transport.url import BrokerUrl

_OPTIONS = {
    "ca": "--ca",
    "cert": "--cert",
    "key": "--key",
    "alpn": "--alpn",
    "insecure": "--insecure",
}


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Files and names for TLS; by default the system's authorities, and no client certificate."""

    ca: str | None = None
    """File with the authorities' certificates (PEM); None for the system's."""
    cert: str | None = None
    """File with the client's certificate and its intermediates (PEM)."""
    key: str | None = None
    """File with the certificate's private key (PEM); None where it is in `cert`."""
    alpn: str | None = None
    """Protocol requested within TLS (ALPN)."""
    insecure: bool = False
    """Whether neither certificate nor host name of the broker is verified."""

    def check(self, url: BrokerUrl) -> None:
        """Raise where settings contradict each other or the URL, or a file is no good.

        Raises:
            ConfigError: they do.
        """
        given = [option for name, option in _OPTIONS.items() if getattr(self, name)]
        if given and not url.is_tls:
            scheme = "wss" if url.is_websocket else "mqtts"
            raise ConfigError(
                f"{given[0]} is about TLS, which {url} has not: write {scheme}://, or leave"
                f" {given[0]} out"
            )
        if self.key and not self.cert:
            raise ConfigError(f"--key {self.key}: its certificate is missing; give --cert FILE")
        if self.insecure and self.ca:
            raise ConfigError(
                "--insecure and --ca do not go together: nothing is verified, or the broker's"
                " certificate is by that authority"
            )
        if self.alpn is not None and not (
            self.alpn.isascii() and self.alpn.isprintable() and 0 < len(self.alpn) <= LONGEST_ALPN
        ):
            raise ConfigError(
                f"--alpn {self.alpn!r}: it is not 1 to {LONGEST_ALPN} printable ASCII characters"
            )
        if url.is_tls:
            self.context()

    def context(self) -> ssl.SSLContext:
        """Return a context for one connection, with TLS 1.2 or later.

        Certificate and host name are verified unless `insecure`.

        Raises:
            ConfigError: a file cannot be read, is of another form, or key and certificate do not go
                together.
        """
        # Not `create_default_context`: from Python 3.13 on it refuses certificates of private
        # authorities that lack extensions which OpenSSL itself does not ask for.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca:
            _load_authorities(context, self.ca)
        else:
            context.load_default_certs()
        if self.cert:
            _load_certificate(context, self.cert, self.key)
        if self.alpn:
            context.set_alpn_protocols([self.alpn])
        return context


VERIFIED = TlsSettings()
"""The default: verified by the authorities of the system."""


def _load_authorities(context: ssl.SSLContext, file: str) -> None:
    _read("--ca", file)
    try:
        context.load_verify_locations(cafile=file)
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            f"--ca {file}: it has no certificate in PEM form (-----BEGIN CERTIFICATE-----)"
        ) from None


def _load_certificate(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    certificate = _read("--cert", cert)
    option, file = ("--key", key) if key else ("--cert", cert)
    text = _read(option, file) if key else certificate
    if b"-----BEGIN CERTIFICATE-----" not in certificate:
        raise ConfigError(
            f"--cert {cert}: it has no certificate in PEM form (-----BEGIN CERTIFICATE-----)"
        )
    if b"PRIVATE KEY-----" not in text:
        more = "" if key else "; give the key's own file with --key"
        raise ConfigError(f"{option} {file}: it has no private key in PEM form{more}")
    asked = False

    def password() -> str:
        # Without this OpenSSL would ask for it on the terminal.
        nonlocal asked
        asked = True
        return ""

    try:
        context.load_cert_chain(cert, key, password)
    except (ssl.SSLError, ValueError) as error:
        if asked:
            raise ConfigError(
                f"{option} {file}: the key must not be encrypted; `openssl pkey -in {file} -out"
                " FILE` writes one that is not"
            ) from None
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"{option} {file}: the key is not that of the certificate in {cert}"
            ) from None
        raise ConfigError(
            f"--cert {cert}: certificate or key is damaged, or of an unknown kind"
        ) from None


def _read(option: str, file: str) -> bytes:
    """Return a file's bytes; OpenSSL's own errors do not name it."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} {file}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise ConfigError(f"{option} {file!r}: no name of a file") from None
