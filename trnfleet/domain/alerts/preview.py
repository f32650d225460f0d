"""Effect of a silence, for people before they create it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.matchers import all_match
from trnfleet.domain.alerts.reach import chips_with_alerts, reach
from trnfleet.domain.severity import Severity

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.matchers import Matcher
    from trnfleet.domain.alerts.reach import Known


class Preview(NamedTuple):
    """Alerts matched by a silence now, and everything else it can match."""

    firing: int
    pending: int
    critical: int
    """Of the firing ones."""
    examples: tuple[Alert, ...]
    """The first of them."""
    other_chips: int | None = None
    """Chips without such an alert now that it would match, too; None if unknown."""
    doubts: tuple[str, ...] = ()
    """Reasons why it matches less than intended, a line each."""


def preview(matchers: tuple[Matcher, ...], known: Known, *, most: int = 8) -> Preview:
    """Return the effect of a silence with these matchers."""
    hit = [alert for alert in known.alerts if alert.is_active and all_match(matchers, alert.labels)]
    firing = [alert for alert in hit if alert.fired_ns is not None]
    critical = sum(alert.severity is Severity.CRITICAL for alert in firing)
    reached = reach(matchers, known)
    others = None if reached.chips is None else max(0, reached.chips - chips_with_alerts(hit))
    return Preview(
        len(firing),
        len(hit) - len(firing),
        critical,
        tuple((firing or hit)[:most]),
        others,
        reached.doubts,
    )
