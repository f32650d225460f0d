"""Credentials and TLS for a broker from options, and the source of a password.

A password never comes from the command line.
"""

from __future__ import annotations

import getpass
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from click.core import ParameterSource

from trnfleet import systemd
from trnfleet.errors import ConfigError
from trnfleet.transport.url import Password

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trnfleet.transport.security.secrets import TokenFile
    from trnfleet.transport.url import BrokerUrl

PASSWORD_VARIABLE = "TRNFLEET_MQTT_PASSWORD"  # noqa: S105  the variable's name, not a password

_PASSWORDS = ("password_file", "token_file", "ask_password")
_TLS = ("ca", "cert", "key", "alpn", "insecure")
_INSTEAD = (_PASSWORDS, ("ca", "insecure"))
"""Options that replace each other. Two of them from one source are a contradiction."""


class AccessOptions(NamedTuple):
    """Credentials, TLS and the client for a broker; the fields are the options' names."""

    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    ask_password: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    alpn: str | None = None
    insecure: bool = False
    client: str = "mqtt5"

    def fitting(
        self, url: BrokerUrl, given: Collection[str], urls: Sequence[BrokerUrl]
    ) -> AccessOptions:
        """Return the options without those unused by a URL.

        They are meant for all brokers. An option on the command line unused by all brokers is a
        contradiction, and stays.

        Args:
            url: The URL.
            given: Names of options on the command line.
            urls: URLs of all brokers.
        """
        wrong = {
            name for name in given if all(name in self._unused(broker_url) for broker_url in urls)
        }
        unused = self._unused(url) - wrong
        return self._replace(**{name: self._field_defaults[name] for name in unused})

    def _unused(self, url: BrokerUrl) -> set[str]:
        """Return the names of the options unused by a URL."""
        unused = set() if url.is_tls else set(_TLS)
        if url.user is not None:
            unused.add("user")
        elif self.user is None:
            unused.update(_PASSWORDS)
        return unused

    def strongest(self, strengths: Mapping[str, tuple[int, int]]) -> AccessOptions:
        """Return the options without those replaced by one of a stronger source.

        An example is a file of [common] beside --token-file.

        Args:
            strengths: Source of each option, the lower the stronger.
        """
        weak: set[str] = set()
        if os.environ.get(PASSWORD_VARIABLE):
            of_variable = ParameterSource.ENVIRONMENT.value, 0
            weak.update(
                name for name in _PASSWORDS if getattr(self, name) and strengths[name] > of_variable
            )
        for group in _INSTEAD:
            given = [name for name in group if getattr(self, name)]
            best = min((strengths[name] for name in given), default=(0, 0))
            weak.update(name for name in given if strengths[name] > best)
        if self.cert and self.key and strengths["cert"] < strengths["key"]:
            # A key goes with its own certificate.
            weak.add("key")
        return self._replace(**{name: self._field_defaults[name] for name in weak})


def find_password(url: BrokerUrl, access: AccessOptions) -> Password | TokenFile | None:
    """Return the password or token file.

    The password comes from its file, a prompt, its variable or the service's credentials. None
    without one.

    Raises:
        ConfigError: a file cannot be read, is empty, or is readable by others; or several ways are
            set
            at once.
    """
    ways = {
        "--password-file": access.password_file,
        "--token-file": access.token_file,
        "--ask-password": access.ask_password,
    }
    given = [option for option, value in ways.items() if value]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} do not go together: choose one")
    if url.user is None and (access.token_file or access.ask_password):
        raise ConfigError(
            f"{given[0]} needs a user: {url.scheme}://user@{url.host}, or --user NAME"
        )
    from trnfleet.transport.security.secrets import (  # noqa: PLC0415  few commands need it
        TokenFile,
        read_secret,
    )

    if access.password_file:
        return Password(read_secret("--password-file", access.password_file))
    if access.token_file:
        token = TokenFile(access.token_file)
        token.check()
        return token
    if access.ask_password:
        return _asked_password(url)
    text = os.environ.get(PASSWORD_VARIABLE) or systemd.read_credential(systemd.PASSWORD)
    return Password(text) if text else None


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _asked_password(url: BrokerUrl) -> Password:
    if not _has_terminal():
        raise ConfigError(
            "--ask-password needs a terminal on stdin; give --password-file FILE or"
            f" {PASSWORD_VARIABLE} instead"
        )
    try:
        text = getpass.getpass(f"Password of {url.user} at {url.host}: ")
    except EOFError:
        text = ""
    if not text:
        raise ConfigError("--ask-password: no password was given")
    return Password(text)
