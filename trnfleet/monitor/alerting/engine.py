"""The alerts of one fleet.

All rules are evaluated at whole seconds, and every view reads from here.

It reads no clock: the caller starts an evaluation. It owns the store of alerts, their lifecycle,
the alerts published by other watches, and the silences and acknowledgements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.rules import Rule, inhibitors
from trnfleet.domain.alerts.signals import JOB_SLOWDOWN, Scope
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.domain.metrics import Scope as MetricScope
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.annotate import describe
from trnfleet.monitor.alerting.cells import CellAlerts
from trnfleet.monitor.alerting.conditions.windows import Counters
from trnfleet.monitor.alerting.grouping import AlertGroups, changed
from trnfleet.monitor.alerting.inhibition import inhibit
from trnfleet.monitor.alerting.inputs import Instant, Readings
from trnfleet.monitor.alerting.lifecycle import AlertLifecycle
from trnfleet.monitor.alerting.published import PublishedAlerts
from trnfleet.monitor.alerting.rule_state import RuleState
from trnfleet.monitor.alerting.silences import Silences
from trnfleet.monitor.alerting.store import AlertStore, AlertTransition
from trnfleet.monitor.failures import guarded
from trnfleet.monitor.slices import SLICE, Slices, require
from trnfleet.monitor.store.layout_changes import same_instances

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trnfleet.domain.address import Names
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.wire.alerts import AlertMessage
    from trnfleet.wire.messages import JobMessage

UNWATCHED_S = 30.0
"""Seconds. A larger jump of fleet time, beyond the passed time, counts as a time without
evaluations."""
LATEST_FLOW_NS = 2**62
"""Upper limit of passed time, safe to add to in 64 bits. Even at the highest speed it takes more
than an hour to reach."""


class AlertCounts(NamedTuple):
    """Numbers of alerts by status."""

    critical: int
    """Unhandled: firing, and neither acknowledged nor hidden; as are warning and info."""
    warning: int
    info: int
    acked: int
    silenced: int
    inhibited: int
    pending: int

    @property
    def firing(self) -> int:
        """Unhandled alerts."""
        return self.critical + self.warning + self.info


class Alerts:
    """Rules and their alerts."""

    def __init__(
        self,
        fleet: str,
        rules: Sequence[Rule] = (),
        *,
        adopts: bool = False,
        detects_flapping: bool = True,
        store: AlertStore | None = None,
    ) -> None:
        """Prepare rules.

        Args:
            fleet: The fleet's name, part of every fingerprint.
            rules: A pack of rules.
            adopts: Whether to inherit alerts of a former `watch` before their condition is seen.
            detects_flapping: Whether recurring alerts are held until they have been quiet.
            store: The alerts to start with; none by default.
        """
        self.rules = tuple(rules)
        self.silences = Silences()
        self.cells = CellAlerts(rules)
        """The alerts of cells, on a top broker."""
        self.revision = 0
        """Increases with every change."""
        self.evaluations = 0
        self.instant = Instant(0, 0)
        """Instant of the last evaluation."""
        self.listener: Callable[[list[AlertTransition]], None] | None = None
        """Called after each evaluation with its transitions."""
        self._store = AlertStore(fleet) if store is None else store
        self._published = PublishedAlerts(self._store, self.rules if adopts else ())
        self._lifecycle = AlertLifecycle(
            self._store, self._published, self.silences, detects_flapping=detects_flapping
        )
        self._counters = Counters()
        self._rule_states = [RuleState(rule, self._counters) for rule in self.rules]
        self._by_name = {state.rule.name: state for state in self._rule_states}
        self._inhibitors = inhibitors(self.rules)
        self._layout: Layout = EMPTY_LAYOUT
        self._generation = -1
        self._mono_s: float | None = None
        self._sorted: tuple[int, int, list[Alert]] = (-1, -1, [])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles: everything except the listener."""
        return {**self.__dict__, "listener": None}

    @property
    def names(self) -> Names:
        """Display names in texts of alerts."""
        return self._store.names

    def use_names(self, names: Names) -> None:
        """Write texts of alerts with display names."""
        self._store.names = names

    # Reads

    @property
    def history(self) -> deque[AlertTransition]:
        """Transitions, oldest first."""
        return self._store.history

    @property
    def happened(self) -> int:
        """Number of all transitions so far, including dropped ones."""
        return self._store.happened

    def active(self) -> list[Alert]:
        """Return the active alerts: firing before pending, inhibited after others, worst first.

        Within a severity, the newest is first. Alerts of cells replace the ones left to the cells
        here.
        """
        active = self._store.active
        key = (self.revision + self.cells.revision, len(active))
        if self._sorted[:2] != key:
            own = [alert for alert in active.values() if not self.is_left_to_cells(alert)]
            self._sorted = (*key, sorted([*own, *self.cells.firing.values()], key=_order))
        return self._sorted[2]

    def evaluated(self) -> list[Alert]:
        """Return the active alerts evaluated here, even if left to cells."""
        return sorted(self._store.active.values(), key=_order)

    def is_left_to_cells(self, alert: Alert) -> bool:
        """Return whether an alert evaluated here is left out.

        A cell's watch publishes it or is about to.
        """
        return self.cells.leaves_out(alert, self.instant.now_ns)

    def find(self, fingerprint: str) -> Alert | None:
        """Return an active or recently resolved alert.

        None if unknown.
        """
        return self.cells.firing.get(fingerprint) or self._store.find(fingerprint)

    def fires(self, fingerprint: str) -> bool:
        """Return whether an alert fires by the evaluation here.

        False if it fires only because it was published.
        """
        alert = self._store.active.get(fingerprint)
        return alert is not None and alert.fired_ns is not None and not self.is_held(alert)

    def is_held(self, alert: Alert) -> bool:
        """Return whether an alert fires only because it was published."""
        return self._published.holds(alert.fingerprint)

    def status(self, alert: Alert) -> AlertStatus:
        """Return an alert's status now."""
        if alert.cell and alert.fingerprint not in self.cells.firing:
            return AlertStatus.RESOLVED
        return self.silences.status(alert, self.instant.now_ns)

    def counts(self) -> AlertCounts:
        """Return the numbers of alerts by status."""
        by_severity = {severity.value: 0 for severity in Severity}
        by_status = dict.fromkeys(AlertStatus, 0)
        for alert in self.active():
            status = self.status(alert)
            by_status[status] += 1
            if status is AlertStatus.FIRING:
                by_severity[alert.severity.value] += 1
        return AlertCounts(
            **by_severity,
            acked=by_status[AlertStatus.ACKED],
            silenced=by_status[AlertStatus.SILENCED],
            inhibited=by_status[AlertStatus.INHIBITED],
            pending=by_status[AlertStatus.PENDING],
        )

    def members(self, alert: Alert, most: int) -> list[tuple[str, float, bool]]:
        """Return at most `most` members of an alert, firing ones first.

        Each has a name, a value (NaN if unknown) and whether it fires.
        """
        state = None if alert.cell else self._by_name.get(alert.name)
        if state is None or alert.state is AlertState.RESOLVED:
            return []
        return state.members(alert, self._layout, most)

    def usual(self, figure: str, name: str) -> float | None:
        """Return the usual value of a figure for a job, reservation or publisher.

        None without a rule that compares it with its past.
        """
        for state in self._rule_states:
            if state.rule.figure == figure and state.rule.window is None:
                usual = state.usual(name)
                if usual is not None:
                    return usual
        return None

    def job_causes(self) -> dict[str, str]:
        """Return the probable cause of each troubled job, by the firing alert about it.

        Without one, by an alert of a rule that asks whether the job is slow.
        """
        own: dict[str, str] = {}
        others: dict[str, str] = {}
        for alert in self.active():
            if alert.fired_ns is None:
                break
            if alert.rule.scope is Scope.JOB and alert.cause:
                own.setdefault(alert.target, alert.cause)
            elif alert.job and any(part.figure == JOB_SLOWDOWN for part in alert.rule.conditions):
                others.setdefault(alert.job, f"{alert.place} ({alert.name})")
        return others | own

    def learn_before(self, before: Alerts) -> None:
        """Copy the usual values of jobs from an earlier evaluation."""
        for state in self._rule_states:
            known = before._by_name.get(state.rule.name)
            if state.rule.scope is Scope.JOB and known is not None:
                state.learn_before(known)
        self.revision += 1

    # Published alerts

    def remember(self, message: AlertMessage) -> None:
        """Add an alert published by a `watch`.

        Its times also apply to its condition here.
        """
        if self._published.take(message):
            self.revision += 1

    def forget(self, fingerprint: str) -> None:
        """Remove a published alert that was cleared."""
        self._published.forget(fingerprint)

    # Evaluation

    def evaluate(
        self,
        readings: Readings,
        jobs: Mapping[str, JobMessage],
        counts: PipelineCounts | None = None,
    ) -> Slices[None]:
        """Evaluate every rule at an instant.

        Alerts change during the evaluation.

        Args:
            readings: The inputs of the rules.
            jobs: The jobs by name.
            counts: Counts failed rules. Alerts of such a rule stay unchanged. Without it the
                evaluation
                fails.

        Raises:
            LayoutChanged: the layout has changed. The next evaluation repeats the missing part.
        """
        generation = readings.store.generation
        require(readings.rollups, generation)
        if generation != self._generation:
            self._take_layout(readings.layout)
            self._generation = generation
        before = self._note_step(readings.instant)
        self.instant = readings.instant
        yield from readings.checkpoint()
        self._counters.update(readings)
        yield from readings.checkpoint()
        for state in self._rule_states:
            if readings.is_cut_off and state.rule.scope is not Scope.PIPELINE:
                # What is not heard is no news: nothing fires, resolves or flaps because of it.
                state.stand_still(before, readings.instant)
                continue
            if not self._stays_quiet(state, readings):
                stage = f"rule {state.rule.name}"
                yield from guarded(counts, stage, self._evaluate_rule(state, readings, jobs))
            yield from readings.checkpoint()
        if not readings.is_cut_off:
            yield from guarded(counts, "alerts of another watch", self._settle(readings))
        published = self._published.inhibitors(readings.instant.flow_ns)
        held = self._published.held_alerts()
        yield from guarded(
            counts,
            "inhibition",
            inhibit(self._rule_states, self._inhibitors, readings, published, held),
        )
        for kind, alert, at_ns in self.cells.take_news(readings.instant.now_ns):
            self._store.record(kind, alert, min(at_ns, readings.instant.now_ns))
        self.evaluations += 1
        self.revision += 1
        news = self._store.news
        self._store.news = []
        if self.listener is not None:
            self.listener(news)

    def _settle(self, readings: Readings) -> Slices[None]:
        """End inherited alerts without a sign of their condition.

        Their target must have been visible for long enough.
        """
        for alert in self._published.settle(self._rule_states, readings):
            if not self._lifecycle.end(alert, readings.instant):
                # It flaps: it goes on until it has been quiet for long enough, still without being
                # seen.
                self._published.hold(alert.fingerprint)
        yield from readings.checkpoint()

    def _stays_quiet(self, state: RuleState, readings: Readings) -> bool:
        """Return whether a rule had no active targets and has none now: the usual case."""
        try:
            return state.stays_quiet(readings)
        except Exception:  # noqa: BLE001  it is evaluated once more, where its failure is counted
            return False

    def _evaluate_rule(
        self, state: RuleState, readings: Readings, jobs: Mapping[str, JobMessage]
    ) -> Slices[None]:
        groups = yield from state.step(readings)
        for number, _ in enumerate(self._take_groups(state, groups, readings, jobs)):
            if number % SLICE == SLICE - 1:
                yield from readings.checkpoint()

    def next_instant(self, now_ns: int, speed: float, mono_s: float) -> Instant | None:
        """Return the instant to evaluate now: the whole second begun since the last one.

        None if no new second has begun.

        Args:
            now_ns: Monitor time.
            speed: Seconds of monitor time per second.
            mono_s: Monotonic seconds. Silence is timed by them while monitor time stands still.
        """
        whole_ns = now_ns - now_ns % NS_PER_S
        before = self.instant
        if self._mono_s is None:
            self._mono_s = mono_s
            return Instant(whole_ns, whole_ns)
        if mono_s < self._mono_s:
            # A past that goes on from a snapshot is a moment behind it.
            return None
        passed_ns = round((mono_s - self._mono_s) * speed * NS_PER_S)
        if passed_ns < NS_PER_S and whole_ns == before.now_ns:
            return None
        self._mono_s = mono_s
        return Instant(whole_ns, min(before.flow_ns + max(passed_ns, 0), LATEST_FLOW_NS))

    def _note_step(self, instant: Instant) -> Instant:
        """Leave out a step of monitor time, forward or back.

        Return the last instant moved by it.

        A simulator, for example, may jump.
        """
        before = self.instant
        if not self.evaluations:
            return before
        if instant.now_ns < self.instant.now_ns:
            # Nothing has begun later than now.
            for alert in self._store.active.values():
                alert.since_ns = min(alert.since_ns, instant.now_ns)
                alert.fired_ns = (
                    None if alert.fired_ns is None else min(alert.fired_ns, instant.now_ns)
                )
        passed_ns = instant.flow_ns - before.flow_ns
        step_ns = instant.now_ns - before.now_ns - passed_ns
        if instant.now_ns >= before.now_ns and step_ns <= UNWATCHED_S * NS_PER_S + passed_ns:
            return before
        for state in self._rule_states:
            if not state.is_flowing:
                state.track.shift(step_ns)
        return Instant(before.now_ns + step_ns, before.flow_ns)

    def _take_layout(self, layout: Layout) -> None:
        """Renumber every target for a new layout.

        Alerts keep their identity, an address.
        """
        old = self._layout
        self._layout = layout
        numbers = same_instances(layout, old)
        to = np.flatnonzero(numbers >= 0)
        former = numbers[to]
        self._counters.move(
            {
                MetricScope.CHIP: (layout.chip_rows(to), old.chip_rows(former), layout.chips),
                MetricScope.INSTANCE: (to, former, len(layout.instances)),
            }
        )
        for state in self._rule_states:
            for alert in state.move(old, layout):
                # `_take_groups` does not see it any more, so it ends here.
                self._lifecycle.end(alert, self.instant, is_gone=True)

    def _take_groups(
        self,
        state: RuleState,
        groups: AlertGroups,
        readings: Readings,
        jobs: Mapping[str, JobMessage],
    ) -> Iterator[None]:
        """Bring a rule's alerts up to date with its groups; yield after each alert."""
        if not len(groups) and not state.alerts:
            state.before = groups
            return
        instant = readings.instant
        lag_ns = instant.now_ns - state.now_ns(instant)
        # A new alert was perhaps unknown when its inhibitor was searched.
        is_early = bool(self._inhibitors[state.rule.name]) and readings.is_overtaken
        before: AlertGroups | None = groups
        present = set(groups.ids.tolist())
        state.early &= present
        for number in state.alerts.keys() - present:
            alert = state.alerts[number]
            if self._published.holds(alert.fingerprint):
                # It was taken over, and ends before it was seen for long enough to fire here.
                self._published.lose(alert.fingerprint, instant.flow_ns)
                del state.alerts[number]
            elif self._lifecycle.end(alert, instant):
                del state.alerts[number]
            yield
        for place in changed(state.before, groups):
            number = int(groups.ids[place])
            since_ns = int(groups.since_ns[place]) + lag_ns
            if is_early and number not in state.alerts:
                state.early.add(number)
            alert = state.alerts.get(number) or self._open(state, number, since_ns, readings.layout)
            before_labels = alert.job, alert.rack
            describe(alert, groups, place, readings, jobs, self._store.all())
            if (alert.job, alert.rack) != before_labels:
                self._store.relabel(alert)
            if groups.firing[place] and alert.fired_ns is None and number in state.early:
                state.early.discard(number)
                self._lifecycle.wait(alert, instant)
                # The next evaluation looks at it again, changed or not.
                before = None
            elif groups.firing[place]:
                fired_ns = min(int(groups.fired_ns[place]) + lag_ns, instant.now_ns)
                self._lifecycle.fire(alert, since_ns, fired_ns, instant)
            else:
                self._lifecycle.wait(alert, instant)
            alert.revision += 1
            yield
        state.before = before

    def _open(self, state: RuleState, number: int, since_ns: int, layout: Layout) -> Alert:
        """Return an alert for a group without one."""
        target = state.target_of(number, layout)
        alert = state.alerts[number] = self._store.open(state.rule, target, since_ns)
        alert.text = state.texts.pop(target, alert.text)
        return alert


def _order(alert: Alert) -> tuple[bool, bool, int, int, str, str]:
    return (
        alert.fired_ns is None,
        bool(alert.inhibited_by),
        alert.severity.rank,
        -(alert.fired_ns or alert.since_ns),
        alert.name,
        alert.target,
    )
