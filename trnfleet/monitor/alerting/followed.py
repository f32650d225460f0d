"""A rule that is followed: its targets, and the alerts that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.alerts.figures import LEVEL_OF, Scope
from trnfleet.domain.alerts.states import Track
from trnfleet.monitor.alerting.conditions import Counters, NamedWatch, RowWatch

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.grouping import Groups
    from trnfleet.monitor.alerting.readings import Instant


class Followed:
    """One rule."""

    __slots__ = ("alerts", "before", "ids", "is_flowing", "names", "row_watch", "rule", "track", "watch")

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
        self.ids: dict[str, int] = {}
        """Rows of targets with names."""
        self.names: dict[int, str] = {}

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
