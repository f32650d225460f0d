"""Annotations of an alert: members, place, value, job, and a probable cause of job trouble."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level, level_of
from trnfleet.domain.alerts.alert import Alert, address_of, common_place
from trnfleet.domain.alerts.signals import LEVEL_OF, RECENT_GOODPUT, Scope
from trnfleet.domain.alerts.subsystems import STEP_TIME
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.grouping import AlertGroups, row_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.store.events import Events
    from trnfleet.wire.messages import JobMessage

CAUSE_WITHIN_NS = 120 * NS_PER_S
"""Longest time from a cause to its effect, and time after the start of a job's alert to search for
its cause."""
_EFFECTS = frozenset({"job", "scheduler"})
"""Event sources for effects on a job, not causes."""
AFTER_NS = 60 * NS_PER_S
"""Longest delay of a cause's report after its effect. Counters and alerts may lag behind the job.
"""
SILENT = "silent"
SENDING_REFUSED = "sending refused messages"
MOST_ALERTS = 2_000
"""Most alerts searched for one job."""


def describe(
    alert: Alert,
    groups: AlertGroups,
    number: int,
    readings: Readings,
    jobs: Mapping[str, JobMessage],
    others: Iterable[Alert],
) -> None:
    """Update an alert's annotations from its group.

    State and labels stay unchanged.

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
    alert.members = int(groups.members[number])
    alert.chips = int(groups.chips[number])
    alert.is_silent = bool(groups.silent[number])
    scope = alert.rule.scope
    layout = readings.layout
    if scope in LEVEL_OF:
        ends = [
            row_name(scope, int(groups.first[number]), layout),
            row_name(scope, int(groups.last[number]), layout),
        ]
        alert.place = common_place(ends)
        alert.rack = rack_at(layout, alert.place, ends)
        alert.worst = row_name(scope, int(groups.worst[number]), layout)
        alert.job = _job_at(readings, alert.place)
        if alert.rule.absent:
            alert.silence = _silence_at(readings, alert.place)
    elif scope is Scope.JOB:
        _follow_job(alert, jobs.get(alert.target), readings, others)
    elif scope is Scope.PIPELINE and not alert.cause:
        alert.cause = readings.pipeline_causes.get(alert.name, "")


def rack_at(layout: Layout, place: str, ends: Sequence[str]) -> str:
    """Return the rack shared by all members of an alert.

    Empty for none or several.

    Args:
        layout: Where they are.
        place: The deepest address that has all of them.
        ends: Addresses of the first and the last of them.
    """
    if level_of(place) < Level.ULTRASERVER:
        return ""
    nodes = [layout.find(end.partition(":")[0]) for end in ends]
    racks = {
        layout.rack_of(layout.instance_range(node).start)
        if node is not None and node.level >= Level.INSTANCE
        else ""
        for node in nodes
    }
    return racks.pop() if len(racks) == 1 else ""


def _follow_job(
    alert: Alert, message: JobMessage | None, readings: Readings, others: Iterable[Alert]
) -> None:
    """Update an alert about a job from the job's message.

    None without one.

    Its place is its cause's: a job in many places has none of its own.
    """
    alert.job = alert.target
    alert.chips = 0
    if message is None:
        return
    layout = readings.layout
    covered = [layout.find_instances(target) for target in message.on]
    alert.chips = sum(int(layout.sizes[run.start : run.stop].sum()) for run in covered if run)
    # Goodput of half an hour has no cause of a moment.
    may_search = not alert.cause and alert.figure != RECENT_GOODPUT
    if may_search and readings.instant.now_ns - alert.since_ns <= CAUSE_WITHIN_NS:
        alert.cause = find_cause(alert, message, layout, readings.all_events, others)
    alert.place = address_of(alert)


def _silence_at(readings: Readings, place: str) -> str:
    """Return how the instances at an address are silent.

    "sending refused messages" if all of them do, otherwise "silent".
    """
    node = readings.layout.find(place) if place else None
    if node is None:
        return SILENT
    covered = readings.layout.instance_range(node)
    refused = readings.store.is_refused[covered.start : covered.stop]
    return SENDING_REFUSED if len(refused) and refused.all() else SILENT


def _job_at(readings: Readings, place: str) -> str:
    """Return the job running at an address.

    Empty for none or several.
    """
    node = readings.layout.find(place) if place else None
    if node is None:
        return ""
    covered = readings.layout.instance_range(node)
    numbers = set(readings.job_of[covered.start : covered.stop].tolist())
    names = readings.tables[Scope.JOB].names
    if len(numbers) != 1 or not 0 <= (number := numbers.pop()) < len(names):
        return ""
    return str(names[number])


def find_cause(
    alert: Alert, job: JobMessage, layout: Layout, events: Events, alerts: Iterable[Alert]
) -> str:
    """Return place and name of the earliest event or alert among a job's instances.

    It is searched around the time the job's alert began. An event about a chip of the job wins over
    an alert. Unless the job is only slow, a worse event wins over an earlier one: a power limit
    does not end a job, the link lost after it does. Empty if unknown. The alert's value is not
    included: it changes all the time, and a second value of another moment would contradict it.
    """
    from_ns = alert.since_ns - CAUSE_WITHIN_NS
    until_ns = alert.since_ns + AFTER_NS
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
    places = [run for run in (layout.find_instances(target) for target in job.on) if run]
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
    cause = best[2]
    return f"{cause.worst or address_of(cause)} ({cause.name})"
