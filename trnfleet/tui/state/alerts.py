"""Alerts with their status, and their marks on the hierarchy's nodes.

They are computed once for all widgets, so that header, lists and marks agree. Marks are columns by
node number; chips are sparse, because few have an alert. The module reads the monitor and draws
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import Alert, address_of, is_below
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.watches import (
    MUTED_S,
    ReceiverErrors,
    WatchPresence,
    Word,
    receiver_error_text,
    receiver_errors,
    word_of,
)
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout, Node
from trnfleet.domain.severity import BY_RANK, Severity
from trnfleet.monitor.alerting.coverage import Coverage, read_coverage
from trnfleet.monitor.alerting.engine import AlertCounts, Alerts
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.alerting.unpublished import Unpublished
from trnfleet.monitor.problems.problem import NO_PROBLEMS, ProblemCounts, Problems
from trnfleet.monitor.problems.state import problems_of
from trnfleet.monitor.problems.uncovered import cells_of, doubts_of
from trnfleet.monitor.store.findings import JOBS_DOWN, Findings
from trnfleet.tui.state.limits import MarkLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.wire.messages import JobMessage


MOST_MEMBERS = 4_096
"""Members of alerts looked up per reading. Beyond it, alerts mark only their own place."""
NONE = len(Severity)
"""Above the rank of every severity: of a node without an alert."""


class AlertMarks(NamedTuple):
    """Rank of the worst alert at or below every node of one layout.

    `NONE` without an alert.
    """

    fleet: int
    clusters: NDArray[np.int8]
    """Shape (clusters,)."""
    ultraservers: NDArray[np.int8]
    """Shape (ultraservers,), standalone segments included."""
    instances: NDArray[np.int8]
    """Shape (instances,)."""
    chips: Mapping[int, int]
    """By chip row; chips without an alert are missing."""

    def at(self, node: Node) -> Severity | None:
        """Return the worst severity at or below a node of the layout.

        None without an alert, or for a node of another layout.
        """
        level, number = node
        if level is Level.FLEET:
            rank = self.fleet
        elif level >= Level.CHIP:
            rank = self.chips.get(number, NONE) if level is Level.CHIP else NONE
        else:
            column = {
                Level.CLUSTER: self.clusters,
                Level.ULTRASERVER: self.ultraservers,
                Level.INSTANCE: self.instances,
            }[level]
            rank = int(column[number]) if number < len(column) else NONE
        return None if rank == NONE else BY_RANK[rank]


def mark(layout: Layout, places: Iterable[tuple[Node | None, Severity]]) -> AlertMarks:
    """Return the marks of alerts.

    Args:
        layout: The layout of the nodes.
        places: The node of each alert, with its severity. A node of None is outside the fleet and
            marks nothing.
    """
    node_ranks = [
        (node.level, node.number, severity.rank) for node, severity in places if node is not None
    ]
    rows = np.array(node_ranks, np.int64).reshape(-1, 3)
    columns = {
        level: np.full(layout.count(level), NONE, np.int8)
        for level in (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE)
    }
    for level, column in columns.items():
        here = rows[rows[:, 0] == level]
        np.minimum.at(column, here[:, 1], here[:, 2].astype(np.int8))
    on_chips = rows[rows[:, 0] == Level.CHIP]
    chips: dict[int, int] = {}
    for number, severity in on_chips[:, 1:].tolist():
        chips[number] = min(chips.get(number, NONE), severity)
    instances = columns[Level.INSTANCE]
    ultraservers = columns[Level.ULTRASERVER]
    if len(on_chips):
        owners = layout.instance_of_chip[on_chips[:, 1]]
        np.minimum.at(instances, owners, on_chips[:, 2].astype(np.int8))
    _lift(instances, layout.ultraserver_start, ultraservers)
    _lift(ultraservers, layout.cluster_start, columns[Level.CLUSTER])
    fleet = min(int(columns[Level.FLEET][0]), int(columns[Level.CLUSTER].min(initial=NONE)))
    return AlertMarks(fleet, columns[Level.CLUSTER], ultraservers, instances, chips)


def _lift(below: NDArray[np.int8], starts: NDArray[np.int64], above: NDArray[np.int8]) -> None:
    """Mark the parents of marked nodes.

    A node's children are `starts[node]` to `starts[node + 1]`.
    """
    marked = np.flatnonzero(below < NONE)
    if len(marked):
        np.minimum.at(above, np.searchsorted(starts, marked, side="right") - 1, below[marked])


NO_MARKS = mark(EMPTY_LAYOUT, ())
"""Of a fleet without alerts."""


EVERY_S = 0.5
"""Seconds between two readings: rules are evaluated at whole seconds."""
_HANDLED = (AlertStatus.ACKED, AlertStatus.SILENCED)
NO_COUNTS = AlertCounts(0, 0, 0, 0, 0, 0, 0)


class AlertSnapshot:
    """All alerts as of the last reading."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self.limits = MarkLimits(monitor)
        """Limits for marking figures."""
        self.active: list[AlertWithStatus] = []
        """Pending and firing alerts: firing ones first, then by severity, the newest first."""
        self.counts = NO_COUNTS
        self.problems: Problems = NO_PROBLEMS
        """Problems of these alerts, with findings. Read together with them, so that all views
        agree."""
        self.problem_counts = ProblemCounts()
        self._findings: Findings | None = None
        self._found_s = -math.inf
        self.marks: AlertMarks = NO_MARKS
        """Of unhandled alerts: firing, and neither acknowledged, silenced nor inhibited."""
        self.handled_marks: AlertMarks = NO_MARKS
        """Of problems that are acknowledged or silenced."""
        self.revision = 0
        """Goes up with every reading."""
        self.source = 0
        """Source of the monitor read last, from its `MonitorRevision`."""
        self._read_s = -math.inf
        self._of: tuple[int, ...] = ()
        self._nodes: dict[str, Node | None] = {}
        self._layout: Layout | None = None
        self._by_name: dict[tuple[str, str], list[AlertWithStatus]] = {}
        self._unpublished = Unpublished()
        self._covered: tuple[object, ...] = ()
        self._coverage: list[Coverage] = []
        self._touching: tuple[int, str, list[AlertWithStatus]] = (-1, "", [])

    @property
    def alerts(self) -> Alerts:
        return self._monitor.alerts

    @property
    def incomplete(self) -> str:
        """The part of the alerts missing at the moment shown; empty if complete."""
        return self._monitor.incomplete

    @property
    def coverage(self) -> list[Coverage]:
        """How much of the fleet each rule sees."""
        monitor = self._monitor
        known = (monitor.summary().announced.key, len(monitor.ingest.jobs), monitor.alerts.rules)
        if known != self._covered:
            self._covered = known
            self._coverage = read_coverage(
                monitor.alerts.rules, monitor.store, monitor.ingest.job_table
            )
        return self._coverage

    @property
    def has_rules(self) -> bool:
        return bool(self._monitor.alerts.rules)

    @property
    def now_ns(self) -> int:
        """Monitor time of the last evaluation; ages count from it."""
        return self._monitor.alerts.instant.now_ns

    def refresh(self, now_s: float) -> bool:
        """Read again if anything changed, at most twice a second; return whether that was done.

        Args:
            now_s: Monotonic seconds.
        """
        alerts = self._monitor.alerts
        revision = self._monitor.revision
        key = (revision.source, revision.layout, revision.alerts, revision.silences)
        if key == self._of or now_s - self._read_s < EVERY_S:
            # Findings change with every pass, and alerts do not wait because of them.
            if self._monitor.findings is self._findings or now_s - self._found_s < EVERY_S:
                return False
            self._found_s = now_s
            changed = self._find_problems()
            self.revision += changed
            return changed
        self._of = key
        self._read_s = now_s
        self._found_s = now_s
        self.active = [AlertWithStatus(alert, alerts.status(alert)) for alert in alerts.active()]
        self.counts = _counted(self.active)
        loud = [held for held in self.active if held.status is AlertStatus.FIRING]
        self._find_problems()
        self._by_name = {}
        for held in loud:
            labels = held.alert.labels
            for label in ("job", "reservation"):
                if label in labels:
                    self._by_name.setdefault((label, labels[label]), []).append(held)
        leads = any(watch.leads is not False for watch in self._present())
        if revision.source != self.source or not self._monitor.link.connected or not leads:
            # Nobody could have published anything, or it could not be seen here.
            self._unpublished.reset()
        else:
            self._unpublished.update(alerts, self._monitor.ingest.alert_messages, now_s)
        self.source = revision.source
        self.revision += 1
        return True

    def _find_problems(self) -> bool:
        """Find the problems again; return whether they are others."""
        self._findings = self._monitor.findings
        problems = problems_of(self._monitor, self.active)
        if problems == self.problems and self._layout is self._monitor.store.layout:
            return False
        self.problems, self.problem_counts = problems, problems.counts()
        layout = self._monitor.store.layout
        if layout is not self._layout:
            self._layout = layout
            self._nodes = {}
        self.marks = mark(layout, self._marked(layout, is_loud=True))
        self.handled_marks = mark(layout, self._marked(layout, is_loud=False))
        return True

    def _marked(self, layout: Layout, *, is_loud: bool) -> Iterator[tuple[Node | None, Severity]]:
        """Yield the nodes to mark: causes of problems, and places of hardware alerts.

        Firing members of hardware alerts are marked, too.
        """
        room = MOST_MEMBERS
        for problem in self.problems.all:
            if problem.is_loud is not is_loud:
                continue
            addresses = {problem.place.address, problem.place.other_end.partition(":")[0]}
            for held in problem.alerts:
                if (
                    held.status is AlertStatus.FIRING
                ) is is_loud and held.alert.rule.scope in LEVEL_OF:
                    addresses.add(address_of(held.alert))
                    if 1 < held.alert.members <= room:
                        room -= held.alert.members
                        members = self.alerts.members(held.alert, held.alert.members)
                        addresses.update(
                            name.partition(":")[0] for name, _, fires in members if fires
                        )
            for address in addresses - {""}:
                yield self._node_at(address, layout), problem.severity

    def word(self, now_s: float) -> Word:
        """Return the leading watch and the doubts about it.

        Doubts include alerts firing here but not published by it, and doubts of cells.

        Args:
            now_s: Monotonic seconds, as for `refresh`.
        """
        ingest = self._monitor.ingest
        present = self._present()
        doubts = doubts_of(cells_of(self._monitor))
        if not present:
            return Word(None, doubts)
        missing = self._unpublished.missing(self._monitor.alerts, now_s, MUTED_S)
        published = sum(message.state == "firing" for message in ingest.alert_messages.values())
        word = word_of(present, published, missing=len(missing.alerts), missing_s=missing.longest_s)
        return word._replace(doubts=(*word.doubts, *doubts))

    @property
    def receiver_errors(self) -> ReceiverErrors:
        """Errors of the leading watch's receivers."""
        return receiver_errors(self._present())

    def receiver_error(self) -> str:
        """Return the first receiver error in a line, with their number.

        Empty for none.
        """
        errors = self.receiver_errors
        if not errors.first:
            return ""
        alert = self._monitor.alerts.find(errors.first[0].id)
        text = receiver_error_text(errors.first[0], f"{alert.name} {alert.target}" if alert else "")
        return text if errors.total == 1 else f"{errors.total:,} receiver errors; {text}"

    def _present(self) -> list[WatchPresence]:
        return self._monitor.ingest.watches.present(self._monitor.clock.monotonic_s())

    def renew(self) -> None:
        """Read again at the next chance: another monitor is shown."""
        self._read_s = -math.inf

    def touching(self, place: str) -> list[AlertWithStatus]:
        """Return unhandled alerts at, below or above an address.

        Alerts of the fleet itself count only at the fleet.
        """
        if self._touching[:2] != (self.revision, place):
            alerts = [
                held
                for held in self.active
                if held.status is AlertStatus.FIRING and self._is_about(held.alert, place)
            ]
            self._touching = (self.revision, place, alerts)
        return self._touching[2]

    def handled_touching(self, place: str) -> dict[AlertStatus, int]:
        """Return the number of handled alerts at, below or above an address, by status.

        Handled means acknowledged or silenced.
        """
        statuses = Counter(
            held.status
            for held in self.active
            if held.status in _HANDLED and self._is_about(held.alert, place)
        )
        return {status: statuses[status] for status in _HANDLED if statuses[status]}

    def _is_about(self, alert: Alert, place: str) -> bool:
        """Return whether an alert is at, below or above a place.

        One of a job is at its cause; without a known one, or of a job that is down, wherever it
        runs.
        """
        address = address_of(alert)
        job = self._monitor.ingest.jobs.get(alert.target) if alert.rule.scope is Scope.JOB else None
        if touches(address, place) or job is None:
            return touches(address, place)
        return (not address or job.state in JOBS_DOWN) and self._runs_at(job, place)

    def _runs_at(self, job: JobMessage, place: str) -> bool:
        layout = self._monitor.store.layout
        node = layout.find(place)
        if node is None:
            return False
        there = layout.instance_range(node)
        runs = filter(None, map(layout.find_instances, job.on))
        return any(run.start < there.stop and there.start < run.stop for run in runs)

    def of_job(self, job: str) -> list[AlertWithStatus]:
        """Return unhandled alerts of a job or of the place where it runs."""
        return self._by_name.get(("job", job), [])

    def of_reservation(self, reservation_id: str) -> list[AlertWithStatus]:
        """Return unhandled alerts of a reservation itself."""
        return self._by_name.get(("reservation", reservation_id), [])

    def on_instances(self, rows: tuple[range, ...]) -> list[AlertWithStatus]:
        """Return unhandled alerts at some instances or below one of them.

        Args:
            rows: Numbers of instances in the present layout.
        """
        if not rows or self._layout is None or self._layout is not self._monitor.store.layout:
            return []
        alerts: list[AlertWithStatus] = []
        for held in self.active:
            node = (
                self._node_at(address_of(held.alert), self._layout)
                if held.status is AlertStatus.FIRING
                else None
            )
            if node is None or node.level < Level.INSTANCE:
                continue
            first = self._layout.instance_range(node).start
            if any(first in run for run in rows):
                alerts.append(held)
        return alerts

    def worst_on(self, rows: tuple[range, ...]) -> Severity | None:
        """Return the worst severity of unhandled alerts at some instances or below one of them."""
        if self._layout is not self._monitor.store.layout:
            return None
        marks = self.marks.instances
        rank = min(
            (int(marks[run.start : run.stop].min(initial=NONE)) for run in rows), default=NONE
        )
        return None if rank == NONE else BY_RANK[rank]

    def _node_at(self, place: str, layout: Layout) -> Node | None:
        if not place:
            return None
        if place not in self._nodes:
            self._nodes[place] = layout.find(place)
        return self._nodes[place]


def touches(address: str, place: str) -> bool:
    """Return whether an alert's address is at, below or above a place.

    An alert without an address is at the fleet alone.
    """
    return is_below(address, place) or (bool(address) and is_below(place, address))


def _counted(alerts: list[AlertWithStatus]) -> AlertCounts:
    by_status = dict.fromkeys(AlertStatus, 0)
    by_severity = {severity.value: 0 for severity in Severity}
    for held in alerts:
        by_status[held.status] += 1
        if held.status is AlertStatus.FIRING:
            by_severity[held.severity.value] += 1
    return AlertCounts(
        **by_severity,
        acked=by_status[AlertStatus.ACKED],
        silenced=by_status[AlertStatus.SILENCED],
        inhibited=by_status[AlertStatus.INHIBITED],
        pending=by_status[AlertStatus.PENDING],
    )
