"""Targets to scrape: from the command line, a list, or Prometheus' file_sd."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from trnfleet.bridge.neuron.telemetry import CLUSTER, check_path
from trnfleet.domain.address import STANDALONE
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

DEFAULT_PORT = 8_000
"""Port of a target named by its host alone: neuron-monitor-prometheus's. Published: the Neuron
SDK's guide of neuron-monitor."""
DEFAULT_PATH = "/metrics"
_FILE_SD = re.compile(r"\s*(?:\{|\[(?![0-9A-Fa-f:]))")
"""Begin of JSON, and not of an IPv6 address."""
_PORTS = {"http": 80, "https": 443}
_FORMS = "not HOST, HOST:PORT or a URL such as http://host:8000/metrics"


class Target(NamedTuple):
    """An exporter of one host."""

    url: str
    host: str
    port: int
    path: str
    """With the query."""
    is_tls: bool
    address: str | None = None
    """The instance's in the fleet, if given."""

    @property
    def netloc(self) -> str:
        """Host and port, as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_target(text: str, address: str | None = None) -> Target:
    """Return a target from `HOST[:PORT]` or a URL.

    Raises:
        ConfigError: it is neither, or its address is not an instance's.
    """
    is_url = "://" in text
    shown = f"target {text[:100]!a}"
    try:
        parts = urlsplit(text if is_url else f"http://{text}")
        host = parts.hostname
        # Names are looked up in this form, which has no empty or long parts.
        (host or "").encode("idna")
    except ValueError:
        raise ConfigError(f"{shown}: {_FORMS}") from None
    if parts.username is not None:
        raise ConfigError("a target's URL has a user: use --target-token-file")
    with contextlib.suppress(ValueError):
        bare = ipaddress.IPv6Address(parts.netloc)
        raise ConfigError(f"{shown}: an IPv6 address is in brackets, as [{bare}]:{DEFAULT_PORT}")
    if not host or parts.scheme not in _PORTS or not text.isprintable() or " " in text:
        raise ConfigError(f"{shown}: {_FORMS}")
    if not host.isascii() or not text.isascii():
        raise ConfigError(f"{shown}: it is not ASCII")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        before, _, number = parts.netloc.rpartition(":")
        raise ConfigError(
            f"{shown}: port {number[:20]!a} is not a number from 1 to 65535; choose one, as"
            f" {before}:{DEFAULT_PORT}"
        )
    path = parts.path if parts.path not in {"", "/"} else DEFAULT_PATH
    path += f"?{parts.query}" if parts.query else ""
    target = Target(
        "",
        host,
        port or (_PORTS[parts.scheme] if is_url else DEFAULT_PORT),
        path,
        parts.scheme == "https",
        None if address is None else check_path(address),
    )
    return target._replace(url=f"{parts.scheme}://{target.netloc}{path}")


def parse_targets(text: str) -> list[Target]:
    """Return the targets of a file's text.

    A list has a target a line, optionally followed by `address=CLUSTER/ULTRASERVER/INSTANCE`, and
    comments after `#`. Prometheus' file_sd is JSON.

    Raises:
        ConfigError: it is neither; the message names the place.
    """
    if _FILE_SD.match(text):
        return _parse_file_sd(text)
    targets: list[Target] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where, *options = words
        address = None
        for option in options:
            key, _, address = option.partition("=")
            if key != "address":
                raise ConfigError(
                    f"line {number}: {option[:40]!a} behind {where[:100]!a} is not"
                    f" address={CLUSTER}/{STANDALONE}/HOST; a comment begins with #"
                )
        try:
            targets.append(parse_target(where, address))
        except ConfigError as error:
            raise ConfigError(f"line {number}: {error}") from None
    return targets


def _parse_file_sd(text: str) -> list[Target]:
    try:
        groups = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error}") from None
    targets: list[Target] = []
    for number, group in enumerate(groups if isinstance(groups, list) else [groups], 1):
        try:
            targets += _targets_of_group(group)
        except ConfigError as error:
            raise ConfigError(f"group {number}: {error}") from None
    return targets


def _targets_of_group(group: Any) -> Iterator[Target]:
    hosts = group.get("targets") if isinstance(group, dict) else None
    labels = group.get("labels", {}) if isinstance(group, dict) else None
    if not isinstance(hosts, list) or not isinstance(labels, dict):
        raise ConfigError("not an object with a list of targets, and labels")
    scheme = labels.get("__scheme__", "http")
    path = labels.get("__metrics_path__", DEFAULT_PATH)
    address = labels.get("address")
    if address is not None and len(hosts) > 1:
        raise ConfigError("an address is for a group of one target")
    for host in hosts:
        bare = parse_target(str(host))
        # A target of file_sd has no scheme; its default port is the scheme's in Prometheus.
        yield parse_target(
            f"{scheme}://{bare.netloc}{path}", None if address is None else str(address)
        )


def read_targets(file: Path) -> list[Target]:
    """Return the targets of a file.

    Raises:
        ConfigError: it cannot be read; the message names it, and the place.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: it is not UTF-8") from None
    try:
        return parse_targets(text)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def join_targets(targets: Iterable[Target]) -> dict[str, Target]:
    """Return targets by URL; one named twice is one.

    Raises:
        ConfigError: two have one address.
    """
    by_url: dict[str, Target] = {}
    of_address: dict[str, str] = {}
    for target in targets:
        by_url.setdefault(target.url, target)
        other = of_address.setdefault(target.address, target.url) if target.address else target.url
        if other != target.url:
            raise ConfigError(f"{other} and {target.url} have the same address {target.address}")
    return by_url
