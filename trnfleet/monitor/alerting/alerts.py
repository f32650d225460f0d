"""The alerts of one fleet: rules held against the store at whole seconds, and what became of each alert.

Owns every rule's targets, the alerts that they make, which of them inhibit which, and the history. It evaluates when it is
told to and reads no clock; what people say about alerts is `quieting`'s.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.alerts import flapping
from trnfleet.domain.alerts.alert import Alert, common_place, fingerprint_of, labels_of
from trnfleet.domain.alerts.figures import Scope
from trnfleet.domain.alerts.flapping import Flaps
from trnfleet.domain.alerts.rules import inhibitors
from trnfleet.domain.alerts.states import AlertState
from trnfleet.domain.alerts.words import summary
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.monitor.alerting.causes import find_cause
from trnfleet.monitor.alerting.conditions import MANY, NOTHING, Counters, Found, RowWatch, not_clear
from trnfleet.monitor.alerting.followed import Followed
from trnfleet.monitor.alerting.grouping import (
    Groups,
    each_alone,
    find_group,
    find_row,
    group,
    group_ids,
    row_name,
    target_of,
    ultraserver_of,
)
from trnfleet.monitor.alerting.inhibition import inhibit
from trnfleet.monitor.alerting.quieting import Quieting, Standing
from trnfleet.monitor.alerting.readings import Instant, Readings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.wire.alerts import AlertMessage
    from trnfleet.wire.messages import JobMessage

    Rows = NDArray[np.int64]

KEPT_HISTORY = 10_000
KEPT_RESOLVED = 1_000
GROUPS_A_SLICE = 200
"""Alerts that are brought up to date between two turns of other tasks."""
UNWATCHED_S = 30.0
"""A leap of the fleet's time by more than this beyond what passed is a time in which nobody watched."""
SEEN_TICKS = 1.5
"""Ticks of its source after which a condition has been seen twice."""
CAUSE_FOR_NS = 120 * NS_PER_S
"""A job's cause is looked for until so long after its alert began."""
GONE_AFTER_NS = 60 * NS_PER_S
"""An alert that somebody remembers, of a target that nobody describes, resolves after so long."""
_SEVERITY_RANK = {"critical": 0, "warning": 1, "info": 2}


class Happening(NamedTuple):
    """One line of the history."""

    at_ns: int
    kind: str
    """firing, resolved, or flapping."""
    alert: Alert
    summary: str
    """The alert in one line, as it was then."""


class Counts(NamedTuple):
    """How many alerts there are, by what is to be done about them."""

    critical: int
    """Firing, and nobody has it in hand; as are warning and info."""
    warning: int
    info: int
    acked: int
    silenced: int
    inhibited: int
    pending: int

    @property
    def firing(self) -> int:
        """Alerts that fire and that nobody has in hand."""
        return self.critical + self.warning + self.info


