"""A rule's targets from one instant to the next: which of them are pending or firing, and the groups that they make."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.alerting.conditions import MANY, NOTHING, Found, NamedWatch, RowWatch, not_clear
from trnfleet.monitor.alerting.grouping import Groups, each_alone, group

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.alerting.named_targets import Table
    from trnfleet.monitor.alerting.rule_state import Followed

    Rows = NDArray[np.int64]
    Look = Callable[[Rows], tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]]
    """As `Track.step` has it."""

SEEN_TICKS = 1.5
"""Ticks of its source after which a condition has been seen twice."""


def step(followed: Followed, readings: Readings) -> Generator[None, None, Groups | None]:
    """Take a rule's targets to an instant, giving way between slices, and return the groups that they make.

    None where the layout changed meanwhile: then its targets have other numbers.
    """
    if followed.row_watch is not None:
        return (yield from _step_rows(followed, followed.row_watch, readings))
    table = readings.tables.get(followed.rule.scope)
    if followed.watch is not None and table is not None:
        _step_names(followed, followed.watch, table, readings)
    return each_alone(followed.track)


def _step_rows(
    followed: Followed, watch: RowWatch, readings: Readings
) -> Generator[None, None, Groups | None]:
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
    _step(followed, readings, found, lambda rows: watch.look(readings, rows))
    if len(followed.track) > MANY:
        yield
        if store.generation != generation:
            return None
    return group(followed.rule, followed.track, readings.layout, readings.ultraserver_of)


def _step_names(followed: Followed, watch: NamedWatch, table: Table, readings: Readings) -> None:
    rule, track = followed.rule, followed.track
    column = dict(zip(table.names, table.column(str(rule.figure)), strict=True))
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

    _step(followed, readings, Found(rows, values), look)
    for name, (_, text) in hits.items():
        followed.say(name, text)


def _step(followed: Followed, readings: Readings, found: Found, look: Look) -> None:
    rule = followed.rule
    followed.track.step(
        followed.now_ns(readings.instant),
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
