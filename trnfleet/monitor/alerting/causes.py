"""What probably stopped or slowed a job: the first thing that went wrong with what it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level, level_of
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.signals import LEVEL_OF
from trnfleet.domain.alerts.templates import value_text
from trnfleet.domain.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.store.events import Events
    from trnfleet.wire.messages import JobMessage

BEFORE_NS = 120 * NS_PER_S
"""A cause shows so long before its effect at most."""
_EFFECTS = frozenset({"job", "scheduler"})
"""Sources of events that say what became of a job, not why."""
AFTER_NS = 60 * NS_PER_S
"""And so long after it: a counter or an alert may show what a job has felt already."""
MOST_ALERTS = 2_000
"""Alerts that are looked through for one job."""


def find_cause(alert: Alert, job: JobMessage, layout: Layout, events: Events, alerts: Iterable[Alert]) -> str:
    """Return the place and words of what came first among a job's instances, around the time at which its alert began.

    Publishers' own words about a chip of the job win over what was measured; empty where nothing is known.
    """
    from_ns, until_ns = alert.since_ns - BEFORE_NS, alert.since_ns + AFTER_NS
    told = [
        event
        for event in events.newest_first()
        if event.job == job.job
        and event.severity is not Severity.INFO
        and event.source not in _EFFECTS
        and level_of(event.path) >= Level.INSTANCE
        and from_ns <= event.ts_ns <= until_ns
    ]
    if told:
        # Of one instant the deepest place says most.
        first = min(told, key=lambda event: (event.ts_ns, -level_of(event.path), event.number))
        return f"{first.path} ({first.name})"
    places = [each for each in (layout.find_instances(target) for target in job.on) if each]
    best: tuple[int, int, Alert] | None = None
    for number, other in enumerate(alerts):
        if number >= MOST_ALERTS:
            break
        if other.rule.scope not in LEVEL_OF or not from_ns <= other.since_ns <= until_ns:
            continue
        address = address_of(other)
        node = layout.find(address) if address else None
        if node is None or node.level < Level.INSTANCE:
            continue
        instance = layout.instance_range(node).start
        if any(instance in place for place in places):
            key = other.since_ns, -int(node.level), other
            if best is None or key[:2] < best[:2]:
                best = key
    if best is None:
        return ""
    found = best[2]
    return (
        f"{found.worst or address_of(found)} ({found.name} {value_text(found.rule, found.value, found.text)})"
    )
