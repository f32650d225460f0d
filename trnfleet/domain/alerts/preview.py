"""The alerts that a silence would match now, for people before they make it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.matchers import all_match
from trnfleet.domain.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.matchers import Matcher


class Preview(NamedTuple):
    """The alerts that a silence matches now."""

    firing: int
    pending: int
    critical: int
    """Of the firing ones."""
    examples: tuple[Alert, ...]
    """The first of them."""


def preview(matchers: tuple[Matcher, ...], alerts: Iterable[Alert], *, most: int = 8) -> Preview:
    """Return the active ones among some alerts that a silence with these matchers matches."""
    hit = [alert for alert in alerts if alert.is_active and all_match(matchers, alert.labels)]
    firing = [alert for alert in hit if alert.fired_ns is not None]
    critical = sum(alert.severity is Severity.CRITICAL for alert in firing)
    return Preview(len(firing), len(hit) - len(firing), critical, tuple((firing or hit)[:most]))
