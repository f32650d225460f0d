"""A rule that is followed: its targets, and the alerts that they make."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.states import Track
from trnfleet.monitor.alerting.conditions import Counters, NamedWatch, RowWatch
from trnfleet.monitor.alerting.grouping import find_group, find_row, group_ids, row_name, ultraserver_of

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.grouping import Groups
    from trnfleet.monitor.alerting.inputs import Instant


class Followed:
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
