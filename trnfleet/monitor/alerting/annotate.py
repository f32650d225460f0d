"""Annotations of an alert: members, place, value, the job that runs there, and the probable cause of a job's trouble."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level, level_of
from trnfleet.domain.alerts.alert import address_of, common_place
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.subsystems import STEP_TIME
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.grouping import row_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.grouping import AlertGroups
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.store.events import Events
    from trnfleet.wire.messages import JobMessage

CAUSE_FOR_NS = 120 * NS_PER_S
"""Time after the beginning of a job's alert for which its cause is looked for."""
BEFORE_NS = 120 * NS_PER_S
"""Longest time from a cause to its effect."""
_EFFECTS = frozenset({"job", "scheduler"})
"""Sources of events that are effects on a job, not causes."""
AFTER_NS = 60 * NS_PER_S
"""Longest time by which a cause shows after its effect: a counter or an alert may lag behind the job."""
MOST_ALERTS = 2_000
"""Alerts that are looked through for one job."""


def describe(
    alert: Alert,
    groups: AlertGroups,
    number: int,
    readings: Readings,
    jobs: Mapping[str, JobMessage],
    others: Iterable[Alert],
) -> None:
    """Update an alert's annotations from its group; its state and its labels stay as they are.

    Args:
        alert: The alert.
        groups: Its rule's groups.
        number: Which of these is its own.
        readings: The instant.
        jobs: The jobs by name, in the order of their numbers.
        others: Alerts that may have to do with it.
    """
    value = float(groups.values[number])
    alert.value = None if math.isnan(value) else value
    alert.members, alert.chips = int(groups.members[number]), int(groups.chips[number])
    alert.is_silent = bool(groups.silent[number])
    scope, layout = alert.rule.scope, readings.layout
    if scope in LEVEL_OF:
        ends = [
            row_name(scope, int(groups.first[number]), layout),
            row_name(scope, int(groups.last[number]), layout),
        ]
        alert.place = common_place(ends)
        alert.rack = rack_at(layout, alert.place, ends)
        alert.worst = row_name(scope, int(groups.worst[number]), layout)
        alert.job = _job_at(readings, alert.place)
    elif scope is Scope.JOB:
        _follow_job(alert, jobs.get(alert.target), readings, others)
    elif scope is Scope.PIPELINE and not alert.cause:
        alert.cause = readings.pipeline_causes.get(alert.name, "")


def rack_at(layout: Layout, place: str, ends: Sequence[str]) -> str:
    """Return the name of the rack that has all of an UltraServer's members; empty where they are elsewhere or in several.

    Args:
        layout: Where they are.
        place: The deepest address that has all of them.
        ends: Addresses of the first and the last of them.
    """
    node = layout.find(place) if place else None
    if node is None or node.level is not Level.ULTRASERVER:
        return ""
    kind = layout.ultraserver_type(node.number)
    nodes = [layout.find(each.partition(":")[0]) for each in ends]
    if kind is None or any(each is None or each.level < Level.INSTANCE for each in nodes):
        return ""
    first = layout.instance_range(node).start
    racks = {
        kind.rack_of(layout.instance_range(each).start - first)
        for each in nodes
        if each is not None
    }
    number = racks.pop()
    return "" if racks or number >= len(kind.racks) else kind.racks[number]


def _follow_job(
    alert: Alert, message: JobMessage | None, readings: Readings, others: Iterable[Alert]
) -> None:
    """Update an alert about a job from the job's message; None where there is none."""
    alert.job = alert.target
    alert.place, alert.chips = "", 0
    if message is None:
        return
    layout = readings.layout
    alert.place = message.on[0].partition("..")[0] if message.on else ""
    covered = [layout.find_instances(target) for target in message.on]
    alert.chips = sum(int(layout.sizes[each.start : each.stop].sum()) for each in covered if each)
    if not alert.cause and readings.instant.now_ns - alert.since_ns <= CAUSE_FOR_NS:
        alert.cause = find_cause(alert, message, layout, readings.all_events, others)


def _job_at(readings: Readings, place: str) -> str:
    """Return the job that runs at an address; empty for none or several."""
    node = readings.layout.find(place) if place else None
    if node is None:
        return ""
    covered = readings.layout.instance_range(node)
    numbers = set(readings.store.job_of[covered.start : covered.stop].tolist())
    names = readings.tables[Scope.JOB].names
    if len(numbers) != 1 or not 0 <= (number := numbers.pop()) < len(names):
        return ""
    return str(names[number])


def find_cause(
    alert: Alert, job: JobMessage, layout: Layout, events: Events, alerts: Iterable[Alert]
) -> str:
    """Return the place and the name of what came first among a job's instances, around the time at which its alert began.

    An event about a chip of the job wins over an alert, and unless the job is only slow, one that is worse over one of before: a power
    limit does not end a job, the lost link after it does. Empty where nothing is known. An alert's figure is not among the words: it goes
    on changing, and a second one of another moment would contradict it.
    """
    from_ns, until_ns = alert.since_ns - BEFORE_NS, alert.since_ns + AFTER_NS
    events_there = [
        event
        for event in events.newest_first()
        if event.job == job.job
        and event.severity is not Severity.INFO
        and event.source not in _EFFECTS
        and level_of(event.path) >= Level.INSTANCE
        and from_ns <= event.ts_ns <= until_ns
    ]
    if events_there:
        is_slow = alert.subsystem == STEP_TIME
        # Of one instant the deepest address is the most precise.
        first = min(
            events_there,
            key=lambda event: (
                0 if is_slow else event.severity.rank,
                event.ts_ns,
                -level_of(event.path),
                event.number,
            ),
        )
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
    return f"{found.worst or address_of(found)} ({found.name})"
