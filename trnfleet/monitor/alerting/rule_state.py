"""The state of one rule between evaluations: its active targets, the alerts that they make, and the step to an instant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import Track
from trnfleet.monitor.alerting.conditions import (
    MANY,
    NOTHING,
    Counters,
    Found,
    NamedWatch,
    RowWatch,
    not_clear,
)
from trnfleet.monitor.alerting.grouping import (
    Groups,
    each_alone,
    find_group,
    find_row,
    group,
    group_ids,
    row_name,
    ultraserver_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.inputs import Instant, Readings
    from trnfleet.monitor.alerting.named_targets import Table

    Rows = NDArray[np.int64]
    Look = Callable[[Rows], tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]]
    """As `Track.step` has it."""

SEEN_TICKS = 1.5
"""Ticks of its source after which a condition has been seen twice."""


class RuleState:
    """One rule."""

    __slots__ = (
        "alerts",
        "before",
        "ids",
        "is_flowing",
        "names",
        "row_watch",
        "rule",
        "texts",
        "track",
        "watch",
    )

    def __init__(self, rule: Rule, counters: Counters) -> None:
        self.rule = rule
        self.track = Track()
        has_rows = rule.scope in LEVEL_OF
        self.row_watch = RowWatch(rule, counters) if has_rows else None
        self.watch = None if has_rows else NamedWatch(rule)
        self.is_flowing = bool(rule.absent) or rule.scope in {Scope.PUBLISHER, Scope.PIPELINE}
        """Whether it times by what goes on while the fleet's own time may stand still."""
        self.alerts: dict[int, Alert] = {}
        """Active alerts by group."""
        self.before: Groups | None = None
        """The groups that these alerts are up to date with; None where they have to be looked at all."""
        self.ids: dict[str, int] = {}
        """Rows of targets with names."""
        self.names: dict[int, str] = {}
        self.texts: dict[str, str] = {}
        """Values that are texts, of targets with names whose alert is about to be made."""

    def now_ns(self, instant: Instant) -> int:
        """Return the instant as the rule times."""
        return instant.flow_ns if self.is_flowing else instant.now_ns

    def row_of(self, name: str) -> int:
        """Return the row of a target with a name, a new one for a new target."""
        row = self.ids.get(name)
        if row is None:
            row = self.ids[name] = max(self.names, default=-1) + 1
            self.names[row] = name
        return row

    def forget_names(self, kept: set[str]) -> None:
        """Forget the rows of all other targets."""
        for name in self.ids.keys() - kept:
            del self.names[self.ids.pop(name)]
            self.texts.pop(name, None)

    def say(self, name: str, text: str) -> None:
        """Note the value of a target with a name as a text, empty for none: for its alert, or until that is made."""
        alert = self.alerts.get(self.ids[name])
        if alert is not None:
            alert.text = text
        elif text:
            self.texts[name] = text

    def members(self, alert: Alert, layout: Layout, most: int) -> list[tuple[str, float, bool]]:
        """Return the members of one of its alerts, firing ones first: name, value (NaN for none), and whether it fires.

        Args:
            alert: The alert.
            layout: Where its targets are.
            most: At most so many members.
        """
        rule, track = self.rule, self.track
        if self.row_watch is None:
            return [
                (alert.target, math.nan if alert.value is None else alert.value, alert.fired_ns is not None)
            ]
        number = next((each for each, kept in self.alerts.items() if kept is alert), None)
        if number is None:
            return []
        mine = np.flatnonzero(group_ids(rule, track.rows, layout, ultraserver_of(layout)) == number)
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
        """Give targets that have addresses their numbers in a new layout; return the alerts whose target is gone.

        Args:
            old: Where the targets were.
            layout: Where they are; alerts keep their identity, which is an address.
        """
        if self.row_watch is None:
            return []
        scope, track = self.rule.scope, self.track
        names = [row_name(scope, row, old) for row in track.rows.tolist()]
        found = [find_row(scope, name, layout) for name in names]
        track.move(np.array([-1 if row is None else row for row in found], np.int64))
        self.before = None
        kept, self.alerts = self.alerts, {}
        gone = []
        for alert in kept.values():
            number = find_group(self.rule, alert.target, layout)
            if number is not None:
                self.alerts[number] = alert
            else:
                gone.append(alert)
        return gone


def step(state: RuleState, readings: Readings) -> Generator[None, None, Groups | None]:
    """Take a rule's targets to an instant, giving way between slices, and return the groups that they make.

    None where the layout changed meanwhile: then its targets have other numbers.
    """
    if state.row_watch is not None:
        return (yield from _step_rows(state, state.row_watch, readings))
    table = readings.tables.get(state.rule.scope)
    if state.watch is not None and table is not None:
        _step_names(state, state.watch, table, readings)
    return each_alone(state.track)


def _step_rows(state: RuleState, watch: RowWatch, readings: Readings) -> Generator[None, None, Groups | None]:
    store = readings.store
    generation = store.generation
    watch.take_events(readings)
    found = NOTHING
    for part in watch.search(readings):
        if part is None:
            yield
        else:
            found = part
        if store.generation != generation:
            return None
    if len(found.rows) > MANY:
        yield
        if store.generation != generation:
            return None
    _step(state, readings, found, lambda rows: watch.look(readings, rows))
    if len(state.track) > MANY:
        yield
        if store.generation != generation:
            return None
    return group(state.rule, state.track, readings.layout, readings.ultraserver_of)


def _step_names(state: RuleState, watch: NamedWatch, table: Table, readings: Readings) -> None:
    rule, track = state.rule, state.track
    column = dict(zip(table.names, table.column(str(rule.figure)), strict=True))
    gone = np.array([state.names[row] not in column for row in track.rows.tolist()], np.bool_)
    if gone.any():
        track.move(np.where(gone, -1, track.rows))
    state.forget_names(set(column))
    active = {state.names[row] for row in track.rows.tolist()}
    hits = watch.search(readings, table, active)
    numbered = sorted((state.row_of(name), name) for name in hits)
    rows = np.array([row for row, _ in numbered], np.int64)
    values = np.array([hits[name][0] for _, name in numbered])
    now_ns = readings.instant.now_ns

    def look(others: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
        held = [state.names[row] for row in others.tolist()]
        known = np.array([column[name] is not None for name in held], np.bool_)
        seen = np.array([_or_nan(watch.value(name, column[name], now_ns)) for name in held])
        return known, not_clear(rule, seen), seen

    _step(state, readings, Found(rows, values), look)
    for name, (_, text) in hits.items():
        state.say(name, text)


def _step(state: RuleState, readings: Readings, found: Found, look: Look) -> None:
    rule = state.rule
    state.track.step(
        state.now_ns(readings.instant),
        found.rows,
        found.values,
        look,
        for_ns=_needed_ns(rule, readings),
        keep_ns=round(rule.keep_firing_for_s * NS_PER_S),
        holds_silent=rule.when_silent == "hold",
    )


def _needed_ns(rule: Rule, readings: Readings) -> int:
    """Return for how long a rule's condition must hold: what the rule says, and long enough for two messages to say so.

    Where a fleet's time runs fast, one message stands for minutes: what it says once must not have lasted for that.
    """
    return round(max(rule.for_s, SEEN_TICKS * readings.tick_s) * NS_PER_S) if rule.for_s else 0


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
