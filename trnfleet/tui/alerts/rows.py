"""Rows of the alert list: sorted, with many alerts of one rule collapsed.

A storm stays readable. Pure: from alerts with their status to rows. Every alert is in exactly one
row, its own or its group's.
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
"""Fewest alerts of one rule and status that collapse into one line."""
SORTS = ("severity", "age", "place")
_RANK = {status: number for number, status in enumerate(AlertStatus)}


class AlertGroup(NamedTuple):
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
        """Chips of all alerts.

        A chip of two alerts counts twice.
        """
        return sum(member.alert.chips for member in self.members)

    @property
    def newest(self) -> AlertWithStatus:
        """The one that began last."""
        return max(self.members, key=lambda member: member.alert.fired_ns or member.alert.since_ns)

    @property
    def place(self) -> str:
        """Deepest address above all alerts.

        Empty for the fleet.
        """
        places = [address_of(member.alert) for member in self.members]
        # What the first and the last by name have in common, all between have.
        return common_place([min(places), max(places)]) if all(places) else ""


class AlertLine(NamedTuple):
    """A line of the list: a group, or an alert."""

    key: str
    """What the cursor stays on."""
    group: AlertGroup | None
    single: AlertWithStatus | None
    """The alert. None for a group."""
    is_inside: bool = False
    """Whether it is of the open group above it."""


def group_key(item: AlertWithStatus) -> str:
    """Return the key under which alerts collapse."""
    return f"{item.status.value}/{item.alert.name}"


def in_order(alerts: Iterable[AlertWithStatus], sort: str) -> list[AlertWithStatus]:
    """Return alerts in an order.

    The input order decides between equals: firing first, by severity, newest first.

    Args:
        alerts: The alerts.
        sort: One of `SORTS`.
    """
    if sort == "age":
        return sorted(alerts, key=lambda held: -(held.alert.fired_ns or held.alert.since_ns))
    if sort == "place":
        return sorted(alerts, key=lambda held: address_of(held.alert) or held.alert.target)
    return sorted(alerts, key=lambda held: _RANK[held.status])


def arrange(alerts: list[AlertWithStatus], opened: AbstractSet[str]) -> list[AlertLine]:
    """Return the rows.

    A group has the place of its first alert.

    Args:
        alerts: Alerts in their order.
        opened: Keys of the groups that are open.
    """
    groups: dict[str, list[AlertWithStatus]] = {}
    keys = [group_key(held) for held in alerts]
    for key, held in zip(keys, alerts, strict=True):
        groups.setdefault(key, []).append(held)
    rows: list[AlertLine] = []
    done: set[str] = set()
    for key, held in zip(keys, alerts, strict=True):
        members = groups[key]
        if len(members) < COLLAPSE_FROM:
            rows.append(AlertLine(held.alert.fingerprint, None, held))
        elif key not in done:
            done.add(key)
            is_open = key in opened
            rows.append(AlertLine(key, AlertGroup(key, members, is_open), None))
            if is_open:
                rows.extend(
                    AlertLine(one.alert.fingerprint, None, one, is_inside=True) for one in members
                )
    return rows
