"""Rows of the list of alerts: in an order, and many of one rule collapsed into one line, so that a storm stays readable.

Pure: from alerts with their status to rows. Every alert is in exactly one row, its own or its group's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.alert import address_of, common_place
from trnfleet.domain.alerts.status import AlertStatus

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from trnfleet.domain.severity import Severity
    from trnfleet.monitor.alerting.store import AlertWithStatus

COLLAPSE_FROM = 6
"""Alerts of one rule and status that are one line, until it is opened."""
SORTS = ("severity", "age", "place")
_RANK = {status: number for number, status in enumerate(AlertStatus)}


class Group(NamedTuple):
    """Alerts of one rule (so of one severity) and one status."""

    key: str
    members: list[AlertWithStatus]
    """In the order of the list."""
    is_open: bool

    @property
    def severity(self) -> Severity:
        return self.members[0].severity

    @property
    def status(self) -> AlertStatus:
        return self.members[0].status

    @property
    def name(self) -> str:
        return self.members[0].alert.name

    @property
    def chips(self) -> int:
        """Chips of all of them; one that two have counts twice."""
        return sum(each.alert.chips for each in self.members)

    @property
    def newest(self) -> AlertWithStatus:
        """The one that began last."""
        return max(self.members, key=lambda each: each.alert.fired_ns or each.alert.since_ns)

    @property
    def place(self) -> str:
        """The deepest address that has all of them; empty for the fleet."""
        places = [address_of(each.alert) for each in self.members]
        # What the first and the last by name have in common, all between have.
        return common_place([min(places), max(places)]) if all(places) else ""


class Row(NamedTuple):
    """A line of the list: a group, or an alert."""

    key: str
    """What the cursor stays on."""
    group: Group | None
    single: AlertWithStatus | None
    """The alert, where the line is no group."""
    is_inside: bool = False
    """Whether it is of the open group above it."""


def group_key(item: AlertWithStatus) -> str:
    """Return what alerts have in common that collapse."""
    return f"{item.status.value}/{item.alert.name}"


def in_order(alerts: Iterable[AlertWithStatus], sort: str) -> list[AlertWithStatus]:
    """Return alerts in an order; they come firing first, by severity, the newest first, and keep that among equals.

    Args:
        alerts: The alerts.
        sort: One of `SORTS`.
    """
    if sort == "age":
        return sorted(alerts, key=lambda each: -(each.alert.fired_ns or each.alert.since_ns))
    if sort == "place":
        return sorted(alerts, key=lambda each: address_of(each.alert) or each.alert.target)
    return sorted(alerts, key=lambda each: _RANK[each.status])


def arrange(alerts: list[AlertWithStatus], opened: AbstractSet[str]) -> list[Row]:
    """Return the rows: what collapses stands where the first of it would.

    Args:
        alerts: Alerts in their order.
        opened: Keys of the groups that are open.
    """
    groups: dict[str, list[AlertWithStatus]] = {}
    keys = [group_key(each) for each in alerts]
    for key, each in zip(keys, alerts, strict=True):
        groups.setdefault(key, []).append(each)
    rows: list[Row] = []
    done: set[str] = set()
    for key, each in zip(keys, alerts, strict=True):
        members = groups[key]
        if len(members) < COLLAPSE_FROM:
            rows.append(Row(each.alert.fingerprint, None, each))
        elif key not in done:
            done.add(key)
            is_open = key in opened
            rows.append(Row(key, Group(key, members, is_open), None))
            if is_open:
                rows.extend(
                    Row(one.alert.fingerprint, None, one, is_inside=True) for one in members
                )
    return rows
