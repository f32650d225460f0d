"""Login at a broker: credentials, secrets in files, and TLS settings.

It opens no connection. Certificates and tokens are read for every connection, so that renewed ones
are used after a reconnect.
"""

from __future__ import annotations

import os
import ssl
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from trnfleet.errors import ConfigError
from trnfleet.systemd import is_credential
from trnfleet.transport.url import LONGEST_ALPN, BrokerUrl, Password
from trnfleet.wire.ports import LARGEST_TWO_BYTES, Envelope

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
        """Raise if settings contradict each other or the URL, or if a file cannot be used.

        Raises:
            ConfigError: a setting or a file is wrong.
        """
        given = [option for name, option in _OPTIONS.items() if getattr(self, name)]
        if given and not url.is_tls:
            scheme = "wss" if url.is_websocket else "mqtts"
            raise ConfigError(
                f"{given[0]} is for TLS, which {url} does not use: write {scheme}://, or leave"
                f" {given[0]} out"
            )
        if self.key and not self.cert:
            raise ConfigError(f"--key {self.key}: its certificate is missing; give --cert FILE")
        if self.insecure and self.ca:
            raise ConfigError(
                "--insecure and --ca do not go together: --insecure verifies nothing, --ca names"
                " the authority that verifies"
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
        raise ConfigError(f"{option} {file!r}: not a file name") from None


def read_secret(option: str, file: str) -> str:
    """Return the line of a password or token file.

    Args:
        option: The option with the file's name, for messages.
        file: The file.

    Raises:
        ConfigError: it cannot be read, is empty, too long or more than a line, or others may read
            it.
    """
    where = f"{option} {file}"
    try:
        with Path(file).open("rb") as stream:
            is_open = os.fstat(stream.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            if is_open and not is_credential(file):
                raise ConfigError(f"{where}: others may read it; chmod 600 it")
            data = stream.read(LARGEST_TWO_BYTES + 3)
    except OSError as error:
        raise ConfigError(f"{where}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise ConfigError(f"{option} {file!r}: not a file name") from None
    # The end of the line, two bytes at most, does not count.
    if max(len(data) - 2, len(data.rstrip(b"\r\n"))) > LARGEST_TWO_BYTES:
        raise ConfigError(f"{where}: it is over MQTT's {LARGEST_TWO_BYTES:,} bytes")
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        # The error itself would quote the unreadable bytes.
        raise ConfigError(f"{where}: it is not UTF-8") from None
    if "\n" in text or "\r" in text:
        raise ConfigError(f"{where}: it has several lines; the secret must be the only one")
    if not text:
        raise ConfigError(f"{where}: it is empty")
    return text


class TokenFile:
    """A token in a file, read for every connection.

    Its issuer may replace it at any time.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        """Name the file; nothing is read yet."""
        self.path = path

    def check(self) -> None:
        """Read it once.

        Raises:
            ConfigError: it cannot be read, or not twice, such as a pipe.
        """
        if Path(self.path).exists() and not Path(self.path).is_file():
            raise ConfigError(
                f"--token-file {self.path}: not a regular file; it is read again for every"
                " connection"
            )
        self.reveal()

    def reveal(self) -> str:
        """Return the token that is there now, for the CONNECT packet and nothing else.

        Raises:
            ConfigError: it cannot be read.
        """
        return read_secret("--token-file", self.path)

    def __repr__(self) -> str:
        return f"TokenFile({self.path!r})"


KEEPALIVE_S = 10
"""Keep-alive interval. A half-open connection is found after at most twice as much: paho pings
after one interval, and gives up after another."""


@dataclass(frozen=True, slots=True)
class Login:
    """Broker and credentials; the same for every connection of a link."""

    url: BrokerUrl
    client_id: str
    password: Password | TokenFile | None = None
    """Sent only where the URL names a user."""
    will: Envelope | None = None
    keepalive_s: int = KEEPALIVE_S
    tls: TlsSettings = VERIFIED
    is_known: bool = False
    """Whether the broker has answered before. Its port then needs no probe."""

    @property
    def is_unverified(self) -> bool:
        """Whether anybody could be the broker."""
        return self.url.is_tls and self.tls.insecure

    @property
    def exposes_password(self) -> bool:
        """Whether CONNECT sends a password without TLS, or with an unverified one.

        It reaches any process behind the port.
        """
        has_password = self.password is not None and self.url.user is not None
        return has_password and (self.is_unverified or not self.url.is_tls)

    @property
    def anonymous(self) -> Login:
        """The same broker without user, password and will, as another client."""
        return replace(
            self,
            url=replace(self.url, user=None),
            client_id=f"{self.client_id}-0",
            password=None,
            will=None,
        )

    def reveal(self) -> str | None:
        """Return the password to send, read from its file if it has one.

        None if none is sent.

        Raises:
            ConfigError: the file cannot be read.
        """
        return None if self.password is None or self.url.user is None else self.password.reveal()

    def why_not_authorised(self) -> str:
        """Return the likely reason of a refusal: missing or wrong credentials."""
        user = self.url.user
        if user is None:
            also = " beside the certificate" if self.tls.cert else ""
            return (
                f"the broker asks for a user{also}, as in {self.url.scheme}://user@host, and a"
                " password"
            )
        if self.password is None:
            return (
                f"no password was given for user {user!r}; set TRNFLEET_MQTT_PASSWORD or give"
                " --password-file"
            )
        what = (
            "the password"
            if isinstance(self.password, Password)
            else f"the token in {self.password.path}"
        )
        return f"the broker refused user {user!r} or {what}"
