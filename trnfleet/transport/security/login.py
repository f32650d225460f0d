"""The login at a broker: address, user and credentials, for all connections of a link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnfleet.transport.security.tls import VERIFIED
from trnfleet.transport.url import Password

if TYPE_CHECKING:
    from trnfleet.transport.security.secrets import TokenFile
    from trnfleet.transport.security.tls import TlsSettings
    from trnfleet.transport.url import BrokerUrl
    from trnfleet.wire.ports import Envelope

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
