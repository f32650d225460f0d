"""What an alert says of itself at an instant: how many members it has and where, what runs there, and what caused it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.alert import common_place
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.monitor.alerting.causes import find_cause
from trnfleet.monitor.alerting.grouping import row_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.grouping import Groups
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.wire.messages import JobMessage

CAUSE_FOR_NS = 120 * NS_PER_S
"""A job's cause is looked for until so long after its alert began."""


def describe(
    alert: Alert,
    groups: Groups,
    number: int,
    readings: Readings,
    jobs: Mapping[str, JobMessage],
    others: Iterable[Alert],
) -> None:
    """Bring what an alert says up to date with its group; its state and its labels stay as they are.

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
        alert.worst = row_name(scope, int(groups.worst[number]), layout)
        alert.job = _job_at(readings, alert.place)
    elif scope is Scope.JOB:
        _follow_job(alert, jobs.get(alert.target), readings, others)


def _follow_job(
    alert: Alert, message: JobMessage | None, readings: Readings, others: Iterable[Alert]
) -> None:
    """Bring an alert about a job up to date with what is said of the job; None for nothing."""
    alert.job = alert.target
    alert.place, alert.chips = "", 0
    if message is None:
        return
    layout = readings.layout
    alert.place = message.on[0].partition("..")[0] if message.on else ""
    covered = [layout.find_instances(target) for target in message.on]
    alert.chips = sum(
        int(layout.chip_start[each.stop] - layout.chip_start[each.start]) for each in covered if each
    )
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
