"""Search for problems: groups of alerts and findings, most urgent first.

Alerts are grouped by cause, findings by place.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import level_of
from trnfleet.domain.alerts.alert import Alert, cause_address
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.subsystems import LINK, PROGRESS, SILENCE, can_stop
from trnfleet.domain.alerts.templates import title
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems import finding_groups, grouping, places
from trnfleet.monitor.problems.impact import JobsAt, impacts
from trnfleet.monitor.problems.problem import JobImpact, Place, Problem, Problems
from trnfleet.monitor.problems.uncovered import can_stop as finding_can_stop
from trnfleet.monitor.problems.uncovered import subsystem_of, uncovered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.address import Names
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.problems.finding_groups import FindingGroup
    from trnfleet.monitor.problems.grouping import Named
    from trnfleet.monitor.store.findings import Findings

MOST_ALERTS = 500
"""Most grouped alerts, the worst first. Nobody reads a longer list, and a screen that searches
twice a second stays fast."""
_RANK = {
    status: rank
    for rank, status in enumerate((AlertStatus.FIRING, AlertStatus.ACKED, AlertStatus.SILENCED))
}


class Fleet(NamedTuple):
    """Fleet data for a search besides alerts and findings."""

    layout: Layout
    running: JobsAt
    named: Named
    silences: Silences
    rules: tuple[Rule, ...]
    """Rules to decide if a finding is a problem."""
    names: Names
    now_ns: int


def search(active: Sequence[AlertWithStatus], findings: Findings, fleet: Fleet) -> Problems:
    """Return the problems of a fleet.

    Args:
        active: Firing and pending alerts, the worst first, inhibited ones last.
        findings: Findings of the last pass.
        fleet: The fleet.
    """
    firing = [held for held in active if held.status is not AlertStatus.PENDING]
    pending = tuple(held for held in active if held.status is AlertStatus.PENDING)
    looked_at = firing[:MOST_ALERTS]
    problems = [
        _problem(members, fleet) for members in grouping.group(looked_at, fleet.layout, fleet.named)
    ]
    left = uncovered(
        findings.shown, fleet.rules, [*looked_at, *pending[:MOST_ALERTS]], fleet.layout
    )
    problems += [
        _of_findings(group, fleet)
        for group in finding_groups.group(left, fleet.layout, fleet.named.jobs)
    ]
    left_out = len(firing) - len(looked_at)
    if left:
        left_out += findings.total - len(findings.shown)
    return Problems(tuple(sorted(_distinct(problems), key=urgency)), pending, left_out)


def _problem(members: list[AlertWithStatus], fleet: Fleet) -> Problem:
    layout = fleet.layout
    root = _root(members)
    before = _before(root.alert, members)
    shown = [held for held in members if held.status is not AlertStatus.INHIBITED] or members
    statuses = {held.status for held in shown}
    status = min(
        statuses & _RANK.keys(), key=lambda candidate: _RANK[candidate], default=AlertStatus.FIRING
    )
    loud = [held for held in shown if held.status is status] or shown
    place = _place(root.alert, [held.alert for held in members], layout)
    alerts = [held.alert for held in members]
    owner, until_ns = _owner(root.alert, loud, status, fleet)
    return Problem(
        key=_key(root.alert, [held.alert for held in shown], layout),
        severity=min(held.severity for held in loud),
        status=status,
        subsystem=root.alert.subsystem,
        place=place,
        names=fleet.names,
        text="; before: ".join(title(alert) for alert in (root.alert, *before)),
        chips=_chips(alerts),
        jobs=impacts(
            alerts,
            root.alert.subsystem,
            place,
            layout,
            fleet.running,
            can_stop=any(can_stop(alert.subsystem, alert.figure) for alert in alerts),
        ),
        since_ns=min(
            alert.fired_ns or alert.since_ns for alert in (*before, *_of_cause(root.alert, shown))
        ),
        owner=owner,
        until_ns=until_ns,
        alerts=(root, *(held for held in members if held is not root)),
    )


def _root(members: list[AlertWithStatus]) -> AlertWithStatus:
    """Return the alert of the root cause.

    Chips without progress only show a hang. If an alert of the job names the culprit, that is it.
    """
    is_named = any(
        held.alert.rule.scope is Scope.JOB
        and held.alert.cause
        and held.status is not AlertStatus.INHIBITED
        for held in members
    )
    causes = [held for held in members if held.alert.subsystem != PROGRESS or not is_named]
    return min(causes, key=_rootness)


def _before(root: Alert, members: list[AlertWithStatus]) -> list[Alert]:
    """Return the first critical fault of an instance before it fell silent; empty without one.

    Operators drain and stop what has such a fault, so that silence follows.
    """
    if root.subsystem != SILENCE:
        return []
    former = [
        held.alert
        for held in members
        if held.severity is Severity.CRITICAL
        and held.alert.rule.scope in LEVEL_OF
        and held.alert.subsystem != SILENCE
        and (held.alert.fired_ns or sys.maxsize) < (root.fired_ns or 0)
    ]
    return sorted(former, key=lambda alert: (alert.fired_ns or 0, alert.name))[:1]


def _rootness(held: AlertWithStatus) -> tuple[bool, int, int, bool, int, int, str, str]:
    """Return the sort key of alerts for the root cause.

    Faults come before affected jobs, a device that is down before the packets it lost, the widest
    first.
    """
    alert = held.alert
    return (
        held.status is AlertStatus.INHIBITED,
        _kind(alert),
        alert.severity.rank,
        alert.figure == "efa_retransmits",
        -alert.chips,
        -(alert.fired_ns or 0),
        alert.name,
        alert.target,
    )


def _kind(alert: Alert) -> int:
    """Return 0 for an alert about hardware, 2 about a job or reservation, 1 about others."""
    if alert.rule.scope in LEVEL_OF:
        return 0
    return 2 if alert.rule.scope in {Scope.JOB, Scope.RESERVATION} else 1


def _of_cause(root: Alert, shown: list[AlertWithStatus]) -> list[Alert]:
    """Return the alerts about the cause itself, without affected jobs and reservations."""
    return [
        held.alert
        for held in shown
        if held.alert.subsystem == root.subsystem and _kind(held.alert) == _kind(root)
    ] or [root]


def _place(root: Alert, alerts: Sequence[Alert], layout: Layout) -> Place:
    """Return the place of a problem: its hardware of one subsystem, or the named cause."""
    if root.rule.scope in LEVEL_OF:
        if root.rule.scope is Scope.LINK and places.link_of(root, layout) is not None:
            return places.link_place(root.worst, layout)
        same = [
            places.place_of(alert)
            for alert in alerts
            if alert.rule.scope in LEVEL_OF
            and alert.subsystem == root.subsystem
            and not alert.inhibited_by
        ] or [places.place_of(root)]
        joined = places.joined(same, layout)
        if root.rule.scope is Scope.CORE and root.members == 1:
            return joined._replace(lane=root.worst.rpartition("/")[2])
        return joined
    if root.rule.scope is Scope.PIPELINE:
        # What causes it is a publisher, a broker or this program, none of which has an address.
        return Place(name=root.cause.partition(": ")[0])
    placed = [
        places.place_of(alert)
        for alert in alerts
        if alert.rule.scope in LEVEL_OF and not (root.cause and alert.subsystem == PROGRESS)
    ]
    if placed:
        return places.joined(placed, layout)._replace(name=root.target)
    address, _, lane = cause_address(root).partition(":")
    if root.cause and lane:
        return places.link_place(f"{address}:{lane}", layout)._replace(name=root.target)
    return Place(address, name=root.target)


def _key(root: Alert, alerts: Sequence[Alert], layout: Layout) -> str:
    """Return the key of a problem, stable while its alerts come and go.

    Subsystem and widest target, or rule and name.
    """
    if root.rule.scope is Scope.JOB:
        return f"job {root.target}"
    if root.rule.scope not in LEVEL_OF:
        return f"{root.name} {root.target}".strip()
    link = places.link_of(root, layout)
    if link is not None:
        return f"{LINK} {link[0]}"
    targets = [
        alert.target
        for alert in alerts
        if alert.rule.scope in LEVEL_OF and alert.subsystem == root.subsystem
    ] or [root.target]
    return f"{root.subsystem} {min(targets, key=lambda target: (level_of(target), target))}".strip()


def _distinct(problems: list[Problem]) -> list[Problem]:
    """Return problems without repeated keys."""
    numbers = Counter(problem.key for problem in problems)
    return [
        problem._replace(key=f"{problem.key} {problem.alerts[0].alert.fingerprint}")
        if numbers[problem.key] > 1 and problem.alerts
        else problem
        for problem in problems
    ]


def _chips(alerts: Sequence[Alert]) -> int:
    """Return the chip count of a problem.

    Alerts of one rule are about different chips, alerts of several rules about the same.
    """
    hardware = [alert for alert in alerts if alert.rule.scope in LEVEL_OF] or alerts
    by_rule: dict[str, int] = defaultdict(int)
    for alert in hardware:
        by_rule[alert.name] += alert.chips
    return max(by_rule.values(), default=0)


def _owner(
    root: Alert, loud: list[AlertWithStatus], status: AlertStatus, fleet: Fleet
) -> tuple[str, int | None]:
    """Return the operator behind an acknowledgement or silence, and its end."""
    silences = fleet.silences
    now_ns = fleet.now_ns
    if status is AlertStatus.SILENCED:
        hiding = [one for held in loud for one in silences.silences_of(held.alert, now_ns)]
        last = max(hiding, key=lambda silence: silence.ends_ns, default=None)
        return ("", None) if last is None else (last.whose, last.ends_ns)
    ack = silences.ack_of(root, now_ns)
    if ack is None and status is AlertStatus.ACKED:
        ack = next(filter(None, (silences.ack_of(held.alert, now_ns) for held in loud)), None)
    return ("", None) if ack is None else (ack.owner, ack.ends_ns)


def _of_findings(group: FindingGroup, fleet: Fleet) -> Problem:
    """Return the problem of findings without an alert."""
    first = group.members[0]
    subsystem = subsystem_of(first)
    stopped = {member.subject for member in group.members if member.kind == "job"}
    hurt = impacts(
        (), subsystem, group.place, fleet.layout, fleet.running, can_stop=finding_can_stop(first)
    )
    jobs = {impact.job: impact for impact in hurt}
    for name in stopped:
        job = fleet.running.jobs.get(name)
        jobs[name] = JobImpact(
            name, "" if job is None else fleet.running.state_of(job), is_attributed=True
        )
    return Problem(
        key=group.key,
        severity=min(member.severity for member in group.members),
        status=AlertStatus.FIRING,
        subsystem=subsystem,
        place=group.place,
        names=fleet.names,
        text=group.text,
        chips=sum(
            finding.chips
            for finding in {
                finding.path: finding
                for finding in group.members
                if finding.kind != "job" or group.job
            }.values()
        ),
        jobs=tuple(jobs.values()),
        findings=tuple(group.members),
    )


def urgency(problem: Problem) -> tuple[int, int, bool, float, bool, int, str]:
    """Return the sort key of a problem: status, severity, job impact and age."""
    down, slowdown = problem.impact
    return (
        _RANK[problem.status],
        problem.severity.rank,
        not down,
        -round(slowdown),
        not problem.jobs,
        problem.since_ns if problem.since_ns is not None else sys.maxsize,
        problem.key,
    )
