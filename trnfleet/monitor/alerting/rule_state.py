"""The state of one rule between evaluations: active targets and their alerts.

It also makes the step to an instant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import Track
from trnfleet.monitor.alerting.conditions.compare import not_clear
from trnfleet.monitor.alerting.conditions.named import NamedCondition
from trnfleet.monitor.alerting.conditions.row_condition import MatchingRows
from trnfleet.monitor.alerting.conditions.rows import RowSearch
from trnfleet.monitor.alerting.grouping import (
    NO_GROUPS,
    AlertGroups,
    each_alone,
    find_group,
    find_row,
    group,
    group_ids,
    row_name,
    target_of,
)
from trnfleet.monitor.slices import ROWS_A_SLICE, Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.conditions.windows import Counters
    from trnfleet.monitor.alerting.inputs import Instant, Readings
    from trnfleet.monitor.alerting.named_targets import NamedTable

    Rows = NDArray[np.int64]
    Look = Callable[[Rows], tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]]
    """As `Track.step` has it."""

SEEN_TICKS = 1.5
"""Ticks of its source until a condition was seen twice."""


class RuleState:
    """One rule, its active targets and its alerts."""

    __slots__ = (
        "_ids",
        "_named",
        "_names",
        "_rows",
        "alerts",
        "before",
        "early",
        "has_rows",
        "held",
        "is_flowing",
        "rule",
        "texts",
        "track",
    )

    def __init__(self, rule: Rule, counters: Counters) -> None:
        self.rule = rule
        self.track = Track()
        self.has_rows = rule.scope in LEVEL_OF
        """Whether its targets have addresses. Otherwise they have names, numbered here."""
        self._rows = RowSearch(rule, counters) if self.has_rows else None
        self._named = None if self.has_rows else NamedCondition(rule)
        self.is_flowing = bool(rule.absent) or rule.scope in {Scope.PUBLISHER, Scope.PIPELINE}
        """Whether it is timed by passed time, even while fleet time stands still."""
        self.alerts: dict[int, Alert] = {}
        """Active alerts by group."""
        self.before: AlertGroups | None = None
        """The groups last applied to the alerts; None if all must be checked."""
        self.early: set[int] = set()
        """Groups due now but firing one evaluation late, after new messages."""
        self.held: set[str] = set()
        """Fingerprints of alerts that stay inhibited for one evaluation after the end of their
        inhibitor."""
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self.texts: dict[str, str] = {}
        """Text values of named targets before their alert exists."""

    def stays_quiet(self, readings: Readings) -> bool:
        """Advance an inactive rule to an instant without a match.

        Return whether that is all.
        """
        if len(self.track) or self.alerts:
            return False
        if self._rows is not None:
            is_quiet = self._rows.sees_nothing(readings)
        else:
            is_quiet = self._sees_no_name(readings)
        if not is_quiet:
            return False
        self.track.at_ns = np.int64(self.now_ns(readings.instant))
        self.before = NO_GROUPS
        return True

    def step(self, readings: Readings) -> Slices[AlertGroups]:
        """Advance its targets to an instant.

        Return their groups.

        Raises:
            LayoutChanged: its targets have other numbers now.
        """
        if self._rows is not None:
            return (yield from self._step_rows(self._rows, readings))
        table = readings.tables.get(self.rule.scope)
        if self._named is not None and table is not None:
            self._step_names(self._named, table, readings)
        return each_alone(self.track)

    def usual(self, name: str) -> float | None:
        """Return the usual value of a named target.

        None while unknown, or if the rule does not compare with it.
        """
        return None if self._named is None else self._named.usual(name)

    def learn_before(self, before: RuleState) -> None:
        """Copy the rule's usual values of an earlier time."""
        if self._named is not None and before._named is not None:
            self._named.learn_before(before._named)

    def stand_still(self, before: Instant, instant: Instant) -> None:
        """Leave out the time between two instants.

        Alerts stay unchanged, and pending targets wait that much longer.
        """
        self.track.shift(self.now_ns(instant) - self.now_ns(before))

    def target_of(self, number: int, layout: Layout) -> str:
        """Return the target of a group: an address or a name."""
        return target_of(self.rule, number, layout) if self.has_rows else self._names[number]

    def now_ns(self, instant: Instant) -> int:
        """Return the instant as the rule times."""
        return instant.flow_ns if self.is_flowing else instant.now_ns

    def members(self, alert: Alert, layout: Layout, most: int) -> list[tuple[str, float, bool]]:
        """Return the members of an alert, firing ones first.

        Each has a name, a value (NaN if unknown) and whether it fires.

        Args:
            alert: The alert.
            layout: Where its targets are.
            most: Largest number of members.
        """
        rule = self.rule
        track = self.track
        if not self.has_rows:
            return [
                (
                    alert.target,
                    math.nan if alert.value is None else alert.value,
                    alert.fired_ns is not None,
                )
            ]
        number = next((key for key, active in self.alerts.items() if active is alert), None)
        if number is None:
            return []
        mine = np.flatnonzero(group_ids(rule, track.rows, layout) == number)
        firing = track.firing[mine]
        mine = np.concatenate([mine[firing], mine[~firing]])[:most]
        return [
            (row_name(rule.scope, row, layout), value, fires)
            for row, value, fires in zip(
                track.rows[mine].tolist(),
                track.values[mine].tolist(),
                track.firing[mine].tolist(),
                strict=True,
            )
        ]

    def move(self, old: Layout, layout: Layout) -> list[Alert]:
        """Renumber targets for a new layout.

        Return the alerts whose target is gone.

        Args:
            old: Where the targets were.
            layout: Where they are; alerts keep their identity, which is an address.
        """
        if not self.has_rows:
            return []
        scope = self.rule.scope
        track = self.track
        names = [row_name(scope, row, old) for row in track.rows.tolist()]
        rows = [find_row(scope, name, layout) for name in names]
        track.move(np.array([-1 if row is None else row for row in rows], np.int64))
        self.before = None
        self.early.clear()
        self.held.clear()
        former = self.alerts
        self.alerts = {}
        gone = []
        for alert in former.values():
            number = find_group(self.rule, alert.target, layout)
            if number is not None:
                self.alerts[number] = alert
            else:
                gone.append(alert)
        return gone

    def _step_rows(self, search: RowSearch, readings: Readings) -> Slices[AlertGroups]:
        matches = yield from search.search(readings)
        if len(matches.rows) > ROWS_A_SLICE:
            yield from readings.checkpoint()
        self._step_track(readings, matches, lambda rows: search.look(readings, rows))
        if len(self.track) > ROWS_A_SLICE:
            yield from readings.checkpoint()
        return group(self.rule, self.track, readings.layout)

    def _step_names(self, condition: NamedCondition, table: NamedTable, readings: Readings) -> None:
        track = self.track
        column = table.column(str(self.rule.figure))
        places = table.places
        if len(track):
            gone = np.array(
                [self._names[row] not in places for row in track.rows.tolist()], np.bool_
            )
            if gone.any():
                track.move(np.where(gone, -1, track.rows))
        self._forget_names(places)
        active = {self._names[row] for row in track.rows.tolist()}
        hits = condition.search(readings, table, active)
        if not hits and not len(track):
            return
        numbered = sorted((self._row_of(name), name) for name in hits)
        rows = np.array([row for row, _ in numbered], np.int64)
        values = np.array([hits[name][0] for _, name in numbered])
        now_ns = readings.instant.flow_ns

        def look(others: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
            named = [
                (name, column[places[name]])
                for name in (self._names[row] for row in others.tolist())
            ]
            known = np.array([raw is not None for _, raw in named], np.bool_)
            seen = np.array([_or_nan(condition.number(name, raw, now_ns)) for name, raw in named])
            return known, not_clear(self.rule, seen), seen

        self._step_track(readings, MatchingRows(rows, values), look)
        for name, (_, text) in hits.items():
            self._note_text(name, text)

    def _sees_no_name(self, readings: Readings) -> bool:
        """Return whether whole columns show that no named target matches.

        If so, forget their rows.
        """
        table = readings.tables.get(self.rule.scope)
        if self._named is not None and table is not None:
            if not self._named.is_plain or len(self._named.places(table)):
                return False
            self._forget_names({})
        return True

    def _step_track(self, readings: Readings, matching: MatchingRows, look: Look) -> None:
        self.track.step(
            self.now_ns(readings.instant),
            matching.rows,
            matching.values,
            look,
            for_ns=_needed_ns(self.rule, readings),
            keep_ns=round(self.rule.keep_firing_for_s * NS_PER_S),
            holds_silent=self.rule.when_silent == "hold" or readings.unsettled is not None,
            # A monitor that misses a moment again and again would never see anything last for long
            # enough.
            waits_silent=readings.unsettled is not None,
        )

    def _row_of(self, name: str) -> int:
        """Return the row of a named target.

        A new target gets a new row.
        """
        row = self._ids.get(name)
        if row is None:
            row = self._ids[name] = max(self._names, default=-1) + 1
            self._names[row] = name
        return row

    def _forget_names(self, names: Mapping[str, int]) -> None:
        """Forget the rows of all other targets."""
        for name in [name for name in self._ids if name not in names]:
            del self._names[self._ids.pop(name)]
            self.texts.pop(name, None)

    def _note_text(self, name: str, text: str) -> None:
        """Store a named target's text value, in its alert or until it has one.

        Empty for none.
        """
        alert = self.alerts.get(self._ids[name])
        if alert is not None:
            alert.text = text
        elif text:
            self.texts[name] = text


def _needed_ns(rule: Rule, readings: Readings) -> int:
    """Return how long a rule's condition must last: its `for`, and at least two messages.

    Where fleet time runs fast, one message covers minutes. A condition seen in one message only
    must not count as having lasted for minutes.
    """
    return round(max(rule.for_s, SEEN_TICKS * readings.tick_s) * NS_PER_S) if rule.for_s else 0


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
