"""Links of alerts: to a runbook page, and back to the alert.

They appear on screens and at receivers as clickable links. So they are `http://` or `https://` with
a host, without a password, in printable ASCII.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_IN_URLS = frozenset(' "<>\\^`{|}')
"""Printable characters valid in a URL only as %-codes."""


def check_web_url(text: str) -> None:
    """Check a link.

    Raises:
        ValueError: it is not a valid link.
    """
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
        host = None
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("not a URL such as https://wiki.example/runbooks/hbm")
    if parts.username is not None:
        raise ValueError("a URL with a user name; everybody who gets the alert could read it")
    if not (text.isascii() and text.isprintable()) or _NOT_IN_URLS & set(text):
        raise ValueError(
            "a URL has only printable ASCII without blanks and quotes: write others as %-codes"
        )


def runbook_url(base: str, rule: str) -> str:
    """Return the link to a rule on the page of rules; empty without a base."""
    return f"{base.removesuffix('#')}#{rule}" if base else ""


def generator_url(external_url: str, labels: Mapping[str, str]) -> str:
    """Return the link to an alert; empty without an external URL.

    The operator's URL with the alert's fleet, rule and target as its query.
    """
    if not external_url:
        return ""
    parts = urlsplit(external_url)
    query = urlencode([(name, labels.get(name, "")) for name in ("fleet", "alertname", "target")])
    return urlunsplit(parts._replace(query="&".join(part for part in (parts.query, query) if part)))
