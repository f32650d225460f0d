"""The search for problems: alerts in groups of one cause, findings in groups of one place, in the order of urgency."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import level_of
from trnfleet.domain.alerts.alert import cause_address
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.subsystems import LINK, can_stop
from trnfleet.domain.alerts.templates import title
from trnfleet.monitor.problems import finding_groups, grouping, places
from trnfleet.monitor.problems.impact import JobsAt, impacts
from trnfleet.monitor.problems.problem import JobImpact, Place, Problem, Problems
from trnfleet.monitor.problems.uncovered import can_stop as finding_can_stop
from trnfleet.monitor.problems.uncovered import subsystem_of, uncovered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.problems.finding_groups import FindingGroup
    from trnfleet.monitor.problems.grouping import Named
    from trnfleet.monitor.store.findings import Findings

MOST_ALERTS = 500
"""Alerts that are grouped, the worst ones: no list is read further, and a screen that does it twice a second stays quick."""
_RANK = {AlertStatus.FIRING: 0, AlertStatus.ACKED: 1, AlertStatus.SILENCED: 2}
_NO_TIME = 2**62


class Fleet(NamedTuple):
    """What a search reads of a fleet besides alerts and findings."""

    layout: Layout
    running: JobsAt
    named: Named
    silences: Silences
    rules: tuple[Rule, ...]
    """The rules that decide which findings are problems."""
    now_ns: int


def search(active: Sequence[AlertWithStatus], findings: Findings, fleet: Fleet) -> Problems:
    """Return the problems of a fleet.

    Args:
        active: Alerts that fire or are pending, the worst first, inhibited ones last.
        findings: Those of the last pass.
        fleet: The fleet.
    """
    firing = [each for each in active if each.status is not AlertStatus.PENDING]
    pending = tuple(each for each in active if each.status is AlertStatus.PENDING)
    looked_at = firing[:MOST_ALERTS]
    found = [
        _problem(members, fleet) for members in grouping.group(looked_at, fleet.layout, fleet.named)
    ]
    left = uncovered(
        findings.shown, fleet.rules, [*looked_at, *pending[:MOST_ALERTS]], fleet.layout
    )
    found += [
        _of_findings(each, fleet)
        for each in finding_groups.group(left, fleet.layout, fleet.named.jobs)
    ]
    left_out = len(firing) - len(looked_at)
    if left:
        left_out += findings.total - len(findings.shown)
    return Problems(tuple(sorted(_distinct(found), key=urgency)), pending, left_out)


def _problem(members: list[AlertWithStatus], fleet: Fleet) -> Problem:
    layout = fleet.layout
    root = min(members, key=_rootness)
    shown = [each for each in members if each.status is not AlertStatus.INHIBITED] or members
    statuses = {each.status for each in shown}
    status = min(statuses & _RANK.keys(), key=lambda each: _RANK[each], default=AlertStatus.FIRING)
    loud = [each for each in shown if each.status is status] or shown
    place = _place(root.alert, [each.alert for each in members], layout)
    alerts = [each.alert for each in members]
    owner, until_ns = _owner(root.alert, loud, status, fleet)
    return Problem(
        key=_key(root.alert, [each.alert for each in shown], layout),
        severity=min(each.severity for each in loud),
        status=status,
        subsystem=root.alert.subsystem,
        place=place,
        text=title(root.alert),
        chips=_chips(alerts),
        jobs=impacts(
            alerts,
            root.alert.subsystem,
            place,
            layout,
            fleet.running,
            can_stop=any(can_stop(each.subsystem, each.figure) for each in alerts),
        ),
        since_ns=min(each.fired_ns or each.since_ns for each in _of_cause(root.alert, shown)),
        owner=owner,
        until_ns=until_ns,
        alerts=(root, *(each for each in members if each is not root)),
    )


def _rootness(held: AlertWithStatus) -> tuple[bool, int, int, int, int, str, str]:
    """Return the order in which alerts of one cause stand for it: what is wrong before whom it hurts, the widest first."""
    alert = held.alert
    kind = (
        0
        if alert.rule.scope in LEVEL_OF
        else 2
        if alert.rule.scope in {Scope.JOB, Scope.RESERVATION}
        else 1
    )
    return (
        held.status is AlertStatus.INHIBITED,
        kind,
        alert.severity.rank,
        -alert.chips,
        -(alert.fired_ns or 0),
        alert.name,
        alert.target,
    )


def _of_cause(root: Alert, shown: list[AlertWithStatus]) -> list[Alert]:
    """Return the alerts that tell of the cause itself, without those of jobs and reservations that it hurts."""
    return [each.alert for each in shown if each.alert.subsystem == root.subsystem] or [root]


def _place(root: Alert, alerts: Sequence[Alert], layout: Layout) -> Place:
    """Return where a problem is: all of its hardware that tells of the same subsystem; else the cause that it names."""
    if root.rule.scope in LEVEL_OF:
        if root.rule.scope is Scope.LINK and places.link_of(root, layout) is not None:
            return places.link_place(root.worst, layout)
        same = [
            places.place_of(each)
            for each in alerts
            if each.rule.scope in LEVEL_OF
            and each.subsystem == root.subsystem
            and not each.inhibited_by
        ] or [places.place_of(root)]
        joined = places.joined(same, layout)
        if root.rule.scope is Scope.CORE and root.members == 1:
            return joined._replace(lane=root.worst.rpartition("/")[2])
        return joined
    if root.rule.scope is Scope.PIPELINE:
        # What causes it is a publisher, a broker or this program, none of which has an address.
        return Place(name=root.cause.partition(": ")[0])
    placed = [places.place_of(each) for each in alerts if each.rule.scope in LEVEL_OF]
    if placed:
        return places.joined(placed, layout)._replace(name=root.target)
    address, _, lane = cause_address(root).partition(":")
    if root.cause and lane:
        return places.link_place(f"{address}:{lane}", layout)._replace(name=root.target)
    return Place(address, name=root.target)


def _key(root: Alert, alerts: Sequence[Alert], layout: Layout) -> str:
    """Return what stays the same while alerts of one cause come and go: subsystem and widest target, or rule and name."""
    if root.rule.scope is Scope.JOB:
        return f"job {root.target}"
    if root.rule.scope not in LEVEL_OF:
        return f"{root.name} {root.target}".strip()
    link = places.link_of(root, layout)
    if link is not None:
        return f"{LINK} {link[0]}"
    targets = [
        each.target
        for each in alerts
        if each.rule.scope in LEVEL_OF and each.subsystem == root.subsystem
    ] or [root.target]
    return f"{root.subsystem} {min(targets, key=lambda target: (level_of(target), target))}".strip()


def _distinct(found: list[Problem]) -> list[Problem]:
    """Return problems of which no two have the same key."""
    numbers = Counter(each.key for each in found)
    return [
        each._replace(key=f"{each.key} {each.alerts[0].alert.fingerprint}")
        if numbers[each.key] > 1 and each.alerts
        else each
        for each in found
    ]


def _chips(alerts: Sequence[Alert]) -> int:
    """Return the chips of a problem: alerts of one rule are about different ones, those of several about the same."""
    hardware = [each for each in alerts if each.rule.scope in LEVEL_OF] or alerts
    by_rule: dict[str, int] = defaultdict(int)
    for alert in hardware:
        by_rule[alert.name] += alert.chips
    return max(by_rule.values(), default=0)


def _owner(
    root: Alert, loud: list[AlertWithStatus], status: AlertStatus, fleet: Fleet
) -> tuple[str, int | None]:
    """Return who acknowledged or silenced a problem, and until when."""
    silences, now_ns = fleet.silences, fleet.now_ns
    if status is AlertStatus.SILENCED:
        hiding = [one for each in loud for one in silences.silences_of(each.alert, now_ns)]
        last = max(hiding, key=lambda each: each.ends_ns, default=None)
        return ("", None) if last is None else (last.whose, last.ends_ns)
    ack = silences.ack_of(root, now_ns)
    if ack is None and status is AlertStatus.ACKED:
        ack = next(filter(None, (silences.ack_of(each.alert, now_ns) for each in loud)), None)
    return ("", None) if ack is None else (ack.owner, ack.ends_ns)


def _of_findings(group: FindingGroup, fleet: Fleet) -> Problem:
    """Return the problem of findings without an alert."""
    first = group.members[0]
    subsystem = subsystem_of(first)
    stopped = {each.subject for each in group.members if each.kind == "job"}
    hurt = impacts(
        (), subsystem, group.place, fleet.layout, fleet.running, can_stop=finding_can_stop(first)
    )
    jobs = {each.job: each for each in hurt}
    for name in stopped:
        job = fleet.running.jobs.get(name)
        jobs[name] = JobImpact(name, "" if job is None else job.state, is_attributed=True)
    return Problem(
        key=group.key,
        severity=min(each.severity for each in group.members),
        status=AlertStatus.FIRING,
        subsystem=subsystem,
        place=group.place,
        text=group.text,
        chips=sum(
            each.chips
            for each in {
                each.path: each for each in group.members if each.kind != "job" or group.job
            }.values()
        ),
        jobs=tuple(jobs.values()),
        findings=tuple(group.members),
    )


def urgency(problem: Problem) -> tuple[int, int, bool, float, bool, int, str]:
    """Return the key by which problems are sorted: by status, severity, what they cost jobs, and age."""
    down, slowdown = problem.impact
    return (
        _RANK[problem.status],
        problem.severity.rank,
        not down,
        -round(slowdown),
        not problem.jobs,
        problem.since_ns if problem.since_ns is not None else _NO_TIME,
        problem.key,
    )
