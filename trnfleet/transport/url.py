"""Broker URLs, `mqtt://user@host:port`, and the password, which is never part of one.

Owns the reading and writing of broker URLs. It opens no connection and reads no file or variable.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from trnfleet.errors import ConfigError, nearest

DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
"""The port of each scheme that is understood, where the URL names none."""
SUPPORTED_SCHEMES = ("mqtt",)
"""The schemes that can be connected to."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")


class Password:
    """A password that is readable only through `reveal`."""

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
    """A broker's address; it cannot hold a password, so it may be shown and logged everywhere."""

    host: str
    """Name or address; an IPv6 address without its brackets."""
    port: int = 1883
    user: str | None = None
    scheme: str = "mqtt"

    def __str__(self) -> str:
        return format_url(self)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can be meant."""
        return is_loopback(self.host)


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
    return f"{url.scheme}://{user}{host}:{url.port}"


def parse_url(text: str) -> BrokerUrl:
    """Read `mqtt://user@host:port`; the user may be left out, and the port where it is the scheme's own.

    Raises:
        ConfigError: the text is not such a URL, its scheme is not supported, or it holds a password. What is quoted
            of the text in the message never includes one.
    """
    scheme_match = _SCHEME.match(text)
    if scheme_match is None:
        raise ConfigError(f"broker {_shown(text)!r}: a scheme is missing; write it as mqtt://host:1883")
    scheme = scheme_match[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise ConfigError(
            f"broker {_shown(text)!r}: unknown scheme {scheme!r}; {nearest(scheme, DEFAULT_PORTS)}"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # The error's own text can quote the whole authority, password and all: it is not passed on.
        raise ConfigError(f"broker {_shown(text)!r}: not a host and a port between 1 and 65535") from None
    if parts.password is not None:
        raise ConfigError(
            f"broker {_shown(text)!r}: a password in the URL shows in process lists and histories; "
            "set TRNFLEET_MQTT_PASSWORD or give --password-file"
        )
    if scheme not in SUPPORTED_SCHEMES:
        raise ConfigError(
            f"broker {_shown(text)!r}: scheme {scheme!r} is not supported yet; supported now: {', '.join(SUPPORTED_SCHEMES)}"
        )
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError(f"broker {_shown(text)!r}: nothing may follow the port")
    if port == 0:
        raise ConfigError(f"broker {_shown(text)!r}: port 0 is none; choose between 1 and 65535")
    return BrokerUrl(
        host=_checked_host(parts.hostname or "", text),
        port=DEFAULT_PORTS[scheme] if port is None else port,
        user=_checked_user(parts.username, text),
        scheme=scheme,
    )


def _checked_host(host: str, text: str) -> str:
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host).compressed
        except ValueError:
            raise ConfigError(f"broker {_shown(text)!r}: {host!r} is not an IPv6 address") from None
    if not _HOST.fullmatch(host):
        raise ConfigError(f"broker {_shown(text)!r}: {host!r} is not a host; write it as mqtt://host:1883")
    return host


def _checked_user(quoted: str | None, text: str) -> str | None:
    if quoted is None:
        return None
    user = unquote(quoted)
    if not user or not user.isprintable():
        raise ConfigError(f"broker {_shown(text)!r}: the user before the @ is empty or not printable")
    return user


def _shown(text: str) -> str:
    """Return what may be quoted of a URL: everything but what stands between the user and the last @."""
    head, at, tail = text.rpartition("@")
    if not at:
        return text
    scheme = _SCHEME.match(head)
    prefix = scheme[0] if scheme else ""
    user, colon, _ = head[len(prefix) :].partition(":")
    return f"{prefix}{user}{':***' if colon else ''}@{tail}"