class Alerts:
    """Rules, and the alerts that they make."""

    def __init__(
        self, fleet: str, rules: Sequence[Rule] = (), *, adopts: bool = False, detects_flapping: bool = True
    ) -> None:
        """Follow rules.

        Args:
            fleet: The fleet's name, part of every fingerprint.
            rules: A pack of rules.
            adopts: Whether alerts that a former `watch` left are taken over even before their condition is seen.
            detects_flapping: Whether alerts that come and go are held until they have been quiet.
        """
        self.fleet = fleet
        self.rules = tuple(rules)
        self.quieting = Quieting()
        self.history: deque[Happening] = deque(maxlen=KEPT_HISTORY)
        """What happened, oldest first."""
        self.happened = 0
        """Everything that ever went into the history."""
        self.revision = 0
        """Goes up with every evaluation that changed anything."""
        self.evaluations = 0
        self.instant = Instant(0, 0)
        """Of the last evaluation."""
        self.listener: Callable[[list[Happening]], None] | None = None
        """Called after each evaluation with what happened in it."""
        self._adopts = adopts
        self._detects_flapping = detects_flapping
        self._counters = Counters()
        self._followed = [Followed(rule, self._counters) for rule in self.rules]
        self._by_name = {each.rule.name: each for each in self._followed}
        self._inhibitors = inhibitors(self.rules)
        self._active: dict[str, Alert] = {}
        self._resolved: deque[Alert] = deque(maxlen=KEPT_RESOLVED)
        self._flaps = Flaps()
        self._quiet_since: dict[str, int] = {}
        """Flapping alerts that are held although nothing is wrong at present, and since when."""
        self._remembered: dict[str, tuple[int, int]] = {}
        """Since and fired of alerts that a `watch` says are firing."""
        self._restored: dict[str, int] = {}
        """Alerts taken over before their condition was seen, and since when it could be seen (-1: not yet)."""
        self._layout: Layout = EMPTY_LAYOUT
        self._generation = -1
        self._mono_s: float | None = None
        self._sorted: tuple[int, int, list[Alert]] = (-1, -1, [])
        self._pending_news: list[Happening] = []
        self._texts: dict[tuple[str, str], str] = {}
        """Values that are texts, of targets whose alert is about to be made, by rule and target."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Alerts:
        """Return a copy that goes on on its own; of what is over, which may be much and never changes, it has the same."""
        twin = copy.copy(self)
        memo[id(self)] = twin
        for alert in self._active.values():
            copy.deepcopy(alert, memo)
        happened = [(each, memo.get(id(each.alert))) for each in self.history]
        kept = {
            "history": deque(
                (
                    each if found is None else Happening(each.at_ns, each.kind, found, each.summary)
                    for each, found in happened
                ),
                self.history.maxlen,
            ),
            "_resolved": self._resolved.copy(),
        }
        for key, value in vars(self).items():
            setattr(twin, key, kept[key] if key in kept else copy.deepcopy(value, memo))
        return twin

    # What others read

    def active(self) -> list[Alert]:
        """Return the active alerts: firing before pending, inhibited after others, then by severity, the newest first."""
        key = (self.revision, len(self._active))
        if self._sorted[:2] != key:
            ordered = sorted(self._active.values(), key=_order)
            self._sorted = (*key, ordered)
        return self._sorted[2]

    def recently_resolved(self) -> list[Alert]:
        """Return alerts that have resolved, the last one first."""
        return list(reversed(self._resolved))

    def find(self, fingerprint: str) -> Alert | None:
        """Return an alert that is active, or that has resolved lately."""
        found = self._active.get(fingerprint)
        if found is not None:
            return found
        return next((each for each in reversed(self._resolved) if each.fingerprint == fingerprint), None)

    def standing(self, alert: Alert) -> Standing:
        """Return what is to be done about an alert now."""
        return self.quieting.standing(alert, self.instant.now_ns)

    def counts(self) -> Counts:
        """Return how many there are, by what is to be done about them."""
        by_severity = {"critical": 0, "warning": 0, "info": 0}
        by_standing = dict.fromkeys(Standing, 0)
        for alert in self._active.values():
            standing = self.standing(alert)
            by_standing[standing] += 1
            if standing is Standing.FIRING:
                by_severity[alert.severity] += 1
        return Counts(
            **by_severity,
            acked=by_standing[Standing.ACKED],
            silenced=by_standing[Standing.SILENCED],
            inhibited=by_standing[Standing.INHIBITED],
            pending=by_standing[Standing.PENDING],
        )

    def members(self, alert: Alert, most: int = 64) -> list[tuple[str, float, bool]]:
        """Return an alert's members, firing ones first: name, value (NaN for none), and whether it fires; at most `most`."""
        followed = self._by_name.get(alert.name)
        if followed is None or alert.state is AlertState.RESOLVED:
            return []
        track = followed.track
        if followed.row_watch is None:
            return [
                (alert.target, math.nan if alert.value is None else alert.value, alert.fired_ns is not None)
            ]
        number = next((each for each, kept in followed.alerts.items() if kept is alert), None)
        if number is None:
            return []
        layout = self._layout
        mine = np.flatnonzero(group_ids(followed.rule, track.rows, layout, ultraserver_of(layout)) == number)
        firing = track.firing[mine]
        mine = np.concatenate([mine[firing], mine[~firing]])[:most]
        return [
            (row_name(followed.rule.scope, row, layout), value, fires)
            for row, value, fires in zip(
                track.rows[mine].tolist(),
                track.values[mine].tolist(),
                track.firing[mine].tolist(),
                strict=True,
            )
        ]

    # What publishers and people say

    def remember(self, message: AlertMessage) -> None:
        """Take note of what a `watch` says of an alert: since when it fires, wherever that is seen here, too.

        Raises:
            ValueError: one of its times is none.
        """
        since_ns, fired_ns = parse_rfc3339(message.since), parse_rfc3339(message.fired)
        fingerprint = message.fingerprint
        if message.state != "firing":
            self._remembered.pop(fingerprint, None)
            return
        known = self.find(fingerprint)
        if known is not None and known.state is AlertState.RESOLVED and known.fired_ns == fired_ns:
            # A late word, such as our own that comes back: that alert is over.
            return
        self._remembered[fingerprint] = since_ns, fired_ns
        followed = self._by_name.get(message.rule)
        if not self._adopts or followed is None or fingerprint in self._active:
            return
        if fingerprint_of(self.fleet, message.rule, message.target) != fingerprint:
            return
        alert = self._new(followed.rule, message.target, fingerprint, since_ns)
        alert.state, alert.fired_ns, alert.is_silent = AlertState.FIRING, fired_ns, True
        alert.value, alert.members, alert.chips = message.value, message.members, message.chips
        alert.place, alert.cause, alert.times = message.place, message.cause, message.times
        alert.is_flapping = message.flapping
        self._active[fingerprint] = alert
        self._restored[fingerprint] = -1
        self.revision += 1

    def forget(self, fingerprint: str) -> None:
        """Take note that a `watch` has cleared what it said of an alert."""
        self._remembered.pop(fingerprint, None)

    # Evaluation

    def evaluate(self, readings: Readings, jobs: Mapping[str, JobMessage]) -> Iterator[None]:
        """Hold every rule against an instant, giving way after each slice; alerts change as it goes.

        A layout that changes meanwhile ends it; the next evaluation goes on from there.
        """
        store = readings.store
        generation = store.generation
        if readings.rollups.generation != generation:
            return
        if generation != self._generation:
            self._take_layout(readings.layout)
            self._generation = generation
        self._note_gap(readings.instant)
        self.instant = readings.instant
        self._counters.take(readings)
        yield
        for followed in self._followed:
            yield from self._evaluate_rule(followed, readings, jobs)
            if store.generation != generation:
                return
            yield
            if store.generation != generation:
                return
        self._settle_restored(readings)
        for _ in inhibit(self._followed, self._inhibitors, readings):
            yield
            if store.generation != generation:
                return
        self.evaluations += 1
        self.revision += 1
        news, self._pending_news = self._pending_news, []
        if self.listener is not None:
            self.listener(news)

    def _evaluate_rule(
        self, followed: Followed, readings: Readings, jobs: Mapping[str, JobMessage]
    ) -> Iterator[None]:
        store, watch = readings.store, followed.row_watch
        generation = store.generation
        if watch is not None:
            watch.take_events(readings)
            found = NOTHING
            for part in watch.search(readings):
                if part is None:
                    yield
                else:
                    found = part
                if store.generation != generation:
                    return
            if len(found.rows) > MANY:
                yield
            self._step_rows(followed, watch, readings, found)
            if len(followed.track) > MANY:
                yield
                if store.generation != generation:
                    return
            groups = group(followed.rule, followed.track, readings.layout, readings.ultraserver_of)
        else:
            self._step_names(followed, readings)
            groups = each_alone(followed.track)
        for number, _ in enumerate(self._take_groups(followed, groups, readings, jobs)):
            if number % GROUPS_A_SLICE == GROUPS_A_SLICE - 1:
                yield
                if store.generation != generation:
                    return

    def next_instant(self, now_ns: int, speed: float, mono_s: float) -> Instant | None:
        """Return the instant to evaluate now: the whole second that has begun since the last one; None for none.

        Args:
            now_ns: Monitor time.
            speed: Its seconds a second.
            mono_s: Monotonic seconds; silence goes on by them while monitor time stands still.
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
        return Instant(whole_ns, before.flow_ns + max(passed_ns, 0))

    def _note_gap(self, instant: Instant) -> None:
        """Leave out a time in which nobody watched, such as a jump of a simulator's time."""
        if not self.evaluations:
            return
        if instant.now_ns < self.instant.now_ns:
            # Nothing has begun later than now.
            for alert in self._active.values():
                alert.since_ns = min(alert.since_ns, instant.now_ns)
                alert.fired_ns = None if alert.fired_ns is None else min(alert.fired_ns, instant.now_ns)
        passed_ns = instant.flow_ns - self.instant.flow_ns
        excess_ns = instant.now_ns - self.instant.now_ns - passed_ns
        if excess_ns > UNWATCHED_S * NS_PER_S + passed_ns:
            for followed in self._followed:
                if not followed.is_flowing:
                    followed.track.shift(excess_ns)

    def _take_layout(self, layout: Layout) -> None:
        """Give every target its number in a new layout; alerts keep their identity, which is an address."""
        old, self._layout = self._layout, layout
        index = old.instance_index
        pairs = [(new, index[path]) for new, path in enumerate(layout.instances) if path in index]
        pairs = [(new, was) for new, was in pairs if old.type_of(was) is layout.type_of(new)]
        to = np.array([new for new, _ in pairs], np.int64)
        source = np.array([was for _, was in pairs], np.int64)
        self._counters.move(layout.chip_rows(to), old.chip_rows(source), layout.chips)
        for followed in self._followed:
            if followed.row_watch is None:
                continue
            scope, track = followed.rule.scope, followed.track
            names = [row_name(scope, row, old) for row in track.rows.tolist()]
            found = [find_row(scope, name, layout) for name in names]
            track.move(np.array([-1 if row is None else row for row in found], np.int64))
            followed.before = None
            kept, followed.alerts = followed.alerts, {}
            for alert in kept.values():
                number = find_group(followed.rule, alert.target, layout)
                if number is not None:
                    followed.alerts[number] = alert
                else:
                    # Its target is gone; `_take_groups` does not see it, so it ends here.
                    self._end(followed.rule, alert, self.instant.now_ns, is_gone=True)

    def _step_rows(self, followed: Followed, watch: RowWatch, readings: Readings, found: Found) -> None:
        rule = followed.rule
        followed.track.step(
            followed.now_ns(readings.instant),
            found.rows,
            found.values,
            lambda rows: watch.look(readings, rows),
            for_ns=_needed_ns(rule, readings),
            keep_ns=round(rule.keep_firing_for_s * NS_PER_S),
            holds_silent=rule.when_silent == "hold",
        )

    def _step_names(self, followed: Followed, readings: Readings) -> None:
        rule, track, watch = followed.rule, followed.track, followed.watch
        table = readings.tables.get(rule.scope)
        if watch is None or table is None:
            return
        names = table.names
        column = dict(zip(names, table.column(str(rule.figure)), strict=True))
        gone = np.array([followed.names[row] not in column for row in track.rows.tolist()], np.bool_)
        if gone.any():
            track.move(np.where(gone, -1, track.rows))
        followed.forget_names(set(column))
        active = {followed.names[row] for row in track.rows.tolist()}
        hits = watch.search(readings, table, active)
        numbered = sorted((followed.row_of(name), name) for name in hits)
        rows = np.array([row for row, _ in numbered], np.int64)
        values = np.array([hits[name][0] for _, name in numbered])
        now_ns = readings.instant.now_ns

        def look(others: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
            held = [followed.names[row] for row in others.tolist()]
            known = np.array([column[name] is not None for name in held], np.bool_)
            seen = np.array([_or_nan(watch.value(name, column[name], now_ns)) for name in held])
            return known, not_clear(rule, seen), seen

        track.step(
            followed.now_ns(readings.instant),
            rows,
            values,
            look,
            for_ns=_needed_ns(rule, readings),
            keep_ns=round(rule.keep_firing_for_s * NS_PER_S),
            holds_silent=rule.when_silent == "hold",
        )
        for name, (_, text) in hits.items():
            alert = followed.alerts.get(followed.ids[name])
            if alert is not None:
                alert.text = text
            elif text:
                self._texts[rule.name, name] = text

    def _take_groups(
        self, followed: Followed, groups: Groups, readings: Readings, jobs: Mapping[str, JobMessage]
    ) -> Iterator[None]:
        """Bring a rule's alerts up to date with its groups."""
        rule, instant = followed.rule, readings.instant
        lag_ns = instant.now_ns - followed.now_ns(instant)
        present = set(groups.ids.tolist())
        for number in followed.alerts.keys() - present:
            alert = followed.alerts[number]
            if alert.fingerprint in self._restored:
                # It was taken over, and ends before it was seen for long enough to fire here.
                self._restored[alert.fingerprint] = instant.flow_ns
                del followed.alerts[number]
            elif self._end(rule, alert, instant.now_ns):
                del followed.alerts[number]
            yield
        before, followed.before = followed.before, groups
        for place in _changed(before, groups):
            number = int(groups.ids[place])
            known = followed.alerts.get(number)
            if known is not None:
                alert = known
            else:
                if followed.row_watch is not None:
                    target = target_of(rule, number, readings.layout)
                else:
                    target = followed.names[number]
                fingerprint = fingerprint_of(self.fleet, rule.name, target)
                alert = self._active.get(fingerprint) or self._new(
                    rule, target, fingerprint, int(groups.since_ns[place]) + lag_ns
                )
                alert.text = self._texts.pop((rule.name, target), alert.text)
                self._active[fingerprint] = followed.alerts[number] = alert
            self._update(followed, alert, groups, place, readings, jobs, lag_ns)
            yield

    def _update(
        self,
        followed: Followed,
        alert: Alert,
        groups: Groups,
        place: int,
        readings: Readings,
        jobs: Mapping[str, JobMessage],
        lag_ns: int,
    ) -> None:
        rule, layout, now_ns = followed.rule, readings.layout, readings.instant.now_ns
        value = float(groups.values[place])
        alert.value = None if math.isnan(value) else value
        alert.members, alert.chips = int(groups.members[place]), int(groups.chips[place])
        alert.is_silent = bool(groups.silent[place])
        if followed.row_watch is not None:
            ends = (
                row_name(rule.scope, int(groups.first[place]), layout),
                row_name(rule.scope, int(groups.last[place]), layout),
            )
            alert.place = common_place(list(ends))
            alert.worst = row_name(rule.scope, int(groups.worst[place]), layout)
            alert.job = _job_at(readings, jobs, alert.place)
        elif rule.scope is Scope.JOB:
            message = jobs.get(alert.target)
            alert.job = alert.target
            alert.place = "" if message is None or not message.on else message.on[0].partition("..")[0]
            alert.chips = _chips_of(readings, jobs, alert.target)
            if message is not None and not alert.cause and now_ns - alert.since_ns <= CAUSE_FOR_NS:
                others = [*self._active.values(), *self._resolved]
                alert.cause = find_cause(alert, message, layout, readings.all_events, others)
        labels = labels_of(self.fleet, rule, alert.target, alert.job)
        if labels != alert.labels:
            alert.labels = labels
        is_firing = bool(groups.firing[place])
        self._quiet_since.pop(alert.fingerprint, None)
        if is_firing:
            self._restored.pop(alert.fingerprint, None)
            if alert.state is not AlertState.FIRING:
                since_ns, fired_ns = (
                    int(groups.since_ns[place]) + lag_ns,
                    int(groups.fired_ns[place]) + lag_ns,
                )
                self._fire(alert, since_ns, min(fired_ns, now_ns))
        elif alert.state is AlertState.FIRING:
            if alert.fingerprint not in self._restored and self._end(rule, alert, now_ns, stays=True):
                alert.state, alert.since_ns, alert.fired_ns = AlertState.PENDING, now_ns, None
                alert.resolved_ns = None
        else:
            alert.state = AlertState.PENDING
            remembered = self._remembered.get(alert.fingerprint)
            if remembered is not None and remembered[1] <= now_ns:
                # Somebody has seen it for long enough.
                alert.since_ns, alert.fired_ns = remembered
                alert.state = AlertState.FIRING
                self._restored[alert.fingerprint] = now_ns
        alert.revision += 1

    def _new(self, rule: Rule, target: str, fingerprint: str, since_ns: int) -> Alert:
        labels = labels_of(self.fleet, rule, target, target if rule.scope is Scope.JOB else "")
        return Alert(rule, target, fingerprint, since_ns=since_ns, labels=labels)

    def _fire(self, alert: Alert, since_ns: int, fired_ns: int) -> None:
        remembered = self._remembered.get(alert.fingerprint)
        if remembered is not None and remembered[1] <= fired_ns:
            since_ns, fired_ns = remembered
        alert.state, alert.resolved_ns = AlertState.FIRING, None
        alert.since_ns, alert.fired_ns = since_ns, fired_ns
        alert.times = self._flaps.begin(alert.fingerprint, fired_ns)
        self._tell("firing", alert, fired_ns)
        was = alert.is_flapping
        alert.is_flapping = self._detects_flapping and flapping.is_flapping(alert.times, was=was)
        if alert.is_flapping and not was:
            self._tell("flapping", alert, fired_ns)

    def _end(
        self, rule: Rule, alert: Alert, now_ns: int, *, stays: bool = False, is_gone: bool = False
    ) -> bool:
        """Take an alert whose group is gone, or has only pending members (`stays`); say whether that ended it."""
        fingerprint = alert.fingerprint
        if alert.state is AlertState.FIRING:
            if fingerprint in self._restored and not is_gone:
                return False
            if alert.is_flapping and not is_gone:
                quiet_ns = min(self._quiet_since.get(fingerprint, now_ns), now_ns)
                self._quiet_since[fingerprint] = quiet_ns
                if now_ns - quiet_ns < flapping.QUIET_NS:
                    return False
                alert.is_flapping = False
            alert.state, alert.resolved_ns = AlertState.RESOLVED, now_ns
            alert.inhibited_by = ""
            alert.revision += 1
            self._tell("resolved", alert, now_ns)
            self.quieting.resolve(alert, now_ns)
            self._resolved.append(_as_it_was(alert) if stays else alert)
        del rule
        self._quiet_since.pop(fingerprint, None)
        self._restored.pop(fingerprint, None)
        self._remembered.pop(fingerprint, None)
        if not stays:
            self._active.pop(fingerprint, None)
        return True

    def _tell(self, kind: str, alert: Alert, at_ns: int) -> None:
        happening = Happening(at_ns, kind, alert, summary(alert))
        self.history.append(happening)
        self._pending_news.append(happening)
        self.happened += 1

    def _settle_restored(self, readings: Readings) -> None:
        """Resolve what was taken over and is not seen, once it could be seen for long enough."""
        instant = readings.instant
        if not self._restored:
            return
        seen = {each.fingerprint for followed in self._followed for each in followed.alerts.values()}
        for fingerprint, seen_ns in list(self._restored.items()):
            alert = self._active.get(fingerprint)
            followed = None if alert is None else self._by_name.get(alert.name)
            if alert is None or followed is None or fingerprint in seen:
                continue
            known = self._is_known(followed, alert, readings)
            if seen_ns < 0:
                self._restored[fingerprint] = instant.flow_ns
                continue
            needed_ns = round(alert.rule.keep_firing_for_s * NS_PER_S) if known else GONE_AFTER_NS
            if known is False or (known is None and instant.flow_ns - seen_ns < needed_ns):
                if known is False:
                    self._restored[fingerprint] = instant.flow_ns
                continue
            if instant.flow_ns - seen_ns >= needed_ns:
                self._restored.pop(fingerprint, None)
                self._end(alert.rule, alert, instant.now_ns)

    def _is_known(self, followed: Followed, alert: Alert, readings: Readings) -> bool | None:
        """Say whether anything is known of what an alert is about; None where it is nowhere described."""
        if followed.row_watch is None:
            table = readings.tables.get(followed.rule.scope)
            return True if table is not None and alert.target in table.names else None
        node = readings.layout.find(alert.target.partition(":")[0])
        if node is None:
            return None
        if node.level is Level.CORE:
            return None
        chips = readings.layout.chip_range(node)
        return bool(followed.rule.absent) or bool(readings.live[chips.start : chips.stop].any())


def _needed_ns(rule: Rule, readings: Readings) -> int:
    """Return for how long a rule's condition must hold: what the rule says, and long enough for two messages to say so.

    Where a fleet's time runs fast, one message stands for minutes: what it says once must not have lasted for that.
    """
    return round(max(rule.for_s, SEEN_TICKS * readings.tick_s) * NS_PER_S) if rule.for_s else 0


def _order(alert: Alert) -> tuple[bool, bool, int, int, str, str]:
    return (
        alert.fired_ns is None,
        bool(alert.inhibited_by),
        _SEVERITY_RANK[alert.severity],
        -(alert.fired_ns or alert.since_ns),
        alert.name,
        alert.target,
    )


def _changed(before: Groups | None, now: Groups) -> list[int]:
    """Return the places of groups that are not as they were."""
    if not len(now.ids):
        return []
    if before is None or len(before.ids) != len(now.ids) or not np.array_equal(before.ids, now.ids):
        return list(range(len(now.ids)))
    differs = np.zeros(len(now.ids), np.bool_)
    for one, other in zip(before[1:], now[1:], strict=True):
        differs |= (one != other) & ~(_is_nan(one) & _is_nan(other))
    places: list[int] = np.flatnonzero(differs).tolist()
    return places


def _is_nan(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)


def _as_it_was(alert: Alert) -> Alert:
    """Return a copy of an alert that goes on in another state."""
    return Alert(**{name: getattr(alert, name) for name in Alert.__slots__})


def _job_at(readings: Readings, jobs: Mapping[str, JobMessage], place: str) -> str:
    """Return the job that runs at an address; empty for none or several."""
    node = readings.layout.find(place) if place else None
    if node is None:
        return ""
    covered = readings.layout.instance_range(node)
    numbers = set(readings.store.job_of[covered.start : covered.stop].tolist())
    if len(numbers) != 1 or not 0 <= (number := numbers.pop()) < len(jobs):
        return ""
    name: str = readings.tables[Scope.JOB].names[number]
    return name


def _chips_of(readings: Readings, jobs: Mapping[str, JobMessage], name: str) -> int:
    """Return how many chips a job has."""
    layout, job = readings.layout, jobs.get(name)
    covered = [layout.find_instances(target) for target in job.on] if job is not None else []
    return sum(int(layout.chip_start[each.stop] - layout.chip_start[each.start]) for each in covered if each)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
