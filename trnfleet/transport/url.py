"""Broker URLs: `mqtt://user@host:port` and `wss://user@host:port/path`.

A password is never part of one. Owns the reading and writing of broker URLs. It opens no connection
and reads no file or variable.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from urllib.parse import SplitResult, quote, unquote, urlsplit

from trnfleet.errors import ConfigError, nearest

DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
"""The schemes, each with its port where the URL names none."""
ALIASES = {"tcp": "mqtt", "ssl": "mqtts", "tls": "mqtts"}
"""Schemes of other clients, with ours."""
DEFAULT_PATH = "/mqtt"
"""Default path of a websocket: that of EMQX, HiveMQ and AWS IoT Core. Mosquitto accepts any."""
LONGEST_ALPN = 255
"""Bytes of a protocol's name in ALPN."""
WEB_SCHEMES = {"http": "ws", "https": "wss"}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_NUMBERS = re.compile(r"[0-9.]+|0[xX][0-9A-Fa-f.xX]*")
_PATH = re.compile(r"/[!-~]*")


class Password:
    """A password readable only through `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the password itself, for the CONNECT packet and nothing else."""
        return self._text

    def __repr__(self) -> str:
        return "Password(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """A broker's address.

    It never contains a password, so it may be shown and logged.
    """

    host: str
    """Name or address; an IPv6 address without its brackets."""
    port: int = DEFAULT_PORTS["mqtt"]
    user: str | None = None
    scheme: str = "mqtt"
    path: str = ""
    """Of a websocket; empty for all else."""

    def __str__(self) -> str:
        return format_url(self)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can be meant."""
        return is_loopback(self.host)

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme in {"mqtts", "wss"}

    @property
    def is_websocket(self) -> bool:
        """Whether MQTT is inside of a websocket."""
        return self.scheme in {"ws", "wss"}

    def spoken(self, scheme: str) -> BrokerUrl:
        """Return the same host and port in another scheme."""
        path = (self.path or DEFAULT_PATH) if scheme in {"ws", "wss"} else ""
        return replace(self, scheme=scheme, path=path)


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address stays on this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def format_url(url: BrokerUrl) -> str:
    """Return the text of a URL; `parse_url` reads it back to the same."""
    user = "" if url.user is None else quote(url.user, safe="") + "@"
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{user}{host}:{url.port}{url.path}"


def parse_url(text: str) -> BrokerUrl:
    """Read `mqtt://user@host:port`.

    Only the host is required. The scheme is `mqtt`, and the port is the scheme's, unless given.

    Raises:
        ConfigError: the text is no such URL, its scheme is unknown, or it contains a password. The
            message never quotes one.
    """
    scheme_match = _SCHEME.match(text)
    given = scheme_match[1].lower() if scheme_match else "mqtt"
    scheme = ALIASES.get(given, given)
    if scheme not in DEFAULT_PORTS:
        raise ConfigError(f"broker {_shown(text)!r}: {_unknown_scheme(given)}")
    try:
        parts = urlsplit(text if scheme_match else f"{scheme}://{text}")
        port = parts.port
    except ValueError:
        # The error's own text can quote the whole authority, password and all: it is not passed on.
        raise ConfigError(
            f"broker {_shown(text)!r}: not a host and a port between 1 and 65535"
        ) from None
    if parts.password is not None:
        raise ConfigError(
            f"broker {_shown(text)!r}: a password in the URL shows in process lists and histories; "
            "set TRNFLEET_MQTT_PASSWORD or give --password-file"
        )
    if port == 0:
        raise ConfigError(f"broker {_shown(text)!r}: port must be 1 to 65535")
    url = BrokerUrl(
        host=_checked_host(parts.hostname or "", text),
        port=DEFAULT_PORTS[scheme] if port is None else port,
        user=_checked_user(parts.username, text),
        scheme=scheme,
        path=_checked_path(scheme, parts, text),
    )
    if scheme_match is None and port == DEFAULT_PORTS["mqtts"]:
        raise ConfigError(
            f"broker {_shown(text)!r}: port {port} is usually that of TLS; write"
            f" {url.spoken('mqtts')}, or {url} where it is not"
        )
    return url


def with_user(url: BrokerUrl, user: str) -> BrokerUrl:
    """Return a URL with a user's name.

    Raises:
        ConfigError: it has another one already, or the name is invalid.
    """
    if not user or not user.isprintable():
        raise ConfigError(f"--user {user!r}: it is empty or not printable")
    if url.user not in {None, user}:
        raise ConfigError(f"--user {user!r}: the broker's URL has another user, {url.user!r}")
    return replace(url, user=user)


def _unknown_scheme(given: str) -> str:
    if given in WEB_SCHEMES:
        return (
            f"{given!r} is not MQTT; a websocket is written {WEB_SCHEMES[given]}://host:port/path"
        )
    return f"unknown scheme {given!r}; {nearest(given, DEFAULT_PORTS)}"


def _checked_path(scheme: str, parts: SplitResult, text: str) -> str:
    is_websocket = scheme in {"ws", "wss"}
    if parts.query or parts.fragment or (parts.path not in {"", "/"} and not is_websocket):
        what = "the path" if is_websocket else f"the port of {scheme}"
        raise ConfigError(f"broker {_shown(text)!r}: nothing may follow {what}")
    if not is_websocket:
        return ""
    if "@" in parts.path:
        # An unquoted / in a password ends the host, and all behind it would be shown as the path.
        raise ConfigError(
            f"broker {_shown(text)!r}: write an @ in the path as %40; a password must not be in"
            " the URL"
        )
    if parts.path and not _PATH.fullmatch(parts.path):
        raise ConfigError(f"broker {_shown(text)!r}: the path is not of printable ASCII characters")
    return parts.path or DEFAULT_PATH


def _checked_host(host: str, text: str) -> str:
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host).compressed
        except ValueError:
            raise ConfigError(f"broker {_shown(text)!r}: {host!r} is not an IPv6 address") from None
    if _NUMBERS.fullmatch(host):
        # The system would read 1883 as the address 0.0.7.91.
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            is_port = host.isdigit() and 0 < int(host) < 65_536
            hint = (
                f"a port; write the host, too, as in 127.0.0.1:{host}"
                if is_port
                else "not an address"
            )
            raise ConfigError(f"broker {_shown(text)!r}: {host!r} is {hint}") from None
    if not _HOST.fullmatch(host):
        raise ConfigError(
            f"broker {_shown(text)!r}: {host!r} is not a host; write it as mqtt://host:1883"
        )
    return host


def _checked_user(quoted: str | None, text: str) -> str | None:
    if quoted is None:
        return None
    user = unquote(quoted)
    if not user or not user.isprintable():
        raise ConfigError(
            f"broker {_shown(text)!r}: the user before the @ is empty or not printable"
        )
    return user


def _shown(text: str) -> str:
    """Return a URL for quoting, without password and query.

    Cut are the text between the user and the last @, and after a ?.
    """
    head, at, tail = text.rpartition("@")
    tail, query, _ = tail.partition("?")
    tail = f"{tail}?***" if query else tail
    if not at:
        return tail
    scheme = _SCHEME.match(head)
    prefix = scheme[0] if scheme else ""
    user, colon, _ = head[len(prefix) :].partition(":")
    return f"{prefix}{user}{':***' if colon else ''}@{tail}"
